import { describe, expect, it } from 'vitest'
import { hostedLink, json, startHostedWorker } from '../support/hosted-worker.ts'
import type { Timer } from '../../src/lib/clock.ts'
import { Facts } from '../support/facts.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { startPlatform } from '../support/scripted-platform.ts'
import type { ExchangeRequest } from '../../src/protocol/exchange.ts'
import { QueueRefusedError } from '../../src/client/http.ts'

/** Notes for how long it is asked to wait. */
class NotingClock extends FakeClock {
  readonly waits = new Facts<number>()

  override after(ms: number, callback: () => void): Timer {
    this.waits.add(ms)
    return super.after(ms, callback)
  }
}

/** The document within the error of a posted result. */
function errorIn(body: string | undefined): Record<string, string> {
  const { error } = JSON.parse(body ?? '{}') as { error: string }
  return JSON.parse(error) as Record<string, string>
}

const job = (id: string, more: object = {}): { json: object } => ({
  json: { id, input: { of: id }, ...more },
})

describe('the worked traces', () => {
  it('one plain job', async () => {
    const platform = await startPlatform()
    platform.next('take', job('job-1'))
    const { runOf, warnings } = startHostedWorker(platform.urls)
    const run = await runOf('job-1')
    expect(run.input).toEqual({ of: 'job-1' })
    run.complete({ a: 1 })
    await platform.nth('take', 2)
    await platform.nth('done', 1)
    const lines = platform.heard.all.filter(({ route }) => route !== 'stop').map(({ line }) => line)
    expect(lines.slice(0, 2)).toEqual([
      'GET /v2/ep/ping/w1?gpu=SIM&runpod_version=longshore-1.2.3',
      'GET /v2/ep/job-take/w1?gpu=SIM&job_in_progress=0',
    ])
    const [done] = platform.all('done')
    expect(done?.line).toBe('POST /v2/ep/job-done/w1/job-1?gpu=SIM&isStream=false')
    expect(done?.body).toBe('{"output":{"a":1}}')
    expect(done?.headers['content-type']).toBe('application/x-www-form-urlencoded')
    expect(platform.all('stop')[0]?.line).toBe('GET /v2/ep/job-stop/w1?gpu=SIM')
    for (const { headers } of platform.heard.all) expect(headers.authorization).toBe('the key')
    expect(warnings.all).toEqual([])
  })

  it('a generator with an aggregate, and one without', async () => {
    const platform = await startPlatform()
    platform.next('take', job('g1'), job('g2'))
    const { runOf } = startHostedWorker(platform.urls)
    for (const [id, output] of [
      ['g1', [{ i: 0 }, { i: 1 }]],
      ['g2', null],
    ] as const) {
      const run = await runOf(id)
      run.chunk({ i: 0 })
      run.chunk({ i: 1 }, '{"tokens":7}')
      run.complete(output)
    }
    await platform.nth('done', 2)
    expect(platform.all('stream').map(({ line, body }) => [line, body])).toEqual(
      ['g1', 'g2'].flatMap((id) => [
        [`POST /v2/ep/job-stream/w1/${id}?gpu=SIM&isStream=false`, '{"output":{"i":0}}'],
        [
          `POST /v2/ep/job-stream/w1/${id}?gpu=SIM&isStream=false`,
          '{"output":{"i":1},"metrics":{"tokens":7}}',
        ],
      ]),
    )
    expect(platform.all('done').map(({ line, body }) => [line, body])).toEqual([
      ['POST /v2/ep/job-done/w1/g1?gpu=SIM&isStream=true', '{"output":[{"i":0},{"i":1}]}'],
      ['POST /v2/ep/job-done/w1/g2?gpu=SIM&isStream=true', '{"output":[]}'],
    ])
  })

  it('concurrency 3: a batch for what is free, one take at a time', async () => {
    const platform = await startPlatform()
    platform.next('take', { json: [{ id: 'c1', input: {} }] })
    const { runOf } = startHostedWorker(platform.urls, { concurrency: 3, pingIntervalMs: 100 })
    await runOf('c1')
    expect((await platform.nth('take', 2)).line).toBe(
      'GET /v2/ep/job-take-batch/w1?gpu=SIM&batch_size=2&job_in_progress=1',
    )
    expect(platform.all('take')[0]?.line).toBe(
      'GET /v2/ep/job-take-batch/w1?gpu=SIM&batch_size=3&job_in_progress=0',
    )
    await platform.answer('take', {
      json: [
        { id: 'c2', input: {} },
        { id: 'c3', input: {} },
      ],
    })
    await runOf('c3')
    const ping = await platform.heard.first(
      ({ route, query }) => route === 'ping' && query.get('job_id') === 'c1,c2,c3',
    )
    expect(ping.line).toContain('job_id=c1%2Cc2%2Cc3')
    expect(platform.all('take')).toHaveLength(2)
  })

  it('a stop: the run is cancelled, nothing is posted, and the id leaves the pings', async () => {
    const platform = await startPlatform()
    platform.next('take', job('a1'))
    const { runOf } = startHostedWorker(platform.urls, { pingIntervalMs: 100 })
    const run = await runOf('a1')
    await platform.heard.first(({ route, query }) => route === 'ping' && query.get('job_id') === 'a1')
    await platform.answer('stop', { json: { jobsToStop: ['a1', 'not mine', 7] } })
    await expect.poll(() => run.reason).toBe('cancelled')
    const pings = platform.all('ping').length
    await platform.nth('ping', pings + 2)
    expect(platform.all('ping').at(-1)?.query.get('job_id')).toBeNull()
    await platform.nth('stop', 2)
    await platform.nth('take', 2)
    expect(platform.posts('done')).toEqual([])
  })
})

