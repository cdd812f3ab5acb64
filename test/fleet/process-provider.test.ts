import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { MemoryGroup } from '../../src/fleet/providers/memory-group.ts'
import { isAlive, parseStat, readStat } from '../../src/fleet/providers/process-identity.ts'
import { ProcessProvider } from '../../src/fleet/providers/process-provider.ts'
import type { RunningPod } from '../../src/fleet/providers/provider.ts'
import { newResourceId } from '../../src/fleet/resources/resource-id.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { isRunning } from '../support/children.ts'
import { describeProvider, linesOf, podOf, startAndBeKilled } from './provider-conformance.ts'
import { programs } from './pod-programs.ts'

const path = [dirname(process.execPath), process.env['PATH']].join(delimiter)

/** Where the kernel lets nobody make a control group there is no limit; never where CI runs. */
const memoryLimitSkipped = !canLimitMemory() && process.env['CI'] !== 'true'

function canLimitMemory(): boolean {
  const group = MemoryGroup.make(newResourceId(), 1e8)
  group?.remove()
  return group !== undefined
}

function pidOf(pod: RunningPod | undefined): number {
  if (pod?.handle.kind !== 'process') throw new Error('It is no process.')
  return pod.handle.pid
}

describeProvider(
  'process',
  async () => {
    const dir = mkdtempSync(join(tmpdir(), 'longshore-pods-'))
    return {
      place: { kind: 'process', dir, path, logFileBytes: 60_000 },
      image: 'file:./handler.ts',
      ownVariables: ['PATH'],
      kill: async (pod) => void process.kill(pidOf(pod), 'SIGKILL'),
      left: async (podIds) =>
        readdirSync('/proc')
          .filter((name) => Number(name) > 0 && isRunning(Number(name)))
          .filter((name) => podIds.some((podId) => environOf(name).includes(podId))),
      isChildRunning: async (_pod, child) => isRunning(child),
      close: async () => rmSync(dir, { recursive: true }),
    }
  },
  { seesEndsOfAdopted: false, memoryLimitSkipped },
)

function processesOf(podId: string): string[] {
  return readdirSync('/proc').filter(
    (name) => Number(name) > 0 && isRunning(Number(name)) && environOf(name).includes(podId),
  )
}

/** The volume in it has the pod's id in its path. */
function environOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8')
  } catch {
    return ''
  }
}

