// What every provider of pods keeps to, whatever it runs them with.

import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import type { EndedPod, PodSpec, Provider, RunningPod } from '../../src/fleet/providers/provider.ts'
import { newResourceId } from '../../src/fleet/resources/resource-id.ts'
import { podFrom, type NewPod, type Pod } from '../../src/resource/pod.ts'
import { openProvider, type ProviderPlace } from './open-provider.ts'
import { programs } from './pod-programs.ts'

const SOON = { timeout: 20_000, interval: 50 }
const LONG_MS = 20_000

export interface ProviderRig {
  place: ProviderPlace
  image: string
  /** Variables that a pod has whatever is asked for. */
  ownVariables: readonly string[]
  /** Ends its program from outside. */
  kill(pod: RunningPod): Promise<void>
  /** Processes or containers that are still there. */
  left(podIds: readonly string[]): Promise<string[]>
  /** The children's numbers as the pod sees them. */
  isChildRunning(pod: RunningPod, child: number): Promise<boolean>
  close(): Promise<void>
}

export interface ProviderDifferences {
  /** Whether the end of a pod is seen that another service started: a process tells its exit code to its parent alone. */
  seesEndsOfAdopted: boolean
  /** Undefined where the kernel holds nobody to a limit. */
  memoryLimitSkipped: boolean
}

export function podOf(image: string, made: NewPod = {}): Pod {
  const vcpuCount = 1
  return podFrom({ ...made, image }, { id: newResourceId(), machineId: 'here', vcpuCount, memoryInGb: 0.5 })
}

export async function linesOf(lines: AsyncIterable<string>, most = Infinity): Promise<string[]> {
  const all: string[] = []
  for await (const line of lines) if (all.push(line) >= most) break
  return all
}

/** A service that is killed when it has started these. */
export async function startAndBeKilled(place: ProviderPlace, specs: PodSpec[]): Promise<RunningPod[]> {
  const script = fileURLToPath(new URL('start-pods.ts', import.meta.url))
  const words = ['--disable-warning=ExperimentalWarning', script, JSON.stringify({ place, specs })]
  const service = execFile(process.execPath, words, { timeout: 60_000 })
  onTestFinished(() => void service.kill('SIGKILL'))
  const exited = once(service, 'exit')
  let said = ''
  for await (const text of service.stdout ?? []) {
    said += String(text)
    if (said.endsWith('\n')) break
  }
  service.kill('SIGKILL')
  await exited
  return JSON.parse(said) as RunningPod[]
}

