// Telling webhooks that their jobs have ended: three tries each, kept in the store until one succeeds or all failed.

import { backoffMs } from '../lib/backoff.ts'
import { pause, type Clock } from '../lib/clock.ts'
import { Latch } from '../lib/latch.ts'
import { limits } from '../job/limits.ts'
import type { Store } from '../store/store.ts'
import { StoreError } from '../store/store-error.ts'
import type { Delivery } from '../store/webhook-store.ts'
import { deliveryBody } from './record-body.ts'
import type { WebhookRequest } from './webhook-call.ts'

export interface WebhookAttempt {
  endpoint: string
  id: string
  /** Scheme, host and port: the rest of a webhook's URL may be a secret. */
  origin: string
  attempt: number
  result: 'delivered' | 'failed' | 'given-up'
  problem?: string
}

export interface WebhooksOptions {
  store: Store
  clock: Clock
  /** Makes the call; throws when it was no success. */
  send: (request: WebhookRequest, signal: AbortSignal) => Promise<void>
  onAttempt: (attempt: WebhookAttempt) => void
  onError: (cause: unknown) => void
}

/** Calls at a time, of all receivers and of one; beyond the first half each receiver gets one, so that a few that hang hold up nobody. */
const CALLS = 128
const CALLS_TO_ONE = 8
/** Beyond the longest call, so that nobody else makes it meanwhile. */
const HOLD_MS = limits.webhook.callMs + 5_000
/** A wake-up from another server may be lost: look at least this often. */
const LOOK_MS = 1_000
/** From one try to store what became of a call to the next; other servers look once a second. */
const RECORD = { baseMs: 50, maxMs: 500 }
/** How long calls under way get to end when the service stops. */
const CLOSE_MS = 1_500

export class Webhooks {
  readonly #options: WebhooksOptions
  readonly #news = new Latch()
  readonly #calls = new Set<Promise<void>>()
  readonly #callsTo = new Map<string, number>()
  /** Deliveries that are being called, or whose call is over and not stored: their hold may end meanwhile. */
  readonly #underWay = new Set<string>()
  readonly #giveUp = new AbortController()

  constructor(options: WebhooksOptions) {
    this.#options = options
  }

  /** Delivers until the signal aborts. Resolves once no call is under way. */
  async run(stopping: AbortSignal): Promise<void> {
    const { store, clock, onError } = this.#options
    const unwatch = store.watch(({ kind }) => {
      if (kind === 'webhook' || kind === 'missed') this.#news.set()
    })
    while (!stopping.aborted) {
      let waitMs = LOOK_MS
      try {
        waitMs = await this.#callThoseDue()
      } catch (cause) {
        onError(cause)
      }
      if (waitMs > 0) await this.#news.wait(clock, waitMs, [stopping])
    }
    unwatch()
    const insist = clock.after(CLOSE_MS, () => this.#giveUp.abort())
    await Promise.all(this.#calls)
    insist.clear()
  }

  /** Begins what is due; answers after how long to look again unless there is news. */
  async #callThoseDue(): Promise<number> {
    const { store, clock } = this.#options
    const free = CALLS - this.#calls.size
    const most = this.#calls.size >= CALLS / 2 ? 1 : CALLS_TO_ONE
    const without = [...this.#callsTo].filter(([, calls]) => calls >= most).map(([origin]) => origin)
    if (free === 0) return LOOK_MS
    // Of one receiver as many as are asked for can come beyond its share; asking for few keeps that few.
    const count = Math.min(free, CALLS_TO_ONE)
    const due = await store.webhooks.claimDeliveries({ count, holdMs: HOLD_MS, without, now: clock.now() })
    for (const delivery of due) if (!this.#underWay.has(delivery.id)) this.#begin(delivery)
    if (due.length === count) return 0
    const next = await store.webhooks.nextDeliveryAt()
    const inMs = next === undefined ? LOOK_MS : next - clock.now()
    if (inMs > 0) return Math.min(LOOK_MS, inMs)
    // What is due and was not given waits for its receiver's calls to end, which is news; or it came due just now.
    return without.length > 0 ? LOOK_MS : 0
  }

  #begin(delivery: Delivery): void {
    const { origin } = new URL(delivery.url)
    this.#callsTo.set(origin, (this.#callsTo.get(origin) ?? 0) + 1)
    this.#underWay.add(delivery.id)
    const call = this.#call(delivery, origin)
      .catch(this.#options.onError)
      .finally(() => {
        this.#calls.delete(call)
        this.#underWay.delete(delivery.id)
        const left = (this.#callsTo.get(origin) ?? 1) - 1
        if (left > 0) this.#callsTo.set(origin, left)
        else this.#callsTo.delete(origin)
        this.#news.set()
      })
    this.#calls.add(call)
  }

  async #call(delivery: Delivery, origin: string): Promise<void> {
    const { store, clock, onAttempt } = this.#options
    const { id, record, attempt } = delivery
    const problem = await this.#problemOf(delivery)
    // Not known to have failed: whoever comes next tries again.
    if (problem !== undefined && this.#giveUp.signal.aborted) return
    const told = { endpoint: record.endpoint, id: record.id, origin, attempt }
    if (problem === undefined) {
      await this.#record(() => store.webhooks.dropDelivery(id))
      onAttempt({ ...told, result: 'delivered' })
    } else if (attempt >= limits.webhook.attempts) {
      await this.#record(() => store.webhooks.dropDelivery(id))
      onAttempt({ ...told, result: 'given-up', problem })
    } else {
      const dueAt = clock.now() + limits.webhook.pauseMs
      await this.#record(() => store.webhooks.postponeDelivery(id, dueAt))
      onAttempt({ ...told, result: 'failed', problem })
    }
  }

  /** A store that is away must not make a second call of one that was made: what became of it is kept until it is stored. */
  async #record(write: () => Promise<void>): Promise<void> {
    const { clock, onError } = this.#options
    for (let tries = 1; ; tries += 1) {
      try {
        return await write()
      } catch (cause) {
        if (!(cause instanceof StoreError) || this.#giveUp.signal.aborted) throw cause
        if (tries === 1) onError(cause)
        await pause(clock, backoffMs(tries, RECORD), this.#giveUp.signal)
      }
    }
  }

  /** Makes one call within its time; answers why it did not succeed. */
  async #problemOf(delivery: Delivery): Promise<string | undefined> {
    const { clock, send } = this.#options
    const late = new AbortController()
    const timer = clock.after(limits.webhook.callMs, () => late.abort())
    try {
      const request: WebhookRequest = {
        url: delivery.url,
        body: deliveryBody(delivery),
        timestamp: Math.floor(clock.now() / 1000),
        headers: headersOf(delivery),
      }
      await send(request, AbortSignal.any([late.signal, this.#giveUp.signal]))
      return undefined
    } catch (cause) {
      if (late.signal.aborted) return `there was no answer within ${limits.webhook.callMs} ms`
      return cause instanceof Error ? cause.message : String(cause)
    } finally {
      timer.clear()
    }
  }
}

function headersOf({ trace }: Delivery): Record<string, string> {
  const headers: Record<string, string> = { 'user-agent': 'longshore' }
  if (trace) headers['traceparent'] = trace.traceparent
  if (trace?.tracestate !== undefined) headers['tracestate'] = trace.tracestate
  return headers
}
