// What is to be done about one pod: its record against what really runs. Pure.

import { isDeepStrictEqual } from 'node:util'
import type { StoredPod } from '../../resource/pod.ts'
import { STARTED } from './pod-facts.ts'
import { exitWords } from '../providers/pod-exit.ts'
import type { EndedPod, RunningPod } from '../providers/provider.ts'

/** What really is there of a pod. */
export type PodRun =
  | { state: 'none' }
  /** `isOfBefore`: an earlier run of the service had started it. */
  | { state: 'running'; facts: RunningPod; isOfBefore: boolean }
  /** `isOfBefore`: it ended while no service looked. */
  | { state: 'ended'; end: EndedPod; isOfBefore: boolean }

export type Duty =
  | { do: 'nothing' }
  | { do: 'start' }
  /** What is true of its run goes to its record. */
  | { do: 'note'; facts: RunningPod }
  /** It is not to run, and may be started again. */
  | { do: 'stop' }
  /** Stopped, and then started like any other. */
  | { do: 'restart' }
  /** It has done what it was for. */
  | { do: 'rest'; words: string }
  /** It died, and is started again after a while. */
  | { do: 'retry'; end: EndedPod }
  /** A worker ends after its jobs, and another one takes its place. */
  | { do: 'drain'; reason: string }
  /** A worker of no use where it is: it ends now, and another one takes its place meanwhile. */
  | { do: 'replace'; words: string }
  /** For good; with a failure where nobody had told it to. */
  | { do: 'end'; words: string; failure?: string }

const AWAY = 'ended while the service was away'

/** `url`: where workers reach this service now. */
export function dutyOf(pod: StoredPod, run: PodRun, url: string): Duty {
  if (isAstray(pod, run, url))
    return { do: 'replace', words: `it reaches the service at another address: ${pod.queueUrl}, not ${url}` }
  if (run.state === 'running' && pod.desiredStatus === 'RUNNING' && !isNoted(pod, run.facts))
    return { do: 'note', facts: run.facts }
  return pod.endpointId === undefined ? ownDuty(pod, run) : workerDuty(pod, run)
}

/** Whether a start that is under way is still wanted. */
export function isToStart({ desiredStatus, drain, isRestartAsked }: StoredPod): boolean {
  return desiredStatus === 'RUNNING' && drain === undefined && !isRestartAsked
}

/** Whether its jobs are to be its last, and it still runs. */
export function isDraining(pod: StoredPod, run: PodRun): boolean {
  return (
    pod.endpointId !== undefined &&
    pod.desiredStatus === 'RUNNING' &&
    pod.drain !== undefined &&
    run.state === 'running'
  )
}

export function drainWords(pod: StoredPod): string {
  return `drained: ${pod.drain}`
}

/** A worker is never started twice. */
function workerDuty(pod: StoredPod, run: PodRun): Duty {
  const { desiredStatus, drain, failure, endedAt, lastStatusChange } = pod
  // Begun before, and not brought to its end.
  if (endedAt !== undefined)
    return { do: 'end', words: lastStatusChange, ...(failure !== undefined && { failure }) }
  if (desiredStatus !== 'RUNNING')
    return failure === undefined ? { do: 'end', words: 'ended as asked' } : failed(failure)
  if (drain !== undefined)
    return run.state === 'running' ? { do: 'nothing' } : { do: 'end', words: drainWords(pod) }
  if (pod.isRestartAsked) return { do: 'drain', reason: 'another one was asked for in its place' }
  if (run.state === 'running') return { do: 'nothing' }
  if (run.state === 'ended') return deathOf(run)
  return pod.startedAt === undefined ? { do: 'start' } : failed(AWAY)
}

function ownDuty(pod: StoredPod, run: PodRun): Duty {
  const { desiredStatus, portMappings, failure, isRestartAsked } = pod
  if (desiredStatus === 'TERMINATED') return { do: 'end', words: 'ended as asked' }
  if (desiredStatus === 'EXITED') {
    const isNew = run.state === 'running' || (run.state === 'ended' && !run.isOfBefore)
    const isStale = isRestartAsked === true || failure !== undefined || Object.keys(portMappings).length > 0
    return isNew || isStale ? { do: 'stop' } : { do: 'nothing' }
  }
  if (isRestartAsked) return { do: 'restart' }
  if (run.state === 'running') return { do: 'nothing' }
  if (run.state === 'none' || run.isOfBefore || run.end.exit.wasStopped) return { do: 'start' }
  const { exit } = run.end
  return exit.code === 0 ? { do: 'rest', words: exitWords(exit) } : { do: 'retry', end: run.end }
}

function deathOf({ end: { exit }, isOfBefore }: Extract<PodRun, { state: 'ended' }>): Duty {
  if (!isOfBefore) return failed(exitWords(exit))
  // Asked to by a service that did not live to write it down.
  if (exit.wasStopped) return { do: 'end', words: 'ended with the service' }
  return failed(exit.reason === 'unknown' ? AWAY : `${AWAY}: ${exitWords(exit)}`)
}

function failed(failure: string): Duty {
  return { do: 'end', words: failure, failure }
}

/** It polls where nobody answers, or somebody else does. */
function isAstray({ endpointId, endedAt, queueUrl }: StoredPod, run: PodRun, url: string): boolean {
  const isLiving = endpointId !== undefined && endedAt === undefined && run.state === 'running'
  return isLiving && queueUrl !== undefined && queueUrl !== url
}

/** Whether its record says of its run what is so, and nothing that was so before. */
function isNoted(pod: StoredPod, { startedAt, portMappings }: RunningPod): boolean {
  const isSaid = pod.lastStatusChange === STARTED || !isToStart(pod)
  const isSame = pod.startedAt === startedAt && isDeepStrictEqual(pod.portMappings, portMappings)
  return isSame && isSaid && pod.failure === undefined
}
