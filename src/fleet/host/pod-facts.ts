// What becomes of a pod's record when something has happened to it. Each answers the very record where that is no longer so.

import type { StoredPod } from '../../resource/pod.ts'
import type { RunningPod } from '../providers/provider.ts'

/** The words of a pod that runs and of which nothing else is to be said. */
export const STARTED = 'started'

export function asStarted(pod: StoredPod, { startedAt, portMappings }: RunningPod): StoredPod {
  if (pod.endedAt !== undefined) return pod
  return {
    ...without(pod, 'failure'),
    startedAt,
    lastStartedAt: new Date(startedAt).toISOString(),
    lastStatusChange: pod.drain === undefined && !pod.isRestartAsked ? STARTED : pod.lastStatusChange,
    portMappings,
  }
}

/** Written before its start, so that a service which adopts it knows what it was told. */
export function asSentTo(pod: StoredPod, queueUrl: string): StoredPod {
  return pod.queueUrl === queueUrl ? pod : { ...pod, queueUrl }
}

/** It is counted on no more from now on, however long its end takes. */
export function asReplaced(pod: StoredPod, words: string): StoredPod {
  if (pod.desiredStatus !== 'RUNNING') return pod
  return { ...pod, desiredStatus: 'TERMINATED', lastStatusChange: `ending: ${words}` }
}

export function asStopped(pod: StoredPod): StoredPod {
  if (pod.desiredStatus !== 'EXITED') return pod
  return {
    ...without(pod, 'failure', 'isRestartAsked'),
    lastStatusChange: 'stopped as asked',
    portMappings: {},
  }
}

/** It has been stopped for that; whoever has asked again meanwhile gets the same start. */
export function asRestarted(pod: StoredPod): StoredPod {
  return {
    ...without(pod, 'failure', 'isRestartAsked'),
    lastStatusChange: 'stopped to be started again as asked',
    portMappings: {},
  }
}

/** It has ended by itself, and well. */
export function asResting(pod: StoredPod, words: string): StoredPod {
  if (pod.desiredStatus !== 'RUNNING' || pod.isRestartAsked) return pod
  return { ...without(pod, 'failure'), desiredStatus: 'EXITED', lastStatusChange: words, portMappings: {} }
}

export function asRetried(pod: StoredPod, { failure, at }: { failure: string; at: string }): StoredPod {
  if (pod.desiredStatus !== 'RUNNING') return pod
  const lastStatusChange = `${failure} It is started again at ${at}.`
  return { ...pod, failure, lastStatusChange, portMappings: {} }
}

export function asDraining(pod: StoredPod, reason: string): StoredPod {
  if (pod.drain !== undefined) return pod
  return { ...without(pod, 'isRestartAsked'), drain: reason }
}

/** Its service was told to end, and starts it again when it is back. */
export function asLeft(pod: StoredPod): StoredPod {
  if (pod.desiredStatus !== 'RUNNING') return pod
  return { ...pod, lastStatusChange: 'stopped with the service', portMappings: {} }
}

function without(pod: StoredPod, ...fields: ('failure' | 'isRestartAsked')[]): StoredPod {
  const copy = { ...pod }
  for (const field of fields) delete copy[field]
  return copy
}
