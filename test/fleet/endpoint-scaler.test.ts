import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { EndpointScaler } from '../../src/fleet/scaling/endpoint-scaler.ts'
import { Releases } from '../../src/fleet/resources/releases.ts'
import type { FleetStore } from '../../src/store/fleet-store.ts'
import { FleetRig, startDeadlineMs, withPodWrites } from '../support/fleet-rig.ts'

let rig: FleetRig
beforeEach(() => {
  rig = new FleetRig()
})
afterEach(async () => {
  // Whatever happens, nobody with a job is ended.
  expect(rig.counts.killedWithJobs).toBe(0)
  await rig.close()
})

/** An endpoint with its scaler. */
async function scaled(more: Parameters<FleetRig['endpoint']>[0] = {}) {
  const { id, templateId } = await rig.endpoint(more)
  return { id, templateId, scalers: [rig.scaler(id)] }
}

const untilReady = (count: number, scalers: EndpointScaler[], version?: number): Promise<number> =>
  rig.until(() => rig.ready(version) === count, { scalers })

/** A change of what workers run with. */
const update = (templateId: string, imageName: string) => rig.templates.update(templateId, { imageName })

const untilState = (id: string, version: number, state: string, scalers: EndpointScaler[]): Promise<number> =>
  rig.until(async () => (await rig.release(id, version))?.state === state, { scalers, withinMs: 900_000 })