describe('a job that is over', () => {
  it('is not posted any more once it is stopped, whatever was still to be tried again', async () => {
    const platform = await startPlatform()
    platform.next('take', job('a1'))
    platform.next('done', ...Array.from({ length: 9 }, () => ({ status: 503 })))
    const { runOf } = startHostedWorker(platform.urls, { pingIntervalMs: 100 })
    ;(await runOf('a1')).complete(1)
    await platform.nth('done', 1)
    await platform.answer('stop', { json: { jobsToStop: ['a1'] } })
    await platform.nth('stop', 2)
    const posted = platform.all('done').length
    // Four pings take longer than the next try would have waited.
    await platform.nth('ping', platform.all('ping').length + 4)
    expect(platform.all('done')).toHaveLength(posted)
    expect(platform.all('ping').at(-1)?.query.has('job_id')).toBe(false)
  })

  it('is left to the platform when the worker has to go before its end', async () => {
    const platform = await startPlatform()
    platform.next('take', job('a1'))
    const { worker, runOf } = startHostedWorker(platform.urls)
    const run = await runOf('a1')
    worker.drain('SIGTERM')
    worker.drain('SIGTERM')
    await worker.left
    expect(run.reason).toBe('shutdown')
    expect(platform.posts('done')).toEqual([])
  })
})

