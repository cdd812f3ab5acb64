// What a Redis says of itself, held against what the promises need.

import type { Clock } from '../../lib/clock.ts'
import { problem, warning, type Finding } from '../../lib/finding.ts'
import { shownStore } from '../shown-store.ts'
import { ageProblem, bulkProblem, evictionProblem, settingsOf, valueOf } from './check-servers.ts'
import { channelsOf, WAITED } from './channels.ts'
import { Connection } from './connection.ts'
import { checkUser } from './check-user.ts'
import { permissionProblem, refusalOf } from './refusals.ts'
import { allScripts, replicasProblem, versionProblem } from './redis-store.ts'
import { moveProblem } from './attendance.ts'
import { mendOf, wordsOf } from './trouble.ts'

const MOST_APART_MS = 1_000

export interface ExamineOptions {
  clock: Clock
  /** Replicas that every write is to wait for. */
  replicas: number
}

/** Throws StoreError when nobody answers. */
export async function examineRedis(url: string, options: ExamineOptions): Promise<Finding[]> {
  const connection = await Connection.open({ url })
  try {
    await checkUser(connection, options)
    return await examineServers(connection, url, options)
  } catch (cause) {
    const refusal = refusalOf(cause)
    if (!refusal) throw cause
    return [problem(`The store ${shownStore(url)} ${permissionProblem(refusal, connection.database)}`)]
  } finally {
    await connection.close()
  }
}

async function examineServers(
  connection: Connection,
  url: string,
  { clock, replicas }: ExamineOptions,
): Promise<Finding[]> {
  const shown = (words: readonly (string | undefined)[]): string[] =>
    [...new Set(words.filter((one) => one !== undefined))].map((one) => `The store ${shownStore(url)} ${one}`)
  const tooFew = await replicasProblem(connection, url, replicas)
  const [warnings, ...answers] = await Promise.all([
    promiseWarnings(connection, tooFew === undefined ? replicas : 0),
    connection.info('server').then((all) => all.map(ageProblem)),
    connection.info('persistence').then((all) => all.map(persistenceProblem)),
    connection.info('memory').then((all) => [...all.map(evictionProblem), ...all.map(fullProblem)]),
    settingsOf(connection, 'proto-max-bulk-len').then((all) => all.map(bulkProblem)),
    connection.info('replication').then((all) => all.map(roleProblem)),
    clockProblem(connection, clock),
  ])
  const said: readonly (string | undefined)[] = answers.flat()
  // What a server would do: where something is wrong already it would only say so again.
  const problems = tooFew !== undefined || said.some(Boolean) ? said : [await useProblem(connection)]
  const sentences = tooFew === undefined ? shown(problems) : [...shown(problems), tooFew]
  return [...sentences.map((one) => problem(one)), ...shown(warnings).map(warning)]
}

function persistenceProblem(persistence: string): string | undefined {
  if (valueOf(persistence, 'aof_enabled') === '0') {
    return 'keeps nothing of what it answered when it ends: appendonly is off. Set it with: redis-cli CONFIG SET appendonly yes, and in its configuration.'
  }
  if (valueOf(persistence, 'aof_last_write_status') === 'err') {
    return 'could not write its append-only file. Look at its log, and at the space on its disk.'
  }
  return undefined
}

async function promiseWarnings(connection: Connection, replicas: number): Promise<(string | undefined)[]> {
  const fsync = await settingsOf(connection, 'appendfsync')
  const onRewrite = await settingsOf(connection, 'no-appendfsync-on-rewrite')
  const least = replicas === 0 ? [] : await settingsOf(connection, 'min-replicas-to-write')
  return [
    ...fsync.map((appendfsync, at) => fsyncWarning(appendfsync) ?? rewriteWarning(onRewrite[at])),
    ...least.map((count) => cutOffWarning(Number(count), replicas)),
  ]
}

function fsyncWarning(appendfsync: string): string | undefined {
  if (appendfsync === 'always') return undefined
  const lost = appendfsync === 'everysec' ? 'the last second or two' : 'the last half minute or so'
  return `has appendfsync '${appendfsync}': a power cut loses ${lost} of submissions and results that were answered. Set it to 'always' where that may not be.`
}

function rewriteWarning(onRewrite: string | undefined): string | undefined {
  if (onRewrite !== 'yes') return undefined
  return `has no-appendfsync-on-rewrite 'yes': while its file is rewritten nothing is synced, and a power cut then loses the last half minute or so of what was answered. Set it with: redis-cli CONFIG SET no-appendfsync-on-rewrite no, and in its configuration.`
}

function cutOffWarning(least: number, replicas: number): string | undefined {
  if (!(least < replicas)) return undefined
  return `has min-replicas-to-write ${least}, and --redis-wait is ${replicas}: cut off from its replicas, it takes writes that a failover undoes. Set it with: redis-cli CONFIG SET min-replicas-to-write ${replicas}, and in its configuration.`
}

function roleProblem(replication: string): string | undefined {
  const role = valueOf(replication, 'role')
  return role === undefined || role === 'master'
    ? undefined
    : 'is a replica and takes no writes. Name its master.'
}

async function clockProblem(connection: Connection, clock: Clock): Promise<string | undefined> {
  const before = clock.now()
  const [seconds, micros] = (await connection.call('time')) as Buffer[]
  const here = (before + clock.now()) / 2
  const aheadMs = Math.round(Number(seconds) * 1000 + Number(micros) / 1000 - here)
  if (Math.abs(aheadMs) <= MOST_APART_MS) return undefined
  return `has a clock that is ${Math.abs(aheadMs)} ms ${aheadMs > 0 ? 'ahead of' : 'behind'} this machine's. Have both keep time (NTP).`
}

/** Without changing anything: what is deleted is not there, and nobody hears what is said. */
async function useProblem(connection: Connection): Promise<string | undefined> {
  try {
    const refusal = (await versionProblem(connection)) ?? (await moveProblem(connection))
    if (refusal !== undefined) return refusal
    await connection.load(allScripts)
    await connection.call('del', 'longshore:nothing')
    await connection.call('publish', WAITED, '')
    await connection.subscribe(channelsOf(connection.database), noop, noop)
    return undefined
  } catch (cause) {
    if (!(cause instanceof Error)) throw cause
    if (refusalOf(cause)) throw cause
    const why = cause.cause instanceof Error ? cause.cause : cause
    const mend = mendOf(why, connection.database)
    if (mend !== undefined) return mend
    return `takes no writes: ${wordsOf(why)}. Look at its log; see docs/operating.md for what each setting does.`
  }
}

function noop(): void {
  // Only whether it may be heard counts.
}

function fullProblem(memory: string): string | undefined {
  const [most, used] = [Number(valueOf(memory, 'maxmemory')), Number(valueOf(memory, 'used_memory'))]
  if (!(most > 0 && used >= most)) return undefined
  return `is full: ${used} of ${most} bytes are used, and submissions are refused. Raise maxmemory, or let jobs end.`
}