describe('an endpoint', () => {
  it('goes from no worker to three and back, and says why', async () => {
    const { id, scalers } = await scaled({ workersMax: 3 })
    await rig.run(2_000, { scalers })
    expect(rig.counts.started).toBe(0)
    rig.submit(id, 200, { runMs: 500 })
    await untilReady(3, scalers)
    const up = await rig.scaling(id)
    expect(up).toMatchObject({ wanted: 3, starting: 0, running: 3, draining: 0 })
    expect(up?.reason).toMatch(/^3 workers, which is workersMax, where \d+ had use: \d+ jobs in line/)
    await rig.until(() => rig.waiting === 0, { scalers })
    const downMs = await rig.until(() => rig.bodies.size === 0, { scalers })
    // The last job, its five seconds, and what the steps take.
    expect(downMs).toBeGreaterThanOrEqual(5_000)
    expect(downMs).toBeLessThan(8_000)
    await rig.run(1_000, { scalers })
    const asleep = await rig.scaling(id)
    expect(asleep).toMatchObject({ wanted: 0, starting: 0, idle: 0, running: 0, draining: 0 })
    expect(asleep?.recent.map(({ reason }) => reason).join('\n')).toMatch(
      /told to end: idle for .*started: /s,
    )
    expect([rig.counts.started, rig.counts.mostBodies, rig.counts.ended]).toEqual([3, 3, 200])
    expect(rig.fleetCounts.get(id)).toEqual({ initializing: 0, throttled: 0 })
    const said = rig.logged.map(({ level, message, fields }) => [level, message, typeof fields['reason']])
    expect(said).toContainEqual(['info', 'workers started', 'string'])
    expect(said).toContainEqual(['info', 'workers told to end after their last job', 'string'])
  })

  it('makes workers of what its release says, with its own variables over the template', async () => {
    const { id, scalers } = await scaled({ workersMin: 1, env: { A: '2' } })
    await untilReady(1, scalers)
    const [pod] = await rig.pods()
    expect(pod).toMatchObject({
      endpointId: id,
      aiApiId: id,
      slsVersion: 1,
      image: 'image:1',
      env: { A: '2' },
      name: 'one',
      hostId: 'host-a',
      machineId: 'machine-host-a',
      vcpuCount: 2,
      memoryInGb: 4,
      desiredStatus: 'RUNNING',
    })
    await rig.run(500, { scalers })
    const [ready] = await rig.pods()
    expect(ready?.readyAt).toBeGreaterThanOrEqual((ready?.startedAt ?? Infinity) + 1_000)
  })

  it('counts jobs by the concurrency that its variables say', async () => {
    const env = { LONGSHORE_CONCURRENCY: '10' }
    const { id, scalers } = await scaled({ workersMax: 5, scalerType: 'QUEUE_DELAY', scalerValue: 1, env })
    rig.submit(id, 10)
    await rig.run(500, { scalers })
    expect(rig.counts.started).toBe(1)
  })

  it('starts nothing for jobs of low priority, and keeps a worker that runs them', async () => {
    const { id, scalers } = await scaled({ workersMax: 3, idleTimeout: 2 })
    rig.submit(id, 5, { isLowPriority: true, runMs: 500 })
    await rig.run(5_000, { scalers })
    expect(rig.counts.started).toBe(0)
    rig.submit(id, 1)
    await rig.until(() => rig.waiting === 0, { scalers })
    expect(rig.counts.started).toBe(1)
    await rig.until(() => rig.bodies.size === 0, { scalers })
    expect(rig.counts.ended).toBe(6)
  })

  it('keeps a worker whose jobs are over between two looks', async () => {
    const { id, scalers } = await scaled({ idleTimeout: 2, workersMax: 1 })
    rig.submit(id, 1)
    await untilReady(1, scalers)
    for (let n = 0; n < 10; n += 1) {
      // Seen by nobody: it comes, runs and ends within one step.
      rig.submit(id, 1, { runMs: 1 })
      await rig.run(1_000, { scalers })
    }
    expect([rig.counts.started, rig.counts.ended]).toEqual([1, 11])
  })

  it('follows its bounds while it runs, down to workersMax 0 and up again', async () => {
    const { id, scalers } = await scaled({ workersMax: 3 })
    await rig.endpoints.update(id, { workersMin: 2 })
    await untilReady(2, scalers)
    rig.submit(id, 2, { runMs: 5_000 })
    await rig.endpoints.update(id, { workersMin: 0, workersMax: 0 })
    await rig.run(2_000, { scalers })
    expect(rig.bodies.size).toBe(2)
    await rig.until(() => rig.bodies.size === 0, { scalers })
    rig.submit(id, 3)
    await rig.run(5_000, { scalers })
    expect([rig.bodies.size, rig.waiting]).toEqual([0, 3])
    expect((await rig.scaling(id))?.reason).toContain('0 workers, which is workersMax')
    await rig.endpoints.update(id, { workersMax: 1 })
    await rig.until(() => rig.waiting === 0, { scalers })
  })

  it('that is deleted has its workers ended, and nothing is left of it', async () => {
    const { id, scalers } = await scaled({ workersMin: 2 })
    await untilReady(2, scalers)
    await rig.store.fleet.endpoints.remove(id)
    const over = () => scalers[0]?.isOver === true
    await rig.until(over, { scalers })
    expect([await rig.pods(), await rig.scaling(id), await rig.releases.list(id)]).toEqual([
      [],
      undefined,
      [],
    ])
    const ended = await rig.store.fleet.endedPods.list()
    expect(ended.map(({ value }) => value.lastStatusChange)).toEqual(
      Array.from({ length: 2 }, () => 'ending: its endpoint was deleted'),
    )
    expect(ended.filter(({ value }) => value.failure !== undefined)).toEqual([])
  })
})

describe('a worker that starts', () => {
  // Seen: a release was stopped, for its first worker had not been heard while no service was there.
  it('is waited for anew by a service that could not hear it', async () => {
    const { scalers, id } = await scaled({ workersMin: 1, workersMax: 1 })
    rig.life = () => ({})
    await rig.until(() => rig.bodies.size === 1, { scalers })
    rig.clock.advance(400_000)
    const contact = { lastedMs: 0 }
    const next = { scalers: [rig.scaler(id, { contact })] }
    await scalers[0]?.close()
    for (; contact.lastedMs < 299_000; contact.lastedMs += 1_000) await rig.run(1_000, next)
    expect([rig.counts.started, rig.counts.ended]).toEqual([1, 0])
    contact.lastedMs = 301_000
    await rig.until(() => rig.counts.started === 2, { ...next, withinMs: 5_000 })
  })
})

