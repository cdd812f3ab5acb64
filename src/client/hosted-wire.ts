// The hosted platform's routes as a worker calls them: its URL templates, and one HTTP request for each.

import { Connections, type HttpAnswer } from './http.ts'

/** Templates as the platform puts them into the environment. */
export interface HostedUrls {
  take: string
  done: string
  stream: string
  /** Without it there is no heartbeat. */
  ping?: string | undefined
}

export interface HostedWireOptions {
  urls: HostedUrls
  workerId: string
  /** Sent as it is, without a scheme. */
  apiKey?: string | undefined
  /** How this worker calls itself in pings and errors. */
  version: string
}

export type HostedAnswer = HttpAnswer & { status: number }

/** The platform holds a take for less than this. */
export const TAKE_MS = 90_000
/** A result of some megabytes over a slow line. */
const POST_MS = 60_000
/** Results of different jobs travel side by side, up to so many. */
const POSTS_AT_ONCE = 32
/** Long lists are cut, at a comma. */
const PING_IDS_BYTES = 65_536

const TAKE_PART = '/job-take/'

/** The body is JSON. The platform's own worker labels it so, and that is what the platform is known to take. */
const POST_LABELS = { 'content-type': 'application/x-www-form-urlencoded', charset: 'utf-8' }

export class HostedWire {
  readonly #options: HostedWireOptions
  /** Long polls must not wait behind posts. */
  readonly #polls = new Connections()
  readonly #posts = new Connections({ connections: POSTS_AT_ONCE })

  constructor(options: HostedWireOptions) {
    this.#options = options
  }

  /** Where jobs come from, for people: without placeholders and query. */
  get place(): string {
    const url = new URL(this.#options.urls.take)
    return `${url.origin}${url.pathname.split(TAKE_PART, 1)[0] ?? ''}`
  }

  get canStop(): boolean {
    return this.#options.urls.take.includes(TAKE_PART)
  }

  get canPing(): boolean {
    return this.#options.urls.ping !== undefined
  }

  take(count: number, isBusy: boolean, signal: AbortSignal): Promise<HostedAnswer> {
    const url = this.#takeUrl(count > 1 ? '/job-take-batch/' : TAKE_PART)
    const query = { ...(count > 1 && { batch_size: String(count) }), job_in_progress: isBusy ? '1' : '0' }
    // A job whose answer has begun to arrive is this worker's: nobody else would get it.
    return this.#get(withQuery(url, query), { timeoutMs: 2 * TAKE_MS, signal, keepsBegunAnswer: true })
  }

  stops(signal: AbortSignal): Promise<HostedAnswer> {
    return this.#get(this.#takeUrl('/job-stop/'), { timeoutMs: TAKE_MS, signal })
  }

  ping(
    ids: readonly string[],
    { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal },
  ): Promise<HostedAnswer> {
    const { urls, version } = this.#options
    const url = this.#filled(urls.ping ?? '')
    const list = cutAtComma(ids.join(','))
    const query = { ...(list !== '' && { job_id: list }), runpod_version: version }
    return this.#get(withQuery(url, query), { timeoutMs, signal })
  }

  postChunk(id: string, body: Uint8Array, signal: AbortSignal): Promise<HostedAnswer> {
    return this.#post(this.#options.urls.stream, { id, isStream: false, body, signal })
  }

  /** A result or a progress. */
  postDone(
    id: string,
    { body, isStream }: { body: Uint8Array; isStream: boolean },
    signal: AbortSignal,
  ): Promise<HostedAnswer> {
    return this.#post(this.#options.urls.done, { id, isStream, body, signal })
  }

  async close(): Promise<void> {
    await Promise.all([this.#polls.close(), this.#posts.close()])
  }

  #takeUrl(part: string): string {
    const { urls, workerId } = this.#options
    return this.#filled(urls.take)
      .replaceAll('$ID', () => workerId)
      .replace(TAKE_PART, part)
  }

  #filled(template: string): string {
    return template.replaceAll('$RUNPOD_POD_ID', () => this.#options.workerId)
  }

  #get(
    url: string,
    ask: { timeoutMs: number; signal: AbortSignal; keepsBegunAnswer?: boolean },
  ): Promise<HostedAnswer> {
    return this.#polls.call(placeOf(url), { method: 'GET', headers: this.#headers(), ...ask })
  }

  #post(
    template: string,
    ask: { id: string; isStream: boolean; body: Uint8Array; signal: AbortSignal },
  ): Promise<HostedAnswer> {
    const { id, isStream, body, signal } = ask
    const url = this.#filled(template).replaceAll('$ID', () => id)
    return this.#posts.call(placeOf(withQuery(url, { isStream: String(isStream) })), {
      method: 'POST',
      headers: { ...this.#headers(), ...POST_LABELS, 'x-request-id': id },
      body,
      timeoutMs: POST_MS,
      signal,
    })
  }

  #headers(): Record<string, string> {
    const { apiKey, version } = this.#options
    const headers = { accept: '*/*', 'user-agent': version.replace('-', '/') }
    return apiKey ? { ...headers, authorization: apiKey } : headers
  }
}

function placeOf(url: string): { origin: string; path: string } {
  const { origin, pathname, search } = new URL(url)
  return { origin, path: `${pathname}${search}` }
}

/** The platform's own worker glues "&name=value" on whatever the URL is; with no "?" in it that is no query. */
function withQuery(url: string, query: Record<string, string>): string {
  const pairs = Object.entries(query).map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
  return `${url}${url.includes('?') ? '&' : '?'}${pairs.join('&')}`
}

function cutAtComma(list: string): string {
  if (list.length <= PING_IDS_BYTES) return list
  return list.slice(0, list.lastIndexOf(',', PING_IDS_BYTES))
}
