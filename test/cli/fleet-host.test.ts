// What the settings of a service make of the place where it runs pods.

import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { FleetHost, volumeProblems } from '../../src/cli/fleet-host.ts'
import { resolve, settled } from '../../src/config/resolve.ts'
import { podFrom } from '../../src/resource/pod.ts'
import { temporaryDir } from '../support/processes.ts'

function hostOf(flags: Record<string, unknown>): FleetHost {
  const settings = settled(
    resolve({ flags: { fleetDir: join(temporaryDir(), 'fleet'), ...flags }, env: {} }, 'serve'),
  )
  const host = new FleetHost({
    settings,
    storeFile: undefined,
    url: () => `http://${settings.host}:8000`,
    onTrouble: () => undefined,
  })
  onTestFinished(() => host.close())
  return host
}

describe('images that are files', () => {
  it.each([
    ['127.0.0.1', {}, true],
    ['127.9.9.9', {}, true],
    ['::1', {}, true],
    ['localhost', {}, true],
    ['0.0.0.0', {}, false],
    ['::', {}, false],
    ['10.0.0.1', {}, false],
    ['127.0.0.1.example.com', {}, false],
    ['localhost.example.com', {}, false],
    ['0.0.0.0', { allowFileImages: true }, true],
    ['127.0.0.1', { allowFileImages: false }, true],
  ])('are run by a service that listens on %s with %j: %s', (host, flags, expected) => {
    expect(hostOf({ host, ...flags }).allowsFileImages).toBe(expected)
  })
})

describe('a host', () => {
  it.each(['process', 'docker'])('is of the kind of its provider: %s', (provider) => {
    expect(hostOf({ provider }).kind).toBe(provider)
  })

  it('is reached on this machine where it listens everywhere, or where it is said to be', () => {
    expect(hostOf({ host: '0.0.0.0' }).url()).toBe('http://127.0.0.1:8000')
    expect(hostOf({ host: '10.0.0.1' }).url()).toBe('http://10.0.0.1:8000')
    expect(hostOf({ podUrl: 'http://outside:1/' }).url()).toBe('http://outside:1')
  })

  it.each([
    [{}, '127.0.0.1'],
    [{ publishAddress: '0.0.0.0' }, '0.0.0.0'],
  ])('has the ports of containers published by %j on %s', async (flags, address) => {
    const engine = await startEngine()
    vi.stubEnv('DOCKER_HOST', engine.url)
    onTestFinished(() => void vi.unstubAllEnvs())
    const provider = await hostOf({ provider: 'docker', ...flags }).openProvider()
    onTestFinished(() => provider.close())
    const from = { id: 'p1', machineId: 'm', vcpuCount: 1, memoryInGb: 1 }
    const pod = podFrom({ image: 'image:1', ports: ['80/http'] }, from)
    await expect(provider.start({ pod, env: {} })).rejects.toThrow('no more')
    expect(engine.made).toMatchObject([{ HostConfig: { PortBindings: { '80/tcp': [{ HostIp: address }] } } }])
  })
})

/** An engine that has every image, and makes no container. */
async function startEngine(): Promise<{ url: string; made: unknown[] }> {
  const made: unknown[] = []
  const server = createServer((request, response) => {
    void (async () => {
      const body = await text(request)
      const { method, url = '' } = request
      if (method === 'POST') made.push(JSON.parse(body))
      const [status, answer] =
        method === 'POST'
          ? [500, { message: 'no more' }]
          : url.startsWith('/containers/json')
            ? [200, []]
            : [url.startsWith('/images/') ? 200 : 404, {}]
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
    })()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(async () => {
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  })
  return { url: `tcp://127.0.0.1:${(server.address() as AddressInfo).port}`, made }
}

describe('a service that is not root', () => {
  const problemsOf = (provider: string, uid: number) =>
    volumeProblems(settled(resolve({ flags: { provider }, env: {} }, 'serve')), uid)

  it('warns of files that stay, where it has containers', () => {
    expect(problemsOf('docker', 1000)).toEqual([expect.stringContaining('runs as user 1000, not as root')])
    expect(problemsOf('docker', 0)).toEqual([])
    expect(problemsOf('process', 1000)).toEqual([])
  })
})
