import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fleetRules } from '../../src/fleet/rules/fleet-rules.ts'
import { hopelessStarts, scale, type ScalingView } from '../../src/fleet/rules/scaler.ts'
import { mulberry32 } from '../support/dice.ts'
import { byCount, byDelay, NOW, queueWith, some } from '../support/fleet-views.ts'
import { FleetWorld } from '../support/fleet-world.ts'

/** No use for any worker within idleTimeout. */
const noDemand = [{ at: NOW - 1_000, workers: 0 }]

function decide(view: Partial<ScalingView>) {
  return scale({
    now: NOW,
    settings: byDelay,
    queue: queueWith(),
    workers: [],
    demand: noDemand,
    version: 1,
    ...view,
  })
}

describe('REQUEST_COUNT', () => {
  it('has one worker for every scalerValue jobs that wait or run', () => {
    const { wanted, start } = decide({
      settings: byCount,
      queue: queueWith({ waiting: 7 }),
      workers: some(1, 'running', { jobs: 2 }),
    })
    expect([wanted.workers, start]).toEqual([3, 2])
    expect(wanted.reason).toBe('3 workers: 7 jobs in line and 2 running, 4 per worker')
  })

  it('does not count low-priority jobs, neither in line nor running', () => {
    const workers = some(1, 'running', { jobs: 1, lowPriorityJobs: 1 })
    const { wanted, start } = decide({
      settings: byCount,
      queue: queueWith({ waitingLowPriority: 100 }),
      workers,
    })
    expect([wanted.workers, start]).toEqual([0, 0])
  })

  it('starts one for a job whose worker a low-priority job has filled', () => {
    const workers = some(1, 'running', { jobs: 1, lowPriorityJobs: 1 })
    expect(decide({ settings: byCount, queue: queueWith({ waiting: 1 }), workers }).start).toBe(1)
  })

  it('does not count jobs that end on draining workers', () => {
    const { wanted } = decide({ settings: byCount, workers: some(3, 'draining', { jobs: 5 }) })
    expect(wanted.workers).toBe(0)
  })
})

describe('QUEUE_DELAY', () => {
  it('starts a worker for the first job', () => {
    expect(decide({ queue: queueWith({ waiting: 1 }) }).start).toBe(1)
  })

  it('starts as many as work the line off within the delay, what starting takes taken off', () => {
    const queue = queueWith({ waiting: 30, jobMs: 500, startMs: 1_000, arrivalsPerSecond: 0 })
    // Three seconds are left: seven jobs for each worker.
    expect(decide({ queue }).start).toBe(5)
  })

  it('starts none while those that are there keep the delay', () => {
    const queue = queueWith({ waiting: 10, jobMs: 500, arrivalsPerSecond: 0 })
    expect(decide({ queue, workers: some(2, 'running') }).start).toBe(0)
  })

  it('counts what will arrive meanwhile', () => {
    const wantedAt = (arrivalsPerSecond: number) =>
      decide({
        queue: queueWith({ waiting: 1, jobMs: 1_000, arrivalsPerSecond }),
        workers: some(2, 'running'),
      }).wanted.workers
    expect([0, 2, 6, 20].map(wantedAt)).toEqual([1, 3, 5, 10])
  })

  it('gives each long job a worker of its own', () => {
    const queue = queueWith({ waiting: 4, jobMs: 3_600_000, arrivalsPerSecond: 0 })
    expect(decide({ queue, workers: some(3, 'running') }).start).toBe(4)
  })

  it('shares a worker among as many jobs as it runs at a time', () => {
    const queue = queueWith({ waiting: 20, jobMs: 3_600_000, arrivalsPerSecond: 0, slotsPerWorker: 10 })
    expect(decide({ queue }).start).toBe(2)
  })

  it('doubles when jobs are late although nothing is starting, and says so', () => {
    const queue = queueWith({ waiting: 50, oldestWaitMs: 5_200, jobMs: 10, arrivalsPerSecond: 0 })
    const { start, startReason } = decide({ queue, workers: some(3, 'running') })
    expect(start).toBe(3)
    expect(startReason).toBe(
      '6 workers: 50 jobs in line and 3 running, 0 s each, one has waited 5.2 s of 4 s: twice as many',
    )
  })

  it('counts workers that are starting as capacity to come', () => {
    const queue = queueWith({ waiting: 4, oldestWaitMs: 9_000, jobMs: 60_000, arrivalsPerSecond: 0 })
    expect(decide({ queue, workers: some(4, 'starting', { forMs: 9_000 }) }).start).toBe(0)
  })

  it('no longer counts on one whose start takes far longer than others', () => {
    const queue = queueWith({ waiting: 1, jobMs: 1_000, startMs: 2_000 })
    const workers = some(1, 'starting', { forMs: fleetRules.slowStartMs })
    expect(decide({ queue, workers }).start).toBe(1)
  })

  it('starts few while nothing is known of how long jobs run', () => {
    const settings = { ...byDelay, workersMax: 1_000 }
    expect(decide({ settings, queue: queueWith({ waiting: 5_000 }) }).start).toBe(fleetRules.unknownMost)
  })
})

