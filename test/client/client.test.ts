import type { AddressInfo } from 'node:net'
import { describe, expect, expectTypeOf, it, onTestFinished } from 'vitest'
import {
  Client,
  JobFailedError,
  JobNotEndedError,
  outputOf,
  QueueRefusedError,
  QueueUnreachableError,
  UnexpectedAnswerError,
  type ClientOptions,
} from '../../src/client/client.ts'
import { failingLink, type Fault } from '../support/failing-link.ts'
import { happens, startRig, type Rig } from '../support/interface-rig.ts'
import { startReceiver } from '../support/receiver.ts'
import { KEY } from '../support/service.ts'

interface Input {
  name: string
}
interface Output {
  greeting: string
}

interface Place {
  rig: Rig
  port: number
  client: Client<Input, Output>
  /** A client whose connections have these faults, one after the other, and a delay from then on. */
  through: (...faults: Fault[]) => Promise<Client<Input, Output>>
}

async function startPlace(prefix: string, options: Partial<ClientOptions> = {}): Promise<Place> {
  const rig = await startRig()
  await rig.service.http.listen({ host: '127.0.0.1', port: 0 })
  const { port } = rig.service.http.server.address() as AddressInfo
  const connect = (at: number): Client<Input, Output> => {
    const endpointUrl = `http://127.0.0.1:${at}${prefix}/default`
    const client = new Client<Input, Output>({ endpointUrl, apiKey: KEY, ...options })
    onTestFinished(() => client.close())
    return client
  }
  return {
    rig,
    port,
    client: connect(port),
    through: async (...faults) => {
      const link = await failingLink(port, () => faults.shift() ?? 'delay')
      onTestFinished(() => link.close())
      return connect(link.port)
    },
  }
}

async function all<T>(values: AsyncIterable<T>): Promise<T[]> {
  const got: T[] = []
  for await (const value of values) got.push(value)
  return got
}

