// What clients, workers and servers were told, in the order in which they were told it, and whether that keeps the promises.

import { wrongCounters } from './history/counters.ts'
import { changedEnds } from './history/ends.ts'
import {
  earlyLosses,
  fallingCounters,
  returned,
  revived,
  sharedIndexes,
  wrongAttempts,
  wrongRetries,
  wrongWorkers,
} from './history/impossible.ts'
import { sharedLeases } from './history/leases.ts'
import { resultsOfOthers, secondResults } from './history/results.ts'
import { brokenStream } from './history/streams.ts'
import { ghosts, lostSubmission } from './history/submissions.ts'
import type { Event, Kind, Told } from './history/told.ts'

export type Promised =
  | 'no acknowledged submission is lost'
  | 'a submission is one job'
  | 'a lease is of one worker'
  | 'one result at most is accepted'
  | 'an accepted result is of the lease that held the job'
  | 'an end stays as it is'
  | 'chunks are whole and in order'
  | 'counters are what happened'

export interface Finding {
  promise: Promised
  job?: string
  says: string
}

/** Each takes what was told of one job, and says what is wrong with it. */
const ofOne: readonly [Promised, (events: readonly Event[]) => string[]][] = [
  ['no acknowledged submission is lost', lostSubmission],
  ['one result at most is accepted', secondResults],
  ['an accepted result is of the lease that held the job', resultsOfOthers],
  ['an end stays as it is', changedEnds],
  ['chunks are whole and in order', brokenStream],
  ['an end stays as it is', wrongRetries],
  ['an end stays as it is', returned],
  ['an accepted result is of the lease that held the job', revived],
  ['an accepted result is of the lease that held the job', wrongAttempts],
  ['an accepted result is of the lease that held the job', wrongWorkers],
  ['an accepted result is of the lease that held the job', earlyLosses],
  ['chunks are whole and in order', sharedIndexes],
]

/** And each of these what was told of all. */
const ofAll: readonly [
  Promised,
  (events: readonly Event[], jobs: ReadonlyMap<string, readonly Event[]>) => string[],
][] = [
  ['a submission is one job', ghosts],
  ['a lease is of one worker', sharedLeases],
  ['counters are what happened', wrongCounters],
  ['counters are what happened', fallingCounters],
]

export class History {
  readonly #events: Event[] = []
  #failure: { cause: unknown } | undefined

  tell(told: Told): void {
    const at = this.#events.length
    this.#events.push({ asked: at, ...told, at })
  }

  /** To be kept by whoever asks something, for the `asked` of what is told in answer. */
  moment(): number {
    return this.#events.length
  }

  /** Something could not be written down: no judgement is right any more. */
  spoil(cause: unknown): void {
    this.#failure ??= { cause }
  }

  /** How often something of the kind was told: a judgement of nothing is none. */
  count(kind: Kind): number {
    return this.#events.filter((event) => event.kind === kind).length
  }

  /**
   * What breaks a promise; empty when all are kept. To be asked when all is quiet, every job was looked at, every stream
   * was read and the counters were asked for last. Throws when the history has a hole.
   */
  findings(): Finding[] {
    if (this.#failure)
      throw new Error('The history has a hole: an exchange could not be recorded.', this.#failure)
    const jobs = new Map<string, Event[]>()
    for (const event of this.#events) {
      if (!('id' in event)) continue
      const events = jobs.get(event.id)
      if (events) events.push(event)
      else jobs.set(event.id, [event])
    }
    return [
      ...[...jobs].flatMap(([job, events]) =>
        ofOne.flatMap(([promise, check]) => check(events).map((says) => ({ promise, job, says }))),
      ),
      ...ofAll.flatMap(([promise, check]) =>
        check(this.#events, jobs).map((says): Finding => ({ promise, says })),
      ),
    ]
  }

  /** Throws with all that was found. */
  check(): void {
    const findings = this.findings()
    if (findings.length === 0) return
    const lines = findings.map(
      ({ promise, job, says }) => `${job === undefined ? '' : `Job ${job}: `}${says} (${promise})`,
    )
    throw new Error(`${findings.length} findings in ${this.#events.length} events:\n${lines.join('\n')}`)
  }
}
