// The worker's half of the exchange on the wire.

import { decodeExchange, encodeExchange, EXCHANGE_TYPE, exchangeAnswerSchema } from '../protocol/exchange.ts'
import type { ExchangeAnswer, ExchangeRequest, PayloadReader } from '../protocol/exchange.ts'
import { Http, type HttpOptions } from './http.ts'

export interface ExchangeReceived {
  answer: ExchangeAnswer
  payloads: PayloadReader
}

/** What the worker needs of a queue; the real one speaks HTTP. */
export interface ExchangeLink {
  /** False where a job that was taken cannot be given back to be run elsewhere at once; true when left out. */
  readonly handsBack?: boolean
  /** One request, never repeated here: the caller numbers them. Throws as Http.request does. */
  send(
    request: ExchangeRequest,
    payloads: readonly Uint8Array[],
    options: { timeoutMs: number; signal?: AbortSignal },
  ): Promise<ExchangeReceived>
  close(): Promise<void>
}

export class ExchangeClient implements ExchangeLink {
  readonly #http: Http
  readonly #path: string

  constructor(options: HttpOptions & { workerId: string }) {
    this.#http = new Http(options)
    this.#path = `/exchange/${options.workerId}`
  }

  async send(
    request: ExchangeRequest,
    payloads: readonly Uint8Array[],
    options: { timeoutMs: number; signal?: AbortSignal },
  ): Promise<ExchangeReceived> {
    const { body } = await this.#http.request({
      method: 'POST',
      path: this.#path,
      headers: { 'content-type': EXCHANGE_TYPE },
      body: encodeExchange(request, payloads),
      ...options,
    })
    const { head, payloads: received } = decodeExchange(body, exchangeAnswerSchema)
    return { answer: head, payloads: received }
  }

  close(): Promise<void> {
    return this.#http.close()
  }
}
