import type { AddressInfo } from 'node:net'
import { describe, expect, expectTypeOf, it, onTestFinished } from 'vitest'
import {
  Client,
  UnexpectedAnswerError,
  type ClientOptions,
  type WaitOptions,
} from '../../src/client/client.ts'
import { RepeatedRequests } from '../../src/client/repeated-request.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { startRig } from '../support/interface-rig.ts'
import { startPlatform, type Reply, type ScriptedPlatform } from '../support/scripted-platform.ts'
import { KEY } from '../support/service.ts'

const good: ClientOptions = { endpointUrl: 'http://127.0.0.1:9/v2/default', apiKey: 'key' }

async function connect(...replies: Reply[]): Promise<{ platform: ScriptedPlatform; client: Client }> {
  const platform = await startPlatform()
  platform.next('other', ...replies)
  const client = new Client({ endpointUrl: `http://127.0.0.1:${platform.port}/v2/ep`, apiKey: 'key' })
  onTestFinished(() => client.close())
  return { platform, client }
}

describe("a caller's mistake", () => {
  it.each<[string, Partial<ClientOptions>]>([
    ['endpointUrl', { endpointUrl: 'localhost:8000/v2/default' }],
    ['endpointUrl', { endpointUrl: 'http://127.0.0.1:8000' }],
    ['endpointUrl', { endpointUrl: 'http://127.0.0.1:8000/v2/default?a=b' }],
    ['endpointUrl', { endpointUrl: 'http://me:secret@127.0.0.1:8000/v2/default' }],
    ['apiKey', { apiKey: 'k\n' }],
    ['apiKey', { apiKey: '' }],
    ['attempts', { attempts: Number.NaN }],
    ['attempts', { attempts: 0 }],
  ])('in %s is told when the client is made: %j', (name, options) => {
    expect(() => new Client({ ...good, ...options })).toThrow(TypeError)
    expect(() => new Client({ ...good, ...options })).toThrow(new RegExp(`^${name} must be `))
    expect(() => new Client({ ...good, ...options })).not.toThrow(/secret/)
  })

  it.each<[string, (client: Client) => Promise<unknown>]>([
    ['waitMs', (client) => client.wait('j', { waitMs: Number.NaN })],
    ['waitMs', (client) => client.runsync({ input: {} }, { waitMs: Number.NaN })],
    ['waitMs', (client) => client.runsync({ input: {} }, { waitMs: -1 })],
    ['idempotencyKey', (client) => client.run({ input: {} }, { idempotencyKey: 'line\nbreak' })],
    ['idempotencyKey', (client) => client.run({ input: {} }, { idempotencyKey: '' })],
    ['after', (client) => client.stream('j', { after: -1 }).next()],
    ['after', (client) => client.values('j', { after: 0.5 }).next()],
    ['id', (client) => client.stream('').next()],
    ['id', (client) => client.status('..')],
    ['id', (client) => client.status('\ud800')],
    ['id', (client) => client.stream('a\udc00').next()],
    ['id', (client) => client.wait('')],
    ['id', (client) => client.cancel('.')],
    ['id', (client) => client.retry('')],
  ])('in %s of a call is told before anything is sent: %s', async (name, call) => {
    const { platform, client } = await connect()
    await expect(call(client)).rejects.toThrow(TypeError)
    await expect(call(client)).rejects.toThrow(new RegExp(`^${name} must be `))
    expect(platform.heard.all).toEqual([])
  })

  it('is sent once at most where only HTTP itself finds it', async () => {
    const { platform } = await connect()
    const endpointUrl = `http://127.0.0.1:${platform.port}/v2/ep`
    const requests = new RepeatedRequests({ endpointUrl, apiKey: 'key', attempts: 5, clock: systemClock })
    onTestFinished(() => requests.close())
    const ask = { method: 'GET', path: '/health', timeoutMs: 1_000, read: () => undefined } as const
    let tries = 0
    const onTrouble = (): void => void (tries += 1)
    await expect(requests.ask({ ...ask, headers: { 'x-bad': 'line\n' }, onTrouble })).rejects.toThrow(
      TypeError,
    )
    expect(tries).toBe(0)
  })

  it('leaves room for options that are there and undefined', () => {
    expectTypeOf<{ signal: AbortSignal | undefined; waitMs: number | undefined }>().toExtend<WaitOptions>()
    expectTypeOf<typeof good & { attempts: undefined; clock: undefined }>().toExtend<ClientOptions>()
  })
})

describe('what answers and is no queue', () => {
  it.each([201, 204, 302])('is told as that, once: HTTP %i', async (status) => {
    const { platform, client } = await connect({ status, headers: { location: 'http://127.0.0.1:9/' } })
    await expect(client.health()).rejects.toThrow(UnexpectedAnswerError)
    expect(platform.heard.all).toHaveLength(1)
  })

  it('is also the place beside the endpoints of a queue', async () => {
    const rig = await startRig()
    await rig.service.http.listen({ host: '127.0.0.1', port: 0 })
    const { port } = rig.service.http.server.address() as AddressInfo
    await using client = new Client({ endpointUrl: `http://127.0.0.1:${port}/api/v2/default`, apiKey: KEY })
    const error = await client.status('j').catch((cause: unknown) => cause)
    expect(error).toBeInstanceOf(UnexpectedAnswerError)
    expect(error).toMatchObject({ cause: { code: 'ROUTE_NOT_FOUND' } })
  })
})
