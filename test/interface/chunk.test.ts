import { describe, expect, it } from 'vitest'
import { joinChunks, type Chunk } from '../../src/job/chunk.ts'
import { streamAnswerSchema } from '../../src/protocol/endpoint-api.ts'
import { startRig } from '../support/interface-rig.ts'

describe('a chunk of a stream', () => {
  it('[CHK-1, CHK-2] is an object with output and metrics, which are objects as the worker made them', async () => {
    const rig = await startRig()
    const id = await rig.running()
    const output = { choices: [{ delta: { content: 'a' } }], nested: { a: { b: [1, null] } } }
    await rig.worker.stream(id, output, { tokens: { in: 1 } })
    const [chunk] = streamAnswerSchema.parse(await rig.chunks(id))
    expect(chunk).toMatchObject({ output, metrics: { tokens: { in: 1 } } })
  })

  it('[CHK-3, CHK-4, CHK-5, CHK-6, CHK-7, CHK-8, CHK-9, CHK-10, CHK-11, CHK-12, CHK-13] has the metrics of a model server', async () => {
    const rig = await startRig()
    const id = await rig.running()
    const metrics = {
      avg_gen_throughput: 41.25,
      avg_prompt_throughput: 0.5,
      cpu_kv_cache_usage: 0,
      gpu_kv_cache_usage: 0.007619047619047619,
      input_tokens: 12,
      output_tokens: 3,
      pending: 0,
      running: 1,
      scenario: 'stream',
      stream_index: 2,
      swapped: 0,
    }
    await rig.worker.stream(id, { text: ['a'] }, metrics)
    const [chunk] = await rig.chunks(id)
    expect(chunk?.['metrics']).toEqual(metrics)
  })

  it('[CHK-14, CHK-15] has its index, from 1 and rising, and its attempt', async () => {
    const rig = await startRig()
    const id = await rig.running()
    for (const n of [7, 8, 9]) await rig.worker.stream(id, n)
    expect(await rig.chunks(id)).toMatchObject([
      { index: 1, attempt: 1, output: 7 },
      { index: 2, attempt: 1, output: 8 },
      { index: 3, attempt: 1, output: 9 },
    ])
  })

  it('[CHK-16] has a part only when it is a piece of a larger value', async () => {
    const rig = await startRig()
    const id = await rig.running()
    const value = 'x'.repeat(1_500_000)
    await rig.worker.stream(id, 'small')
    await rig.worker.stream(id, value, { tokens: 1 })
    const chunks = await rig.chunks(id)
    expect(chunks.map(({ part }) => part)).toEqual([
      undefined,
      { as: 'text', first: 2, last: false },
      { as: 'text', first: 2, last: true },
    ])
    expect(chunks.map(({ metrics }) => metrics)).toEqual([{}, { tokens: 1 }, {}])
    expect(joinChunks(chunks as unknown as Chunk[])).toEqual(['small', value])
  })

  it('[CHK-17] is what the worker said to the last digit, and no more', async () => {
    const rig = await startRig()
    const id = await rig.running()
    const body = '{"output":{"n":1.10000000000000000001,"__proto__":1},"metrics":{"m":2.0},"other":1}'
    await rig.post(`/job-stream/w1/${id}`, body)
    const reply = await rig.get(`/stream/${id}`)
    expect(reply.body).toContain('"output":{"n":1.10000000000000000001,"__proto__":1},"metrics":{"m":2.0}')
    expect(reply.body).not.toContain('other')
  })

  it('[CHK-18] has any JSON value as output, and metrics that are empty when there are none', async () => {
    const rig = await startRig()
    const id = await rig.running()
    const outputs = ['text', 0, false, null, [1], {}]
    for (const output of outputs) await rig.worker.stream(id, output)
    const chunks = await rig.chunks(id)
    expect(chunks.map(({ output }) => output)).toEqual(outputs)
    for (const { metrics } of chunks) expect(metrics).toEqual({})
  })
})