describe('a worker that dies', () => {
  it('is replaced after a wait that grows, with the reason of its death in the decision and the log', async () => {
    const { id, scalers } = await scaled({ workersMin: 1, workersMax: 1 })
    rig.life = () => ({ deathMs: 500 })
    const begun: number[] = []
    for (let n = 0; n < 4; n += 1) {
      await rig.until(() => rig.counts.started === n + 1, { scalers })
      begun.push(rig.clock.now())
    }
    const waits = begun.slice(1).map((at, n) => at - (begun[n] ?? 0))
    // With a jitter of a half: 0.75, 1.5 and 3 s, past the half second that each lives, in steps of a quarter.
    expect(waits[0]).toBeGreaterThanOrEqual(1_250)
    expect(waits[1]).toBeGreaterThanOrEqual(2_000)
    expect(waits[2]).toBeGreaterThanOrEqual(3_500)
    await rig.run(1_000, { scalers })
    expect((await rig.scaling(id))?.reason).toMatch(
      /waits .* more: a worker died .* before it was ready: exit code 1/,
    )
    expect(rig.fleetCounts.get(id)).toEqual({ initializing: 0, throttled: 1 })
    expect(rig.logged.filter(({ level }) => level === 'warn')[0]).toMatchObject({
      message: 'a worker died',
      fields: { endpoint: id, version: 1, reason: 'exit code 1' },
    })
  })

  it('is the first again once another has been ready for a minute', async () => {
    const { id, scalers } = await scaled({ workersMin: 1, workersMax: 2 })
    const isSound = () => [3, 5].includes(rig.counts.started + 1)
    rig.life = () => (isSound() ? { readyMs: 500 } : { deathMs: 500 })
    await untilReady(1, scalers)
    await rig.run(70_000, { scalers })
    await rig.endpoints.update(id, { workersMin: 2 })
    await rig.until(() => rig.counts.started === 4, { scalers })
    // Half a second of life and 0.75 s of wait; the third in a row would wait 3 s.
    const waited = await rig.until(() => rig.counts.started === 5, { scalers })
    expect(waited).toBeLessThan(2_000)
  })

  it('because it never became ready counts once, when it is told to end', async () => {
    const { scalers } = await scaled({ workersMin: 1, workersMax: 2 })
    rig.life = () => (rig.counts.started === 0 ? {} : { readyMs: 500 })
    const isEnding = async () => (await rig.pods()).some((pod) => pod.desiredStatus === 'TERMINATED')
    await rig.until(() => rig.counts.started === 1, { scalers })
    await rig.until(isEnding, { scalers, hosts: [], withinMs: 310_000 })
    await rig.run(5_000, { scalers, hosts: [] })
    await rig.run(5_000, { scalers })
    expect(rig.logged.filter(({ message }) => message === 'a worker died')).toHaveLength(1)
    expect(await rig.store.fleet.endedPods.list()).toHaveLength(1)
  })

  it('is still known to a scaler that begins afresh', async () => {
    const { id, scalers } = await scaled({ workersMin: 1, workersMax: 1 })
    rig.life = () => ({ deathMs: 500 })
    await rig.until(() => rig.counts.started === 4 && rig.bodies.size === 0, { scalers })
    const waited = await rig.until(() => rig.counts.started === 5, { scalers: [rig.scaler(id)] })
    expect(waited).toBeGreaterThanOrEqual(4_000)
  })
})