describe('what is posted', () => {
  it('is progress in order, the latest counts, and none comes after the end', async () => {
    const platform = await startPlatform()
    platform.next('take', job('p1'))
    platform.next('done', 'hold')
    const { runOf } = startHostedWorker(platform.urls)
    const run = await runOf('p1')
    run.progress(1)
    await platform.nth('done', 1)
    run.progress(2)
    run.progress(3)
    run.complete('x')
    await expect.poll(() => platform.held.map(({ heard }) => heard.route)).toContain('done')
    await platform.answer('done', { json: {} })
    await platform.nth('take', 2)
    await platform.nth('done', 2)
    const posted = platform.posts('done')
    expect(posted[0]).toBe('p1 {"status":"IN_PROGRESS","output":1}')
    expect(posted.at(-1)).toBe('p1 {"output":"x"}')
  })

  it('is an error as a text that holds its parts, and stopPod when the worker wants to be recycled', async () => {
    const platform = await startPlatform()
    platform.next('take', job('e1'), job('e2'))
    const { runOf } = startHostedWorker(platform.urls)
    ;(await runOf('e1')).fail('too far')
    ;(await runOf('e2')).complete({ ok: true }, { refresh: true })
    const failed = await platform.nth('done', 1)
    expect(errorIn(failed.body)).toEqual({
      error_type: 'RangeError',
      error_message: 'too far',
      error_traceback: '',
      hostname: 'host-1',
      worker_id: 'w1',
      runpod_version: 'longshore-1.2.3',
    })
    expect(JSON.parse((await platform.nth('done', 2)).body)).toEqual({ output: { ok: true }, stopPod: true })
  })

  it.each(['timedOut', 'lost'] as const)('is an error for a job that is %s', async (kind) => {
    const platform = await startPlatform()
    platform.next('take', job('e1'))
    const { runOf } = startHostedWorker(platform.urls)
    const error = { type: 'TimeoutError', message: 'too long', code: 'TIMED_OUT' }
    ;(await runOf('e1')).end({ kind, error, executionMs: 1 })
    expect(errorIn((await platform.nth('done', 1)).body)).toMatchObject({ error_message: 'too long' })
  })

  it('has the id of its own job in X-Request-ID, and polls have none', async () => {
    const platform = await startPlatform()
    platform.next('take', { json: ['x1', 'x2', 'x3'].map((id) => ({ id, input: {} })) })
    platform.next('done', { status: 503 }, { status: 503 })
    const { runOf } = startHostedWorker(platform.urls, { concurrency: 3 })
    for (const id of ['x1', 'x2', 'x3']) (await runOf(id)).complete(id)
    await platform.nth('done', 5)
    for (const { headers, id } of platform.all('done')) expect(headers['x-request-id']).toBe(id)
    for (const { headers } of platform.all('take')) expect(headers['x-request-id']).toBeUndefined()
  })

  it('goes on for other jobs while one is slow', async () => {
    const platform = await startPlatform()
    platform.next('take', { json: ['s1', 's2'].map((id) => ({ id, input: {} })) })
    platform.next('done', 'hold')
    const { runOf } = startHostedWorker(platform.urls, { concurrency: 2 })
    ;(await runOf('s1')).complete(1)
    await platform.nth('done', 1)
    ;(await runOf('s2')).complete(2)
    await platform.heard.first(({ route, id }) => route === 'done' && id === 's2')
    expect(platform.posts('done')).toEqual(['s1 {"output":1}', 's2 {"output":2}'])
  })

  it('waits for its turn: a chunk is not acknowledged before it is accepted, nor the next one sent', async () => {
    const platform = await startPlatform()
    platform.next('take', job('b1'))
    platform.next('stream', 'hold')
    const { runOf } = startHostedWorker(platform.urls)
    const run = await runOf('b1')
    run.chunk('first')
    run.chunk('second')
    await platform.nth('stream', 1)
    expect(run.stored).toBe(0)
    await platform.answer('stream', { json: {} })
    await platform.nth('stream', 2)
    await expect.poll(() => run.stored).toBeGreaterThan(0)
    expect(platform.posts('stream')).toEqual(['b1 {"output":"first"}', 'b1 {"output":"second"}'])
  })

  it('says which piece of a larger value it is', async () => {
    const platform = await startPlatform()
    platform.next('take', job('v1'))
    const { runOf } = startHostedWorker(platform.urls)
    const { listener } = await runOf('v1')
    listener.onChunk({ output: json('whole') })
    listener.onChunk({ output: json('a'), part: { as: 'text', back: 0, last: false } })
    listener.onChunk({ output: json('b'), part: { as: 'text', back: 1, last: true } })
    await platform.nth('stream', 3)
    expect(platform.all('stream').map(({ body }) => JSON.parse(body))).toEqual([
      { output: 'whole' },
      { output: 'a', part: { as: 'text', first: 2, back: 0, last: false } },
      { output: 'b', part: { as: 'text', first: 2, back: 1, last: true } },
    ])
  })
})

