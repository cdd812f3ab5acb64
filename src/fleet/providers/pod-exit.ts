// How a pod ended, and the words for it.

import { constants } from 'node:os'
import { z } from 'zod'

export const podExitSchema = z.object({
  /** 128 and the signal's number when a signal ended it; null where nobody could see it end. */
  code: z.int().nullable(),
  signal: z.string().nullable(),
  reason: z.enum(['exited', 'signal', 'outOfMemory', 'unknown']),
  /** Whether it was asked to. */
  wasStopped: z.boolean(),
})
export type PodExit = z.output<typeof podExitSchema>

/** The code as a shell or a container engine tells it: above 128 it stands for a signal. */
export function exitFrom(
  code: number | null,
  { isOverMemory, wasStopped }: { isOverMemory: boolean; wasStopped: boolean },
): PodExit {
  const signal = signalOf(code)
  const isKilledForMemory = isOverMemory && signal === 'SIGKILL' && !wasStopped
  if (code === null) return { code, signal, reason: 'unknown', wasStopped }
  return {
    code,
    signal,
    reason: isKilledForMemory ? 'outOfMemory' : signal ? 'signal' : 'exited',
    wasStopped,
  }
}

export function codeOfSignal(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal]
}

function signalOf(code: number | null): string | null {
  const found = Object.entries(constants.signals).find(([, number]) => 128 + number === code)
  return found?.[0] ?? null
}

/** For the record of the pod: one sentence. */
export function exitWords(exit: PodExit): string {
  switch (exit.reason) {
    case 'outOfMemory':
      return 'Ended by the kernel: it used more memory than it may. Give it more, or let it use less.'
    case 'signal':
      return `Ended by ${exit.signal}${exit.wasStopped ? ', as it was asked to' : ''}.`
    case 'exited':
      return `Exited with code ${exit.code}${exit.wasStopped ? ', as it was asked to' : ''}.`
    default:
      return 'Ended out of sight: it was started by an earlier run of the service, so its exit code is not known. See its log.'
  }
}