describe('a worker that falls silent', () => {
  it('is counted on for 30 s, then another is started beside it, and it is ended after 300 s', async () => {
    const { id, scalers } = await scaled({ workersMin: 1, workersMax: 2 })
    await untilReady(1, scalers)
    await rig.run(1_000, { scalers })
    const [first] = await rig.pods()
    rig.fallSilent(first?.id ?? '')
    await rig.run(29_000, { scalers })
    expect(rig.counts.started).toBe(1)
    await rig.until(() => rig.counts.started === 2, { scalers, withinMs: 3_000 })
    await rig.run(200_000, { scalers })
    expect(rig.bodies.has(first?.id ?? '')).toBe(true)
    await rig.until(() => !rig.bodies.has(first?.id ?? ''), { scalers, withinMs: 80_000 })
    const ended = await rig.store.fleet.endedPods.find(first?.id ?? '')
    expect(ended?.value.failure).toBe('not heard for 300 s')
    expect((await rig.scaling(id))?.recent[0]?.reason).toBe('1 worker ended: not heard for 300 s')
    await rig.run(60_000, { scalers })
    expect([rig.counts.started, rig.bodies.size]).toEqual([2, 1])
  })

  it('and comes back is the worker that it was', async () => {
    const { scalers } = await scaled({ workersMin: 1, workersMax: 2 })
    await untilReady(1, scalers)
    await rig.run(1_000, { scalers })
    const body = [...rig.bodies.values()][0]
    rig.fallSilent(body?.pod.id ?? '')
    await rig.run(20_000, { scalers })
    if (body) body.isSilent = false
    await rig.run(60_000, { scalers })
    expect([rig.counts.started, rig.bodies.size]).toEqual([1, 1])
  })

  it('and comes back at the last moment is not ended', async () => {
    const { id, scalers } = await scaled({ workersMin: 1, workersMax: 1 })
    await untilReady(1, scalers)
    await rig.run(1_000, { scalers })
    const body = [...rig.bodies.values()][0]
    rig.fallSilent(body?.pod.id ?? '')
    await rig.run(290_000, { scalers })
    // From here on it is heard between the look at the workers and what is decided.
    const before = { ...rig.workforce }
    const back = rig.clock.now() + 10_250
    rig.workforce.load = (endpoint) => {
      if (body && rig.clock.now() >= back && body.isSilent) {
        body.isSilent = false
        rig.submit(id, 1, { runMs: 20_000 })
      }
      return before.load(endpoint)
    }
    await rig.until(() => body?.isSilent === false, { scalers })
    await rig.until(() => rig.counts.ended === 1, { scalers })
    expect(rig.counts.started).toBe(1)
  })

  it('is replaced sooner when the service that ran it is gone', async () => {
    const { id } = await scaled({ workersMin: 2, workersMax: 2 })
    const [a, b] = [rig.scaler(id), rig.scaler(id, { hostId: 'host-b' })]
    await untilReady(2, [a])
    await rig.store.fleet.hold('host:host-a', { holder: 'host-a', forMs: 30_000, now: rig.clock.now() })
    for (const podId of rig.bodies.keys()) rig.fallSilent(podId)
    const onlyB = { scalers: [b], hosts: ['host-b'] }
    await rig.run(29_000, onlyB)
    expect(rig.counts.started).toBe(2)
    const from = (await rig.pods()).map((pod) => pod.hostId)
    expect(from).toEqual(['host-a', 'host-a'])
    await rig.until(() => rig.counts.started === 4, { ...onlyB, withinMs: 6_000 })
    expect((await rig.pods()).map(({ hostId }) => hostId)).toEqual(['host-b', 'host-b'])
    const [lost] = await rig.store.fleet.endedPods.list()
    expect(lost?.value.failure).toBe("its service 'host-a' was not heard for 30 s")
  })
})

describe('a worker of a service that is gone', () => {
  // Seen: after an outage of the store whoever looked first ended the workers of the others, with jobs in hand.
  it('is left alone until its service had time to say that it is not, and has no key after that', async () => {
    const { id } = await scaled({ workersMin: 1, workersMax: 1 })
    const contact = { lastedMs: Infinity }
    const [a, b] = [rig.scaler(id), rig.scaler(id, { hostId: 'host-b', contact })]
    await untilReady(1, [a])
    await a.close()
    const [left] = await rig.pods()
    rig.fallSilent(left?.id ?? '')
    for (contact.lastedMs = 0; contact.lastedMs < 30_000; contact.lastedMs += 1_000)
      await rig.run(1_000, { scalers: [b], hosts: ['host-b'] })
    expect([(await rig.pods()).map(({ id: pod }) => pod), rig.revoked]).toEqual([[left?.id], []])
    // And until it has seemed to be gone for two seconds: the clock of the store may have been set just now.
    await rig.run(1_000, { scalers: [b], hosts: ['host-b'] })
    expect(rig.revoked).toEqual([])
    await rig.run(2_000, { scalers: [b], hosts: ['host-b'] })
    expect(await rig.pods()).toMatchObject([{ hostId: 'host-b' }])
    expect(rig.revoked).toEqual([left?.id])
  })

  it('is told to leave while it is heard, and another one is started in its place', async () => {
    const { id } = await scaled({ workersMin: 1, workersMax: 1 })
    const [a, b] = [rig.scaler(id), rig.scaler(id, { hostId: 'host-b' })]
    await untilReady(1, [a])
    await a.close()
    const [left] = await rig.pods()
    const told: string[] = []
    rig.workforce.drain = (endpoint, worker) => {
      told.push(`${endpoint}/${worker}`)
      // It leaves by itself, as nobody else can end it.
      rig.fallSilent(worker)
    }
    await b.step()
    expect(told).toEqual([])
    rig.clock.advance(2_000)
    await b.step()
    expect(told).toEqual([`${id}/${left?.id}`])
    expect(await rig.store.fleet.pods.find(left?.id ?? '')).toMatchObject({
      value: { drain: "its service 'host-a' was not heard for 30 s" },
    })
    await rig.run(2_000, { scalers: [b], hosts: ['host-b'] })
    expect(await rig.pods()).toMatchObject([{ hostId: 'host-b' }])
    const gone = await rig.store.fleet.endedPods.find(left?.id ?? '')
    expect(gone?.value).toMatchObject({ desiredStatus: 'TERMINATED', hostId: 'host-a' })
    expect(gone?.value.failure).toBeUndefined()
  })
})