describe('faults', () => {
  it.each([{ status: 500 }, { status: 503 }, { status: 408 }, 'hang up'] as const)(
    'repeats a result after %j until it is accepted',
    async (fault) => {
      const platform = await startPlatform()
      platform.next('take', job('r1'))
      platform.next('done', fault, fault)
      const { runOf } = startHostedWorker(platform.urls)
      ;(await runOf('r1')).complete('once')
      await platform.nth('done', 3)
      await platform.nth('take', 2)
      expect(new Set(platform.posts('done'))).toEqual(new Set(['r1 {"output":"once"}']))
    },
  )

  it('repeats chunks whose reply was lost before it goes on with the next', async () => {
    const platform = await startPlatform()
    platform.next('take', job('r2'))
    platform.next('stream', { json: {} }, 'hang up')
    const { runOf } = startHostedWorker(platform.urls)
    const run = await runOf('r2')
    for (const n of [1, 2, 3]) run.chunk(n)
    run.complete(null)
    await platform.nth('done', 1)
    expect(platform.all('stream').map(({ body }) => body)).toEqual([1, 2, 2, 3].map((n) => `{"output":${n}}`))
  })

  it('waits as long as Retry-After says after a 429 to a result', async () => {
    const platform = await startPlatform()
    platform.next('take', job('w1'))
    platform.next('done', { status: 429, headers: { 'retry-after': '1' } })
    const { runOf } = startHostedWorker(platform.urls)
    const run = await runOf('w1')
    run.complete(1)
    await platform.nth('done', 1)
    const from = performance.now()
    await platform.nth('done', 2)
    expect(performance.now() - from).toBeGreaterThan(900)
  })

  it.each([400, 413])(
    'fails a job whose result is answered %i, with its size, and says so',
    async (status) => {
      const platform = await startPlatform()
      platform.next('take', job('big'), job('next'))
      platform.next('done', { status, body: '{"error":"json is invalid; max size is 2 MB"}' })
      const { runOf, warnings } = startHostedWorker(platform.urls)
      ;(await runOf('big')).complete('x'.repeat(1_000))
      const { body, query } = await platform.nth('done', 2)
      expect(errorIn(body)).toMatchObject({
        error_type: 'OutputError',
        error_message: expect.stringMatching(
          new RegExp(`HTTP ${status} to a result of 1013 bytes \\("json is invalid; max size is 2 MB"\\)`),
        ),
      })
      expect(query.get('isStream')).toBe('false')
      expect(warnings.all).toEqual([{ id: 'big', message: expect.stringContaining('1013 bytes') }])
      await runOf('next')
    },
  )

  it('gives a job up when its error is not wanted either', async () => {
    const platform = await startPlatform()
    platform.next('take', job('big'), job('next'))
    platform.next('done', { status: 413 }, { status: 413 })
    const { runOf, warnings } = startHostedWorker(platform.urls)
    ;(await runOf('big')).complete('x')
    await runOf('next')
    await warnings.first(({ message }) => message.includes('given up'))
    expect(platform.all('done')).toHaveLength(2)
  })

  it('stops and fails a job whose chunk is answered 413', async () => {
    const platform = await startPlatform()
    platform.next('take', job('big'))
    platform.next('stream', { status: 413 })
    const { runOf } = startHostedWorker(platform.urls)
    const run = await runOf('big')
    run.chunk('x')
    await expect.poll(() => run.reason).toBe('lease-lost')
    const { body } = await platform.nth('done', 1)
    expect(errorIn(body)['error_message']).toContain('413 to a chunk')
    await platform.nth('take', 2)
  })

  it.each([404, 410, 401, 403])('gives a job up whose post is answered %i, and says so', async (status) => {
    const platform = await startPlatform()
    platform.next('take', job('gone'), job('next'))
    platform.next('stream', { status })
    const { runOf, warnings } = startHostedWorker(platform.urls)
    const run = await runOf('gone')
    run.chunk('x')
    await expect.poll(() => run.reason).toBe('lease-lost')
    await runOf('next')
    expect(warnings.all).toEqual([
      { id: 'gone', message: expect.stringMatching(new RegExp(`${status}.*given up`)) },
    ])
    expect(platform.posts('done')).toEqual([])
  })

  it('of any kind lose nothing: every chunk and every end arrives, in the order of its job', async () => {
    const platform = await startPlatform()
    const ids = Array.from({ length: 40 }, (_, n) => `j${n}`)
    const faults = ['hang up', { status: 500 }, { status: 429, headers: { 'retry-after': '0' } }] as const
    // Every third post comes to nothing, in ways that take turns; takes fail now and then, too.
    for (let n = 0; n < 90; n += 1) {
      const fault = faults[n % faults.length] ?? 'hang up'
      platform.next('stream', { json: {} }, { json: {} }, fault)
      platform.next('done', fault, { json: {} })
    }
    for (const id of ids) platform.next('take', ...(id.endsWith('7') ? ['hang up' as const] : []), job(id))
    const { runOf } = startHostedWorker(platform.urls, { concurrency: 8 })
    for (const id of ids) {
      const run = await runOf(id)
      for (const n of [1, 2, 3]) run.chunk(n)
      run.complete(id)
    }
    const ended = new Set<string>()
    await platform.heard.first(({ route, id }) => route === 'done' && ended.add(id).size === ids.length)
    for (const id of ids) {
      const chunks = platform
        .all('stream')
        .flatMap((heard) => (heard.id === id ? JSON.parse(heard.body).output : []))
      expect(chunks.filter((n, at) => n !== chunks[at - 1])).toEqual([1, 2, 3])
      const last = platform.heard.all.findLastIndex((heard) => heard.route === 'stream' && heard.id === id)
      const end = platform.heard.all.findIndex((heard) => heard.route === 'done' && heard.id === id)
      expect(end).toBeGreaterThan(last)
    }
  })

  it('tells when the platform cannot be reached, and works when it can again', async () => {
    const platform = await startPlatform()
    platform.next('take', 'hang up', { status: 502 }, job('late'))
    const { runOf, unreachable } = startHostedWorker(platform.urls)
    await runOf('late')
    expect(unreachable.all.length).toBeGreaterThanOrEqual(1)
  })

  it('that last are not taken for an answer, also when the worker leaves or has something to say', async () => {
    const platform = await startPlatform()
    platform.next('take', job('unsaid'))
    const { worker, runOf, unreachable, reachable } = startHostedWorker(platform.urls, { concurrency: 2 })
    const run = await runOf('unsaid')
    await platform.nth('take', 2)
    platform.close()
    await unreachable.first(({ failures }) => failures === 2)
    run.complete('unsaid')
    await unreachable.first(({ failures }) => failures === 4)
    worker.drain('SIGTERM')
    worker.drain('SIGTERM')
    await worker.left
    expect(reachable.all).toEqual([])
  })

  it('leaves as refused when the very first take is answered 401', async () => {
    const platform = await startPlatform()
    platform.next('take', { status: 401 })
    const { worker } = startHostedWorker(platform.urls)
    await expect(worker.left).rejects.toThrow(QueueRefusedError)
  })
})

