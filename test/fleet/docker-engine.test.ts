// The requests to a Docker engine, against one that is made up: what no real one can be made to answer.

import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import { DockerEngine } from '../../src/fleet/providers/docker-engine.ts'
import { json, listen, type Answer } from './made-up-engine.ts'

describe('an image', () => {
  it('is asked for by its name alone', async () => {
    const engine = await listen((_, response) => json(response, 200, { Id: 'x' }))
    const docker = new DockerEngine(`tcp://${engine.url}`)
    expect(await docker.findImage('localhost:5000/a/b:1')).toEqual({ command: [] })
    expect(engine.asked).toEqual(['GET /images/localhost%3A5000%2Fa%2Fb%3A1/json'])
  })

  it.each(['../../containers/json', '../../127.0.0.1:1/secret', 'a?b', 'a#b', 'A/b', ''])(
    'is asked for by no name that is none: %s',
    async (name) => {
      const engine = await listen((_, response) => json(response, 200, {}))
      const docker = new DockerEngine(`tcp://${engine.url}`)
      const refused = { code: 'IMAGE_UNSUPPORTED' }
      await expect(docker.findImage(name)).rejects.toMatchObject(refused)
      await expect(docker.pull(name, undefined, AbortSignal.timeout(5_000))).rejects.toMatchObject(refused)
      expect(engine.asked).toEqual([])
    },
  )
})

describe('a redirect', () => {
  it('is an error, and goes nowhere', async () => {
    const other = await listen((_, response) => json(response, 200, { Id: 'x' }))
    for (const location of [`http://${other.url}/secret`, 'http://127.0.0.1:1/secret']) {
      const engine = await listen((_, response) => void response.writeHead(301, { location }).end())
      const docker = new DockerEngine(`tcp://${engine.url}`)
      await expect(docker.findImage('image:1')).rejects.toMatchObject({ code: 'ENGINE_FAILED' })
      await expect(docker.info()).rejects.toMatchObject({ code: 'ENGINE_FAILED' })
      expect(engine.asked).toHaveLength(2)
    }
    expect(other.asked).toEqual([])
  })
})

describe('an answer that breaks off in its middle', () => {
  const breaks: Answer = (_, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).write('{"Id":')
    setImmediate(() => response.destroy())
  }

  it.each([
    ['of a look', (docker: DockerEngine) => docker.inspect('x')],
    ['of a list', (docker: DockerEngine) => docker.list([])],
    [
      'of a wait',
      (docker: DockerEngine) => docker.wait('x', { mostMs: 60_000, signal: new AbortController().signal }),
    ],
  ])('is an error: %s', { timeout: 5_000 }, async (_, ask) => {
    const engine = await listen(breaks)
    await expect(ask(new DockerEngine(`tcp://${engine.url}`))).rejects.toMatchObject({
      code: 'ENGINE_FAILED',
      message: expect.stringContaining('does not answer') as string,
    })
  })
})

describe('a wait', () => {
  const silent: Answer = (_, response) => response.writeHead(200).flushHeaders()

  it('ends without a code after its bound, where the engine falls silent', { timeout: 5_000 }, async () => {
    const engine = await listen(silent)
    const { signal } = new AbortController()
    const wait = new DockerEngine(`tcp://${engine.url}`).wait('x', { mostMs: 100, signal })
    expect(await wait).toBeUndefined()
  })

  it('ends when it is called off', { timeout: 5_000 }, async () => {
    const engine = await listen(silent)
    const calling = new AbortController()
    const wait = new DockerEngine(`tcp://${engine.url}`).wait('x', { mostMs: 60_000, signal: calling.signal })
    await expect.poll(() => engine.asked).toHaveLength(1)
    calling.abort()
    await expect(wait).rejects.toMatchObject({ code: 'ENGINE_FAILED' })
  })
})

describe('a pull with credentials', () => {
  const auth = { username: 'a-user', password: 'a-password' }

  /** As engines say it: in the answer, or in the stream that follows it. */
  const answers: [string, Answer][] = ['unauthorized: no a-user:a-password', 'a-user of a-password?'].flatMap(
    (said): [string, Answer][] => [
      [`answer ${said}`, (_, response) => json(response, 500, { message: said })],
      [
        `stream ${said}`,
        (_, response) =>
          void response.end(`${JSON.stringify({ status: 'Pulling' })}\n${JSON.stringify({ error: said })}\n`),
      ],
    ],
  )

  it.each(answers)('tells of neither when it fails: %s', async (_, answer) => {
    const engine = await listen(answer)
    const pull = new DockerEngine(`tcp://${engine.url}`).pull(
      'r.example.com/a',
      auth,
      AbortSignal.timeout(5_000),
    )
    const error = await pull.then(
      () => undefined,
      (cause: Error) => cause,
    )
    expect(engine.asked).toHaveLength(1)
    expect(error?.message).toContain('r.example.com/a')
    expect(inspect(error, { depth: 9 })).not.toMatch(/a-user|a-password/)
  })
})
