// HTTP to a queue service: a pool of connections, answers read whole, errors told apart by whose fault they are.

import { Agent } from 'undici'
import { systemClock, type Timer } from '../lib/clock.ts'

/** The service could not be reached or could not serve; the same request may succeed later. */
export class QueueUnreachableError extends Error {
  readonly code = 'QUEUE_UNREACHABLE'
  /** What the service asked to wait, ms. */
  readonly retryAfterMs: number | undefined
  /** False when it is certain that the service did nothing of what was asked. */
  readonly mayHaveArrived: boolean

  constructor(
    message: string,
    options: ErrorOptions & { retryAfterMs?: number | undefined; mayHaveArrived?: boolean } = {},
  ) {
    super(message, options)
    this.name = 'QueueUnreachableError'
    this.retryAfterMs = options.retryAfterMs
    this.mayHaveArrived = options.mayHaveArrived ?? true
  }
}

/** The service refused the request: repeating it unchanged is of no use. */
export class QueueRefusedError extends Error {
  readonly status: number
  readonly code: string

  constructor(status: number, code: string, message: string) {
    super(message)
    this.name = 'QueueRefusedError'
    this.status = status
    this.code = code
  }
}

export interface HttpCall {
  method: 'GET' | 'POST' | 'DELETE'
  headers?: Record<string, string>
  body?: Uint8Array | string
  /** An answer must begin within this time, ms, and be there whole within as much again. */
  timeoutMs: number
  signal?: AbortSignal
  /** An answer that has begun when the signal aborts is still read to its end. */
  keepsBegunAnswer?: boolean
}

export interface HttpRequest extends HttpCall {
  /** Below the endpoint's URL, with a leading slash. */
  path: string
}

export interface HttpAnswer {
  headers: Record<string, string | string[] | undefined>
  body: Buffer
}

export interface HttpOptions {
  /** `http(s)://host:port/v2/{endpointId}`. */
  endpointUrl: string
  token: string
}

/** Connections to services, of any origin. */
export class Connections {
  readonly #agent: Agent

  /** `connections`: how many at most to one origin; further requests wait for a free one. */
  constructor({ connections = 128 } = {}) {
    this.#agent = new Agent({ connections, pipelining: 1, keepAliveTimeout: 60_000 })
  }

  /**
   * An answer of any status. Throws QueueUnreachableError when none comes; an abort of the signal rejects with
   * its reason.
   */
  async call(
    { origin, path }: { origin: string; path: string },
    ask: HttpCall,
  ): Promise<HttpAnswer & { status: number }> {
    const { method, headers, body, timeoutMs, signal } = ask
    const end = endOf(ask)
    try {
      const response = await this.#agent.request({
        origin,
        method,
        path,
        headers: headers ?? {},
        body: body ?? null,
        headersTimeout: timeoutMs,
        bodyTimeout: timeoutMs,
        signal: end.signal,
        onInfo: end.coming,
      })
      end.begun()
      const bytes = Buffer.from(await response.body.arrayBuffer())
      return { status: response.statusCode, headers: response.headers, body: bytes }
    } catch (cause) {
      if (signal?.aborted) throw signal.reason
      throw new QueueUnreachableError(`The queue at ${origin} cannot be reached: ${describe(cause)}.`, {
        cause,
        mayHaveArrived: !NOT_CONNECTED.has(codeOf(cause)),
      })
    } finally {
      end.done()
    }
  }

  /** The body of an answer as it comes, for as long as that takes; one that is no success is read whole and thrown. */
  async *stream(
    { origin, path }: { origin: string; path: string },
    ask: Pick<HttpCall, 'headers' | 'timeoutMs' | 'signal'>,
  ): AsyncGenerator<Uint8Array> {
    const { headers, timeoutMs, signal } = ask
    const end = endOf(ask)
    try {
      const response = await this.#agent.request({
        origin,
        path,
        method: 'GET',
        headers: headers ?? {},
        headersTimeout: timeoutMs,
        bodyTimeout: 0,
        signal: end.signal,
      })
      if (response.statusCode !== 200) {
        end.begun()
        const body = Buffer.from(await response.body.arrayBuffer())
        throw answeredError(origin, { status: response.statusCode, headers: response.headers, body })
      }
      yield* response.body as AsyncIterable<Uint8Array>
    } catch (cause) {
      if (signal?.aborted) throw signal.reason
      if (cause instanceof QueueRefusedError || cause instanceof QueueUnreachableError) throw cause
      throw new QueueUnreachableError(`The queue at ${origin} cannot be reached: ${describe(cause)}.`, {
        cause,
      })
    } finally {
      end.done()
    }
  }

  async close(): Promise<void> {
    await this.#agent.destroy()
  }
}