describe.each(['/v2', '/compat/v2'])('a client of %s', (prefix) => {
  it('submits a job and waits for its end in one call', async () => {
    const { rig, client } = await startPlace(prefix)
    const waiting = client.runsync({ input: { name: 'Ada' } })
    await happens(async () => (await rig.health()).jobs['inQueue'] === 1)
    const { id, input } = await rig.worker.take()
    expect(input).toEqual({ name: 'Ada' })
    await rig.worker.done(id, { output: { greeting: 'Hello, Ada!' } })
    const record = await waiting
    expectTypeOf(record.output).toEqualTypeOf<Output | undefined>()
    expect(record).toMatchObject({ id, status: 'COMPLETED', attempt: 1, workerId: 'w1', delayTime: 0 })
    expect(outputOf(record)).toEqual({ greeting: 'Hello, Ada!' })
  })

  it('answers the record as it is when the wait is over, and waits for it again', async () => {
    const { rig, client } = await startPlace(prefix)
    const { id } = await client.run({ input: { name: 'Ada' } })
    const error = await client.wait(id, { waitMs: 50 }).catch((cause: unknown) => cause)
    expect(error).toBeInstanceOf(JobNotEndedError)
    expect(error).toMatchObject({ code: 'JOB_NOT_ENDED', record: { id, status: 'IN_QUEUE' } })
    const waiting = client.wait(id)
    await rig.worker.take()
    await rig.worker.stream(id, 'a word on the way')
    await rig.worker.done(id, { output: { greeting: 'Hi' } })
    expect(await waiting).toMatchObject({ id, status: 'COMPLETED', output: { greeting: 'Hi' } })
  })

  it('stops waiting when it is told to, with the reason it is given', async () => {
    const { client } = await startPlace(prefix)
    const { id } = await client.run({ input: { name: 'Ada' } })
    for (const begin of [
      (signal: AbortSignal) => client.wait(id, { signal }),
      (signal: AbortSignal) => client.runsync({ input: { name: 'Ada' } }, { signal }),
      (signal: AbortSignal) => all(client.stream(id, { signal })),
    ]) {
      const stop = new AbortController()
      const waiting = begin(stop.signal)
      setImmediate(() => stop.abort(new Error('enough')))
      await expect(waiting).rejects.toThrow('enough')
    }
  })

  it('tells the error of a job that failed, the progress of one that runs, and who ended the rest', async () => {
    const { rig, client } = await startPlace(prefix)
    const failed = await rig.running()
    await rig.worker.done(failed, {
      error: JSON.stringify({ error_type: 'ValueError', error_message: 'no such thing' }),
    })
    const record = await client.wait(failed)
    expect(record.error).toMatchObject({
      type: 'ValueError',
      message: 'no such thing',
      code: expect.any(String),
    })
    expect(() => outputOf(record)).toThrow(JobFailedError)
    expect(() => outputOf(record)).toThrow(`Job ${failed} is FAILED: ValueError: no such thing`)
    const running = await rig.running()
    await rig.worker.progress(running, { percent: 50 })
    const seen = await client.status(running)
    expect(seen).toMatchObject({ status: 'IN_PROGRESS', progress: { percent: 50 } })
    expect(seen.output).toBeUndefined()
    expect(() => outputOf(seen)).toThrow(JobNotEndedError)
    expect(await client.cancel(running)).toEqual({ id: running, status: 'CANCELLED' })
    const cancelled = await client.wait(running)
    expect(() => outputOf(cancelled)).toThrow(expect.objectContaining({ code: 'CANCELLED' }))
  })

  it('retries, purges and counts', async () => {
    const { rig, client } = await startPlace(prefix)
    const failed = await rig.failed()
    expect(await client.retry(failed)).toEqual({ id: failed, status: 'IN_QUEUE' })
    await expect(client.retry(failed)).rejects.toThrow(expect.objectContaining({ code: 'WRONG_STATUS' }))
    await client.run({ input: { name: 'Ada' } })
    expect((await client.health()).jobs).toMatchObject({ inQueue: 2, failed: 1, retried: 1 })
    expect(await client.purgeQueue()).toBe(2)
  })

  it('streams each chunk once, from the first or after an index, to any number of readers', async () => {
    const { rig, client } = await startPlace(prefix)
    const id = await rig.running()
    const readers = [all(client.stream(id)), all(client.stream(id))]
    for (const word of ['one', 'two', 'three']) await rig.worker.stream(id, word, { size: word.length })
    await rig.worker.done(id, { output: [] })
    const chunks = [
      { index: 1, attempt: 1, output: 'one', metrics: { size: 3 } },
      { index: 2, attempt: 1, output: 'two', metrics: { size: 3 } },
      { index: 3, attempt: 1, output: 'three', metrics: { size: 5 } },
    ]
    expect(await Promise.all(readers)).toEqual([chunks, chunks])
    expect(await all(client.stream(id, { after: 2 }))).toEqual(chunks.slice(2))
  })

  it('puts values together that took several chunks', async () => {
    const { rig, client } = await startPlace(prefix)
    const id = await rig.running()
    const values = ['small', 'long '.repeat(500_000), { list: Array.from({ length: 300_000 }, (_, n) => n) }]
    for (const value of values) await rig.worker.stream(id, value)
    await rig.worker.done(id, { output: [] })
    expect((await all(client.stream(id))).length).toBeGreaterThan(5)
    expect(await all(client.values(id))).toEqual(values)
  })

  it('makes one job of a submission whose answers get lost', async () => {
    const { rig, through } = await startPlace(prefix)
    const client = await through('reset on answer', 'reset on answer')
    const { id } = await client.run({ input: { name: 'Ada' } })
    expect((await rig.health()).jobs).toMatchObject({ inQueue: 1 })
    expect(await rig.statusOf(id)).toBe('IN_QUEUE')
  })

  it('makes one job of one key', async () => {
    const { client } = await startPlace(prefix)
    const options = { idempotencyKey: 'order-1' }
    const first = await client.run({ input: { name: 'Ada' } }, options)
    expect(await client.run({ input: { name: 'Ada' } }, options)).toEqual(first)
  })

  it('answers the retry whose first answer got lost', async () => {
    const { rig, through } = await startPlace(prefix)
    const failed = await rig.failed()
    const client = await through('reset on answer')
    expect(await client.retry(failed)).toEqual({ id: failed, status: 'IN_QUEUE' })
    expect((await rig.health()).jobs).toMatchObject({ retried: 1 })
  })

  it('streams over connections that break without a gap or a chunk twice', async () => {
    const { rig, through } = await startPlace(prefix)
    const id = await rig.running()
    const words = Array.from({ length: 20 }, (_, n) => `word ${n}`)
    const client = await through('reset on answer', 'reset on answer', 'reset later', 'reset on answer')
    const reading = all(client.values(id))
    for (const word of words) await rig.worker.stream(id, word)
    await rig.worker.done(id, { output: [] })
    expect(await reading).toEqual(words)
  })

  it('rides out connections that break while it waits', async () => {
    const { rig, through } = await startPlace(prefix)
    const client = await through('reset on answer', 'reset later', 'reset later')
    const id = await rig.running()
    const waiting = client.wait(id)
    await rig.worker.done(id, { output: { greeting: 'Hi' } })
    expect(outputOf(await waiting)).toEqual({ greeting: 'Hi' })
  })
})

