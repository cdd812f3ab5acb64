// HTTP to a queue service: one pool of connections, answers read whole, errors told apart by whose fault they are.

import { Pool } from 'undici'

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

export interface HttpRequest {
  method: 'GET' | 'POST'
  /** Below the endpoint's URL, with a leading slash. */
  path: string
  headers?: Record<string, string>
  body?: Uint8Array | string
  /** The whole answer must be there within this time, ms. */
  timeoutMs: number
  signal?: AbortSignal
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

export class Http {
  readonly #pool: Pool
  readonly #base: string
  readonly #origin: string
  readonly #authorization: string

  constructor({ endpointUrl, token }: HttpOptions) {
    const url = new URL(endpointUrl)
    this.#origin = url.origin
    this.#base = url.pathname.replace(/\/$/, '')
    this.#authorization = `Bearer ${token}`
    this.#pool = new Pool(url.origin, { connections: 128, pipelining: 1, keepAliveTimeout: 60_000 })
  }

  /** Throws QueueUnreachableError or QueueRefusedError; an abort of `signal` rejects with its reason. */
  async request(ask: HttpRequest): Promise<HttpAnswer> {
    const { method, path, body, timeoutMs, signal } = ask
    let status: number
    let answer: HttpAnswer
    try {
      const response = await this.#pool.request({
        method,
        path: `${this.#base}${path}`,
        headers: { authorization: this.#authorization, ...ask.headers },
        body: body ?? null,
        headersTimeout: timeoutMs,
        bodyTimeout: timeoutMs,
        ...(signal && { signal }),
      })
      status = response.statusCode
      answer = { headers: response.headers, body: Buffer.from(await response.body.arrayBuffer()) }
    } catch (cause) {
      if (signal?.aborted) throw signal.reason
      throw new QueueUnreachableError(`The queue at ${this.#origin} cannot be reached: ${describe(cause)}.`, {
        cause,
      })
    }
    if (status === 200) return answer
    throw this.#errorOf(status, answer)
  }

  async close(): Promise<void> {
    await this.#pool.destroy()
  }

  #errorOf(status: number, { headers, body }: HttpAnswer): Error {
    const { error, code } = readError(body)
    const text = error ?? `The queue at ${this.#origin} answered HTTP ${status}.`
    if (status < 500 && status !== 429 && status !== 408)
      return new QueueRefusedError(status, code ?? `HTTP_${status}`, text)
    const seconds = Number(headers['retry-after'])
    return new QueueUnreachableError(`The queue at ${this.#origin} answered HTTP ${status}: ${text}`, {
      retryAfterMs: Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : undefined,
    })
  }
}

function describe(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause)
  return 'code' in cause && cause.message === '' ? String(cause.code) : cause.message.replace(/\.$/, '')
}

function readError(body: Buffer): { error?: string; code?: string } {
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