/** What an answer means that is no success. */
export function answeredError(origin: string, { status, ...answer }: HttpAnswer & { status: number }): Error {
  const { error, code } = readError(answer.body)
  const answered = `The queue at ${origin} answered HTTP ${status}`
  if (!mayPass(status))
    return new QueueRefusedError(status, code ?? `HTTP_${status}`, error ?? `${answered}.`)
  return new QueueUnreachableError(error === undefined ? `${answered}.` : `${answered}: ${error}`, {
    retryAfterMs: retryAfterMsOf(answer),
    mayHaveArrived: status !== 429 && status !== 503,
  })
}

interface CallEnd {
  signal: AbortSignal
  /** Something of the answer is there, be it only that the rest will follow. */
  coming: () => void
  /** Its head is there. */
  begun: () => void
  done: () => void
}

/**
 * What ends a call: the caller's signal, and the time once the answer is coming. The connection's own timeouts are of
 * silence alone, and never end an answer that comes byte by byte.
 */
function endOf({
  signal,
  timeoutMs,
  keepsBegunAnswer,
}: Pick<HttpCall, 'signal' | 'timeoutMs' | 'keepsBegunAnswer'>): CallEnd {
  const abort = new AbortController()
  let timer: Timer | undefined
  const giveUp = (): void => abort.abort(signal?.reason)
  const unfollow = (): void => signal?.removeEventListener('abort', giveUp)
  const late = (): void => abort.abort(new Error(`its answer did not end within ${timeoutMs} ms`))
  const coming = (): void => void (timer ??= systemClock.after(timeoutMs, late))
  if (signal?.aborted) giveUp()
  else signal?.addEventListener('abort', giveUp)
  return {
    signal: abort.signal,
    coming,
    begun: () => {
      coming()
      if (keepsBegunAnswer) unfollow()
    },
    done: () => {
      unfollow()
      timer?.clear()
    },
  }
}

export class Http {
  readonly #connections = new Connections()
  readonly #base: string
  readonly #origin: string
  readonly #authorization: string

  constructor({ endpointUrl, token }: HttpOptions) {
    const url = new URL(endpointUrl)
    this.#origin = url.origin
    this.#base = url.pathname.replace(/\/$/, '')
    this.#authorization = `Bearer ${token}`
  }

  /** Throws QueueUnreachableError or QueueRefusedError; an abort of `signal` rejects with its reason. */
  async request({ path, ...ask }: HttpRequest): Promise<HttpAnswer> {
    const headers = { authorization: this.#authorization, ...ask.headers }
    const place = { origin: this.#origin, path: `${this.#base}${path}` }
    const { status, ...answer } = await this.#connections.call(place, { ...ask, headers })
    if (status === 200) return answer
    throw answeredError(this.#origin, { status, ...answer })
  }

  async close(): Promise<void> {
    await this.#connections.close()
  }
}

/** Nothing was sent. */
const NOT_CONNECTED = new Set<unknown>([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
])

function codeOf(cause: unknown): unknown {
  return cause instanceof Error && 'code' in cause ? cause.code : undefined
}

/** Whether the same request may be answered otherwise later. */
export function mayPass(status: number): boolean {
  return status >= 500 || status === 429 || status === 408
}

/** Nothing went out, and never will: what was asked has no form in HTTP. */
export function isInvalidRequest({ cause }: QueueUnreachableError): boolean {
  return codeOf(cause) === 'UND_ERR_INVALID_ARG'
}

/** What the service asks to wait, ms. A date is measured by the answer's own clock where it tells it. */
export function retryAfterMsOf({ headers }: HttpAnswer): number | undefined {
  const text = headers['retry-after']
  if (typeof text !== 'string' || text.trim() === '') return undefined
  const seconds = Number(text)
  if (Number.isFinite(seconds)) return seconds >= 0 ? seconds * 1000 : undefined
  const at = httpDate(text)
  if (Number.isNaN(at)) return undefined
  const date = typeof headers['date'] === 'string' ? httpDate(headers['date']) : Number.NaN
  return Math.max(0, at - (Number.isNaN(date) ? systemClock.now() : date))
}

/** Date.parse alone makes a date of nearly anything. */
function httpDate(text: string): number {
  return /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/.test(text.trim())
    ? Date.parse(text)
    : Number.NaN
}

function describe(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause)
  return 'code' in cause && cause.message === '' ? String(cause.code) : cause.message.replace(/\.$/, '')
}

/** What an answer says of its error, where it does. */
export function readError(body: Buffer): { error?: string; code?: string } {
  try {
    const document: unknown = JSON.parse(body.toString('utf8'))
    if (typeof document !== 'object' || document === null) return {}
    const { error, code } = document as { error?: unknown; code?: unknown }
    return { ...(typeof error === 'string' && { error }), ...(typeof code === 'string' && { code }) }
  } catch {
    // A proxy's page, not an answer of the service: its status says all there is.
    return {}
  }
}