describe('a take', () => {
  const poll = (seq: number, want: number): ExchangeRequest => ({
    session: 's',
    seq,
    want,
    held: [],
    started: [],
    chunks: [],
    progress: [],
    ended: [],
  })
  const options = { timeoutMs: 60_000 }

  it.each([
    { status: 204 },
    { status: 400 },
    { json: [] },
    { json: null },
    { status: 200, body: '<html>' },
  ] as const)('that is answered %j at once is repeated after a growing wait only', async (reply) => {
    const platform = await startPlatform()
    const clock = new NotingClock()
    const { link } = hostedLink(platform.urls, { clock })
    platform.next('take', reply, reply, reply)
    void link.send(poll(1, 1), [], options).catch(() => undefined)
    for (const [takes, longest] of [
      [1, 100],
      [2, 200],
      [3, 400],
    ] as const) {
      await platform.nth('take', takes)
      const waitMs = await clock.waits.first((ms) => ms <= longest && ms >= longest / 2)
      clock.advance(waitMs - 1)
      expect(platform.all('take')).toHaveLength(takes)
      clock.advance(1)
    }
    await platform.nth('take', 4)
  })

  it('that was held for long and is then answered 204 is followed at once', async () => {
    const platform = await startPlatform()
    const clock = new FakeClock()
    const { link } = hostedLink(platform.urls, { clock })
    void link.send(poll(1, 1), [], options).catch(() => undefined)
    for (const takes of [1, 2, 3]) {
      await platform.nth('take', takes)
      clock.advance(5_000)
      await platform.answer('take', { status: 204 })
    }
    await platform.nth('take', 4)
  })

  it.each([
    [{ status: 429 }, 5_000],
    [{ status: 429, headers: { 'retry-after': '2' } }, 2_000],
  ])('that is answered %j is repeated after %i ms', async (reply, waitMs) => {
    const platform = await startPlatform()
    const clock = new FakeClock()
    const { link, warnings } = hostedLink(platform.urls, { clock })
    platform.next('take', reply)
    void link.send(poll(1, 1), [], options).catch(() => undefined)
    await warnings.first(({ message }) =>
      message.includes(`429 to job-take; the next one goes out in ${waitMs} ms`),
    )
    clock.advance(waitMs - 1)
    expect(platform.all('take')).toHaveLength(1)
    clock.advance(1)
    await platform.nth('take', 2)
  })

  it('that the platform never answers is given up after 90 s and made again', async () => {
    const platform = await startPlatform()
    const clock = new FakeClock()
    const { link } = hostedLink(platform.urls, { clock })
    void link.send(poll(1, 1), [], options).catch(() => undefined)
    await platform.nth('take', 1)
    clock.advance(90_000)
    await platform.nth('take', 2)
    await platform.gone.first(({ route }) => route === 'take')
  })

  it('is given up at once when nothing is wanted any more', async () => {
    const platform = await startPlatform()
    const { worker } = startHostedWorker(platform.urls)
    await platform.nth('take', 1)
    worker.drain('SIGTERM')
    await worker.left
    await platform.gone.first(({ route }) => route === 'take')
  })

  it('whose job has begun to arrive when the worker leaves is run to its end', async () => {
    const platform = await startPlatform()
    const { worker, runOf } = startHostedWorker(platform.urls, { pingIntervalMs: 100 })
    await platform.nth('take', 1)
    const finish = await platform.begin('take', '{"id":')
    // Whatever was written before these pings is there by now.
    await platform.nth('ping', platform.all('ping').length + 2)
    worker.drain('SIGTERM')
    finish('"last"}')
    ;(await runOf('last')).complete('ran')
    await worker.left
    expect(platform.posts('done')).toEqual(['last {"output":"ran"}'])
    expect(platform.all('take')).toHaveLength(1)
  })

  it('gives jobs with an empty input where there is none, and every byte where there is one', async () => {
    const platform = await startPlatform()
    const exact = '{"n":12345678901234567890.10, "__proto__":{"x":1}}'
    platform.next('take', {
      status: 200,
      body: `[{"id":"i1"},{"id":"i2","input": ${exact} },{"id":"i3","input":[1]}]`,
    })
    const { runOf } = startHostedWorker(platform.urls, { concurrency: 3 })
    const textOf = async (id: string): Promise<string> =>
      Buffer.from((await runOf(id)).assignment.input).toString('utf8')
    expect([await textOf('i1'), await textOf('i2'), await textOf('i3')]).toEqual(['{}', exact, '[1]'])
  })

  it('skips what is no job, with a word about it, and takes the rest', async () => {
    const platform = await startPlatform()
    const odd = [{ input: {} }, null, 7, { id: 5 }, { id: 'a/../b' }, { id: '..' }, { id: 'good' }]
    platform.next('take', { json: odd })
    const { runOf, warnings } = startHostedWorker(platform.urls, { concurrency: 2 })
    await runOf('good')
    expect(warnings.all.map(({ message }) => message.replace(/.*odd: /, ''))).toEqual([
      'a job has no id.',
      'a job is no object.',
      'a job is no object.',
      ...Array.from({ length: 3 }, () => 'the id of a job is no text for a URL.'),
    ])
  })

  it('ignores a job that it holds already', async () => {
    const platform = await startPlatform()
    platform.next('take', job('twice'), job('twice'), job('other'))
    const { runOf, runs } = startHostedWorker(platform.urls, { concurrency: 2 })
    await runOf('other')
    expect(runs.all.map(({ assignment }) => assignment.id)).toEqual(['twice', 'other'])
  })

  it('brings the limit, the attempt and the storage of a job where they are known, and no limit else', async () => {
    const platform = await startPlatform()
    const s3Config = {
      accessId: 'a',
      accessSecret: 's',
      bucketName: 'b',
      endpointUrl: 'https://s3.example.com',
    }
    platform.next('take', {
      json: [
        {
          id: 'm1',
          input: {},
          policy: { executionTimeout: 300, ttl: 60_000 },
          attempt: 2,
          s3Config,
          webhook: 'https://x',
        },
        { id: 'm2', input: {}, policy: 'odd', s3Config: { accessId: 'a' } },
      ],
    })
    const { runOf, warnings } = startHostedWorker(platform.urls, { concurrency: 2 })
    expect((await runOf('m1')).assignment).toMatchObject({
      attempt: 2,
      executionTimeoutMs: 300,
      policy: { executionTimeout: 300, ttl: 60_000, lowPriority: false },
      s3Config,
    })
    const { assignment } = await runOf('m2')
    expect(assignment.attempt).toBe(1)
    expect(assignment).not.toHaveProperty('executionTimeoutMs')
    expect(assignment).not.toHaveProperty('s3Config')
    expect(warnings.all[0]?.message).toContain('s3Config of job m2')
  })

  it('asks for no more jobs than there are slots, however short they are', async () => {
    const platform = await startPlatform()
    const ids = Array.from({ length: 20 }, (_, n) => `short-${n}`)
    platform.next('take', ...ids.map((id) => job(id)))
    const { runOf } = startHostedWorker(platform.urls)
    for (const id of ids) (await runOf(id)).complete(id)
    await platform.nth('take', 21)
    for (const { line } of platform.all('take')) expect(line).not.toContain('batch')
    await platform.nth('done', 20)
  })

  it('runs more jobs than it asked for one after the other', async () => {
    const platform = await startPlatform()
    platform.next('take', { json: ['m1', 'm2', 'm3'].map((id) => ({ id, input: {} })) })
    const { runOf } = startHostedWorker(platform.urls)
    for (const id of ['m1', 'm2', 'm3']) (await runOf(id)).complete(id)
    await platform.nth('done', 3)
    expect(platform.posts('done')).toEqual(['m1', 'm2', 'm3'].map((id) => `${id} {"output":"${id}"}`))
  })
})

