import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { containerName, containerRequest, withWordsOf } from '../../src/fleet/providers/container-request.ts'
import { DockerEngine, registryOf } from '../../src/fleet/providers/docker-engine.ts'
import type { PodFacts, Provider, RunningPod } from '../../src/fleet/providers/provider.ts'
import type { Pod } from '../../src/resource/pod.ts'
import { openProvider } from '../fleet/open-provider.ts'
import { programs } from '../fleet/pod-programs.ts'
import { describeProvider, linesOf, podOf, type ProviderRig } from '../fleet/provider-conformance.ts'
import { reservePorts } from '../support/daemons.ts'
import { isDockerMissing, startDocker, type Docker } from '../support/docker.ts'
import { freePort } from '../support/free-port.ts'
import { isRegistryMissing, startPrivateRegistry, type PrivateRegistry } from '../support/private-registry.ts'
import { KEY, serve, type Serving } from '../support/processes.ts'

const NODE_IMAGE = 'node:24-bookworm-slim'
const START_MS = 120_000
const SOON = { timeout: 20_000, interval: 50 }

describe.skipIf(isDockerMissing)('pods as containers', () => {
  let docker: Docker
  let host: string

  beforeAll(async () => {
    docker = await startDocker()
    host = docker.env['DOCKER_HOST'] ?? ''
  }, START_MS)

  afterAll(() => docker?.stop(), START_MS)

  function openRig(): Promise<ProviderRig> {
    const dir = mkdtempSync(join(tmpdir(), 'longshore-pods-'))
    const psOf = async (words: string[]): Promise<string[]> =>
      (await docker.run('ps', '--format', '{{.Names}}', ...words)).split('\n').filter(Boolean)
    return Promise.resolve({
      place: { kind: 'docker', dir, host, owner: 'conformance', logFileBytes: 0 },
      image: NODE_IMAGE,
      ownVariables: ['PATH', 'HOME', 'HOSTNAME', 'NODE_EXTRA_CA_CERTS'],
      kill: async ({ podId }: RunningPod) => void (await docker.run('kill', containerName(podId))),
      left: async (podIds) =>
        (await psOf([])).filter((name) => podIds.some((podId) => name === containerName(podId))),
      isChildRunning: async ({ podId }, child) => {
        const name = containerName(podId)
        const check = `process.kill(${child}, 0)`
        return docker.run('exec', name, 'node', '-e', check).then(
          () => true,
          () => false,
        )
      },
      close: async () => {
        expect(await psOf(['--all'])).toEqual([])
        rmSync(dir, { recursive: true })
      },
    })
  }

  describeProvider('docker', openRig, { seesEndsOfAdopted: true, memoryLimitSkipped: false })

  describe('the container of a pod', () => {
    let dir: string
    let provider: Provider

    beforeAll(async () => {
      dir = mkdtempSync(join(tmpdir(), 'longshore-pods-'))
      provider = await openProvider({ kind: 'docker', dir, host, owner: 'one', logFileBytes: 0 })
    })

    afterAll(async () => {
      for (const { podId } of await provider.list()) await provider.remove(podId)
      await provider.close()
      rmSync(dir, { recursive: true })
    }, START_MS)

    const patient = { dockerStartCmd: ['node', '-e', programs.patient] }

    it('is made with its ports, limits and volume, as the engine has them', async () => {
      const made = { ...patient, ports: ['8080/http', '22/tcp'], volumeMountPath: '/data', memoryInGb: 0.25 }
      const pod = podOf(NODE_IMAGE, { ...made, vcpuCount: 0.5 })
      await provider.start({ pod, env: {} })
      const [container] = JSON.parse(await docker.run('inspect', containerName(pod.id))) as [
        { HostConfig: Record<string, unknown>; Config: Record<string, unknown> },
      ]
      const published = [{ HostIp: '127.0.0.1', HostPort: '' }]
      expect(container.HostConfig).toMatchObject({
        PortBindings: { '8080/tcp': published, '22/tcp': published },
        Memory: 250_000_000,
        MemorySwap: 250_000_000,
        NanoCpus: 500_000_000,
        Binds: [`${join(dir, 'pods', pod.id, 'volume')}:/data`],
        RestartPolicy: { Name: 'no' },
        LogConfig: { Type: 'json-file', Config: { 'max-size': '10m', 'max-file': '3' } },
      })
      expect(container.Config).toMatchObject({
        ExposedPorts: { '8080/tcp': {}, '22/tcp': {} },
        Labels: { 'longshore.pod': pod.id, 'longshore.owner': 'one' },
      })
    })

    it('has the image’s own command where none is given, and a command in place of both', () => {
      const place = { owner: 'one', networkMode: 'bridge', publishAddress: '127.0.0.1', volume: '/v' }
      const own = containerRequest({ pod: podOf('some/image:1'), env: {} }, place)
      expect(own).not.toHaveProperty('Entrypoint')
      expect(own).not.toHaveProperty('Cmd')
      const made = { dockerEntrypoint: ['a'], dockerStartCmd: ['b'] }
      const pod = podOf('some/image:1', made)
      expect(containerRequest({ pod, env: {} }, place)).toMatchObject({ Entrypoint: ['a'], Cmd: ['b'] })
      const commanded = containerRequest({ pod, env: {}, command: ['c', 'd'] }, place)
      expect(commanded).toMatchObject({ Entrypoint: ['c', 'd'] })
      expect(commanded).not.toHaveProperty('Cmd')
    })

    it('has the image’s command behind an entrypoint of its own, where no other is given', () => {
      const place = { owner: 'one', networkMode: 'bridge', publishAddress: '127.0.0.1', volume: '/v' }
      const image = { command: ['node', 'main.js'] }
      const wordsOf = (made: Parameters<typeof podOf>[1], command?: string[]) => {
        const spec = { pod: podOf('some/image:1', made), env: {}, ...(command && { command }) }
        return withWordsOf(image, spec, containerRequest(spec, place)).Cmd
      }
      expect(wordsOf({ dockerEntrypoint: ['a'] })).toEqual(image.command)
      expect(wordsOf({ dockerEntrypoint: ['a'], dockerStartCmd: ['b'] })).toEqual(['b'])
      expect(wordsOf({})).toBeUndefined()
      expect(wordsOf({ dockerEntrypoint: ['a'] }, ['c'])).toBeUndefined()
    })

    it('is run by the engine with the image’s command behind an entrypoint of its own', async () => {
      const dockerEntrypoint = ['sh', '-c', 'echo zero=$0 args=$@']
      const pod = podOf(NODE_IMAGE, { dockerEntrypoint, dockerStartCmd: [] })
      await provider.start({ pod, env: {} })
      expect(await linesOf(provider.logs(pod.id, { follow: true }))).toEqual(['zero=node args='])
    })

    it('is found under another name, and removed', async () => {
      const pod = podOf(NODE_IMAGE, patient)
      await provider.start({ pod, env: {} })
      await docker.run('rename', containerName(pod.id), 'by-hand')
      expect(await linesOf(provider.logs(pod.id, { follow: true }), 1)).toEqual(['up'])
      await provider.stop(pod.id, { graceMs: 10_000 })
      expect((await provider.list()).find(({ podId }) => podId === pod.id)).toMatchObject({ state: 'ended' })
      await provider.remove(pod.id)
      expect(await docker.run('ps', '--all', '--format', '{{.Names}}')).not.toContain('by-hand')
    })

    it('is told to run anew when it is restarted by hand', async () => {
      const pod = podOf(NODE_IMAGE, patient)
      const { startedAt } = await provider.start({ pod, env: {} })
      await linesOf(provider.logs(pod.id, { follow: true }), 1)
      const told: number[] = []
      const fromNowOn = (facts: PodFacts) => facts.podId === pod.id && told.push(facts.startedAt)
      // Whether its end is seen between, is the engine's to say; that it runs since then is told or found.
      onTestFinished(provider.onRestart(fromNowOn))
      onTestFinished(provider.onExit(fromNowOn))
      await docker.run('restart', '--time', '5', containerName(pod.id))
      await expect.poll(() => told.length, SOON).toBe(1)
      const found = (await provider.list()).find(({ podId }) => podId === pod.id)
      expect(found).toMatchObject({ state: 'running' })
      expect(found?.startedAt).toBeGreaterThan(startedAt)
    })

    it('is not listed by a service that it is not of', async () => {
      const pod = podOf(NODE_IMAGE, patient)
      await provider.start({ pod, env: {} })
      const otherDir = join(dir, 'other')
      const other = await openProvider({ kind: 'docker', dir: otherDir, host, owner: 'two', logFileBytes: 0 })
      onTestFinished(() => other.close())
      expect(await other.list()).toEqual([])
      expect((await provider.list()).map(({ podId }) => podId)).toContain(pod.id)
    })

    it('that a killed service made and did not start is removed by the next one', async () => {
      const labels = ['--label', 'longshore.pod=half-made', '--label', 'longshore.owner=one']
      await docker.run('create', '--name', containerName('half-made'), ...labels, NODE_IMAGE)
      expect((await provider.list()).map(({ podId }) => podId)).not.toContain('half-made')
      const next = await openProvider({ kind: 'docker', dir, host, owner: 'one', logFileBytes: 0 })
      await next.close()
      expect(await docker.run('ps', '--all', '--format', '{{.Names}}')).not.toContain('half-made')
    })

    it('is made of no file', async () => {
      const started = provider.start({ pod: podOf('file:./handler.ts'), env: {} })
      await expect(started).rejects.toMatchObject({ code: 'IMAGE_UNSUPPORTED' })
    })

    it('is not to be had of an engine that is away', async () => {
      const gone = `unix://${dir}/nobody.sock`
      const opened = openProvider({ kind: 'docker', dir, host: gone, owner: 'one', logFileBytes: 0 })
      await expect(opened).rejects.toMatchObject({
        code: 'ENGINE_FAILED',
        message: expect.stringMatching(/does not answer.*Start it, or set DOCKER_HOST/) as string,
      })
    })
  })

  describe.skipIf(isRegistryMissing)('a registry of private images', () => {
    let dir: string
    let registry: PrivateRegistry
    let provider: Provider

    beforeAll(async () => {
      dir = mkdtempSync(join(tmpdir(), 'longshore-pods-'))
      registry = await startPrivateRegistry(docker, NODE_IMAGE)
      provider = await openProvider({ kind: 'docker', dir, host, owner: 'puller', logFileBytes: 0 })
    }, START_MS)

    afterAll(async () => {
      for (const { podId } of (await provider?.list()) ?? []) await provider.remove(podId)
      await provider?.close()
      await registry?.close()
      rmSync(dir, { recursive: true })
    }, START_MS)

    const podOfIt = () => podOf(registry.image, { dockerStartCmd: ['node', '-e', programs.patient] })

    it.each([
      ['a wrong password', { password: 'wrong-password-1' }],
      ['an unknown user', { username: 'nobody' }],
      ['nothing', undefined],
    ])('refuses its image for %s, and the error holds no password', async (_what, wrong) => {
      const { credentials } = registry
      const registryAuth = wrong && { ...credentials, ...wrong }
      const spec = { pod: podOfIt(), env: {}, ...(registryAuth && { registryAuth }) }
      const error = await provider.start(spec).catch((cause: unknown) => cause as Error)
      expect(error).toMatchObject({ code: 'REGISTRY_REFUSED' })
      const told = JSON.stringify([error, Object.getOwnPropertyDescriptors(error)])
      for (const { password } of [credentials, ...(registryAuth ? [registryAuth] : [])]) {
        expect(told).not.toContain(password)
        expect(told).not.toContain(Buffer.from(password).toString('base64').slice(0, 8))
      }
      expect(await provider.list()).toEqual([])
    })

    it('gives its image to whom it knows; an image that is there is not pulled again', async () => {
      const pod = podOfIt()
      await provider.start({ pod, env: {}, registryAuth: registry.credentials })
      expect(await linesOf(provider.logs(pod.id, { follow: true }), 1)).toEqual(['up'])
      const again = podOfIt()
      await provider.start({ pod: again, env: {} })
      await provider.remove(again.id)
      await provider.remove(pod.id)
      await docker.run('rmi', registry.image)
    })

    it('gives its image to a pod that is made over HTTP with the name of its credentials, and the pod answers at its port', async () => {
      const port = await freePort()
      const args = ['--provider', 'docker', '--docker-network', 'host']
      const server = await serve({ args, env: docker.env })
      const { ask, podSays } = podsOver(server)
      const { image: imageName, credentials } = registry
      const dockerStartCmd = ['node', '-e', programs.listens]
      const made = { imageName, dockerStartCmd, env: { PORT: `${port}` }, ports: [`${port}/http`] }

      const refused = await ask('POST', '/pods', made)
      await podSays(refused.id, /does not give it out without credentials/)
      await ask('DELETE', `/pods/${refused.id}`)
      const auth = await ask('POST', '/containerregistryauth', { name: 'ours', ...credentials })
      const { id } = await ask('POST', '/pods', { ...made, containerRegistryAuthId: auth.id })
      expect(await podSays(id, /^started/)).toMatchObject({ portMappings: { [port]: port } })
      const answer = async () => (await fetch(`http://127.0.0.1:${port}`)).text()
      await expect.poll(answer, SOON).toBe('here')
      const container = containerName(id)
      const ofServer = async () =>
        (await docker.run('ps', '--all', '--format', '{{.Names}}')).split('\n').filter(Boolean)
      expect(await ofServer()).toEqual([container])
      expect(await docker.run('inspect', container)).not.toContain(credentials.password)

      await ask('POST', `/pods/${id}/stop`)
      expect(await podSays(id, /^stopped/)).toMatchObject({ desiredStatus: 'EXITED', portMappings: {} })
      await expect(answer()).rejects.toThrow()
      await ask('POST', `/pods/${id}/start`)
      await expect.poll(answer, SOON).toBe('here')
      await ask('DELETE', `/pods/${id}`)
      await expect.poll(ofServer, SOON).toEqual([])
      expect(await server.kill('SIGTERM')).toBe(0)
      for (const secret of [credentials.password, credentials.username])
        expect(server.stdout + server.stderr).not.toContain(secret)
      await docker.run('rmi', imageName)
    })

    it('tells an image that it does not have from one that it does not give', async () => {
      const pod = podOf(registry.image.replace('worker', 'unknown'))
      const started = provider.start({ pod, env: {}, registryAuth: registry.credentials })
      await expect(started).rejects.toMatchObject({ code: 'IMAGE_NOT_PULLED' })
    })

    it('is not waited for when the pod is stopped', async () => {
      const silent = await reservePorts()
      onTestFinished(() => silent.release())
      const asked = Promise.withResolvers<void>()
      const server = createServer(() => asked.resolve()).listen(silent.first, '127.0.0.1')
      onTestFinished(() => void server.close())
      const pod = podOf(`127.0.0.1:${silent.first}/slow:1`)
      const started = provider.start({ pod, env: {} }).catch((cause: unknown) => cause)
      await asked.promise
      await provider.stop(pod.id, { graceMs: 10_000 })
      expect(await started).toMatchObject({ code: 'START_STOPPED' })
      await expect.poll(() => provider.list(), SOON).toEqual([])
    })
  })

  it('knows which registry an image is of', () => {
    const hub = 'https://index.docker.io/v1/'
    expect(registryOf('node')).toBe(hub)
    expect(registryOf('user/image:1')).toBe(hub)
    expect(registryOf('localhost/image')).toBe('localhost')
    expect(registryOf('ghcr.io/user/image')).toBe('ghcr.io')
    expect(registryOf('127.0.0.1:5000/image')).toBe('127.0.0.1:5000')
  })

  it('finds the engine by an address as docker has it', () => {
    expect(() => new DockerEngine('tcp://127.0.0.1:2375')).not.toThrow()
    expect(() => new DockerEngine('ssh://somewhere')).toThrow(/must begin with unix:\/\/ or tcp:\/\//)
  })
})

/** Pods and credentials of a service, asked for over HTTP. */
function podsOver({ endpointUrl }: Serving) {
  const ask = async (method: string, path: string, body?: object): Promise<Pod> => {
    const reply = await fetch(new URL(`/v1${path}`, endpointUrl), {
      method,
      headers: { authorization: `Bearer ${KEY}`, ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    })
    const said = await reply.text()
    if (!reply.ok) throw new Error(`${method} ${path} was answered ${reply.status}: ${said}`)
    return (said === '' ? undefined : JSON.parse(said)) as Pod
  }
  /** Resolves with the pod once its last change is told so. */
  const podSays = async (id: string, words: RegExp): Promise<Pod> => {
    await expect.poll(async () => (await ask('GET', `/pods/${id}`)).lastStatusChange, SOON).toMatch(words)
    return ask('GET', `/pods/${id}`)
  }
  return { ask, podSays }
}