export function describeProvider(
  name: string,
  openRig: () => Promise<ProviderRig>,
  differs: ProviderDifferences,
): void {
  describe(`the ${name} provider`, { timeout: 60_000 }, () => {
    let rig: ProviderRig
    let provider: Provider
    const podIds: string[] = []
    const ends: EndedPod[] = []

    beforeAll(async () => {
      rig = await openRig()
      provider = await openProvider(rig.place)
      provider.onExit((end) => ends.push(end))
    }, 120_000)

    afterAll(async () => {
      try {
        for (const podId of podIds) await provider.remove(podId)
        expect(await provider.list()).toEqual([])
        expect(await rig.left(podIds)).toEqual([])
        for (const podId of podIds) expect(existsSync(join(rig.place.dir, 'pods', podId))).toBe(false)
      } finally {
        await provider?.close()
        await rig?.close()
      }
    }, 120_000)

    function specOf(program: string, made: NewPod = {}): PodSpec {
      const pod = podOf(rig.image, { dockerStartCmd: ['node', '-e', program], ...made })
      podIds.push(pod.id)
      return { pod, env: pod.env }
    }

    async function ended(podId: string): Promise<EndedPod> {
      await expect.poll(() => ends.some((end) => end.podId === podId), SOON).toBe(true)
      return ends.findLast((end) => end.podId === podId) as EndedPod
    }

    async function up(program: string, made?: NewPod): Promise<RunningPod> {
      const running = await provider.start(specOf(program, made))
      await linesOf(provider.logs(running.podId, { follow: true }), 1)
      return running
    }

    const find = async (podId: string) => (await provider.list()).find((pod) => pod.podId === podId)

    it('starts a pod, tells of it, and stops it with its own exit code', async () => {
      const before = Date.now()
      const running = await up(programs.patient, { ports: ['8080/http', '9000/tcp'] })
      expect(running).toMatchObject({ state: 'running', portMappings: { 8080: 8080, 9000: 9000 } })
      expect(running.startedAt).toBeGreaterThanOrEqual(before - 1_000)
      expect(await find(running.podId)).toEqual(running)
      await provider.stop(running.podId, { graceMs: LONG_MS })
      expect(await rig.left([running.podId])).toEqual([])
      const end = await ended(running.podId)
      expect(end.exit).toEqual({ code: 0, signal: null, reason: 'exited', wasStopped: true })
      expect(end.endedAt).toBeGreaterThanOrEqual(end.startedAt)
      expect(await find(running.podId)).toEqual(end)
    })

    it('tells the exit code of a pod that ends by itself, and keeps what it said', async () => {
      const { podId } = await provider.start(specOf(programs.fails))
      const { exit } = await ended(podId)
      expect(exit).toEqual({ code: 3, signal: null, reason: 'exited', wasStopped: false })
      expect(await linesOf(provider.logs(podId))).toEqual(['no luck'])
    })

    it('tells the signal that ended a pod', async () => {
      const running = await up(programs.patient)
      await rig.kill(running)
      const { exit } = await ended(running.podId)
      expect(exit).toEqual({ code: 137, signal: 'SIGKILL', reason: 'signal', wasStopped: false })
    })

    it.skipIf(differs.memoryLimitSkipped)('tells that a pod used more memory than it may', async () => {
      const running = await provider.start(specOf(programs.usesMemory, { memoryInGb: 0.15 }))
      expect(running.memoryLimit).toBe('kernel')
      const { exit } = await ended(running.podId)
      expect(exit).toEqual({ code: 137, signal: 'SIGKILL', reason: 'outOfMemory', wasStopped: false })
    })

    it('insists after the grace when a pod ignores SIGTERM', async () => {
      const { podId } = await up(programs.ignoresSigterm)
      const asked = performance.now()
      await provider.stop(podId, { graceMs: 1_000 })
      expect(performance.now() - asked).toBeGreaterThanOrEqual(900)
      expect((await ended(podId)).exit).toMatchObject({
        signal: 'SIGKILL',
        reason: 'signal',
        wasStopped: true,
      })
      expect(await linesOf(provider.logs(podId))).toEqual(['up', 'no'])
    })

    it('counts the shortest grace of several stops', async () => {
      const { podId } = await up(programs.ignoresSigterm)
      const long = provider.stop(podId, { graceMs: 600_000 })
      await expect.poll(() => linesOf(provider.logs(podId)), SOON).toContain('no')
      await provider.stop(podId, { graceMs: 0 })
      await long
      expect((await ended(podId)).exit.signal).toBe('SIGKILL')
    })

    it('ends the children of a pod with it, also deaf ones', async () => {
      const running = await provider.start(specOf(programs.hasChildren))
      const [line = ''] = await linesOf(provider.logs(running.podId, { follow: true }), 1)
      const children = JSON.parse(line) as number[]
      for (const child of children) expect(await rig.isChildRunning(running, child)).toBe(true)
      await provider.stop(running.podId, { graceMs: LONG_MS })
      for (const child of children) expect(await rig.isChildRunning(running, child)).toBe(false)
      expect((await ended(running.podId)).exit).toMatchObject({ code: 0, reason: 'exited' })
    })

    it('starts one pod when it is asked twice', async () => {
      const spec = specOf(programs.patient)
      const [first, second] = await Promise.all([provider.start(spec), provider.start(spec)])
      expect(second).toEqual(first)
      expect(await provider.start(spec)).toEqual(first)
      expect((await provider.list()).filter(({ podId }) => podId === spec.pod.id)).toHaveLength(1)
      await provider.stop(spec.pod.id, { graceMs: 0 })
    })

    it('finds nothing to do for a pod that is gone or unknown', async () => {
      const { podId } = await provider.start(specOf(programs.fails))
      await ended(podId)
      await provider.stop(podId, { graceMs: LONG_MS })
      await provider.remove(podId)
      await provider.remove(podId)
      await provider.stop(podId, { graceMs: LONG_MS })
      await provider.stop('never-was', { graceMs: LONG_MS })
      await provider.remove('never-was')
      expect(await linesOf(provider.logs('never-was', { follow: true }))).toEqual([])
      expect(await find(podId)).toBeUndefined()
    })

    it('keeps the volume over a restart, wipes the disk, and removes both with the pod', async () => {
      const spec = specOf(programs.remembers)
      const { podId } = await provider.start(spec)
      const first = await ended(podId)
      await provider.start(spec)
      await expect.poll(() => ends.filter((end) => end.podId === podId).length, SOON).toBe(2)
      expect((await linesOf(provider.logs(podId))).at(-1)).toBe('2 false')
      expect((await ended(podId)).startedAt).toBeGreaterThanOrEqual(first.startedAt)
      await provider.remove(podId)
      expect(existsSync(join(rig.place.dir, 'pods', podId))).toBe(false)
      await provider.start(spec)
      await expect.poll(() => ends.filter((end) => end.podId === podId).length, SOON).toBe(3)
      expect(await linesOf(provider.logs(podId))).toEqual(['1 false'])
    })

    it('gives a pod its environment and nothing else, as it is', async () => {
      const odd = { QUOTES: `'"$HOME \`id\` $(id)\\`, LINES: 'a\nb', EMPTY: '', UMLAUT: 'ü=ü' }
      // Such as mean something to shells, and to Node nothing.
      const shell = {
        OPTIND: 'two',
        IFS: 'x',
        PWD: '/nowhere',
        PS4: '$(id)',
        ENV: '/etc/passwd',
        UID: '7',
        _: '',
      }
      const spec = { ...specOf(programs.showsEnv), env: { ...odd, ...shell } }
      const { podId } = await provider.start(spec)
      await ended(podId)
      const seen = JSON.parse((await linesOf(provider.logs(podId))).join('')) as Record<string, string>
      for (const own of [...rig.ownVariables, 'LONGSHORE_VOLUME']) delete seen[own]
      expect(seen).toEqual(spec.env)
      const refused = provider.start({ ...spec, pod: specOf('').pod, env: { 'A=B': 'a secret value' } })
      await expect(refused).rejects.toMatchObject({
        code: 'ENV_INVALID',
        message: expect.not.stringContaining('secret') as string,
      })
    })

    it('reads words of the command as they are, through no shell', async () => {
      const words = [`'"$HOME`, '; exit 9', '$(id)', '*', '', '-x']
      const spec = specOf('')
      const command = ['node', '-e', 'console.log(JSON.stringify(process.argv.slice(1)))', '--', ...words]
      const { podId } = await provider.start({ ...spec, command })
      await ended(podId)
      expect(JSON.parse((await linesOf(provider.logs(podId))).join(''))).toEqual(words)
    })

    it('refuses a program that is not there, and leaves nothing running', async () => {
      const spec = specOf('', { dockerStartCmd: ['no-such-program'] })
      await expect(provider.start(spec)).rejects.toMatchObject({ code: 'COMMAND_NOT_FOUND' })
      expect(await find(spec.pod.id)).toBeUndefined()
      expect(await rig.left([spec.pod.id])).toEqual([])
    })

    it('shows the last lines, and follows the log over its rotation to the end of the pod', async () => {
      const lines = 20_000
      const spec = specOf(programs.counts(lines))
      const { podId } = await provider.start(spec)
      const followed = await linesOf(provider.logs(podId, { follow: true }))
      expect(followed).toHaveLength(lines)
      expect(followed.every((line, n) => line === `line ${n + 1}`)).toBe(true)
      expect(await linesOf(provider.logs(podId, { tail: 2 }))).toEqual([`line ${lines - 1}`, `line ${lines}`])
      expect(await linesOf(provider.logs(podId, { tail: 0 }))).toEqual([])
    })

    it('ends the reading of a log when it is told to', async () => {
      const { podId } = await up(programs.patient)
      const reading = new AbortController()
      const seen: string[] = []
      for await (const line of provider.logs(podId, { follow: true, signal: reading.signal })) {
        seen.push(line)
        reading.abort()
      }
      expect(seen).toEqual(['up'])
      await provider.stop(podId, { graceMs: 0 })
    })

    it('finds the pods again that a killed service started, and stops them', async () => {
      const specs = [specOf(programs.patient), specOf(programs.ignoresSigterm), specOf(programs.patient)]
      const running = await startAndBeKilled(rig.place, specs)
      expect(running).toHaveLength(3)
      const next = await openProvider(rig.place)
      onTestFinished(() => next.close())
      const nextEnds: EndedPod[] = []
      next.onExit((end) => nextEnds.push(end))
      const list = await next.list()
      for (const pod of running) expect(list.find(({ podId }) => podId === pod.podId)).toEqual(pod)
      const [patient, deaf, killed] = running as [RunningPod, RunningPod, RunningPod]
      expect(await next.start(specs[0] as PodSpec)).toEqual(patient)
      expect(await linesOf(next.logs(patient.podId, { follow: true }), 1)).toEqual(['up'])
      expect(await linesOf(next.logs(deaf.podId, { follow: true }), 1)).toEqual(['up'])
      await rig.kill(killed)
      await next.stop(patient.podId, { graceMs: LONG_MS })
      await next.stop(deaf.podId, { graceMs: 100 })
      await expect.poll(() => nextEnds.length, SOON).toBe(3)
      const exitOf = (pod: RunningPod) => nextEnds.find(({ podId }) => podId === pod.podId)?.exit
      const unseen = { code: null, signal: null, reason: 'unknown' }
      const sees = differs.seesEndsOfAdopted
      expect(exitOf(patient)).toEqual({
        ...(sees ? { code: 0, signal: null, reason: 'exited' } : unseen),
        wasStopped: true,
      })
      expect(exitOf(killed)).toMatchObject(sees ? { code: 137, signal: 'SIGKILL', reason: 'signal' } : unseen)
      expect(await rig.left(running.map(({ podId }) => podId))).toEqual([])
      for (const { podId } of running) await next.remove(podId)
    })

    it('says what the machine is', async () => {
      const { id, vcpuCount, memoryInGb, diskBytes, machine } = await provider.machine()
      expect(id).not.toBe('')
      expect(vcpuCount).toBeGreaterThanOrEqual(1)
      expect(memoryInGb).toBeGreaterThan(0.1)
      expect(diskBytes).toBeGreaterThan(1e6)
      expect(machine.cpuType.displayName).not.toBe('')
      expect(machine).toMatchObject({ cpuCount: vcpuCount, gpuAvailable: 0, costPerHr: 0 })
    })
  })
}
