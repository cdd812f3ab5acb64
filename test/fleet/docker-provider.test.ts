// Pods as containers of an engine that is made up: what no real one can be made to do at a given moment.

import { chmodSync, chownSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import type { EndedPod, Provider, RunningPod } from '../../src/fleet/providers/provider.ts'
import { temporaryDir } from '../support/processes.ts'
import { json, listen } from './made-up-engine.ts'
import { openProvider } from './open-provider.ts'

const SOON = { timeout: 10_000, interval: 20 }
const STARTED_AT = '2026-01-02T03:04:05.000Z'
const RUNNING = { Running: true, Status: 'running', StartedAt: STARTED_AT }
const KILLED = {
  Running: false,
  Status: 'exited',
  StartedAt: STARTED_AT,
  FinishedAt: '2026-01-02T03:04:06.000Z',
  ExitCode: 137,
}

/** With one container that runs. */
class OneContainer {
  state: object | undefined = RUNNING
  isAway = false
  /** The answers that have begun and not ended. */
  readonly waits: ServerResponse[] = []

  readonly dir = temporaryDir()

  async open(): Promise<{ provider: Provider; ends: EndedPod[] }> {
    const { url } = await listen(({ method, url: path = '' }, response) => {
      if (this.isAway) return void response.destroy()
      if (path.includes('/wait')) {
        response.writeHead(200, { 'content-type': 'application/json' }).flushHeaders()
        return void this.waits.push(response)
      }
      if (path.includes('/stop')) this.state = KILLED
      if (path.includes('/stop') || method === 'DELETE') return void response.writeHead(204).end()
      if (path.startsWith('/containers/json')) return json(response, 200, this.state ? [{ Id: 'c1' }] : [])
      if (!this.state) return json(response, 404, { message: 'no such container' })
      const Config = { Labels: { 'longshore.pod': 'pod1' }, ExposedPorts: { '99/tcp': {}, '80/tcp': {} } }
      const HostConfig = { NetworkMode: 'host', PortBindings: { '80/tcp': [{ HostIp: '', HostPort: '' }] } }
      json(response, 200, { Id: 'c1', State: this.state, Config, HostConfig, NetworkSettings: { Ports: {} } })
    })
    const host = `tcp://${url}`
    const provider = await openProvider({
      kind: 'docker',
      dir: this.dir,
      host,
      owner: 'one',
      logFileBytes: 0,
    })
    onTestFinished(() => provider.close())
    const ends: EndedPod[] = []
    provider.onExit((end) => ends.push(end))
    await expect.poll(() => this.waits, SOON).toHaveLength(1)
    return { provider, ends }
  }

  break(): void {
    for (const wait of this.waits.splice(0)) wait.destroy()
  }
}

describe('an engine that is killed while a container is waited for', () => {
  it('is asked again, and the death of the pod is told', async () => {
    const engine = new OneContainer()
    const { ends } = await engine.open()
    engine.state = KILLED
    engine.break()
    await expect.poll(() => ends, SOON).toHaveLength(1)
    expect(ends[0]).toMatchObject({ podId: 'pod1', exit: { code: 137, wasStopped: false } })
  })

  it('is asked again about a container that goes on', async () => {
    const engine = new OneContainer()
    const { ends } = await engine.open()
    engine.break()
    await expect.poll(() => engine.waits, SOON).toHaveLength(1)
    expect(ends).toEqual([])
    engine.state = KILLED
    engine.waits[0]?.end('{"StatusCode":137}')
    await expect.poll(() => ends, SOON).toHaveLength(1)
  })

  it('keeps nobody from stopping and removing the pod when it is back', async () => {
    const engine = new OneContainer()
    const { provider, ends } = await engine.open()
    engine.state = KILLED
    engine.break()
    await provider.stop('pod1', { graceMs: 1_000 })
    await provider.remove('pod1')
    expect(ends).toHaveLength(1)
  })

  it('keeps no service from closing while it is away', async () => {
    const engine = new OneContainer()
    const { provider, ends } = await engine.open()
    engine.isAway = true
    engine.break()
    await expect(provider.stop('pod1', { graceMs: 1_000 })).rejects.toMatchObject({ code: 'ENGINE_FAILED' })
    await provider.close()
    expect(ends).toEqual([])
  })
})

describe('a stop', () => {
  it('ends although the wait for the container never does', async () => {
    const engine = new OneContainer()
    const { provider, ends } = await engine.open()
    await provider.stop('pod1', { graceMs: 1_000 })
    expect(ends).toMatchObject([{ exit: { wasStopped: true } }])
    expect(engine.waits).toHaveLength(1)
  })
})

describe('a container that others removed', () => {
  it('has ended, with the code that was heard', async () => {
    const engine = new OneContainer()
    const { ends } = await engine.open()
    engine.state = undefined
    engine.waits[0]?.end('{"StatusCode":137}')
    await expect.poll(() => ends, SOON).toHaveLength(1)
    expect(ends[0]).toMatchObject({
      startedAt: Date.parse(STARTED_AT),
      exit: { code: 137, signal: 'SIGKILL' },
    })
  })
})

describe('a container that others restart', () => {
  it('is told to run anew, once, and its end is told when it comes', async () => {
    const engine = new OneContainer()
    const { provider, ends } = await engine.open()
    const restarts: RunningPod[] = []
    provider.onRestart((facts) => restarts.push(facts))
    const StartedAt = '2026-01-02T03:04:07.000Z'
    engine.state = { ...RUNNING, StartedAt }
    engine.waits.shift()?.end('{"StatusCode":0}')
    await expect.poll(() => engine.waits, SOON).toHaveLength(1)
    engine.break()
    await expect.poll(() => engine.waits, SOON).toHaveLength(1)
    expect(restarts).toMatchObject([{ podId: 'pod1', startedAt: Date.parse(StartedAt) }])
    expect(ends).toEqual([])
    engine.state = KILLED
    engine.break()
    await expect.poll(() => ends, SOON).toHaveLength(1)
  })
})

describe('a pod on the network of the machine', () => {
  it('has the ports that it names, not those that its image exposes', async () => {
    const { provider } = await new OneContainer().open()
    expect(await provider.list()).toMatchObject([{ podId: 'pod1', portMappings: { 80: 80 } }])
    const [{ portMappings }] = (await provider.list()) as [RunningPod]
    expect(portMappings).toEqual({ 80: 80 })
  })
})

const NOBODY = 65_534

/** A folder of this user in which nothing may be changed, and which root could. */
function lock(folders: readonly string[], locked: string): void {
  chmodSync(locked, 0o555)
  onTestFinished(() => chmodSync(locked, 0o755))
  if (process.getuid?.() !== 0) return
  for (const folder of folders) chownSync(folder, NOBODY, NOBODY)
  process.seteuid?.(NOBODY)
  onTestFinished(() => process.seteuid?.(0))
}

describe('a volume with files of another user', () => {
  it('stays, is told once, and keeps no pod from being removed', async () => {
    const told = vi.spyOn(console, 'error').mockImplementation(() => undefined)
    onTestFinished(() => told.mockRestore())
    const engine = new OneContainer()
    const { provider } = await engine.open()
    const pods = join(engine.dir, 'pods')
    const folder = join(pods, 'pod1')
    const locked = join(folder, 'volume/of-root')
    mkdirSync(locked, { recursive: true })
    writeFileSync(join(locked, 'file'), '')
    lock([engine.dir, pods, folder, join(folder, 'volume')], locked)
    await provider.remove('pod1')
    expect(existsSync(join(locked, 'file'))).toBe(true)
    expect(told.mock.calls).toMatchObject([['Pod pod1:', { code: 'VOLUME_LEFT' }]])
    expect(String(told.mock.calls[0]?.[1])).toContain(`stay in ${folder}: `)
  })
})
