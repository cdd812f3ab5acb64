// What a Redis says of itself, held against what the promises need.

import { systemClock } from '../../lib/clock.ts'
import { shownStore } from '../shown-store.ts'
import { ageProblem, evictionProblem, valueOf } from './check-servers.ts'
import { Connection } from './connection.ts'
import { allScripts } from './redis-store.ts'

const MOST_APART_MS = 1_000

/** Throws StoreError when nobody answers. */
export async function examineRedis(url: string): Promise<string[]> {
  const connection = await Connection.open({ url })
  try {
    const answers = await Promise.all([
      connection.info('server').then((all) => all.map(ageProblem)),
      connection.info('persistence').then((all) => all.map(persistenceProblem)),
      fsyncProblems(connection),
      connection.info('memory').then((all) => all.map(evictionProblem)),
      connection.info('replication').then((all) => all.map(roleProblem)),
      clockProblem(connection),
    ])
    // Last: a server that is too old cannot read them.
    const problems = [...answers.flat(), await scriptProblem(connection)]
    return [...new Set(problems.filter((one) => one !== undefined))].map(
      (problem) => `The store ${shownStore(url)} ${problem}`,
    )
  } finally {
    await connection.close()
  }
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

async function fsyncProblems(connection: Connection): Promise<(string | undefined)[]> {
  try {
    return (await connection.settings('appendfsync')).map(fsyncProblem)
  } catch {
    // Who rents a server may not read its settings; what it promises is in the contract.
    return []
  }
}

function fsyncProblem(appendfsync: string): string | undefined {
  if (appendfsync === 'always') return undefined
  const lost = appendfsync === 'everysec' ? 'the last second or two' : 'the last half minute or so'
  return `has appendfsync '${appendfsync}' (a warning): a power cut loses ${lost} of submissions and results that were answered. Set it to 'always' where that may not be.`
}

function roleProblem(replication: string): string | undefined {
  const role = valueOf(replication, 'role')
  return role === undefined || role === 'master'
    ? undefined
    : 'is a replica and takes no writes. Name its master.'
}

async function clockProblem(connection: Connection): Promise<string | undefined> {
  const before = systemClock.now()
  const [seconds, micros] = (await connection.call('time')) as Buffer[]
  const here = (before + systemClock.now()) / 2
  const aheadMs = Math.round(Number(seconds) * 1000 + Number(micros) / 1000 - here)
  if (Math.abs(aheadMs) <= MOST_APART_MS) return undefined
  return `has a clock that is ${Math.abs(aheadMs)} ms ${aheadMs > 0 ? 'ahead of' : 'behind'} this machine's. Have both keep time (NTP).`
}

async function scriptProblem(connection: Connection): Promise<string | undefined> {
  try {
    await connection.load(allScripts)
    return undefined
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    return `does not take the scripts: ${why.replace(/\.$/, '')}. Allow this user EVAL, EVALSHA and SCRIPT LOAD.`
  }
}
