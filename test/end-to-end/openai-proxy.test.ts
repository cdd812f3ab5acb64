// The template openai-proxy: the openai client, a service, a worker and a model server, each as it is.

import OpenAI, { APIError, RateLimitError } from 'openai'
import { describe, expect, it } from 'vitest'
import { startOpenAiServer, type OpenAiServer } from '../support/openai-server.ts'
import { KEY, longshore, serve, startWorker, template, type Serving } from '../support/processes.ts'

interface Path {
  openai: OpenAI
  upstream: OpenAiServer
  service: Serving
}

async function startPath(): Promise<Path> {
  const upstream = await startOpenAiServer()
  const service = await serve()
  await startWorker(service.endpointUrl, template('openai-proxy'), ['--kill-grace-ms', '0'], {
    MODEL_SERVER_URL: upstream.url,
    MODEL_SERVER_API_KEY: 'upstream-key',
  })
  const baseURL = `${service.endpointUrl}/openai/v1`
  return { openai: new OpenAI({ apiKey: KEY, baseURL, maxRetries: 0 }), upstream, service }
}

const say = (content: string): { model: string; messages: { role: 'user'; content: string }[] } => ({
  model: 'small',
  messages: [{ role: 'user', content }],
})

describe('openai-proxy', () => {
  it('passes chats, completions, embeddings and models on, streamed and not', async () => {
    const { openai, upstream } = await startPath()
    const chat = await openai.chat.completions.create({ ...say('héllo there'), temperature: 0.25, seed: 7 })
    expect(chat.choices[0]?.message.content).toBe('héllo there')
    expect(chat.usage?.total_tokens).toBe(5)
    const { path, authorization, body } = await upstream.asked.first(({ method }) => method === 'POST')
    expect([path, authorization]).toEqual(['/v1/chat/completions', 'Bearer upstream-key'])
    expect(body).toMatchObject({ ...say('héllo there'), temperature: 0.25, seed: 7 })
    const words: unknown[] = []
    const stream = await openai.chat.completions.create({ ...say('ein größeres 😀 Wort'), stream: true })
    for await (const { choices } of stream) words.push(choices[0]?.delta.content)
    expect(words).toEqual(['ein', 'größeres', '😀', 'Wort', undefined])
    const prompt = { model: 'small', prompt: 'one two' }
    expect((await openai.completions.create(prompt)).choices[0]?.text).toBe('one two')
    const texts: string[] = []
    for await (const { choices } of await openai.completions.create({ ...prompt, stream: true }))
      texts.push(choices[0]?.text ?? '')
    expect(texts).toEqual(['one', 'two', ''])
    const input = ['a', 'bcd']
    const { data } = await openai.embeddings.create({ model: 'small', input, encoding_format: 'float' })
    expect(data.map(({ embedding }) => embedding)).toEqual([
      [1, 0.5],
      [3, 0.5],
    ])
    expect((await openai.models.list()).data.map(({ id }) => id)).toEqual(['small', 'large'])
    expect(await openai.models.retrieve('small')).toMatchObject({ id: 'small' })
  })

  it("answers the model server's errors with their status and body, streamed and not", async () => {
    const { openai } = await startPath()
    for (const stream of [false, true]) {
      const refused = await openai.chat.completions
        .create({ ...say('error 429'), stream })
        .catch((cause: unknown) => cause)
      expect(refused).toBeInstanceOf(RateLimitError)
      expect(refused).toMatchObject({ status: 429, type: 'test_error', param: 'messages', code: 'told_to' })
      const page = openai.chat.completions.create({ ...say('page 502'), stream })
      await expect(page).rejects.toMatchObject({ status: 502, type: 'server_error' })
      await expect(page).rejects.toThrow('The model server answered HTTP 502: <h1>Bad Gateway</h1>')
    }
    await expect(openai.files.list()).rejects.toMatchObject({ status: 404, type: 'not_found_error' })
  })

  it('ends a stream that broke with an error, and goes on with the next', async () => {
    const { openai } = await startPath()
    const words: unknown[] = []
    const read = async (): Promise<void> => {
      const stream = await openai.chat.completions.create({ ...say('break first second'), stream: true })
      for await (const { choices } of stream) words.push(choices[0]?.delta.content)
    }
    await expect(read()).rejects.toThrow(APIError)
    expect(words).toEqual(['first'])
    const next = await openai.chat.completions.create(say('still here'))
    expect(next.choices[0]?.message.content).toBe('still here')
  })

  it('hangs up on the model server when its client does, or when the job is cancelled', async () => {
    const { openai, upstream, service } = await startPath()
    const stream = await openai.chat.completions.create({ ...say('hold on'), stream: true })
    for await (const { choices } of stream) {
      expect(choices[0]?.delta.content).toBe('on')
      stream.controller.abort()
    }
    await upstream.gone.first((path) => path === '/v1/chat/completions')
    const openai_input = { ...say('hold on'), stream: true }
    const { id } = await service.client.run({ input: { openai_route: '/v1/chat/completions', openai_input } })
    await service.client.stream(id).next()
    await service.client.cancel(id)
    await expect.poll(() => upstream.gone.all.length).toBe(2)
    expect((await service.client.health()).jobs).toMatchObject({ inProgress: 0, failed: 0 })
  })

  it('takes no job before the model server answers, and says which one did not in time', async () => {
    const away = { MODEL_SERVER_URL: 'http://127.0.0.1:9/v1', MODEL_SERVER_WAIT_MS: '300' }
    const impatient = longshore(['run', template('openai-proxy')], { env: away })
    expect(await impatient.exit).toBe(1)
    expect(impatient.stderr).toMatch(
      /The model server at http:\/\/127\.0\.0\.1:9\/v1 did not answer \/models within 300 ms: .+\. Start it before this worker, or set MODEL_SERVER_URL/,
    )
    const loading = await startOpenAiServer({ busyLooks: 2 })
    const patient = longshore(['run', template('openai-proxy')], { env: { MODEL_SERVER_URL: loading.url } })
    expect(await patient.exit).toBe(0)
    const looks = Array.from({ length: 3 }, () => '/v1/models')
    expect(loading.asked.all.map(({ path }) => path)).toEqual([...looks, '/v1/chat/completions'])
  })
})
