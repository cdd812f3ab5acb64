// The hosted platform as its workers see it: answers what a test says, and remembers all that it was asked.

import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'
import type { HostedUrls } from '../../src/client/hosted-wire.ts'
import { Facts } from './facts.ts'

export type Route = 'take' | 'stop' | 'done' | 'stream' | 'ping' | 'other'

export interface Heard {
  route: Route
  /** As `GET /v2/ep/job-take/w1?gpu=SIM`. */
  line: string
  query: URLSearchParams
  headers: IncomingMessage['headers']
  body: string
  /** Of the job that a post is about. */
  id: string
}

/** What is answered. What is held is answered by the test, or given up by the worker; a hang-up comes after reading. */
export type Reply =
  | 'hold'
  | 'hang up'
  | { status: number; body?: string; headers?: Record<string, string> }
  /** A 200 with this document. */
  | { json: unknown }

interface Held {
  heard: Heard
  response: ServerResponse
  answer: (reply: Reply) => void
}

const USUAL: Record<Route, Reply> = {
  take: 'hold',
  stop: 'hold',
  done: { json: {} },
  stream: { json: {} },
  ping: { json: {} },
  other: { status: 404 },
}

export class ScriptedPlatform {
  readonly heard = new Facts<Heard>()
  /** Requests that are held and were not given up. */
  readonly held: Held[] = []
  /** Requests that the worker gave up. */
  readonly gone = new Facts<Heard>()
  readonly #replies = new Map<Route, Reply[]>()
  readonly #server = createServer(
    { maxHeaderSize: 100_000 },
    (request, response) => void this.#take(request, response),
  )

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  get urls(): HostedUrls & { ping: string } {
    const base = `http://127.0.0.1:${this.port}/v2/ep`
    return {
      take: `${base}/job-take/$ID?gpu=SIM`,
      done: `${base}/job-done/$RUNPOD_POD_ID/$ID?gpu=SIM`,
      stream: `${base}/job-stream/$RUNPOD_POD_ID/$ID?gpu=SIM`,
      ping: `${base}/ping/$RUNPOD_POD_ID?gpu=SIM`,
    }
  }

  async listen(): Promise<void> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
  }

  close(): void {
    this.#server.close()
    this.#server.closeAllConnections()
  }

  /** The next requests of this route are answered so, one after the other; then as usual again. */
  next(route: Route, ...replies: Reply[]): void {
    this.#replies.set(route, [...(this.#replies.get(route) ?? []), ...replies])
  }

  /** Answers the request of this route that is held, once there is one. */
  async answer(route: Route, reply: Reply): Promise<void> {
    const held = await this.#takeHeld(route)
    held.answer(reply)
  }

  /** Begins to answer a request that is held with a 200; what it gives says the rest. */
  async begin(route: Route, text: string): Promise<(rest: string) => void> {
    const held = await this.#takeHeld(route)
    held.response.writeHead(200, { 'content-type': 'application/json' })
    held.response.write(text)
    return (rest) => void held.response.end(rest)
  }

  /** All requests of a route so far. */
  all(route: Route): Heard[] {
    return this.heard.all.filter((heard) => heard.route === route)
  }

  /** Bodies posted to a route, as `id body`. */
  posts(route: 'done' | 'stream'): string[] {
    return this.all(route).map(({ id, body }) => `${id} ${body}`)
  }

  /** The nth request of a route, from 1, be it in the past or to come. */
  nth(route: Route, count: number): Promise<Heard> {
    return this.heard.first((heard) => this.all(route)[count - 1] === heard)
  }

  async #takeHeld(route: Route): Promise<Held> {
    await this.heard.first((heard) => this.held.some((held) => held.heard === heard && heard.route === route))
    const at = this.held.findIndex(({ heard }) => heard.route === route)
    const [held] = this.held.splice(at, 1)
    if (!held) throw new Error(`No request to ${route} is held.`)
    return held
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const heard = heardOf(request, Buffer.concat(chunks).toString('utf8'))
    const reply = this.#replies.get(heard.route)?.shift() ?? USUAL[heard.route]
    const answer = (given: Reply): void => this.#answer(heard, response, given)
    answer(reply)
    this.heard.add(heard)
  }

  #answer(heard: Heard, response: ServerResponse, reply: Reply): void {
    if (reply === 'hang up') return void response.destroy()
    if (reply === 'hold') {
      const held = { heard, response, answer: (given: Reply) => this.#answer(heard, response, given) }
      this.held.push(held)
      response.on('close', () => {
        if (response.writableEnded) return
        const at = this.held.indexOf(held)
        if (at >= 0) this.held.splice(at, 1)
        this.gone.add(heard)
      })
      return
    }
    const { status, body, headers } =
      'json' in reply
        ? { status: 200, body: JSON.stringify(reply.json), headers: undefined }
        : { body: undefined, headers: undefined, ...reply }
    response.writeHead(status, { ...(body && { 'content-type': 'application/json' }), ...headers })
    response.end(body)
  }
}

/** A platform for one test. */
export async function startPlatform(): Promise<ScriptedPlatform> {
  const platform = new ScriptedPlatform()
  await platform.listen()
  onTestFinished(() => platform.close())
  return platform
}

const routes: Record<string, Route> = {
  'job-take': 'take',
  'job-take-batch': 'take',
  'job-stop': 'stop',
  'job-done': 'done',
  'job-stream': 'stream',
  ping: 'ping',
}

function heardOf({ method, url = '', headers }: IncomingMessage, body: string): Heard {
  const { pathname, searchParams } = new URL(url, 'http://platform')
  const [route = '', , id = ''] = pathname.split('/').slice(3)
  return { route: routes[route] ?? 'other', line: `${method} ${url}`, query: searchParams, headers, body, id }
}