describe('the heartbeat', () => {
  it('comes before the first take, and then at its interval, with every id up to its cap', async () => {
    const platform = await startPlatform()
    const ids = Array.from({ length: 900 }, (_, n) => `${n}-${'x'.repeat(95)}`)
    platform.next('take', { json: ids.map((id) => ({ id, input: {} })) })
    const { runOf } = startHostedWorker(platform.urls, { concurrency: 1_000, pingIntervalMs: 100 })
    await runOf(ids.at(-1) ?? '')
    const { query } = await platform.heard.first(
      ({ route, query: asked }) => route === 'ping' && asked.has('job_id'),
    )
    const listed = query.get('job_id') ?? ''
    expect(listed.length).toBeLessThanOrEqual(65_536)
    expect(ids.slice(0, listed.split(',').length).join(',')).toBe(listed)
    expect(platform.heard.all.findIndex(({ route }) => route === 'ping')).toBeLessThan(
      platform.heard.all.findIndex(({ route }) => route === 'take'),
    )
  })

  it('says so when it is not taken', async () => {
    const platform = await startPlatform()
    platform.next('ping', ...Array.from({ length: 3 }, () => ({ status: 500 })))
    const { warnings } = startHostedWorker(platform.urls, { pingIntervalMs: 50 })
    await warnings.first(({ message }) => /not taken 3 pings in a row \(HTTP 500\)/.test(message))
  })

  it('does not hold up the work when it is never answered', async () => {
    const platform = await startPlatform()
    platform.next('ping', 'hold')
    platform.next('take', job('a'))
    const { runOf } = startHostedWorker(platform.urls)
    await runOf('a')
  })
})

