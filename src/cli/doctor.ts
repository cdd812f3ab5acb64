// longshore doctor: says what is wrong with what is set here, and nothing when nothing is.

import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { resolve, type Resolved, type Sources } from '../config/resolve.ts'
import { systemClock } from '../lib/clock.ts'
import { freeBytes, LEAST_FREE_BYTES } from '../lib/disk.ts'
import { problem, warning, type Finding } from '../lib/finding.ts'
import { handlerEnv, meansHosted, missingOf, namesQueue, readHosted } from '../worker/config.ts'
import { examineNamedBucket, namesBucket } from './doctor/bucket.ts'
import { examineLiveSocket } from './doctor/live-socket.ts'
import { examineDevStore, examineNamedStore, examineStoreKey, fileOf } from './doctor/store.ts'
import { isForPeople, StuckError, type CommandError } from './fail.ts'
import { gather, type Flags } from './sources.ts'

/** A line on stdout for what is found; exit code 1 when a problem among it stays. Warnings alone leave it 0. */
export async function doctor(flags: Flags, { fixes }: { fixes: boolean }): Promise<void> {
  const { sources, findings: ofFile, isStuck } = await gatherAll(flags)
  const resolved = resolve(sources)
  const findings = [
    ...ofFile,
    ...resolved.problems.map((sentence) => problem(sentence)),
    ...resolved.warnings.map(warning),
    ...(await Promise.all(checksFor(sources, resolved))).flat(),
  ]
  for (const finding of findings) {
    const done = fixes ? mended(finding) : finding
    if (done.level === 'problem') process.exitCode = 1
    process.stdout.write(`${lineOf(done)}\n`)
  }
  if (isStuck) process.exit()
}

interface Line extends Omit<Finding, 'level'> {
  level: Finding['level'] | 'fixed'
}

/** A mend that fails leaves the problem, and those behind it are told too. */
function mended(finding: Finding): Line {
  const { fix, sentence } = finding
  if (!fix) return finding
  try {
    fix.apply()
    return { level: 'fixed', sentence: fix.done }
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    return { level: 'problem', sentence: `${sentence} It could not be mended: ${why}.` }
  }
}

function lineOf({ level, sentence }: Line): string {
  return { problem: '', warning: 'Warning: ', fixed: 'Fixed: ' }[level] + sentence
}

/** A config file that cannot be read is one more problem; the rest is looked at without it. */
async function gatherAll(flags: Flags): Promise<{ sources: Sources; findings: Finding[]; isStuck: boolean }> {
  try {
    return { sources: await gather(flags), findings: [], isStuck: false }
  } catch (cause) {
    if (!isForPeople(cause)) throw cause
    const { config: _, ...others } = flags
    const sources = { flags: others, env: process.env }
    return { sources, findings: [problem(oneLine(cause))], isStuck: cause instanceof StuckError }
  }
}

function oneLine({ message }: CommandError): string {
  return message.replaceAll('\n', ' ')
}

/** What is looked at is what is set: a service has a store, a worker a handler or a queue. */
function checksFor(sources: Sources, resolved: Resolved): Promise<Finding[]>[] {
  const ofWorker = workerChecks(sources, resolved)
  const { values, origins } = resolved
  const hasService =
    origins.store !== undefined || origins.port !== undefined || existsSync(fileOf(values.store) ?? '')
  return [...(hasService || ofWorker.length === 0 ? serviceChecks(resolved) : []), ...ofWorker]
}

function serviceChecks({ values, origins }: Resolved): Promise<Finding[]>[] {
  const { store, redisWait = 0, port, host, secretKey } = values
  const checks: Promise<Finding[]>[] = []
  if (store !== undefined) {
    const replicas = redisWait
    checks.push(examineNamedStore(store, { replicas }))
    if (secretKey === undefined) checks.push(examineStoreKey(store))
  }
  if (secretKey !== undefined) {
    const origin = origins.secretKey ?? 'LONGSHORE_SECRET_KEY'
    checks.push(import('./secret-key.ts').then((its) => its.examineSecret(secretKey, origin)))
  }
  if (port !== undefined && port > 0 && host !== undefined) {
    const flags = { host: '--host', port: '--port' }
    const ours = { path: '/openapi.json', has: '"title":"Longshore' }
    checks.push(import('./doctor/port.ts').then((its) => its.examinePort({ host, port, flags, ours })))
  }
  return checks
}

function workerChecks(sources: Sources, resolved: Resolved): Promise<Finding[]>[] {
  const { values } = resolved
  const { handler, importTimeoutMs = 0, setupTimeoutMs = 0, healthPort, healthHost } = values
  const checks: Promise<Finding[]>[] = []
  if (handler !== undefined) {
    const env = handlerEnv(process.env, values)
    const settings = { handlerPath: handler, env, importTimeoutMs, setupTimeoutMs }
    checks.push(import('./doctor/handler.ts').then((its) => its.examineHandler(settings)))
  }
  if (namesQueue(sources)) checks.push(examineNamedQueue(sources, resolved))
  if (checks.length > 0) checks.push(Promise.resolve(scratchFindings()))
  if (healthPort !== undefined && healthPort > 0 && healthHost !== undefined) {
    const flags = { host: '--health-host', port: '--health-port' }
    const ours = { path: '/metrics', has: 'longshore_worker_' }
    const port = { host: healthHost, port: healthPort, flags, ours }
    checks.push(import('./doctor/port.ts').then((its) => its.examinePort(port)))
  }
  if (values.liveSocket !== undefined) {
    const origin = resolved.origins.liveSocket ?? 'LONGSHORE_LIVE_SOCKET'
    checks.push(Promise.resolve(examineLiveSocket(values.liveSocket, origin)))
  }
  if (resolved.origins.devStore !== undefined) checks.push(examineDevStore(values.devStore))
  if (namesBucket(resolved)) checks.push(examineNamedBucket(resolved))
  return checks
}

async function examineNamedQueue(sources: Sources, { values, origins }: Resolved): Promise<Finding[]> {
  const { examineOrigin, examineQueue } = await import('./doctor/queue.ts')
  if (meansHosted(sources)) {
    const { values: hosted, problems } = readHosted(sources.env)
    if (!hosted) return problems.map((sentence) => problem(sentence))
    return examineOrigin(hosted.RUNPOD_WEBHOOK_GET_JOB)
  }
  const missing = missingOf(sources)
  if (missing.length > 0) return missing.map((sentence) => problem(sentence))
  const { endpointUrl, workerToken } = values
  // What is set and wrong was told.
  if (endpointUrl === undefined || workerToken === undefined) return []
  return examineQueue({ endpointUrl, workerToken, origins, clock: systemClock })
}

function scratchFindings(): Finding[] {
  const free = freeBytes(tmpdir())
  if (free >= LEAST_FREE_BYTES) return []
  const left = `${Math.floor(free / 1_000_000)} MB`
  return [problem(`The disk of ${tmpdir()}, where jobs have their files, has ${left} left. Free some.`)]
}
