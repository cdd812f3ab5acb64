// Streams that are pushed, over a real connection: inject would give the answer only as a whole.

import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import type { Fence, LeasedJob } from '../../src/store/job-store.ts'
import { Facts } from '../support/facts.ts'
import { KEY, startTestService, type TestService } from '../support/service.ts'

let service: TestService
beforeEach(async () => {
  service = await startTestService()
  await service.http.listen({ host: '127.0.0.1', port: 0 })
})
afterEach(() => service.close())

interface Event {
  event: string
  id?: string
  data: unknown
}

interface Pushed {
  response: IncomingMessage
  events: Facts<Event>
  /** Resolves when the service has ended the answer. */
  ended: Promise<unknown>
  hangUp(): void
}

/** Reads an answer as it comes; `parse` makes an event of each complete piece between separators. */
async function open(path: string, headers: Record<string, string>): Promise<Pushed> {
  const { port } = service.http.server.address() as AddressInfo
  const asked = request({ port, path: `/v2/default${path}`, headers: { authorization: KEY, ...headers } })
  asked.end()
  const [response] = (await once(asked, 'response')) as [IncomingMessage]
  const events = new Facts<Event>()
  const isLines = headers['accept'] === 'application/x-ndjson'
  let text = ''
  response.setEncoding('utf8').on('data', (piece: string) => {
    text += piece
    const pieces = text.split(isLines ? '\n' : '\n\n')
    text = pieces.pop() ?? ''
    for (const whole of pieces) events.add(isLines ? lineOf(whole) : eventOf(whole))
  })
  const ended = new Promise((resolve) => response.once('end', resolve))
  response.on('error', () => undefined)
  const hangUp = (): void => void asked.destroy()
  onTestFinished(hangUp)
  return { response, events, ended, hangUp }
}

function eventOf(text: string): Event {
  const fields = Object.fromEntries(
    text.split('\n').map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]),
  )
  if (fields['event'] === undefined) return { event: text, data: undefined }
  return {
    event: fields['event'],
    ...(fields['id'] !== undefined && { id: fields['id'] }),
    data: JSON.parse(fields['data'] ?? ''),
  }
}

function lineOf(text: string): Event {
  const { event = 'chunk', ...data } = JSON.parse(text) as { event?: string }
  return { event, data }
}

const SSE = { accept: 'text/event-stream' }
const fence = (id: string, { lease }: LeasedJob): Fence => ({ endpoint: 'default', id, lease })
const now = (): number => Date.now()

async function leaseNext(): Promise<LeasedJob> {
  const ask = { endpoint: 'default', worker: 'w1', count: 1, leaseMs: 60_000, now: now() }
  const [job] = await service.store.jobs.lease(ask)
  if (!job) throw new Error('There was nothing to lease.')
  return job
}

async function submit(): Promise<string> {
  return (await service.ask('POST', '/run', { input: {} })).json<{ id: string }>().id
}

async function running(): Promise<{ id: string; job: LeasedJob }> {
  const id = await submit()
  return { id, job: await leaseNext() }
}

async function append(id: string, job: LeasedJob, ...outputs: string[]): Promise<void> {
  const chunks = outputs.map((output) => ({ output: Buffer.from(output) }))
  await service.store.jobs.appendChunks(fence(id, job), { chunks, now: now() })
}

async function complete(id: string, job: LeasedJob): Promise<void> {
  const end = { event: 'complete', output: Buffer.from('"all"') } as const
  await service.store.jobs.settle(fence(id, job), end, { now: now() })
}

