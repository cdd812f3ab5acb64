// A worker of the hosted platform, as its recorded traces show it: its URLs, its headers, its bodies.

import { Agent, request, type IncomingMessage } from 'node:http'

export interface ForeignAnswer {
  status: number
  body: unknown
}

export interface ForeignWorkerOptions {
  /** `http://host:port/v2/{endpointId}`. */
  endpointUrl: string
  key: string
  worker?: string
  /** What follows the path in its URL templates; empty for templates without a query. */
  query?: string
}

export class ScriptedForeignWorker {
  readonly #options: Required<ForeignWorkerOptions>
  readonly #agent = new Agent({ keepAlive: true })
  /** It leaks from a post into the requests after it. */
  #requestId: string | undefined

  constructor(options: ForeignWorkerOptions) {
    this.#options = { worker: 'w1', query: '?gpu=SIM', ...options }
  }

  /** One take, or a batch of them; `abort` hangs up. */
  take({
    count = 1,
    busy = 0,
    signal,
  }: { count?: number; busy?: 0 | 1; signal?: AbortSignal } = {}): Promise<ForeignAnswer> {
    const { worker, query } = this.#options
    const path =
      count === 1
        ? `/job-take/${worker}${query}&job_in_progress=${busy}`
        : `/job-take-batch/${worker}${query}&batch_size=${count}&job_in_progress=${busy}`
    return this.#ask('GET', path, undefined, signal)
  }

  stops(signal?: AbortSignal): Promise<ForeignAnswer> {
    const { worker, query } = this.#options
    return this.#ask('GET', `/job-stop/${worker}${query}`, undefined, signal)
  }

  ping(ids: readonly string[] = [], more = ''): Promise<ForeignAnswer> {
    const { worker, query } = this.#options
    const listed = ids.length > 0 ? `job_id=${encodeURIComponent(ids.join(','))}&` : ''
    // Unlike its other requests this one is built with a library that knows where a query begins.
    const start = query === '' ? '?' : `${query}&`
    return this.#ask('GET', `/ping/${worker}${start}${listed}runpod_version=unknown${more}`)
  }

  done(id: string, body: string, isStream = false): Promise<ForeignAnswer> {
    return this.#post('job-done', id, body, isStream)
  }

  stream(id: string, body: string): Promise<ForeignAnswer> {
    return this.#post('job-stream', id, body, false)
  }

  close(): void {
    this.#agent.destroy()
  }

  #post(route: string, id: string, body: string, isStream: boolean): Promise<ForeignAnswer> {
    const { worker, query } = this.#options
    this.#requestId = id
    return this.#ask('POST', `/${route}/${worker}/${id}${query}&isStream=${isStream}`, body)
  }

  #ask(method: 'GET' | 'POST', path: string, body?: string, signal?: AbortSignal): Promise<ForeignAnswer> {
    const { endpointUrl, key } = this.#options
    const headers: Record<string, string> = {
      Authorization: key,
      'User-Agent': 'RunPod-Python-SDK/1.12.0 (Linux; x86_64) Language/Python 3.11',
      'Accept-Encoding': 'gzip, deflate',
      Accept: '*/*',
      'Content-Type': method === 'GET' ? 'application/json' : 'application/x-www-form-urlencoded',
      ...(method === 'POST' && { charset: 'utf-8' }),
      ...(this.#requestId !== undefined && { 'X-Request-ID': this.#requestId }),
    }
    return new Promise((resolve, reject) => {
      const asked = request(
        `${endpointUrl}${path}`,
        { method, headers, agent: this.#agent, ...(signal && { signal }) },
        (response) => resolve(readAnswer(response)),
      )
      asked.on('error', reject)
      asked.end(body)
    })
  }
}

async function readAnswer(response: IncomingMessage): Promise<ForeignAnswer> {
  let text = ''
  for await (const piece of response.setEncoding('utf8')) text += String(piece)
  return { status: response.statusCode ?? 0, body: text === '' ? undefined : JSON.parse(text) }
}