describe('the bounds', () => {
  it('starts up to workersMin without any job', () => {
    const { start, startReason } = decide({ settings: { ...byDelay, workersMin: 2 } })
    expect([start, startReason]).toEqual([
      2,
      '2 workers, which is workersMin: no job that counts waits or runs',
    ])
  })

  it('counts draining workers into workersMax', () => {
    const queue = queueWith({ waiting: 40 })
    expect(decide({ settings: byCount, queue, workers: some(7, 'draining') }).start).toBe(3)
  })

  it('drains idle workers above workersMax at once', () => {
    const settings = { ...byDelay, workersMax: 1 }
    const workers = [...some(1, 'running'), ...some(2, 'idle', { forMs: 10 })]
    expect(decide({ settings, workers, queue: queueWith({ waiting: 9 }) }).drains).toHaveLength(2)
  })
})

describe('idleTimeout', () => {
  it('drains to zero once nothing had use for a worker for that long', () => {
    const demand = [{ at: NOW - 5_000, workers: 2 }]
    const { drains } = decide({ workers: some(2, 'idle'), demand })
    expect(drains.map(({ id }) => id)).toEqual(['idle-1.0', 'idle-1.1'])
    expect(drains[0]?.reason).toBe('idle for 100 s; for 5 s no more than 0 of 2 workers had use')
  })

  it('keeps one where a job came and ended since the decision before', () => {
    const demand = [{ at: NOW - 5_000, workers: 2 }]
    const queue = queueWith({ hadJobs: true })
    expect(decide({ workers: some(2, 'idle'), demand, queue }).drains).toHaveLength(1)
  })

  it('keeps as many as had use within it', () => {
    const demand = [{ at: NOW - 4_999, workers: 1 }]
    expect(decide({ workers: some(2, 'idle'), demand }).drains).toHaveLength(1)
  })

  it('lasts for a worker that has just become ready too', () => {
    expect(decide({ workers: some(1, 'idle', { forMs: 4_999 }) }).drains).toEqual([])
  })

  it('begins anew for a decision that knows of none before it', () => {
    expect(decide({ workers: some(2, 'idle'), demand: undefined }).drains).toEqual([])
  })

  it('drains none for one that is still starting', () => {
    const settings = { ...byDelay, workersMin: 1 }
    const workers = [...some(1, 'idle'), ...some(1, 'starting')]
    expect(decide({ settings, workers }).drains).toEqual([])
  })

  it('never drains a worker that has a job', () => {
    expect(decide({ workers: some(3, 'running') }).drains).toEqual([])
  })

  it('waits while low-priority jobs are in line', () => {
    const queue = queueWith({ waitingLowPriority: 1 })
    expect(decide({ workers: some(1, 'idle'), queue }).drains).toEqual([])
  })
})

describe('a worker that does not become ready', () => {
  it('is given up at the deadline', () => {
    const workers = [...some(1, 'starting', { forMs: 300_000 }), ...some(1, 'idle', { forMs: 300_000 })]
    expect(hopelessStarts(workers, NOW)).toEqual([
      { id: 'starting-1.0', reason: 'not ready 300 s after its start' },
    ])
  })

  it('is one of those that were ready and are not heard for as long', () => {
    const workers = some(1, 'starting', { forMs: 300_000 }).map((worker) => ({ ...worker, isSilent: true }))
    expect(hopelessStarts(workers, NOW)).toEqual([{ id: 'starting-1.0', reason: 'not heard for 300 s' }])
  })
})

