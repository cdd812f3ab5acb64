import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { FleetHost } from '../../src/cli/fleet-host.ts'
import type { Settled } from '../../src/config/settings.ts'

let dir: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longshore-host-'))
})
afterEach(() => rmSync(dir, { recursive: true }))

/** As a service does that starts in the folder now. */
function open(): FleetHost {
  const settings = { host: '127.0.0.1', provider: 'process', fleetDir: dir } as Settled<'serve'>
  const url = (): string => 'http://127.0.0.1:8000'
  const onTrouble = (): void => expect.unreachable()
  const host = new FleetHost({ settings, storeFile: undefined, url, onTrouble })
  onTestFinished(() => host.close())
  return host
}

/** As at the first pod. */
async function runPods(host: FleetHost): Promise<void> {
  const provider = await host.openProvider()
  onTestFinished(() => provider.close())
}

const inUse = (words: string) =>
  expect.objectContaining({ code: 'FOLDER_IN_USE', message: expect.stringContaining(words) })

describe('a service that runs pods from a folder', () => {
  it('is the same after a restart', async () => {
    const first = open()
    await runPods(first)
    first.close()
    expect(open()).toMatchObject({ id: first.id, mayHavePods: true })
  })

  it('shares who it is with no other one that is started there meanwhile', async () => {
    await runPods(open())
    expect(open).toThrow(inUse(`pid ${process.pid},`))
  })

  it('is no other one that was started there before it had a pod', async () => {
    const [first, second] = [open(), open()]
    expect(first.id).not.toBe(second.id)
    await runPods(first)
    await expect(runPods(second)).rejects.toThrow(inUse(`pid ${process.pid},`))
    first.close()
    await expect(runPods(second)).rejects.toThrow(inUse(`another service, '${first.id}'`))
    expect(open().id).toBe(first.id)
  })
})
