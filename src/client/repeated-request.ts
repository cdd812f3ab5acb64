// One request of the typed client: repeated while it cannot be answered, its answer read as what was asked for.

import { backoffMs } from '../lib/backoff.ts'
import { pause, type Clock } from '../lib/clock.ts'
import { ClientClosedError, UnexpectedAnswerError } from './client-errors.ts'
import {
  Http,
  isInvalidRequest,
  QueueRefusedError,
  QueueUnreachableError,
  type HttpAnswer,
  type HttpRequest,
} from './http.ts'

export interface RepeatedRequestOptions {
  endpointUrl: string
  apiKey: string
  /** Tries in all of one request. */
  attempts: number
  clock: Clock
}

export interface Ask<T> extends Omit<HttpRequest, 'path' | 'signal'> {
  /** Below the endpoint's URL, with a leading slash; asked anew for each try, with what is left of the time, ms. */
  path: string | ((leftMs: number) => string)
  signal?: AbortSignal | undefined
  /**
   * On the monotonic clock, ms: no pause lasts longer. A try has LATE_MS more, for an answer that is on its way; what has
   * none then throws TimeUpError.
   */
  until?: number | undefined
  /** Throws for a document that is not what was asked for. */
  read: (document: unknown, answer: HttpAnswer) => T
  /** Told of each try that failed and may be repeated. */
  onTrouble?: (cause: QueueUnreachableError) => void
}

/** The caller's time was up, be it with tries left or not. To the caller it is as any other unreachable queue. */
export class TimeUpError extends QueueUnreachableError {}

/** How much longer than its time a try may take. */
const LATE_MS = 1_000
/** A queue that asks for a longer pause is asked again all the same. */
const LONGEST_PAUSE_MS = 60_000
const BACKOFF = { baseMs: 200, maxMs: 10_000 }

export class RepeatedRequests {
  readonly clock: Clock
  readonly #http: Http
  readonly #endpointUrl: string
  readonly #attempts: number
  /** What ends the requests and pauses under way; undefined once closed. */
  #underWay: Set<AbortController> | undefined = new Set()

  constructor({ endpointUrl, apiKey, attempts, clock }: RepeatedRequestOptions) {
    this.#http = new Http({ endpointUrl, token: apiKey })
    this.#endpointUrl = endpointUrl.replace(/\/$/, '')
    this.#attempts = attempts
    this.clock = clock
  }

  /**
   * Throws QueueRefusedError, QueueUnreachableError, UnexpectedAnswerError, ClientClosedError, a TypeError for what no
   * request can carry, or the signal's reason.
   */
  async ask<T>(ask: Ask<T>): Promise<T> {
    const { answer, path } = await this.#bounded(ask.signal, (end) => this.#request(ask, end))
    try {
      return ask.read(JSON.parse(answer.body.toString('utf8')), answer)
    } catch (cause) {
      throw new UnexpectedAnswerError(this.#placeOf(path), cause)
    }
  }

  /** Resolves after `ms`, or at once when the signal aborts. Throws ClientClosedError when the client is closed. */
  async pause(ms: number, signal?: AbortSignal): Promise<void> {
    await this.#bounded(signal, async (end) => {
      await pause(this.clock, ms, end.signal)
      if (end.signal.aborted && !signal?.aborted) throw end.signal.reason
    })
  }

  /** Rejects what is under way, and whatever is asked from now on, with ClientClosedError. */
  async close(): Promise<void> {
    const underWay = this.#underWay ?? []
    this.#underWay = undefined
    for (const end of underWay) end.abort(new ClientClosedError())
    await this.#http.close()
  }

  /** Runs with what the caller's signal and `close` abort, each with its reason. */
  async #bounded<T>(signal: AbortSignal | undefined, run: (end: AbortController) => Promise<T>): Promise<T> {
    const underWay = this.#underWay
    if (!underWay) throw new ClientClosedError()
    const end = new AbortController()
    const stop = (): void => end.abort(signal?.reason)
    if (signal?.aborted) stop()
    signal?.addEventListener('abort', stop)
    underWay.add(end)
    try {
      return await run(end)
    } finally {
      signal?.removeEventListener('abort', stop)
      underWay.delete(end)
    }
  }

  async #request(
    { until = Number.POSITIVE_INFINITY, onTrouble, ...ask }: Ask<unknown>,
    end: AbortController,
  ): Promise<{ answer: HttpAnswer; path: string }> {
    const { signal } = end
    const leftMs = (): number => until - this.clock.monotonic()
    let mayHaveArrived = false
    for (let tries = 1; ; tries += 1) {
      signal.throwIfAborted()
      const path = typeof ask.path === 'string' ? ask.path : ask.path(leftMs())
      try {
        return { answer: await this.#try({ ...ask, path, signal }, Math.max(0, leftMs()) + LATE_MS), path }
      } catch (trouble) {
        if (!(trouble instanceof QueueUnreachableError)) throw this.#told(trouble, path)
        if (isInvalidRequest(trouble))
          throw new TypeError(`No request can be sent: ${trouble.message}`, { cause: trouble })
        onTrouble?.(trouble)
        mayHaveArrived ||= trouble.mayHaveArrived
        const cause = mayHaveArrived ? arrived(trouble) : trouble
        if (tries >= this.#attempts || cause instanceof TimeUpError) throw cause
        const askedMs = Math.min(cause.retryAfterMs ?? 0, LONGEST_PAUSE_MS)
        const waitMs = Math.max(askedMs, backoffMs(tries, BACKOFF))
        const isLast = waitMs >= leftMs()
        await pause(this.clock, Math.min(waitMs, leftMs()), signal)
        if (isLast && !signal.aborted) throw timeUp(cause.message, cause)
      }
    }
  }

  /** One try, given up when the time is. */
  async #try(request: HttpRequest & { signal: AbortSignal }, withinMs: number): Promise<HttpAnswer> {
    if (withinMs === Number.POSITIVE_INFINITY) return this.#http.request(request)
    const { signal } = request
    const late = new AbortController()
    const place = this.#placeOf(request.path)
    const giveUp = (): void => late.abort(timeUp(`${place} did not answer before the time was up.`))
    const stop = (): void => late.abort(signal.reason)
    const timer = this.clock.after(withinMs, giveUp)
    signal.addEventListener('abort', stop)
    try {
      return await this.#http.request({ ...request, signal: late.signal })
    } finally {
      timer.clear()
      signal.removeEventListener('abort', stop)
    }
  }

  /** What is answered by anything but a queue is told as that. */
  #told(cause: unknown, path: string): unknown {
    const isOther =
      cause instanceof QueueRefusedError && (cause.status < 400 || cause.code === 'ROUTE_NOT_FOUND')
    return isOther ? new UnexpectedAnswerError(this.#placeOf(path), cause) : cause
  }

  #placeOf(path: string): string {
    return `${this.#endpointUrl}${path.replace(/\?.*$/, '')}`
  }
}

/** What an earlier try may have brought about, a later one that did nothing does not undo. */
function arrived(cause: QueueUnreachableError): QueueUnreachableError {
  if (cause.mayHaveArrived) return cause
  const { message, retryAfterMs } = cause
  return new QueueUnreachableError(message, { cause, retryAfterMs, mayHaveArrived: true })
}

function timeUp(message: string, cause?: QueueUnreachableError): TimeUpError {
  return new TimeUpError(message, {
    ...(cause && { cause }),
    retryAfterMs: cause?.retryAfterMs,
    mayHaveArrived: cause?.mayHaveArrived ?? true,
  })
}