describe('over any traffic', () => {
  const settings = fc
    .record({
      workersMin: fc.integer({ min: 0, max: 4 }),
      more: fc.integer({ min: 1, max: 30 }),
      idleTimeout: fc.integer({ min: 1, max: 60 }),
      scalerType: fc.constantFrom('QUEUE_DELAY' as const, 'REQUEST_COUNT' as const),
      scalerValue: fc.integer({ min: 1, max: 20 }),
    })
    .map(({ more, ...rest }) => ({ ...rest, workersMax: rest.workersMin + more }))
  const plan = fc.record({
    settings,
    seed: fc.integer(),
    slots: fc.integer({ min: 1, max: 4 }),
    startMs: fc.integer({ min: 10, max: 20_000 }),
    /** Bursts: when, how many, how long each runs. */
    bursts: fc.array(
      fc.record({
        at: fc.integer({ min: 0, max: 120_000 }),
        jobs: fc.integer({ min: 1, max: 40 }),
        everyMs: fc.integer({ min: 0, max: 2_000 }),
        runMs: fc.integer({ min: 1, max: 5_000 }),
        isLowPriority: fc.boolean(),
      }),
      { minLength: 1, maxLength: 5 },
    ),
    /** When a worker is killed, whichever it hits. */
    kills: fc.array(fc.integer({ min: 0, max: 200_000 }), { maxLength: 6 }),
  })

  /** A job of a killed worker goes back to a line beside which others are idle. */
  const jobGivenBackToIdleWorkers = {
    settings: {
      workersMin: 0,
      workersMax: 5,
      idleTimeout: 1,
      scalerType: 'QUEUE_DELAY' as const,
      scalerValue: 1,
    },
    seed: 0,
    slots: 1,
    startMs: 10,
    bursts: [
      { at: 5_781, jobs: 32, everyMs: 1_688, runMs: 4_074, isLowPriority: false },
      { at: 0, jobs: 39, everyMs: 1_088, runMs: 1_335, isLowPriority: false },
      { at: 0, jobs: 28, everyMs: 1_607, runMs: 4_032, isLowPriority: false },
    ],
    kills: [63_231],
  }

  it('keeps the bounds, stops no job, runs every job that counts, and sleeps again', () => {
    fc.assert(
      fc.property(plan, ({ settings: its, seed, slots, startMs, bursts, kills }) => {
        const random = mulberry32(seed)
        const world = new FleetWorld({
          settings: its,
          random,
          slots,
          start: () => ({ readyMs: startMs * (0.5 + random()) }),
          orderMs: () => random() * 2_000,
          onTick: ({ bodies }, { starts, drains, ends }) => {
            const started = starts.reduce((sum, { count }) => sum + count, 0)
            if (started > 0) expect(bodies.size + started).toBeLessThanOrEqual(its.workersMax)
            for (const { id } of [...drains, ...ends]) expect(bodies.get(id)?.jobs.size).toBe(0)
            expect(started === 0 || drains.length === 0).toBe(true)
            const left = [...bodies.values()].filter((body) => !body.isDraining).length - drains.length
            if (drains.length > 0) expect(left).toBeGreaterThanOrEqual(its.workersMin)
          },
        })
        for (const { at, jobs, everyMs, runMs, isLowPriority } of bursts)
          for (let n = 0; n < jobs; n += 1) world.submit(at + n * everyMs, runMs, isLowPriority)
        for (const at of kills) world.at(at, () => world.kill([...world.bodies.keys()].at(-1) ?? ''))
        world.runUntil(1_500_000)
        const counting = world.jobs.filter((job) => !job.isLowPriority)
        expect(counting.filter((job) => job.endedAt === undefined)).toEqual([])
        expect(world.bodies.size).toBe(its.workersMin)
      }),
      { numRuns: 60, examples: [[jobGivenBackToIdleWorkers]] },
    )
  })

  it('lets no job wait longer than the delay once what is needed can be had', () => {
    const steady = fc.record({
      seed: fc.integer(),
      perSecond: fc.double({ min: 0.2, max: 20, noNaN: true }),
      runMs: fc.integer({ min: 20, max: 20_000 }),
      startMs: fc.integer({ min: 100, max: 2_000 }),
    })
    fc.assert(
      fc.property(steady, ({ seed, perSecond, runMs, startMs }) => {
        const random = mulberry32(seed)
        const world = new FleetWorld({
          settings: { ...byDelay, workersMin: 1, workersMax: 1_000, idleTimeout: 30 },
          random,
          start: () => ({ readyMs: startMs }),
        })
        for (let at = 0; at < 300_000; at += -Math.log(1 - random()) * (1_000 / perSecond))
          world.submit(at, runMs)
        world.runUntil(400_000)
        // The first minute and a half finds out how long jobs run.
        const late = world.jobs.filter(
          ({ arrivedAt, startedAt = Infinity }) =>
            arrivedAt > 90_000 && startedAt - arrivedAt > 4_000 + startMs,
        )
        expect(late.length / world.jobs.length).toBeLessThan(0.005)
        const needed = (perSecond * runMs) / 1_000
        // No flapping: in five minutes of steady load, less than one start a minute for each worker that it needs.
        expect(world.counts.starts).toBeLessThan(20 + 4 * needed)
      }),
      { numRuns: 40 },
    )
  })
})
