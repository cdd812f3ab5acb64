import { describe, expect, it } from 'vitest'
import { joinChunks, type Chunk } from '../../src/job/chunk.ts'
import { limits } from '../../src/job/limits.ts'
import { HostedWorker, startRig, turns, type Json } from '../support/interface-rig.ts'

const outputs = (chunks: Json[]): unknown[] => chunks.map(({ output }) => output)

describe('GET /stream/{id}', () => {
  it('[STR-1, STR-3, SVC-4] needs no body, and answers an array of chunks', async () => {
    const rig = await startRig()
    const id = await rig.running()
    await rig.worker.stream(id, { token: 'a' })
    await rig.worker.stream(id, { token: 'b' })
    const reply = await rig.get(`/stream/${id}`)
    expect([reply.statusCode, reply.json()]).toEqual([
      200,
      [
        { index: 1, attempt: 1, output: { token: 'a' }, metrics: {} },
        { index: 2, attempt: 1, output: { token: 'b' }, metrics: {} },
      ],
    ])
  })

  it('[STR-2] has nothing of a handler that does not stream', async () => {
    const rig = await startRig()
    const id = await rig.completed({ whole: true })
    expect(await rig.chunks(id)).toEqual([])
  })

  const large: [what: string, value: unknown][] = [
    ['a text', 'é"\\'.repeat(700_000)],
    ['a list', Array.from({ length: 40_000 }, (_, n) => ({ n, text: 'x'.repeat(40) }))],
    ['an object', { deep: { text: 'y'.repeat(2_500_000) } }],
  ]
  for (const [what, value] of large) {
    it(`[STR-4, STR-5, LIM-3, LIM-10, CHK-16] splits ${what} over 1 MB into chunks that each are within it`, async () => {
      const rig = await startRig()
      const id = await rig.running()
      await rig.worker.stream(id, value)
      const chunks = await rig.chunks(id)
      expect(chunks.length).toBeGreaterThan(1)
      for (const chunk of chunks) {
        expect(Buffer.byteLength(JSON.stringify(chunk))).toBeLessThanOrEqual(1_000_000)
        expect(chunk['part']).toMatchObject({ first: 1, last: chunk === chunks.at(-1) })
      }
      expect(joinChunks(chunks as unknown as Chunk[])).toEqual([value])
    })
  }

  it('[STR-6] goes on where the last read ended', async () => {
    const rig = await startRig()
    const id = await rig.running()
    await rig.worker.stream(id, 1)
    await rig.worker.stream(id, 2)
    expect(outputs(await rig.chunks(id))).toEqual([1, 2])
    expect(await rig.chunks(id)).toEqual([])
    await rig.worker.stream(id, 3)
    expect(outputs(await rig.chunks(id))).toEqual([3])
  })

  it('[STR-7] holds an empty answer for 5 seconds, or as long as wait says', async () => {
    const rig = await startRig()
    const id = await rig.running()
    for (const [query, ms] of [
      ['', 5_000],
      ['?wait=300000', 300_000],
      ['?wait=1', 1],
    ] as const) {
      const { reply, isAnswered } = await rig.held(rig.get(`/stream/${id}${query}`))
      await rig.jump(ms - 1)
      expect(await isAnswered()).toBe(false)
      await rig.jump(1)
      expect((await reply).json()).toEqual([])
    }
    expect((await rig.get(`/stream/${id}?wait=0`)).json()).toEqual([])
    for (const wait of ['300001', '-1', 'x']) {
      const refused = await rig.get(`/stream/${id}?wait=${wait}`)
      expect([refused.statusCode, refused.json().error]).toEqual([400, expect.stringContaining('wait must')])
    }
  })

  it('[STR-7] answers at once when there is a chunk, and when the job has ended', async () => {
    const rig = await startRig()
    const id = await rig.running()
    const first = rig.get(`/stream/${id}`)
    await turns()
    await rig.worker.stream(id, 'now')
    expect(outputs((await first).json())).toEqual(['now'])
    await turns()
    const second = rig.get(`/stream/${id}`)
    await turns()
    await rig.worker.done(id, { output: 1 })
    expect((await second).json()).toEqual([])
    expect((await rig.get(`/stream/${id}`)).json()).toEqual([])
  })

  it("[STR-8] has the job's status in a header", async () => {
    const rig = await startRig()
    const id = await rig.submit()
    const header = async (): Promise<unknown> =>
      (await rig.get(`/stream/${id}?wait=0`)).headers['x-job-status']
    const seen = [await header()]
    await rig.worker.take()
    seen.push(await header())
    await rig.worker.done(id, { output: 1 })
    expect([...seen, await header()]).toEqual(['IN_QUEUE', 'IN_PROGRESS', 'COMPLETED'])
  })

  it('[STR-9] reads beyond any index as often as asked, and moves no read position', async () => {
    const rig = await startRig()
    const id = await rig.running()
    for (const n of [1, 2, 3]) await rig.worker.stream(id, n)
    for (const [after, left] of [
      [0, [1, 2, 3]],
      [2, [3]],
      [0, [1, 2, 3]],
      [3, []],
      [99, []],
    ] as const) {
      expect(outputs(await rig.chunks(id, `after=${after}&wait=0`))).toEqual(left)
    }
    expect(outputs(await rig.chunks(id))).toEqual([1, 2, 3])
  })

  it('[STR-10] answers 8 MB of chunks at most, and the rest to the next read', async () => {
    const rig = await startRig()
    const id = await rig.running()
    for (let n = 0; n < 10; n += 1) await rig.worker.stream(id, 'x'.repeat(900_000))
    const first = await rig.get(`/stream/${id}`)
    await turns()
    expect(first.json()).toHaveLength(8)
    expect(first.rawPayload.byteLength).toBeLessThanOrEqual(limits.streamReadBytes)
    expect(await rig.chunks(id)).toHaveLength(2)
  })

  it('[STR-11, EVT-17] pushes chunks and the end as server-sent events to whoever accepts them', async () => {
    const rig = await startRig()
    const id = await rig.running()
    await rig.worker.stream(id, 'a')
    const pushed = rig.get(`/stream/${id}`, { accept: 'text/event-stream' })
    await turns()
    await rig.worker.stream(id, 'b')
    await rig.worker.done(id, { output: 'ab' })
    const reply = await pushed
    expect(reply.headers['content-type']).toContain('text/event-stream')
    expect(eventsOf(reply.body)).toMatchObject([
      { event: 'chunk', id: '1', data: { output: 'a' } },
      { event: 'chunk', id: '2', data: { output: 'b' } },
      { event: 'end', data: { id, status: 'COMPLETED', output: 'ab' } },
    ])
  })

  it('[STR-12] resumes after the index in Last-Event-ID', async () => {
    const rig = await startRig()
    const id = await rig.running()
    for (const n of [1, 2, 3]) await rig.worker.stream(id, n)
    await rig.worker.done(id, { output: 1 })
    const reply = await rig.get(`/stream/${id}`, { accept: 'text/event-stream', 'last-event-id': '2' })
    expect(eventsOf(reply.body).map(({ event, id: index }) => [event, index])).toEqual([
      ['chunk', '3'],
      ['end', undefined],
    ])
  })

  it('[STR-13] pushes lines of JSON to whoever accepts them', async () => {
    const rig = await startRig()
    const id = await rig.running()
    await rig.worker.stream(id, 'a', { tokens: 1 })
    await rig.worker.done(id, { output: 'a' })
    const reply = await rig.get(`/stream/${id}`, { accept: 'application/x-ndjson' })
    expect(reply.headers['content-type']).toBe('application/x-ndjson')
    const lines = reply.body.trimEnd().split('\n')
    expect(lines.map((line): unknown => JSON.parse(line))).toMatchObject([
      { index: 1, output: 'a', metrics: { tokens: 1 } },
      { event: 'end', job: { id, status: 'COMPLETED' } },
    ])
  })

  it('[STR-14, CHK-14, CHK-15] drops the chunks of a lost attempt, and uses no index twice', async () => {
    const rig = await startRig()
    const id = await rig.running()
    await rig.worker.ping(id)
    await rig.worker.stream(id, 'lost')
    await rig.pass(31_000)
    const other = new HostedWorker(rig.service, 'w2')
    await other.take()
    await other.stream(id, 'kept')
    expect(await rig.chunks(id, 'after=0&wait=0')).toMatchObject([{ index: 2, attempt: 2, output: 'kept' }])
    await other.done(id, { error: 'no' })
    await rig.post(`/retry/${id}`)
    expect(await rig.chunks(id, 'after=0&wait=0')).toEqual([])
    await other.take()
    await other.stream(id, 'again')
    expect(await rig.chunks(id, 'after=0&wait=0')).toMatchObject([{ index: 3, attempt: 1, output: 'again' }])
  })
})

interface Event {
  event: string
  id?: string
  data: unknown
}

function eventsOf(body: string): Event[] {
  return body
    .split('\n\n')
    .filter((text) => text.startsWith('event:'))
    .map((text) => {
      const fields = new Map(
        text.split('\n').map((line) => [line.split(': ', 1)[0], line.replace(/^\w+: /, '')]),
      )
      const id = fields.get('id')
      return {
        event: fields.get('event') ?? '',
        ...(id !== undefined && { id }),
        data: JSON.parse(fields.get('data') ?? 'null') as unknown,
      }
    })
}
