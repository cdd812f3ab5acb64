// How the scaler and the release plan fare with hours of traffic on thousands of workers: the real code on a model's clock.
//
//   npm run bench:fleet
//
// Prints delays, cost and movements of each scenario, and draws docs/fleet/*.svg.

import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import type { ScalingSettings } from '../src/fleet/rules/scaler.ts'
import { mulberry32 } from '../test/support/dice.ts'
import { FleetWorld, type WorldOptions } from '../test/support/fleet-world.ts'
import { drawPlot, type Point } from './fleet-plot.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE

const settings: ScalingSettings = {
  workersMin: 0,
  workersMax: 1_000,
  idleTimeout: 60,
  scalerType: 'QUEUE_DELAY',
  scalerValue: 4,
}

interface Scenario {
  name: string
  title: string
  settings: ScalingSettings
  hours: number
  /** Endpoints with the same traffic, a quarter of the time apart each. */
  endpoints?: number
  /** Jobs a second at that time. */
  rate: (at: number) => number
  meanRunMs: number
  start: (version: number, random: () => number) => ReturnType<WorldOptions['start']>
  updates?: number[]
}

const boots = (random: () => number) => ({ readyMs: 2_000 + 6_000 * random() })

/** A day of an office in two hours: little, a rise, a dip at noon, a fall. As shares of the peak, one per ten minutes. */
const day = [0.02, 0.02, 0.05, 0.3, 0.8, 1, 0.7, 0.9, 1, 0.6, 0.2, 0.05]

function dayShare(at: number): number {
  const place = (at / (10 * MINUTE)) % day.length
  const [from = 0, to = 0] = [day[Math.floor(place)], day[Math.ceil(place) % day.length]]
  return from + (to - from) * (place % 1)
}

/** Every ten minutes 30 s of much, and next to nothing between. */
const bursts = (at: number): number => (at % (10 * MINUTE) < 30_000 ? 100 : 0.05)

const scenarios: Scenario[] = [
  {
    name: 'bursts',
    title: 'Bursts of 3,000 jobs of 2 s every ten minutes, from zero workers',
    settings: { ...settings, workersMax: 500 },
    hours: 2,
    rate: bursts,
    meanRunMs: 2_000,
    start: (_, random) => boots(random),
  },
  {
    name: 'bursts-short-idle',
    title: 'The same bursts with an idleTimeout of 5 s',
    settings: { ...settings, workersMax: 500, idleTimeout: 5 },
    hours: 2,
    rate: bursts,
    meanRunMs: 2_000,
    start: (_, random) => boots(random),
  },
  {
    name: 'diurnal',
    title: 'Four endpoints through a day of two hours, jobs of 10 s',
    settings,
    hours: 2,
    endpoints: 4,
    rate: (at) => 70 * dayShare(at),
    meanRunMs: 10_000,
    start: (_, random) => boots(random),
  },
  {
    name: 'release',
    title: 'A release over 400 workers under load, at 10 minutes',
    settings: { ...settings, workersMin: 20, workersMax: 600 },
    hours: 0.5,
    rate: () => 40,
    meanRunMs: 10_000,
    start: (_, random) => boots(random),
    updates: [10 * MINUTE],
  },
  {
    name: 'stuck-release',
    title: 'The same with a version that never becomes ready',
    settings: { ...settings, workersMin: 20, workersMax: 600 },
    hours: 0.5,
    rate: () => 40,
    meanRunMs: 10_000,
    start: (version, random) => (version === 2 ? {} : boots(random)),
    updates: [10 * MINUTE],
  },
  {
    name: 'bad-release',
    title: 'The same with a version that dies of its first job, and a good one at 20 minutes',
    settings: { ...settings, workersMin: 20, workersMax: 600 },
    hours: 0.5,
    rate: () => 40,
    meanRunMs: 10_000,
    start: (version, random) => ({ ...boots(random), diesOnJob: version === 2 }),
    updates: [10 * MINUTE, 20 * MINUTE],
  },
]

interface Outcome {
  jobs: number
  delays: number[]
  /** Those after the first five minutes, in which everything is started. */
  laterDelays: number[]
  workerSeconds: number
  jobSeconds: number
  starts: number
  drains: number
  deaths: number
  most: number
  workers: Point[]
  delay: Point[]
  stories: string[]
}

const EVERY_MS = 10_000

