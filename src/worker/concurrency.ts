// Asks the handler's definition now and then how many jobs should run at a time.

import type { Clock, Timer } from '../lib/clock.ts'
import type { WorkerEvents } from './events.ts'
import type { Executor } from './executor.ts'

export interface ConcurrencyOptions {
  executor: Pick<Executor, 'askConcurrency'>
  worker: { readonly concurrency: number; setConcurrency(concurrency: number): void }
  events: WorkerEvents
  clock: Clock
}

const ASK_EVERY_MS = 1_000

/** A question whose process died, or is busy, is asked again after so many seconds. */
const PATIENCE = 10

/** Asks once a second, one question at a time, until it is told to stop. A bad answer changes nothing. */
export function followConcurrency({ executor, worker, events, clock }: ConcurrencyOptions): () => void {
  let timer: Timer | undefined
  let unanswered = 0
  const ask = (): void => {
    if (unanswered % PATIENCE === 0) executor.askConcurrency(worker.concurrency)
    unanswered += 1
    timer = clock.after(ASK_EVERY_MS, ask, { background: true })
  }
  const take = ({ concurrency }: { concurrency?: number | undefined }): void => {
    unanswered = 0
    if (concurrency !== undefined) worker.setConcurrency(concurrency)
  }
  events.on('resized', take)
  ask()
  return () => {
    timer?.clear()
    events.off('resized', take)
  }
}
