import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { planFleet, type FleetView } from '../../src/fleet/rules/fleet-plan.ts'
import { surgeOf } from '../../src/fleet/rules/release-plan.ts'
import { mulberry32 } from '../support/dice.ts'
import { byDelay, NOW, queueWith, some } from '../support/fleet-views.ts'
import { FleetWorld } from '../support/fleet-world.ts'

/** A release of version 2 over version 1, with use for four workers. */
function plan(view: Partial<FleetView>) {
  return planFleet({
    now: NOW,
    settings: { ...byDelay, workersMax: 4 },
    queue: queueWith(),
    workers: [],
    demand: [{ at: NOW - 1, workers: 4 }],
    serving: 1,
    rolling: 2,
    newest: 2,
    backoffs: [],
    ...view,
  })
}

const startsOf = (view: Partial<FleetView>): string[] =>
  plan(view).starts.map(({ version, count }) => `${count} of ${version}`)
const drainsOf = (view: Partial<FleetView>): string[] => plan(view).drains.map(({ id }) => id)
const failed = (deaths: number) => [
  {
    version: 2,
    deaths,
    at: NOW - 10_000,
    until: NOW,
    reason: 'a worker died 2 s after its start: exit code 1',
  },
]

describe('a release', () => {
  it('begins with one worker of the new version, beside those that serve', () => {
    expect(startsOf({ workers: some(4, 'running') })).toEqual(['1 of 2'])
    expect(drainsOf({ workers: some(4, 'running') })).toEqual([])
  })

  it('drains none while the new one is starting', () => {
    const workers = [...some(4, 'idle'), ...some(1, 'starting', { version: 2, forMs: 5_000 })]
    expect([startsOf({ workers }), drainsOf({ workers })]).toEqual([[], []])
  })

  it('does not count a new one that has only just made its first poll', () => {
    const workers = [...some(4, 'idle'), ...some(1, 'idle', { version: 2, forMs: 1_999 })]
    expect([startsOf({ workers }), drainsOf({ workers })]).toEqual([[], []])
  })

  it('drains one old worker for each new one that has proved ready, idle ones first', () => {
    const workers = [...some(3, 'running'), ...some(1, 'idle'), ...some(1, 'idle', { version: 2 })]
    expect(plan({ workers }).drains).toEqual([{ id: 'idle-1.0', reason: 'of version 1, replaced by 2' }])
  })

  it('drains those with the fewest jobs where none is idle', () => {
    const workers = [
      ...some(3, 'running', { jobs: 5 }),
      { ...some(1, 'running', { jobs: 2 })[0]!, id: 'least' },
      ...some(1, 'running', { version: 2 }),
    ]
    expect(drainsOf({ workers })).toEqual(['least'])
  })

  it('starts twice as many as have proved ready, as far as there is room', () => {
    const settings = { ...byDelay, workersMax: 20 }
    const demand = [{ at: NOW, workers: 20 }]
    const old = some(20, 'running')
    const one = [...old.slice(0, 19), ...some(1, 'running', { version: 2 })]
    const three = [...old.slice(0, 17), ...some(3, 'running', { version: 2 })]
    expect(startsOf({ settings, demand, workers: one })).toEqual(['2 of 2'])
    // Six would double it twice; 20 and five more are the bound.
    expect(startsOf({ settings, demand, workers: three })).toEqual(['5 of 2'])
  })

  it('counts those that end after their last job into the bound', () => {
    const workers = [...some(3, 'running'), ...some(1, 'draining'), ...some(1, 'running', { version: 2 })]
    expect(startsOf({ workers })).toEqual([])
  })

  it('goes beyond workersMax by a quarter, and by one at least', () => {
    expect([0, 1, 3, 4, 8, 100].map(surgeOf)).toEqual([1, 1, 1, 1, 2, 25])
  })

  it('is COMPLETED when no older worker is left, not even one that is ending', () => {
    const own = some(4, 'running', { version: 2 })
    expect(plan({ workers: own }).release).toMatchObject({ state: 'COMPLETED', ready: 4, older: 0 })
    const last = plan({ workers: [...own, ...some(1, 'draining')] }).release
    expect(last?.state).toBe('ROLLING')
    expect(last?.reason).toBe(
      '4 workers of version 2 ready, 1 older left, 1 of them ending after their last job',
    )
  })

  it('tries the version with one worker where the endpoint sleeps', () => {
    const demand = [{ at: NOW, workers: 0 }]
    expect(startsOf({ demand })).toEqual(['1 of 2'])
    expect(plan({ demand, workers: some(1, 'idle', { version: 2 }) }).release?.state).toBe('COMPLETED')
  })

  it('starts what the load asks for at the version that serves until the new one has proved ready', () => {
    const settings = { ...byDelay, workersMax: 10, scalerType: 'REQUEST_COUNT' as const }
    const workers = some(2, 'running')
    expect(startsOf({ settings, workers, queue: queueWith({ waiting: 14 }) })).toEqual(['1 of 2', '2 of 1'])
  })

  it('is COMPLETED at once where workersMax is 0', () => {
    const settings = { ...byDelay, workersMax: 0 }
    expect(plan({ settings, demand: [] }).release?.state).toBe('COMPLETED')
  })
})