function simulate(scenario: Scenario, seed: number, shiftMs: number): Outcome {
  const random = mulberry32(seed)
  const workers: Point[] = []
  let most = 0
  const world = new FleetWorld({
    settings: scenario.settings,
    random,
    start: (version) => scenario.start(version, random),
    orderMs: () => random() * 1_000,
    onTick: ({ now, bodies }) => {
      most = Math.max(most, bodies.size)
      if (now % EVERY_MS === 0) workers.push({ x: now / MINUTE, y: bodies.size })
    },
  })
  const end = scenario.hours * HOUR
  // Each arrival makes the next, so that not all of them are there at once.
  const arrive = (at: number): void =>
    world.at(at, () => {
      world.submit(at, -Math.log(1 - random()) * scenario.meanRunMs)
      arrive(nextArrival(at))
    })
  const peak = Math.max(...Array.from({ length: 7_200 }, (_, second) => scenario.rate(second * 1_000)))
  const nextArrival = (from: number): number => {
    let at = from
    do at += (-Math.log(1 - random()) * 1_000) / peak
    while (at < end && random() * peak > scenario.rate(at + shiftMs))
    return at
  }
  arrive(nextArrival(0))
  scenario.updates?.forEach((at) => world.update(at))
  world.runUntil(end)
  for (const body of world.bodies.values()) world.workerSeconds += (end - body.startedAt) / 1_000
  const delaysAfter = (from: number): number[] =>
    world.jobs.flatMap(({ arrivedAt, startedAt }) =>
      startedAt === undefined || arrivedAt < from ? [] : [(startedAt - arrivedAt) / 1_000],
    )
  const delays = delaysAfter(0)
  return {
    jobs: world.jobs.length,
    delays,
    laterDelays: delaysAfter(5 * MINUTE),
    workerSeconds: world.workerSeconds,
    jobSeconds: world.jobSeconds,
    ...world.counts,
    most,
    workers,
    delay: delayOverTime(world),
    stories: world.releases.map(
      ({ version, state, startedAt, endedAt = end, reason }) =>
        `version ${version} ${state} after ${(endedAt - startedAt) / 1_000} s: ${reason}`,
    ),
  }
}

/** The 99th percentile of what arrived within each ten seconds. */
function delayOverTime({ jobs }: FleetWorld): Point[] {
  const slices = new Map<number, number[]>()
  for (const { arrivedAt, startedAt } of jobs) {
    if (startedAt === undefined) continue
    const slice = Math.floor(arrivedAt / EVERY_MS)
    const delays = slices.get(slice) ?? []
    slices.set(slice, delays)
    delays.push((startedAt - arrivedAt) / 1_000)
  }
  return [...slices].map(([slice, delays]) => ({
    x: (slice * EVERY_MS) / MINUTE,
    y: percentile(delays, 0.99),
  }))
}

function percentile(values: number[], share: number): number {
  values.sort((a, b) => a - b)
  return values[Math.min(values.length - 1, Math.floor(values.length * share))] ?? 0
}

function sum(outcomes: Outcome[], of: (outcome: Outcome) => number): number {
  return outcomes.reduce((total, outcome) => total + of(outcome), 0)
}

/** Adds up what endpoints have, or takes the worst of them. */
function together(series: Point[][], join: (a: number, b: number) => number): Point[] {
  const all = new Map<number, number>()
  for (const { x, y } of series.flat()) all.set(x, join(all.get(x) ?? 0, y))
  return [...all].map(([x, y]) => ({ x, y })).toSorted((a, b) => a.x - b.x)
}

const number = (value: number, digits = 0): string =>
  value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits })

const folder = new URL('../docs/fleet/', import.meta.url)
mkdirSync(folder, { recursive: true })
const began = performance.now()
process.stdout.write(
  `Node ${process.versions.node}, ${cpus().length} x ${cpus()[0]?.model ?? 'unknown'}, seed 1\n`,
)
process.stdout.write(
  '| scenario | jobs | most workers | delay p50 | p99 | max | p99 after 5 min | worker-seconds | of the work itself | starts | drains | deaths |\n',
)
for (const scenario of scenarios) {
  const { endpoints = 1 } = scenario
  const outcomes = Array.from({ length: endpoints }, (_, n) =>
    simulate(scenario, n + 1, (n * scenario.hours * HOUR) / 4 / endpoints),
  )
  const delays = outcomes.flatMap((outcome) => outcome.delays)
  const laterDelays = outcomes.flatMap((outcome) => outcome.laterDelays)
  const used = sum(outcomes, ({ workerSeconds }) => workerSeconds)
  const work = sum(outcomes, ({ jobSeconds }) => jobSeconds)
  const workers = together(
    outcomes.map((outcome) => outcome.workers),
    (a, b) => a + b,
  )
  const cells = [
    scenario.name,
    number(sum(outcomes, ({ jobs }) => jobs)),
    number(Math.max(...workers.map(({ y }) => y), ...outcomes.map(({ most }) => most))),
    `${number(percentile(delays, 0.5), 1)} s`,
    `${number(percentile(delays, 0.99), 1)} s`,
    `${number(percentile(delays, 1), 1)} s`,
    `${number(percentile(laterDelays, 0.99), 1)} s`,
    number(used),
    `${number(used / work, 2)} x`,
    number(sum(outcomes, ({ starts }) => starts)),
    number(sum(outcomes, ({ drains }) => drains)),
    number(sum(outcomes, ({ deaths }) => deaths)),
  ]
  process.stdout.write(`| ${cells.join(' | ')} |\n`)
  for (const story of outcomes.flatMap(({ stories }) => stories)) process.stdout.write(`  ${story}\n`)
  const delay = together(
    outcomes.map((outcome) => outcome.delay),
    Math.max,
  )
  const marks = (scenario.updates ?? []).map((at) => at / MINUTE)
  writeFileSync(new URL(`${scenario.name}.svg`, folder), drawPlot(scenario.title, { workers, delay, marks }))
}
process.stdout.write(`${number((performance.now() - began) / 1_000, 1)} s\n`)
