// The worker of `longshore dev`: leases from its first good load on, as many jobs as the handler of the moment wants.

import { randomUUID } from 'node:crypto'
import { ExchangeClient } from '../client/exchange-client.ts'
import { systemClock as clock } from '../lib/clock.ts'
import { followConcurrency } from '../worker/concurrency.ts'
import type { WorkerEvents } from '../worker/events.ts'
import type { Executor } from '../worker/executor.ts'
import { Worker } from '../worker/worker.ts'

export interface DevWorkerOptions {
  executor: Executor
  /** Where the worker runs its jobs: the same, with somebody looking on. */
  board: Pick<Executor, 'run'>
  events: WorkerEvents
  endpointUrl: string
  key: string
  killGraceMs: number
}

export interface DevWorker {
  /** Its jobs are stopped and handed back. Resolves when it has told the queue. */
  close(): Promise<void>
}

export function startDevWorker(options: DevWorkerOptions): DevWorker {
  const { executor, board, events, endpointUrl, key, killGraceMs } = options
  const link = new ExchangeClient({ endpointUrl, token: key, workerId: `dev-${randomUUID()}` })
  const worker = new Worker({ link, executor: board, clock, events, concurrency: 1, drainMs: 0, killGraceMs })
  worker.left.catch(() => undefined)
  let wanted = 1
  // Jobs of the version before do not keep those of this one waiting.
  const fit = (): void => worker.setConcurrency(wanted + executor.outdatedRuns)
  const set = (concurrency: number): void => {
    wanted = concurrency
    fit()
  }
  let unfollow: (() => void) | undefined
  let hasStarted = false
  const take = (): void => {
    unfollow?.()
    unfollow = undefined
    set(executor.facts?.concurrency ?? 1)
    if (!hasStarted) worker.start()
    hasStarted = true
    const followed = {
      get concurrency() {
        return wanted
      },
      setConcurrency: set,
    }
    if (executor.facts?.resizes) unfollow = followConcurrency({ executor, worker: followed, events, clock })
    if (executor.facts?.problem !== undefined) events.emit('resized', { problem: executor.facts.problem })
  }
  events.on('ended', fit)
  events.on('loaded', take)
  if (executor.facts) take()
  return {
    async close() {
      events.off('ended', fit).off('loaded', take)
      unfollow?.()
      worker.drain('the end of longshore dev')
      await worker.left
      await link.close()
    },
  }
}