describe('a release that fails', () => {
  it('is STOPPED after three failed starts in a row, with the reason of the last', () => {
    expect(plan({ workers: some(4, 'running'), backoffs: failed(2) }).release?.state).toBe('ROLLING')
    expect(plan({ workers: some(4, 'running'), backoffs: failed(3) }).release).toMatchObject({
      state: 'STOPPED',
      reason:
        '3 workers of version 2 failed in a row; the last: a worker died 2 s after its start: exit code 1. Version 1 goes on serving',
    })
  })

  it('says so in whole sentences, also where the reason is one', () => {
    const backoffs = failed(3).map((backoff) => ({ ...backoff, reason: 'Exited with code 1.' }))
    const { release } = plan({ workers: some(4, 'running'), backoffs })
    expect(release?.reason).toMatch(/; the last: Exited with code 1\. Version 1 goes on serving$/)
  })

  it('is STOPPED when its first worker is not ready at the deadline, which ends that worker', () => {
    const workers = [...some(4, 'running'), ...some(1, 'starting', { version: 2, forMs: 300_000 })]
    const { release, ends } = plan({ workers })
    expect(release).toMatchObject({
      state: 'STOPPED',
      reason: 'worker starting-2.0 was not ready 300 s after its start. Version 1 goes on serving',
    })
    expect(ends.map(({ id }) => id)).toEqual(['starting-2.0'])
  })

  it('survives single losses where many workers have proved ready', () => {
    const settings = { ...byDelay, workersMax: 40 }
    const workers = [...some(10, 'running'), ...some(30, 'running', { version: 2 })]
    expect(plan({ settings, workers, backoffs: failed(3) }).release?.state).toBe('ROLLING')
  })

  it('starts no more than one at a time once a worker of it died', () => {
    const settings = { ...byDelay, workersMax: 40 }
    const workers = [...some(4, 'running'), ...some(2, 'idle', { version: 2, forMs: 5_000 })]
    expect(startsOf({ settings, workers, backoffs: failed(1) })).toEqual(['1 of 2'])
    expect(drainsOf({ settings, workers, backoffs: failed(1) })).toEqual([])
  })

  it('leaves its workers to be replaced by the version that serves, no faster than that is ready', () => {
    const stopped = { rolling: undefined }
    const mixed = [...some(2, 'running'), ...some(2, 'running', { version: 2 })]
    expect(startsOf({ ...stopped, workers: mixed })).toEqual(['1 of 1'])
    expect(drainsOf({ ...stopped, workers: mixed })).toEqual([])
    const enough = [...some(3, 'running'), ...some(2, 'running', { version: 2 })]
    expect(drainsOf({ ...stopped, workers: enough })).toEqual(['running-2.0'])
  })

  it('loses those of its workers that are starting', () => {
    const workers = [...some(4, 'running'), ...some(1, 'starting', { version: 2 })]
    expect(drainsOf({ rolling: undefined, workers })).toEqual(['starting-2.0'])
  })
})

describe('a newer update', () => {
  it('supersedes a release', () => {
    expect(plan({ workers: some(4, 'running'), newest: 3 }).release).toMatchObject({
      state: 'SUPERSEDED',
      reason: 'version 3 began before this one was done',
    })
  })

  it('drains what the superseded one was starting, and keeps what had proved ready', () => {
    const workers = [
      ...some(2, 'running'),
      ...some(2, 'running', { version: 2 }),
      ...some(1, 'starting', { version: 2, forMs: 5_000 }),
    ]
    const next = { workers, rolling: 3, newest: 3 }
    expect(drainsOf(next)).toEqual(['starting-2.0'])
    expect(startsOf({ ...next, workers: workers.slice(0, 4) })).toEqual(['1 of 3'])
  })
})