describe('a worker that dies', () => {
  it('is among the decisions with its reason', async () => {
    const { id, scalers } = await scaled({ workersMin: 1, workersMax: 1 })
    rig.life = () => ({ deathMs: 500 })
    await rig.until(async () => (await rig.store.fleet.endedPods.list()).length === 1, { scalers })
    await rig.run(500, { scalers })
    const [dead] = await rig.store.fleet.endedPods.list()
    const told = (await rig.scaling(id))?.recent.map(({ reason }) => reason)
    expect(told).toContain(`worker ${dead?.value.id} of version 1 died: ${dead?.value.failure}`)
  })
})

describe('a release', () => {
  it('replaces all workers and is COMPLETED, with its counts in its record', async () => {
    const { id, templateId, scalers } = await scaled({ workersMin: 3, workersMax: 3 })
    await untilReady(3, scalers)
    await update(templateId, 'image:2')
    rig.submit(id, 30, { runMs: 3_000 })
    let least = 3
    await rig.until(
      async () => {
        least = Math.min(least, rig.ready())
        return (await rig.release(id, 2))?.state === 'COMPLETED'
      },
      { scalers, withinMs: 120_000 },
    )
    expect(least).toBe(3)
    expect(rig.counts.mostBodies).toBe(4)
    expect(await rig.release(id, 2)).toMatchObject({
      ready: 3,
      older: 0,
      reason: '3 workers of version 2 ready, none older',
      endedAt: new Date(rig.clock.now()).toISOString(),
    })
    expect((await rig.pods()).map(({ slsVersion, image }) => [slsVersion, image])).toEqual(
      Array.from({ length: 3 }, () => [2, 'image:2']),
    )
    await rig.until(() => rig.counts.ended === 30, { scalers })
    expect(rig.logged).toContainEqual({
      level: 'info',
      message: 'a release is over',
      fields: {
        endpoint: id,
        version: 2,
        state: 'COMPLETED',
        reason: '3 workers of version 2 ready, none older',
      },
    })
  })

  it('says in its record how far it is', async () => {
    const { id, templateId, scalers } = await scaled({ workersMin: 2, workersMax: 2 })
    await untilReady(2, scalers)
    await update(templateId, 'image:2')
    await rig.run(500, { scalers })
    expect(await rig.release(id, 2)).toMatchObject({ state: 'ROLLING', ready: 0, older: 2 })
    expect((await rig.release(id, 2))?.reason).toBe(
      'one worker at a time tries version 2; version 1 serves meanwhile',
    )
  })

  it('is STOPPED when its workers die, and the version before serves on, also for what is started later', async () => {
    const { id, templateId, scalers } = await scaled({ workersMin: 2, workersMax: 4 })
    rig.life = (version) => (version === 2 ? { deathMs: 300 } : { readyMs: 500 })
    await untilReady(2, scalers)
    await update(templateId, 'broken')
    await untilState(id, 2, 'STOPPED', scalers)
    const stopped = await rig.release(id, 2)
    expect(stopped?.reason).toMatch(
      /^3 workers of version 2 failed in a row; .*exit code 1. Version 1 goes on serving$/,
    )
    expect(stopped?.endedAt).toBeDefined()
    await rig.run(1_000, { scalers })
    expect((await rig.scaling(id))?.reason).toMatch(
      /^version 2 was stopped and version 1 serves; 2 workers, /,
    )
    const startedBy = rig.counts.started
    rig.submit(id, 40)
    await rig.until(() => rig.ready() === 4, { scalers })
    expect((await rig.pods()).every(({ slsVersion, image }) => slsVersion === 1 && image === 'image:1')).toBe(
      true,
    )
    expect(rig.counts.started).toBe(startedBy + 2)
    expect(rig.logged.find(({ message }) => message === 'a release is over')).toMatchObject({
      level: 'warn',
      fields: { version: 2, state: 'STOPPED' },
    })
  })

  // Seen: workers that pinged and never asked for a job took the place of those that did.
  it.each([
    ['is not heard', {}],
    ['pings and asks for no job', { pingMs: 500 }],
  ])('is STOPPED when its first worker is never ready, which ends that worker: it %s', async (_of, life) => {
    const { id, templateId, scalers } = await scaled({ workersMin: 1, workersMax: 2 })
    rig.life = (version) => (version === 2 ? life : { readyMs: 500 })
    await untilReady(1, scalers)
    await update(templateId, 'stuck')
    const took = await untilState(id, 2, 'STOPPED', scalers)
    expect(took).toBeGreaterThanOrEqual(startDeadlineMs)
    await rig.until(() => rig.bodies.size === 1, { scalers })
    const ended = (await rig.store.fleet.endedPods.list()).map(({ value }) => value)
    expect(ended.map(({ slsVersion, failure }) => [slsVersion, failure])).toEqual([
      [2, 'not ready 300 s after its start'],
    ])
    expect([rig.ready(1), rig.ready(2)]).toEqual([1, 0])
  })

  it('that was STOPPED leaves none of its workers', async () => {
    const { id, templateId, scalers } = await scaled({ workersMin: 2, workersMax: 2 })
    await untilReady(2, scalers)
    await update(templateId, 'image:2')
    await rig.until(() => rig.ready(2) === 1 && rig.ready(1) === 1, { scalers })
    // Whatever stopped it: one of its workers is there.
    const rolling = await rig.releases.find(id, 2)
    if (rolling)
      await rig.releases.record(rolling, { state: 'STOPPED', reason: 'for this test', ready: 1, older: 1 })
    await rig.until(() => rig.ready(1) === 2 && rig.bodies.size === 2, { scalers })
  })

  it('after one that was STOPPED tries again, also where the template is the same', async () => {
    const { id, templateId, scalers } = await scaled({ workersMin: 1, workersMax: 2 })
    let isBroken = true
    rig.life = (version) => (version > 1 && isBroken ? { deathMs: 300 } : { readyMs: 500 })
    await untilReady(1, scalers)
    await update(templateId, 'image:2')
    await untilState(id, 2, 'STOPPED', scalers)
    isBroken = false
    await update(templateId, 'image:2')
    expect((await rig.release(id, 3))?.state).toBe('ROLLING')
    await untilState(id, 3, 'COMPLETED', scalers)
  })

  it('is SUPERSEDED by a newer one, which replaces what there is of either', async () => {
    const { id, templateId, scalers } = await scaled({ workersMin: 3, workersMax: 3 })
    await untilReady(3, scalers)
    await update(templateId, 'image:2')
    await rig.until(() => rig.ready(2) === 1, { scalers })
    await update(templateId, 'image:3')
    await untilState(id, 3, 'COMPLETED', scalers)
    expect(await rig.release(id, 2)).toMatchObject({ state: 'SUPERSEDED', reason: 'version 3 was released' })
    expect((await rig.pods()).map(({ slsVersion }) => slsVersion)).toEqual([3, 3, 3])
  })

  it('is SUPERSEDED by its scaler where a server died before it said so, and the version is raised', async () => {
    const { id, templateId, scalers } = await scaled({ workersMin: 1, workersMax: 2 })
    await untilReady(1, scalers)
    await update(templateId, 'image:2')
    const two = await rig.releases.find(id, 2)
    if (!two) throw new Error('There is no release of version 2.')
    // What was written of the next release before the end.
    const { fleet } = rig.store
    await fleet.releases.add({ ...two.value, id: `${id}.000003`, version: 3, templateRevision: 9 })
    await rig.run(250, { scalers })
    expect((await rig.release(id, 2))?.state).toBe('SUPERSEDED')
    expect((await fleet.endpoints.find(id))?.value.version).toBe(3)
    await untilState(id, 3, 'COMPLETED', scalers)
  })

  it('that changes nothing workers run with replaces none of them, and the next one does', async () => {
    const { id, templateId, scalers } = await scaled({ workersMin: 2, workersMax: 2 })
    await untilReady(2, scalers)
    await rig.templates.update(templateId, { readme: 'more words' })
    await rig.templates.update(templateId, { name: 'another name' })
    await rig.run(10_000, { scalers })
    expect([(await rig.release(id, 3))?.state, rig.counts.started]).toEqual(['COMPLETED', 2])
    await update(templateId, 'image:2')
    await untilState(id, 4, 'COMPLETED', scalers)
    expect((await rig.pods()).map(({ slsVersion }) => slsVersion)).toEqual([4, 4])
  })

  it('goes on with a template that is deleted: its record has all that a worker needs', async () => {
    const { id, templateId, scalers } = await scaled({ workersMin: 1, workersMax: 1 })
    await rig.store.fleet.templates.remove(templateId)
    await untilReady(1, scalers)
    rig.kill((await rig.pods())[0]?.id ?? '')
    await rig.until(() => rig.counts.started === 2, { scalers })
    expect((await rig.release(id, 1))?.state).toBe('COMPLETED')
  })

  it.each([1, 3, 7, 12])('goes on where a scaler was replaced by a fresh one %i times', async (times) => {
    const { id, templateId, scalers } = await scaled({ workersMin: 3, workersMax: 3 })
    await untilReady(3, scalers)
    await update(templateId, 'image:2')
    rig.submit(id, 12, { runMs: 2_000 })
    for (let n = 0; n < times; n += 1) await rig.run(750, { scalers: [rig.scaler(id)] })
    const fresh = [rig.scaler(id)]
    await untilState(id, 2, 'COMPLETED', fresh)
    expect(rig.counts.mostBodies).toBeLessThanOrEqual(4)
    await rig.until(() => rig.counts.ended === 12 && rig.ready(2) === 3 && rig.bodies.size === 3, {
      scalers: fresh,
    })
  })

  it('is STOPPED also where its scaler was replaced between the deaths', async () => {
    const { id, templateId, scalers } = await scaled({ workersMin: 1, workersMax: 2 })
    rig.life = (version) => (version === 2 ? { deathMs: 300 } : { readyMs: 500 })
    await untilReady(1, scalers)
    await update(templateId, 'broken')
    for (const deaths of [1, 2, 3]) {
      const dead = async () => (await rig.store.fleet.endedPods.list()).length === deaths
      await rig.until(dead, { scalers: [rig.scaler(id)] })
    }
    await rig.run(500, { scalers: [rig.scaler(id)] })
    expect((await rig.release(id, 2))?.state).toBe('STOPPED')
  })

  it('is remembered where it serves, however many stopped after it', async () => {
    const { id, templateId } = await scaled()
    for (let version = 2; version <= 104; version += 1) await update(templateId, `image:${version}`)
    expect((await rig.releases.list(id)).map(({ version }) => version)).toHaveLength(104)
    rig.submit(id, 1)
    await untilReady(1, [rig.scaler(id)], 104)
  })
})