describe('a pod as a process', () => {
  let dir: string
  let provider: ProcessProvider
  const troubles: string[] = []

  const open = (): Promise<ProcessProvider> =>
    ProcessProvider.open({
      dir,
      clock: systemClock,
      baseEnv: { PATH: path },
      tickMs: 20,
      onTrouble: (_podId, error) => void troubles.push(String(error)),
    })

  beforeEach(async () => {
    dir = mkdtempSync(join(tmpdir(), 'longshore-pods-'))
    provider = await open()
  })

  afterEach(async () => {
    expect(troubles.splice(0)).toEqual([])
    for (const { podId } of await provider.list()) await provider.remove(podId)
    await provider.close()
    rmSync(dir, { recursive: true })
  })

  async function start(program: string): Promise<RunningPod> {
    const pod = podOf('file:./handler.ts', { dockerStartCmd: ['node', '-e', program] })
    return provider.start({ pod, env: {} })
  }

  it.each([
    ['start', ({ startTicks }: { startTicks: string }) => String(Number(startTicks) - 1)],
    ['boot', undefined],
  ])('is not taken for another one of its number: %s', async (_what, otherTicks) => {
    const running = await start(programs.patient)
    const pid = pidOf(running)
    await linesOf(provider.logs(running.podId, { follow: true }), 1)
    await provider.close()
    const folder = join(dir, 'pods', running.podId)
    const identity = readFileSync(join(folder, 'identity'), 'utf8')
    if (otherTicks) {
      const { startTicks } = parseStat(identity) ?? { startTicks: '' }
      writeFileSync(
        join(folder, 'identity'),
        identity.replace(` ${startTicks} `, ` ${otherTicks({ startTicks })} `),
      )
    } else {
      const record = JSON.parse(readFileSync(join(folder, 'start.json'), 'utf8')) as object
      writeFileSync(join(folder, 'start.json'), JSON.stringify({ ...record, bootId: 'of another start' }))
    }
    // The stranger is in none of the pod's groups.
    const group = MemoryGroup.find(running.podId)
    if (group) writeFileSync(group.membersFile.replace(`longshore-${running.podId}/`, ''), String(pid))
    provider = await open()
    const [found] = await provider.list()
    expect(found).toMatchObject({ state: 'ended', exit: { reason: 'unknown' } })
    await provider.remove(running.podId)
    expect(isRunning(pid)).toBe(true)
    process.kill(pid, 'SIGKILL')
  })

  it('that died while no service was there is found ended, and what it left behind is ended too', async () => {
    const pod = podOf('file:./handler.ts', { dockerStartCmd: ['node', '-e', programs.hasChildren] })
    const place = { kind: 'process', dir, path, logFileBytes: 60_000 } as const
    const [running] = await startAndBeKilled(place, [{ pod, env: {} }])
    const log = join(dir, 'pods', pod.id, 'log')
    await expect.poll(() => readFileSync(log, 'utf8')).toMatch(/\n$/)
    const children = JSON.parse(readFileSync(log, 'utf8')) as number[]
    process.kill(pidOf(running), 'SIGKILL')
    await expect.poll(() => isRunning(pidOf(running))).toBe(false)
    for (const child of children) expect(isRunning(child)).toBe(true)
    await provider.close()
    provider = await open()
    expect(await provider.list()).toMatchObject([{ state: 'ended', exit: { reason: 'unknown' } }])
    for (const child of children) expect(isRunning(child)).toBe(false)
    expect(MemoryGroup.find(pod.id)).toBeUndefined()
  })

  it('is stopped and removed where nothing can be written down of it', async () => {
    const { podId } = await start(programs.patient)
    const folder = join(dir, 'pods', podId)
    mkdirSync(join(folder, 'stopping'))
    symlinkSync('/dev/full', join(folder, 'end.json.new'))
    await provider.stop(podId, { graceMs: 5_000 })
    expect(await provider.list()).toMatchObject([{ state: 'ended', exit: { wasStopped: true } }])
    await provider.remove(podId)
    expect(readdirSync(join(dir, 'pods'))).toEqual([])
    expect(troubles.splice(0)).toEqual([expect.stringContaining('EISDIR'), expect.stringContaining('ENOSPC')])
  })

  it('is stopped and removed though its folder is gone, and another one is started', async () => {
    const { podId } = await start(programs.patient)
    rmSync(dir, { recursive: true })
    await provider.stop(podId, { graceMs: 5_000 })
    await provider.remove(podId)
    expect(await provider.list()).toEqual([])
    expect(troubles.splice(0).join()).toContain('ENOENT')
    await start(programs.patient)
    expect(await provider.list()).toMatchObject([{ state: 'running' }])
  })

  it('is no more where it cannot be written down which process it is', async () => {
    const pod = podOf('file:./handler.ts', { dockerStartCmd: ['node', '-e', programs.patient] })
    const folder = join(dir, 'pods', pod.id)
    mkdirSync(folder, { recursive: true })
    symlinkSync('/dev/full', join(folder, 'identity.new'))
    await expect(provider.start({ pod, env: {} })).rejects.toThrow('ENOSPC')
    await expect.poll(() => processesOf(pod.id)).toEqual([])
  })

  it('writes no variable of its environment into its files', async () => {
    const pod = podOf('file:./handler.ts', { dockerStartCmd: ['node', '-e', programs.patient] })
    const { podId } = await provider.start({ pod, env: { LONGSHORE_WORKER_TOKEN: 'very-secret' } })
    const folder = join(dir, 'pods', podId)
    for (const name of ['start.json', 'identity'])
      expect(readFileSync(join(folder, name), 'utf8')).not.toContain('very-secret')
  })

  it('says what is missing when nothing tells what to run', async () => {
    const pod = podOf('some-image')
    await expect(provider.start({ pod, env: {} })).rejects.toMatchObject({ code: 'COMMAND_MISSING' })
    expect(await provider.list()).toEqual([])
  })
})

describe('a process', () => {
  it('is known by its number and its start', () => {
    const own = readStat(process.pid)
    expect(own).toBeDefined()
    if (!own) return
    expect(isAlive(own)).toBe(true)
    expect(isAlive({ ...own, startTicks: `${own.startTicks}0` })).toBe(false)
    expect(readStat(2 ** 22 + 1)).toBeUndefined()
  })

  it('may have any name', () => {
    const tail = Array.from({ length: 20 }, (_, n) => n).join(' ')
    expect(parseStat(`7 (a) R 1 (b) S 1 2 3 ${tail}\n`)).toMatchObject({ pid: 7, state: 'S', session: 3 })
    expect(parseStat('')).toBeUndefined()
    expect(parseStat('7 (cut')).toBeUndefined()
  })
})
