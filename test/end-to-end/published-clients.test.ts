// Clients that others publish, unmodified, against a real service and a real worker.

import OpenAI, { APIError } from 'openai'
import runpodSdk from 'runpod-sdk'
import { describe, expect, it } from 'vitest'
import { fixture, KEY, serve, startWorker } from '../support/processes.ts'

describe('runpod-sdk against /compat/v2', () => {
  const connect = async (handler: string): Promise<ReturnType<ReturnType<typeof runpodSdk>['endpoint']>> => {
    const server = await serve()
    await startWorker(server.endpointUrl, fixture(handler), ['--kill-grace-ms', '0'])
    const baseUrl = server.endpointUrl.replace('/v2/default', '/compat/v2')
    return runpodSdk(KEY, { baseUrl }).endpoint('default')
  }

  it('runs, waits, looks, streams, cancels, counts and purges', async () => {
    const endpoint = await connect('yields.ts')
    expect(await endpoint?.runSync({ input: { values: ['a', 'b'] } }, 20_000)).toMatchObject({
      completed: true,
      succeeded: true,
      status: 'COMPLETED',
      delayTime: expect.any(Number),
      executionTime: expect.any(Number),
      workerId: expect.any(String),
    })
    const { id } = (await endpoint?.run({ input: { values: ['x', { y: 1 }, 'z'] } })) ?? { id: '' }
    const streamed: unknown[] = []
    for await (const chunk of endpoint?.stream(id, 20_000) ?? []) streamed.push(chunk)
    expect(streamed).toEqual([{ output: 'x' }, { output: { y: 1 } }, { output: 'z' }])
    expect(await endpoint?.status(id)).toMatchObject({ id, status: 'COMPLETED', completed: true })
    expect(await endpoint?.cancel(id)).toMatchObject({ id, status: 'COMPLETED' })
    expect(await endpoint?.health()).toMatchObject({
      jobs: { completed: 2, failed: 0, inProgress: 0, inQueue: 0, retried: 0 },
      workers: { idle: 1, ready: 1, running: 0, initializing: 0, throttled: 0, unhealthy: 0 },
    })
    expect(await endpoint?.purgeQueue()).toMatchObject({ removed: 0, status: 'completed' })
  })

  it('gets the text of an error', async () => {
    const endpoint = await connect('throws-what-is-asked.ts')
    const failed = await endpoint?.runSync({ input: { kind: 'error' } }, 20_000)
    expect(failed).toMatchObject({ status: 'FAILED', succeeded: false, error: expect.any(String) })
  })

  it('cancels what runs', async () => {
    const endpoint = await connect('takes-a-while.ts')
    const { id } = (await endpoint?.run({ input: { ms: 60_000 } })) ?? { id: '' }
    await expect.poll(async () => (await endpoint?.status(id))?.status).toBe('IN_PROGRESS')
    expect(await endpoint?.cancel(id)).toMatchObject({ id, status: 'CANCELLED' })
    expect(await endpoint?.runSync({ input: { ms: 10 } }, 20_000)).toMatchObject({ status: 'COMPLETED' })
  })
})

describe('openai against /v2/{endpointId}/openai/v1', () => {
  const connect = async (): Promise<OpenAI> => {
    const server = await serve()
    await startWorker(server.endpointUrl, fixture('openai.ts'))
    return new OpenAI({ apiKey: KEY, baseURL: `${server.endpointUrl}/openai/v1`, maxRetries: 0 })
  }
  const ask = (content: string): { model: string; messages: { role: 'user'; content: string }[] } => ({
    model: 'echo',
    messages: [{ role: 'user', content }],
  })

  it('completes chats, streamed and not, and lists models', async () => {
    const openai = await connect()
    const whole = await openai.chat.completions.create(ask('one two'))
    expect(whole.choices[0]?.message).toEqual({ role: 'assistant', content: 'one two' })
    const words: string[] = []
    const stream = await openai.chat.completions.create({ ...ask('one two three'), stream: true })
    for await (const { choices } of stream) words.push(choices[0]?.delta.content ?? '')
    expect(words).toEqual(['one ', 'two ', 'three ', ''])
    expect((await openai.models.list()).data).toMatchObject([{ id: 'echo' }])
  })

  it('gets errors as its own: of the handler, of the model, of the key, before and in a stream', async () => {
    const openai = await connect()
    const failing = openai.chat.completions.create(ask('fail'))
    await expect(failing).rejects.toMatchObject({ status: 500, type: 'server_error', code: 'HANDLER_ERROR' })
    await expect(failing).rejects.toThrow('the model fell over')
    await expect(openai.chat.completions.create({ ...ask('fail'), stream: true })).rejects.toMatchObject({
      status: 500,
    })
    await expect(openai.embeddings.create({ model: 'echo', input: 'x' })).rejects.toMatchObject({
      status: 404,
    })
    const half = await openai.chat.completions.create({ ...ask('to half'), stream: true })
    const read = async (): Promise<void> => {
      for await (const _ of half) void _
    }
    await expect(read()).rejects.toThrow(APIError)
    const stranger = new OpenAI({ apiKey: 'wrong', baseURL: openai.baseURL, maxRetries: 0 })
    await expect(stranger.models.list()).rejects.toMatchObject({ status: 401, type: 'authentication_error' })
  })
})
