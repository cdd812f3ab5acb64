// One call of a webhook: the body, its signature, the addresses it may go to, and what counts as success.

import { createHmac } from 'node:crypto'
import { Agent, type Dispatcher } from 'undici'
import { lookupPublic, refusePrivateHost } from '../lib/public-address.ts'

export interface WebhookCallOptions {
  /** Receivers of this machine and of private networks are called too. */
  allowPrivate: boolean
  /** Signs each call when there is one. */
  signingSecret?: string
  /** Makes the connections; by default one of its own, which goes to no private address unless that is allowed. */
  dispatcher?: Dispatcher
}

export interface WebhookRequest {
  url: string
  body: Buffer
  /** Seconds since 1970: what the signature covers besides the body. */
  timestamp: number
  headers: Record<string, string>
}

/** Redirects that keep method and body. */
const FOLLOWED = new Set([307, 308])
const MAX_REDIRECTS = 3
/** What an answer's body may take beyond its status. */
const DRAIN_MS = 2_000

/** Calls webhooks. Throws with a short sentence in `message` whatever the reason is that one was not delivered. */
export class WebhookCall {
  readonly #options: WebhookCallOptions
  readonly #agent: Dispatcher

  constructor(options: WebhookCallOptions) {
    this.#options = options
    this.#agent =
      options.dispatcher ??
      new Agent({
        connect: options.allowPrivate ? {} : { lookup: lookupPublic },
        keepAliveTimeout: 4_000,
        maxHeaderSize: 16_384,
      })
  }

  /** Resolves at a 2xx. What the receiver says beside its status is not read. */
  async send({ url, body, timestamp, headers }: WebhookRequest, signal: AbortSignal): Promise<void> {
    const { signingSecret } = this.#options
    const signed =
      signingSecret === undefined ? {} : { 'x-longshore-signature': sign(signingSecret, timestamp, body) }
    let target = new URL(url)
    for (let redirects = 0; ; redirects += 1) {
      if (!this.#options.allowPrivate) refusePrivateHost(target)
      const { statusCode, headers: answered } = await this.#post(
        target,
        { ...headers, ...signed },
        body,
        signal,
      )
      if (statusCode >= 200 && statusCode < 300) return
      const { location } = answered
      if (!FOLLOWED.has(statusCode) || typeof location !== 'string')
        throw new Error(`the receiver answered ${statusCode}`)
      if (redirects === MAX_REDIRECTS) throw new Error(`more than ${MAX_REDIRECTS} redirects`)
      target = redirected(target, location)
    }
  }

  /** A dispatcher that was given is its giver's to close. */
  async close(): Promise<void> {
    if (!this.#options.dispatcher) await this.#agent.destroy()
  }

  async #post(
    target: URL,
    headers: Record<string, string>,
    body: Buffer,
    signal: AbortSignal,
  ): Promise<{ statusCode: number; headers: Record<string, unknown> }> {
    const answer = await this.#agent.request({
      origin: target.origin,
      path: `${target.pathname}${target.search}`,
      method: 'POST',
      headers: { 'content-type': 'application/json', ...credentialsOf(target), ...headers },
      body,
      signal,
    })
    // The status says all. The connection is of use again only when the body was taken; a long or slow one is not worth
    // that, and is cut off.
    void answer.body.dump({ limit: 65_536, signal: AbortSignal.timeout(DRAIN_MS) }).catch(() => undefined)
    return answer
  }
}

/** `t=<seconds>,v1=<hex>`: HMAC-SHA256 over `<seconds>.<body>`. */
export function sign(secret: string, timestamp: number, body: Uint8Array): string {
  const mac = createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest('hex')
  return `t=${timestamp},v1=${mac}`
}

function redirected(from: URL, location: string): URL {
  const target = URL.parse(location, from.href)
  if (target && /^https?:$/.test(target.protocol)) return target
  throw new Error('a redirect to something that is no http or https URL')
}

function credentialsOf({ username, password }: URL): Record<string, string> {
  if (username === '' && password === '') return {}
  const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return { authorization: `Basic ${Buffer.from(pair).toString('base64')}` }
}
