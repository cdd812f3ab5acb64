import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { limits } from '../../src/job/limits.ts'
import { startRig } from '../support/interface-rig.ts'

describe('POST /run', () => {
  it('[RUN-1] takes a whole submission, and hands the worker what it says', async () => {
    const rig = await startRig()
    const submission = {
      input: { prompt: 'a' },
      webhook: 'https://receiver.example/done',
      policy: { executionTimeout: 60_000, lowPriority: true, ttl: 120_000 },
      s3Config: { accessId: 'i', accessSecret: 's', bucketName: 'b', endpointUrl: 'https://s3.example' },
    }
    const id = await rig.submit(submission)
    expect(await rig.worker.take()).toMatchObject({ id, ...submission })
  })

  it('[RUN-2, STA-2] answers at once with the id and IN_QUEUE, though there is no worker', async () => {
    const rig = await startRig()
    const before = rig.clock.now()
    const reply = await rig.post('/run', { input: {} })
    expect(reply.statusCode).toBe(200)
    expect(reply.json()).toEqual({ id: expect.stringMatching(/^[A-Za-z0-9_-]+$/), status: 'IN_QUEUE' })
    expect(rig.clock.now()).toBe(before)
    expect(await rig.record(reply.json<{ id: string }>().id)).toMatchObject({ status: 'IN_QUEUE' })
  })

  it('[RUN-3, LIM-2, LIM-9] takes 10 MB in either reading, and answers 413 to one byte more', async () => {
    const rig = await startRig()
    const bodyOf = (bytes: number): string => `{"input":{"x":"${'x'.repeat(bytes - 18)}"}}`
    for (const bytes of [10_000_000, 10_485_760]) {
      expect((await rig.post('/run', bodyOf(bytes))).statusCode).toBe(200)
    }
    const refused = await rig.post('/run', bodyOf(10_485_761))
    expect([refused.statusCode, refused.json().code]).toEqual([413, 'BODY_TOO_LARGE'])
    expect(refused.json().error).toContain('10485760')
    expect(limits.runBodyBytes).toBe(10_485_760)
    // Bytes count, not characters: these are two each.
    const wide = await rig.post('/run', JSON.stringify({ input: { x: 'é'.repeat(5_300_000) } }))
    expect(wide.statusCode).toBe(413)
    // Before it is parsed: what is no JSON is too large all the same.
    expect((await rig.post('/run', 'x'.repeat(10_485_761))).statusCode).toBe(413)
  })

  it('[RUN-4] has its result fetched by /status for 30 minutes after completion', async () => {
    const rig = await startRig()
    const id = await rig.completed({ n: 1 })
    await rig.jump(30 * 60_000 - 1)
    expect(await rig.record(id)).toMatchObject({ status: 'COMPLETED', output: { n: 1 } })
    await rig.jump(1)
    expect((await rig.get(`/status/${id}`)).statusCode).toBe(404)
  })

  it('[RUN-5] has put the job on disk before it answers', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'longshore-test-'))
    onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
    const file = join(directory, 'queue.db')
    const rig = await startRig({ file })
    const id = await rig.submit({ input: { kept: true } })
    // As a power cut would leave it.
    const copy = join(directory, 'copy.db')
    for (const part of ['', '-wal']) copyFileSync(`${file}${part}`, `${copy}${part}`)
    const next = await startRig({ file: copy, clock: rig.clock })
    expect(await next.worker.take()).toMatchObject({ id, input: { kept: true } })
  })
})
