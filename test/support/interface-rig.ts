// The interface under test: a service whose clock moves when told to, a client, and a worker that speaks plain HTTP.

import type { LightMyRequestResponse } from 'fastify'
import { onTestFinished } from 'vitest'
import { FakeClock } from './fake-clock.ts'
import {
  KEY,
  startTestService,
  storesElsewhere,
  type TestService,
  type TestServiceOptions,
} from './service.ts'

export type Reply = LightMyRequestResponse
export type Json = Record<string, unknown>

export interface TakenJob {
  id: string
  input: unknown
  policy: Json
  attempt: number
  webhook?: string
  s3Config?: Json
}

/** Enough for what is under way in this process to come to rest: nothing here waits for anything outside of it but a store. */
const TURNS = 8
/** The sweeper's own step: a clock that jumps further looks like a service that was down. */
const STEP_MS = 500

export async function turns(count = TURNS): Promise<void> {
  for (let n = 0; n < count; n += 1) {
    await new Promise((resolve) => setImmediate(resolve))
    // An answer of a store elsewhere comes after those that were asked for before.
    for (const store of storesElsewhere) await store.ping().catch(() => undefined)
  }
}

/** Turns until it has happened and come to rest, ten real seconds at most: for what travels over a connection. */
export async function happens(has: () => boolean | Promise<boolean>): Promise<void> {
  const patience = performance.now() + 10_000
  while (!(await has())) {
    if (performance.now() > patience) throw new Error('It did not happen within 10 s.')
    await turns(1)
  }
  await turns()
}

export class Rig {
  readonly service: TestService
  readonly clock: FakeClock
  readonly worker: HostedWorker
  /** For what the first one lost: it would not get that again. */
  readonly other: HostedWorker

  constructor(service: TestService, clock: FakeClock) {
    this.service = service
    this.clock = clock
    this.worker = new HostedWorker(service)
    this.other = new HostedWorker(service, 'w2')
  }

  get(path: string, headers?: Record<string, string>): Promise<Reply> {
    return this.service.ask('GET', path, undefined, headers)
  }

  post(path: string, body?: unknown, headers?: Record<string, string>): Promise<Reply> {
    return this.service.ask('POST', path, body, headers)
  }

  /** One request below `/v1`. */
  rest(
    method: 'GET' | 'POST' | 'PATCH' | 'DELETE',
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Reply> {
    return this.service.http.inject({
      method,
      url: `/v1${path}`,
      headers: { authorization: `Bearer ${KEY}`, ...headers },
      ...(body !== undefined && { payload: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
  }

  /** The document that such a request is answered; throws when it was refused. */
  async resource(
    method: 'GET' | 'POST' | 'PATCH' | 'DELETE',
    path: string,
    body?: unknown,
  ): Promise<Json & { id: string }> {
    const reply = await this.rest(method, path, body)
    if (reply.statusCode >= 300) throw new Error(reply.body)
    return reply.json()
  }

  /** The id of a job of `/run`. */
  async submit(submission: Json = {}, headers?: Record<string, string>): Promise<string> {
    const reply = await this.post('/run', { input: {}, ...submission }, headers)
    if (reply.statusCode !== 200) throw new Error(reply.body)
    return reply.json<{ id: string }>().id
  }

  async record(id: string): Promise<Json> {
    return (await this.get(`/status/${id}`)).json()
  }

  async statusOf(id: string): Promise<unknown> {
    return (await this.record(id))['status']
  }

  async health(): Promise<{ jobs: Record<string, number>; workers: Record<string, number> }> {
    return (await this.get('/health')).json()
  }

  async chunks(id: string, query = 'wait=0'): Promise<Json[]> {
    const reply = await this.get(`/stream/${id}?${query}`)
    await turns()
    return reply.json()
  }

  /** A job that was taken. */
  async running(submission?: Json): Promise<string> {
    const id = await this.submit(submission)
    await this.worker.take()
    return id
  }

  async completed(output: unknown = 'made', submission?: Json): Promise<string> {
    const id = await this.running(submission)
    await this.worker.done(id, { output })
    return id
  }

  async failed(submission?: Json): Promise<string> {
    const id = await this.running(submission)
    await this.worker.done(id, { error: 'it broke' })
    return id
  }

  /** Ended by the service: its worker kept silent. */
  async timedOut(submission?: Json): Promise<string> {
    const id = await this.running({ policy: { executionTimeout: 5_000 }, ...submission })
    await this.pass(10_000)
    return id
  }

  /** Lets time pass as it does: in steps that everything which goes on by itself keeps up with. */
  async pass(ms: number, each?: () => Promise<unknown>): Promise<void> {
    for (let left = ms; left > 0; left -= STEP_MS) {
      this.clock.advance(Math.min(left, STEP_MS))
      await turns(3)
      if (each && Math.ceil(left / STEP_MS) % 20 === 0) await each()
    }
    await turns()
  }

  /** Moves the clock at once. */
  async jump(ms: number): Promise<void> {
    this.clock.advance(ms)
    await turns()
  }

  /** Sends a request, and answers once it is being held or was answered. */
  async held(reply: Promise<Reply>): Promise<{ reply: Promise<Reply>; isAnswered: () => Promise<boolean> }> {
    let answered = false
    void reply.then(() => (answered = true))
    const isAnswered = async (): Promise<boolean> => {
      await turns()
      return answered
    }
    await turns()
    return { reply, isAnswered }
  }
}

/** A worker of the hosted kind, request by request. */
export class HostedWorker {
  readonly #service: TestService
  readonly name: string

  constructor(service: TestService, name = 'w1') {
    this.#service = service
    this.name = name
  }

  async take(): Promise<TakenJob> {
    const reply = await this.#service.ask('GET', `/job-take/${this.name}?x=1`)
    if (reply.statusCode !== 200) throw new Error('There was no job to take.')
    return reply.json()
  }

  done(id: string, body: unknown): Promise<Reply> {
    return this.#service.ask('POST', `/job-done/${this.name}/${id}`, body)
  }

  progress(id: string, output: unknown): Promise<Reply> {
    return this.done(id, { status: 'IN_PROGRESS', output })
  }

  stream(id: string, output: unknown, metrics?: Json): Promise<Reply> {
    return this.#service.ask('POST', `/job-stream/${this.name}/${id}`, { output, metrics })
  }

  ping(...ids: string[]): Promise<Reply> {
    const query = ids.length > 0 ? `?job_id=${ids.join(',')}` : ''
    return this.#service.ask('GET', `/ping/${this.name}${query}`)
  }

  async stops(): Promise<string[]> {
    return (await this.#service.ask('GET', `/job-stop/${this.name}`)).json<{ jobsToStop: string[] }>()
      .jobsToStop
  }
}

/** Whoever opens it closes its service; a second close does nothing. */
export async function openRig(options: TestServiceOptions = {}): Promise<Rig> {
  const clock = options.clock instanceof FakeClock ? options.clock : new FakeClock()
  const service = await startTestService({ ...options, clock })
  let isClosed = false
  const close = service.close.bind(service)
  service.close = async () => {
    if (!isClosed) await close()
    isClosed = true
  }
  await turns()
  return new Rig(service, clock)
}

/** Ends with the test. */
export async function startRig(options: TestServiceOptions = {}): Promise<Rig> {
  const rig = await openRig(options)
  onTestFinished(() => rig.service.close())
  return rig
}