/** How the workers of a version fare. */
const kinds = ['good', 'good', 'slow', 'dies at start', 'never ready', 'dies of jobs'] as const
type Kind = (typeof kinds)[number]

function lifeOf(kind: Kind, random: () => number) {
  return {
    good: { readyMs: 500 + random() * 4_000 },
    slow: { readyMs: 20_000 + random() * 20_000 },
    'dies at start': { deathMs: 100 + random() * 3_000 },
    'never ready': {},
    'dies of jobs': { readyMs: 1_000, diesOnJob: true },
  }[kind]
}

describe('over any updates and traffic', () => {
  const story = fc.record({
    seed: fc.integer(),
    workersMin: fc.integer({ min: 0, max: 6 }),
    more: fc.integer({ min: 1, max: 20 }),
    perSecond: fc.double({ min: 0, max: 2, noNaN: true }),
    runMs: fc.integer({ min: 10, max: 5_000 }),
    updates: fc.array(
      fc.record({ at: fc.integer({ min: 60_000, max: 200_000 }), kind: fc.constantFrom(...kinds) }),
      { minLength: 1, maxLength: 4 },
    ),
    isDeadly: fc.boolean(),
  })

  it('keeps the bounds and the capacity, ends every release, and loses no job', () => {
    fc.assert(
      fc.property(story, ({ seed, workersMin, more, perSecond, runMs, updates, isDeadly }) => {
        const random = mulberry32(seed)
        const settings = { ...byDelay, workersMin, workersMax: workersMin + more }
        const ordered = updates.toSorted((a, b) => a.at - b.at)
        const kindOf = (version: number): Kind => ordered[version - 2]?.kind ?? 'good'
        const isPeaceful = !isDeadly && ordered.every(({ kind }) => kind !== 'dies of jobs')
        let hadMin = false
        const world = new FleetWorld({
          settings,
          random,
          start: (version) => lifeOf(kindOf(version), random),
          orderMs: () => random() * 2_000,
          onTick: (its, { starts, drains, ends }) => {
            const count = starts.reduce((sum, start) => sum + start.count, 0)
            const top = settings.workersMax + surgeOf(settings.workersMax)
            if (count > 0) expect(its.bodies.size + count).toBeLessThanOrEqual(top)
            for (const { id } of ends) expect(its.bodies.get(id)?.readyAt).toBeUndefined()
            const isSettled =
              its.releases.at(-1)?.state !== 'ROLLING' && its.ready(its.serving) === its.ready()
            if (isSettled) for (const { id } of drains) expect(its.bodies.get(id)?.jobs.size).toBe(0)
            hadMin ||= its.ready() >= workersMin
            const left =
              its.ready() - drains.filter(({ id }) => its.bodies.get(id)?.readyAt !== undefined).length
            if (hadMin && isPeaceful) expect(left).toBeGreaterThanOrEqual(workersMin)
          },
        })
        const everyMs = perSecond > 0 ? 1_000 / perSecond : Infinity
        for (let at = 0; at < 250_000; at += everyMs) world.submit(at, runMs)
        ordered.forEach(({ at }) => world.update(at))
        if (isDeadly)
          for (let at = 20_000; at < 250_000; at += 40_000)
            world.at(at, () => world.kill([...world.bodies.keys()].at(Math.floor(random() * 9)) ?? ''))
        world.runUntil(settings.workersMax < 4 ? 3_500_000 : 1_500_000)

        expect(world.releases.map(({ state }) => state)).not.toContain('ROLLING')
        const last = world.releases.at(-1)
        const kind = kindOf(last?.version ?? 1)
        if (!isDeadly && kind === 'good') expect(last?.state).toBe('COMPLETED')
        if (kind === 'dies at start' || kind === 'never ready') expect(last?.state).toBe('STOPPED')
        // Whatever is left in the end is of the version that serves.
        expect([...world.bodies.values()].filter(({ version }) => version !== world.serving)).toEqual([])
        if (kindOf(world.serving) !== 'dies of jobs') {
          expect(world.jobs.filter(({ endedAt }) => endedAt === undefined)).toEqual([])
          expect(world.bodies.size).toBe(workersMin)
        }
      }),
      {
        numRuns: 40,
        // A release whose workers were killed after it had proved ready was never over.
        examples: [
          [
            {
              seed: 0,
              workersMin: 2,
              more: 1,
              perSecond: 0,
              runMs: 10,
              updates: [{ at: 70_001, kind: 'slow' }],
              isDeadly: true,
            },
          ],
        ],
      },
    )
  })
})