describe('several servers', () => {
  it('start what is missing once', async () => {
    const { id } = await rig.endpoint({ workersMin: 3, workersMax: 3 })
    const scalers = [rig.scaler(id), rig.scaler(id, { hostId: 'host-b' })]
    await Promise.all(scalers.map((scaler) => scaler.step()))
    await Promise.all(scalers.map((scaler) => scaler.step()))
    expect(await rig.pods()).toHaveLength(3)
    expect(new Set((await rig.pods()).map(({ hostId }) => hostId)).size).toBe(1)
  })

  it('take over at once from one that closes, and after five seconds from one that died', async () => {
    const { id } = await rig.endpoint({ workersMin: 1, workersMax: 3 })
    const hosts = ['host-a', 'host-b', 'host-c']
    const now = rig.clock.now()
    for (const holder of hosts) await rig.store.fleet.hold(`host:${holder}`, { holder, forMs: 30_000, now })
    const [a, b, c] = hosts.map((hostId) => rig.scaler(id, { hostId }))
    await a?.step()
    await rig.endpoints.update(id, { workersMin: 2 })
    await b?.step()
    expect(await rig.pods()).toHaveLength(1)
    await a?.close()
    await b?.step()
    expect(await rig.pods()).toHaveLength(2)
    await rig.endpoints.update(id, { workersMin: 3 })
    rig.clock.advance(4_999)
    await c?.step()
    expect(await rig.pods()).toHaveLength(2)
    rig.clock.advance(1)
    await c?.step()
    expect((await rig.pods()).map(({ hostId }) => hostId).toSorted()).toEqual(hosts)
  })

  it('take over at once from one that cannot run pods', async () => {
    const { id } = await rig.endpoint({ workersMin: 1, workersMax: 1 })
    const machine = () => Promise.reject(new Error('The folder of the pods is in use.'))
    await expect(rig.scaler(id, { hostId: 'host-z', machine }).step()).rejects.toThrow('in use')
    await rig.scaler(id).step()
    expect(await rig.pods()).toMatchObject([{ hostId: 'host-a' }])
  })

  it('stop to write when another has taken over in the middle', async () => {
    const { id, templateId } = await rig.endpoint({ workersMin: 2, workersMax: 4 })
    const { fleet } = rig.store
    let isHeldUp = false
    let before: unknown
    const written = async () => [await rig.scaling(id), await rig.release(id, 2)]
    // A machine that stands still for six seconds before its first write.
    const slow = withPodWrites(fleet, async () => {
      if (!isHeldUp) return
      isHeldUp = false
      before = await written()
      rig.clock.advance(6_000)
      await fleet.hold(`scale:${id}`, { holder: 'host-b', forMs: 5_000, now: rig.clock.now() })
    })
    const scalers = [rig.scaler(id, { store: slow })]
    await untilReady(2, scalers)
    await rig.run(1_000, { scalers })
    await update(templateId, 'image:2')
    await rig.run(500, { scalers })
    rig.submit(id, 3, { runMs: 60_000 })
    isHeldUp = true
    await rig.until(() => !isHeldUp, { scalers })
    // One write was under way; nothing came after it.
    expect(await written()).toEqual(before)
    const count = rig.logged.length
    expect(rig.logged.at(-1)?.message).toBe('another server scales the endpoint now')
    await rig.run(2_000, { scalers })
    expect(rig.logged).toHaveLength(count)
  })
})

describe('an endpoint that is changed in the middle of a release of it', () => {
  it('is of the version of that release, and keeps the change', async () => {
    const { id, templateId } = await rig.endpoint()
    const { fleet } = rig.store
    const template = await fleet.templates.find(templateId)
    if (!template) throw new Error('There is no template.')
    const changed = { ...template, value: { ...template.value, imageName: 'image:2' }, revision: 2 }
    const between: FleetStore['releases'] = {
      ...fleet.releases,
      find: (release) => fleet.releases.find(release),
      list: () => fleet.releases.list(),
      add: async (release) => {
        await rig.endpoints.update(id, { workersMax: 7 })
        return fleet.releases.add(release)
      },
    }
    const store: FleetStore = {
      ...fleet,
      releases: between,
      hold: (duty, ask) => fleet.hold(duty, ask),
      letGo: (duty, holder) => fleet.letGo(duty, holder),
    }
    await new Releases({ store, clock: rig.clock, wake: () => {} }).of(id, changed, 'updated')
    expect((await fleet.endpoints.find(id))?.value).toMatchObject({ version: 2, workersMax: 7 })
  })
})