describe('a client', () => {
  it('throws what is refused at once, with status and code, and what cannot be reached after its tries', async () => {
    const { rig, port, client } = await startPlace('/v2', { attempts: 2 })
    const unknown = await client.status('nowhere').catch((cause: unknown) => cause)
    expect(unknown).toBeInstanceOf(QueueRefusedError)
    expect(unknown).toMatchObject({ status: 404, code: 'JOB_NOT_FOUND' })
    const stranger = new Client({ endpointUrl: `http://127.0.0.1:${port}/v2/default`, apiKey: 'wrong' })
    await expect(stranger.health()).rejects.toMatchObject({ status: 401 })
    await rig.service.close()
    // A connection that it had would not tell whether its request went out.
    const late = new Client({ endpointUrl: `http://127.0.0.1:${port}/v2/default`, apiKey: KEY, attempts: 2 })
    const away = await late.health().catch((cause: unknown) => cause)
    expect(away).toBeInstanceOf(QueueUnreachableError)
    expect(away).toMatchObject({ code: 'QUEUE_UNREACHABLE', mayHaveArrived: false })
  })

  it('says so when what answers is no queue', async () => {
    const { url } = await startReceiver()
    await using client = new Client({ endpointUrl: `${url}/v2/default`, apiKey: KEY })
    const error = await client.status('x').catch((cause: unknown) => cause)
    expect(error).toBeInstanceOf(UnexpectedAnswerError)
    expect(error).toMatchObject({
      code: 'UNEXPECTED_ANSWER',
      message: `What ${url}/v2/default/status/x answered is no answer of a queue. Check the endpoint's URL: it ends in /v2/{endpointId}.`,
    })
  })

  it('streams what the next attempt makes behind what a lost one made', async () => {
    const { rig, client } = await startPlace('/v2')
    const id = await rig.running()
    const chunks = client.stream(id)
    await rig.worker.stream(id, 'of the first')
    expect((await chunks.next()).value).toMatchObject({ attempt: 1, output: 'of the first' })
    await rig.pass(60_000)
    await rig.other.take()
    await rig.other.stream(id, 'of the second')
    await rig.other.done(id, { output: [] })
    expect(await all(chunks)).toMatchObject([{ attempt: 2, output: 'of the second' }])
  })

  it('waits as long as a throttled answer asks, and no shorter', async () => {
    const calls: number[] = []
    const { url } = await startReceiver((call, number) => {
      calls.push(call.at)
      return number === 1 ? { status: 429, headers: { 'retry-after': '1' } } : { status: 404 }
    })
    await using client = new Client({ endpointUrl: `${url}/v2/default`, apiKey: KEY })
    await expect(client.health()).rejects.toMatchObject({ status: 404 })
    expect((calls[1] ?? 0) - (calls[0] ?? 0)).toBeGreaterThanOrEqual(990)
  })
})
