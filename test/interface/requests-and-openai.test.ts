import { request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it } from 'vitest'
import {
  happens,
  startRig,
  turns,
  type Json,
  type Reply,
  type Rig,
  type TakenJob,
} from '../support/interface-rig.ts'
import { KEY } from '../support/service.ts'

const CHAT = '/openai/v1/chat/completions'

async function chat(
  rig: Rig,
  body: unknown,
  script: (job: TakenJob) => Promise<unknown>,
): Promise<{ reply: Reply; job: TakenJob }> {
  const asked = rig.post(CHAT, body)
  await turns()
  const job = await rig.worker.take()
  await script(job)
  return { reply: await asked, job }
}

describe('/openai/*', () => {
  it('[OAI-1, OAI-2, OAI-3, JOB-2] makes a job of route and body, and answers the one object of its handler', async () => {
    const rig = await startRig()
    const body = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] }
    const answer = { id: 'chatcmpl-1', choices: [] }
    const { reply, job } = await chat(rig, body, ({ id }) => rig.worker.done(id, { output: answer }))
    expect(job.input).toEqual({ openai_route: '/v1/chat/completions', openai_input: body })
    expect([reply.statusCode, reply.json()]).toEqual([200, answer])
    expect(await rig.statusOf(job.id)).toBe('COMPLETED')
  })

  it("[OAI-4] passes a handler's strings through as they are made when a stream is asked for", async () => {
    const rig = await startRig()
    const { reply } = await chat(rig, { stream: true }, async ({ id }) => {
      await rig.worker.stream(id, 'data: {"a":1}\n\n')
      await rig.worker.stream(id, 'data: [DONE]\n\n')
      await rig.worker.done(id, { output: [] })
    })
    expect(reply.headers['content-type']).toContain('text/event-stream')
    expect(reply.body).toBe('data: {"a":1}\n\ndata: [DONE]\n\n')
  })

  const failures: [
    what: string,
    status: number,
    type: string,
    end: (rig: Rig, id: string) => Promise<unknown>,
  ][] = [
    ['failed', 500, 'server_error', (rig, id) => rig.worker.done(id, { error: 'no' })],
    ['was cancelled', 503, 'server_error', (rig, id) => rig.post(`/cancel/${id}`)],
    ['ran too long', 504, 'timeout_error', (rig, id) => rig.pass(606_000, () => rig.worker.ping(id))],
    [
      'was refused its model',
      404,
      'NotFoundError',
      (rig, id) =>
        rig.worker.done(id, { output: { error: { message: 'no model', type: 'NotFoundError', code: 404 } } }),
    ],
    [
      'was told to slow down',
      429,
      'rate_limit_error',
      (rig, id) =>
        rig.worker.done(id, {
          output: { status: 429, error: { message: 'wait', type: 'rate_limit_error', code: 'slow_down' } },
        }),
    ],
  ]
  for (const [what, status, type, end] of failures) {
    it(`[OAI-5] answers OpenAI's error with ${status} when the job ${what}`, async () => {
      const rig = await startRig()
      const { reply } = await chat(rig, {}, ({ id }) => end(rig, id))
      expect(reply.statusCode).toBe(status)
      expect(reply.json()).toEqual({
        error: expect.objectContaining({ message: expect.any(String), type }),
      })
    })
  }

  it('[OAI-6] makes a job without openai_input of a GET', async () => {
    const rig = await startRig()
    const asked = rig.get('/openai/v1/models?limit=2')
    await turns()
    const job = await rig.worker.take()
    expect(job.input).toEqual({ openai_route: '/v1/models?limit=2' })
    await rig.worker.done(job.id, { output: { object: 'list', data: [] } })
    expect((await asked).json()).toEqual({ object: 'list', data: [] })
  })

  it('[OAI-7] cancels the job when its client hangs up', async () => {
    const rig = await startRig()
    await rig.service.http.listen({ host: '127.0.0.1', port: 0 })
    const { port } = rig.service.http.server.address() as AddressInfo
    const headers = { authorization: KEY }
    const asked = request({ port, method: 'POST', path: `/v2/default${CHAT}`, headers })
    asked.on('error', () => undefined)
    asked.end('{}')
    await happens(async () => (await rig.health()).jobs['inQueue'] === 1)
    const { id } = await rig.worker.take()
    asked.destroy()
    await happens(async () => (await rig.statusOf(id)) === 'CANCELLED')
    expect(await rig.worker.stops()).toEqual([id])
  })
})

describe('GET /requests', () => {
  it("[REQ-1, REQ-2] answers the endpoint's jobs, newest submission first, without their payloads", async () => {
    const rig = await startRig()
    const at = rig.clock.now()
    const first = await rig.completed('large')
    await rig.jump(5)
    const second = await rig.submit()
    const reply = await rig.get('/requests')
    expect([reply.statusCode, reply.json()]).toEqual([
      200,
      {
        requests: [
          { id: second, status: 'IN_QUEUE', delayTime: 0, executionTime: 0, attempt: 1, submittedAt: at + 5 },
          {
            id: first,
            status: 'COMPLETED',
            delayTime: 0,
            executionTime: 0,
            attempt: 1,
            workerId: 'w1',
            submittedAt: at,
            endedAt: at,
          },
        ],
      },
    ])
  })

  it('[REQ-3] answers pages of limit, 100 without one, and goes on before the last of them', async () => {
    const rig = await startRig()
    const ids: string[] = []
    for (let n = 0; n < 120; n += 1) ids.unshift(await rig.submit())
    const page = async (query: string): Promise<{ requests: Json[]; next?: string }> =>
      (await rig.get(`/requests${query}`)).json()
    const first = await page('')
    expect(first.requests.map(({ id }) => id)).toEqual(ids.slice(0, 100))
    const rest = await page(`?before=${first.next}`)
    expect(rest.requests.map(({ id }) => id)).toEqual(ids.slice(100))
    expect(rest).not.toHaveProperty('next')
    expect((await page('?limit=1')).requests).toHaveLength(1)
    expect((await page('?limit=1000')).requests).toHaveLength(120)
    for (const limit of ['0', '1001', '-1', 'x']) {
      expect((await rig.get(`/requests?limit=${limit}`)).statusCode).toBe(400)
    }
  })
})