describe('the addresses', () => {
  it('get a question mark where the templates have none', async () => {
    const platform = await startPlatform()
    const { take, done, stream, ping } = platform.urls
    const bare = (url: string): string => url.replace('?gpu=SIM', '')
    platform.next('take', { json: [{ id: 'q1' }] })
    const { runOf } = startHostedWorker(
      { take: bare(take), done: bare(done), stream: bare(stream), ping: bare(ping) },
      { concurrency: 2 },
    )
    const run = await runOf('q1')
    run.chunk(1)
    run.complete(2)
    await platform.nth('done', 1)
    const lines = platform.heard.all.map(({ line }) => line)
    for (const line of [
      'GET /v2/ep/ping/w1?runpod_version=longshore-1.2.3',
      'GET /v2/ep/job-take-batch/w1?batch_size=2&job_in_progress=0',
      'GET /v2/ep/job-stop/w1',
      'POST /v2/ep/job-stream/w1/q1?isStream=false',
      'POST /v2/ep/job-done/w1/q1?isStream=true',
    ]) {
      expect(lines).toContain(line)
    }
  })

  it('without /job-take/ have no stop channel, which is told once', async () => {
    const platform = await startPlatform()
    const take = platform.urls.take.replace('/job-take/', '/next/')
    const { warnings } = startHostedWorker({ ...platform.urls, take, ping: undefined })
    await platform.heard.first(({ line }) => line === 'GET /v2/ep/next/w1?gpu=SIM&job_in_progress=0')
    expect(platform.all('stop')).toEqual([])
    expect(warnings.all.map(({ message }) => message.split(' ', 1)[0])).toEqual([
      'RUNPOD_WEBHOOK_GET_JOB',
      'RUNPOD_WEBHOOK_PING',
    ])
  })
})