describe('GET /stream with Accept: text/event-stream', () => {
  it('tells chunks, progress and the end as they come, and closes', async () => {
    const { id, job } = await running()
    const { response, events, ended } = await open(`/stream/${id}`, SSE)
    expect(response.headers).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache',
    })
    await append(id, job, '"a"', '{"b":\n1}')
    await events.first(({ id: index }) => index === '2')
    await service.store.jobs.setProgress(fence(id, job), Buffer.from('{"of":2}'))
    await events.first(({ event }) => event === 'progress')
    await append(id, job, '3')
    await complete(id, job)
    await ended
    expect(events.all.filter(({ event }) => !event.startsWith('retry'))).toMatchObject([
      { event: 'chunk', id: '1', data: { index: 1, attempt: 1, output: 'a', metrics: {} } },
      { event: 'chunk', id: '2', data: { index: 2, output: { b: 1 } } },
      { event: 'progress', data: { of: 2 } },
      { event: 'chunk', id: '3', data: { output: 3 } },
      { event: 'end', data: { id, status: 'COMPLETED', output: 'all' } },
    ])
  })

  it('goes on after Last-Event-ID, moves no read position, and answers the end at once', async () => {
    const { id, job } = await running()
    await append(id, job, '1', '2', '3')
    await complete(id, job)
    const { events, ended } = await open(`/stream/${id}?after=0`, { ...SSE, 'last-event-id': '2' })
    await ended
    expect(events.all.map(({ event, id: index }) => [event, index])).toEqual([
      ['retry: 1000', undefined],
      ['chunk', '3'],
      ['end', undefined],
    ])
    expect((await service.ask('GET', `/stream/${id}`)).json()).toHaveLength(3)
  })

  it('tells a reader that what it has is void when another attempt begins', async () => {
    const { id, job } = await running()
    await append(id, job, '1', '2')
    const reader = await open(`/stream/${id}`, SSE)
    await reader.events.first(({ id: index }) => index === '2')
    await service.store.jobs.lose(fence(id, job), {
      error: { type: 'E', message: 'm', code: 'CRASHED' },
      executionMs: 1,
      now: now(),
    })
    const again = await leaseNext()
    await append(id, again, '"new"')
    const late = await open(`/stream/${id}`, { ...SSE, 'last-event-id': '1' })
    await complete(id, again)
    await Promise.all([reader.ended, late.ended])
    for (const { events } of [reader, late]) {
      expect(events.all.slice(-3)).toMatchObject([
        { event: 'restart', data: { attempt: 2, after: 2 } },
        { event: 'chunk', id: '3', data: { attempt: 2, output: 'new' } },
        { event: 'end' },
      ])
    }
  })

  it('says that the job is deleted when its ttl passes', async () => {
    const id = await submit()
    const { events, ended } = await open(`/stream/${id}`, SSE)
    await events.first(({ event }) => event.startsWith('retry'))
    await service.store.jobs.setTtl('default', id, 0, now())
    await ended
    expect(events.all.at(-1)).toMatchObject({ event: 'deleted', data: { code: 'JOB_NOT_FOUND' } })
  })

  it('refuses an unknown job and an id that is none before it opens', async () => {
    expect((await open('/stream/nope', SSE)).response.statusCode).toBe(404)
    const id = await submit()
    for (const header of ['x', '-1', '1.5', '99999999999999999999']) {
      const { response } = await open(`/stream/${id}`, { ...SSE, 'last-event-id': header })
      expect(response.statusCode).toBe(400)
    }
  })

  it('lets go of a reader that hangs up, and of all of them when the service stops', async () => {
    const id = await submit()
    const first = await open(`/stream/${id}`, SSE)
    first.hangUp()
    const second = await open(`/stream/${id}`, SSE)
    await service.close()
    await second.ended
    expect(second.events.all.some(({ event }) => event === 'end')).toBe(false)
    service = await startTestService()
  })
})

describe('GET /stream with Accept: application/x-ndjson', () => {
  it('tells a chunk a line, and other news by its name', async () => {
    const { id, job } = await running()
    const { response, events, ended } = await open(`/stream/${id}`, { accept: 'application/x-ndjson' })
    expect(response.headers['content-type']).toBe('application/x-ndjson')
    await append(id, job, '[1,\r\n2]')
    await service.store.jobs.setProgress(fence(id, job), Buffer.from('0.5'))
    await events.first(({ event }) => event === 'progress')
    await complete(id, job)
    await ended
    expect(events.all).toMatchObject([
      { event: 'chunk', data: { index: 1, output: [1, 2], metrics: {} } },
      { event: 'progress', data: { progress: 0.5 } },
      { event: 'end', data: { job: { id, status: 'COMPLETED', output: 'all' } } },
    ])
  })

  it('reads from any index', async () => {
    const { id, job } = await running()
    await append(id, job, '1', '2', '3')
    await complete(id, job)
    const { events, ended } = await open(`/stream/${id}?after=2`, { accept: 'application/x-ndjson' })
    await ended
    expect(events.all.map(({ event }) => event)).toEqual(['chunk', 'end'])
  })
})
