// HTTP to a queue service: a pool of connections, answers read whole, errors told apart by whose fault they are.

import { Agent } from 'undici'

/** The service could not be reached or could not serve; the same request may succeed later. */
export class QueueUnreachableError extends Error {
  readonly code = 'QUEUE_UNREACHABLE'
  /** What the service asked to wait, ms. */
  readonly retryAfterMs: number | undefined

  constructor(message: string, options: ErrorOptions & { retryAfterMs?: number | undefined } = {}) {
    super(message, options)
    this.name = 'QueueUnreachableError'
    this.retryAfterMs = options.retryAfterMs
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
  method: 'GET' | 'POST'
  headers?: Record<string, string>
  body?: Uint8Array | string
  /** The whole answer must be there within this time, ms. */
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
    const { method, headers, body, timeoutMs, signal, keepsBegunAnswer } = ask
    const wait = keepsBegunAnswer && signal ? untilBegun(signal) : { signal, begun: () => undefined }
    try {
      const response = await this.#agent.request({
        origin,
        method,
        path,
        headers: headers ?? {},
        body: body ?? null,
        headersTimeout: timeoutMs,
        bodyTimeout: timeoutMs,
        ...(wait.signal && { signal: wait.signal }),
      })
      wait.begun()
      const bytes = Buffer.from(await response.body.arrayBuffer())
      return { status: response.statusCode, headers: response.headers, body: bytes }
    } catch (cause) {
      wait.begun()
      if (signal?.aborted) throw signal.reason
      throw new QueueUnreachableError(`The queue at ${origin} cannot be reached: ${describe(cause)}.`, {
        cause,
      })
    }
  }

  async close(): Promise<void> {
    await this.#agent.destroy()
  }
}

/** Follows a signal until the answer has begun. */
function untilBegun(signal: AbortSignal): { signal: AbortSignal; begun: () => void } {
  const abort = new AbortController()
  const giveUp = (): void => abort.abort(signal.reason)
  if (signal.aborted) giveUp()
  else signal.addEventListener('abort', giveUp)
  return { signal: abort.signal, begun: () => signal.removeEventListener('abort', giveUp) }
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
    throw this.#errorOf(status, answer)
  }

  async close(): Promise<void> {
    await this.#connections.close()
  }

  #errorOf(status: number, answer: HttpAnswer): Error {
    const { error, code } = readError(answer.body)
    const text = error ?? `The queue at ${this.#origin} answered HTTP ${status}.`
    if (!mayPass(status)) return new QueueRefusedError(status, code ?? `HTTP_${status}`, text)
    return new QueueUnreachableError(`The queue at ${this.#origin} answered HTTP ${status}: ${text}`, {
      retryAfterMs: retryAfterMsOf(answer),
    })
  }
}

/** Whether the same request may be answered otherwise later. */
export function mayPass(status: number): boolean {
  return status >= 500 || status === 429 || status === 408
}

/** What the service asks to wait, ms; its seconds form only. */
export function retryAfterMsOf({ headers }: HttpAnswer): number | undefined {
  const text = headers['retry-after']
  const seconds = typeof text === 'string' && text.trim() !== '' ? Number(text) : Number.NaN
  return Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : undefined
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
