import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { ProcessProvider } from '../../src/fleet/providers/process-provider.ts'
import { ProviderError } from '../../src/fleet/providers/provider.ts'
import { fleetLimits } from '../../src/resource/fleet-limits.ts'
import { hashKey } from '../../src/resource/key-text.ts'
import type { StoredPod } from '../../src/resource/pod.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { isRunning } from '../support/children.ts'
import { GRACE_MS, HostRig } from './pod-host-rig.ts'
import { programs } from './pod-programs.ts'
import { linesOf } from './provider-conformance.ts'

const refused = (message: string): ProviderError => new ProviderError('ENGINE_FAILED', message)

describe('a worker', () => {
  it('is started with its endpoint, its key and its name, and the key opens this endpoint alone', async () => {
    const rig = await HostRig.open()
    const host = rig.host()
    await rig.worker('w1', { made: { env: { OWN: '1', LONGSHORE_WORKER_ID: 'forged' }, ports: ['80/http'] } })
    await rig.up(host, 'w1')
    const spec = rig.pods.specs.get('w1')
    const token = spec?.env['LONGSHORE_WORKER_TOKEN'] ?? ''
    const url = 'http://127.0.0.1:8000/v2/e1'
    expect(spec?.command).toEqual(['run-worker', '/home/owner/handler.ts'])
    expect(spec?.env).toEqual({
      OWN: '1',
      LONGSHORE_ENDPOINT_URL: url,
      LONGSHORE_WORKER_TOKEN: token,
      LONGSHORE_WORKER_ID: 'w1',
      RUNPOD_WEBHOOK_GET_JOB: `${url}/job-take/$ID?gpu=none`,
      RUNPOD_WEBHOOK_POST_OUTPUT: `${url}/job-done/$RUNPOD_POD_ID/$ID?gpu=none`,
      RUNPOD_WEBHOOK_POST_STREAM: `${url}/job-stream/$RUNPOD_POD_ID/$ID?gpu=none`,
      RUNPOD_WEBHOOK_PING: `${url}/ping/$RUNPOD_POD_ID?gpu=none`,
      RUNPOD_PING_INTERVAL: '10000',
      RUNPOD_AI_API_KEY: token,
      RUNPOD_POD_ID: 'w1',
      RUNPOD_POD_HOSTNAME: 'w1',
      RUNPOD_ENDPOINT_ID: 'e1',
    })
    expect(await rig.store.keys.findKey(hashKey(token))).toMatchObject({
      id: 'pod-w1',
      permissions: ['worker'],
      endpoints: ['e1'],
    })
    const record = await rig.record('w1')
    expect(JSON.stringify(record)).not.toContain(token)
    expect(record).toMatchObject({
      startedAt: rig.clock.now(),
      lastStartedAt: new Date(rig.clock.now()).toISOString(),
      lastStatusChange: 'started',
      portMappings: { '80': 40_080 },
      publicIp: null,
    })
  })

  it('that cannot be started is gone with the reason, and leaves nothing', async () => {
    const rig = await HostRig.open()
    const host = rig.host()
    rig.pods.fail('start w1', refused('There is no such image.'))
    await rig.worker('w1')
    await rig.until(host, () => rig.ended('w1'))
    expect(await rig.ended('w1')).toMatchObject({
      desiredStatus: 'TERMINATED',
      failure: 'There is no such image.',
      lastStatusChange: 'There is no such image.',
      endedAt: rig.clock.now(),
    })
    expect(await rig.tokens()).toEqual([])
    expect(rig.pods.asked.at(-1)).toBe('remove w1')
    expect(rig.forgotten).toEqual(['e1/w1'])
  })

  it('that others restart says since when it runs, and goes on', async () => {
    const rig = await HostRig.open()
    const host = rig.host()
    await rig.worker('w1')
    await rig.up(host, 'w1')
    rig.clock.advance(700)
    rig.pods.restart('w1')
    const startedAt = rig.clock.now()
    await rig.until(host, async () => (await rig.record('w1'))?.startedAt === startedAt)
    expect(await rig.record('w1')).toMatchObject({
      desiredStatus: 'RUNNING',
      lastStartedAt: new Date(startedAt).toISOString(),
    })
    expect(rig.pods.running).toEqual(['w1'])
  })

  it('that dies is gone with the reason, and its log can be read; it is not started again', async () => {
    const rig = await HostRig.open()
    const host = rig.host()
    await rig.worker('w1', { made: { ports: ['80/http'] } })
    await rig.up(host, 'w1')
    rig.clock.advance(700)
    rig.pods.exit('w1', 3)
    await rig.until(host, () => rig.ended('w1'))
    expect(await rig.ended('w1')).toMatchObject({
      desiredStatus: 'TERMINATED',
      failure: 'Exited with code 3.',
      endedAt: rig.clock.now(),
      portMappings: {},
    })
    await rig.quiet(host)
    expect(await rig.tokens()).toEqual([])
    expect(rig.pods.asked.filter((what) => what === 'start w1')).toHaveLength(1)
    expect(rig.pods.files).toEqual(['w1'])
    rig.pods.say('w1', 'one', 'two', 'three')
    expect(await linesOf(host.logs('w1', { tail: 2 }))).toEqual(['two', 'three'])
  })

  it.each([
    {
      what: 'a sentence',
      lines: ['{"level":50,"msg":"no"}', 'Cannot load /h.mjs: No model. [HANDLER_IMPORT_FAILED]', ''],
      said: ' It said: Cannot load /h.mjs: No model. [HANDLER_IMPORT_FAILED]',
    },
    {
      what: 'a stack',
      lines: ['file:///h.mjs:1', '', 'Error: no model', '    at file:///h.mjs:1:7', '', 'Node.js v24.1.0'],
      said: ' It said: Error: no model',
    },
    {
      what: 'signs of a terminal',
      lines: ['\u001b[31mno\u001b[0m\u0007 model\r'],
      said: ' It said: no  model',
    },
    { what: 'much', lines: ['x'.repeat(10_000)], said: ` It said: ${'x'.repeat(300)}` },
    { what: 'records alone', lines: ['{"msg":"bye"}'], said: ' It said: {"msg":"bye"}' },
    { what: 'nothing', lines: ['', ' '], said: '' },
  ])('that dies is gone with what it said: $what', async ({ lines, said }) => {
    const rig = await HostRig.open()
    const host = rig.host()
    await rig.worker('w1')
    await rig.up(host, 'w1')
    rig.pods.say('w1', ...lines)
    rig.pods.exit('w1', 1)
    await rig.until(host, () => rig.ended('w1'))
    const words = `Exited with code 1.${said}`
    expect(await rig.ended('w1')).toMatchObject({ failure: words, lastStatusChange: words })
  })

  it('that dies is gone with the reason where its log cannot be read', async () => {
    const rig = await HostRig.open()
    const host = rig.host()
    await rig.worker('w1')
    await rig.up(host, 'w1')
    rig.pods.fail('logs w1', refused('The log is torn.'))
    rig.pods.exit('w1', 1)
    await rig.until(host, () => rig.ended('w1'))
    expect(await rig.ended('w1')).toMatchObject({ failure: 'Exited with code 1.' })
    expect(rig.warnings.join()).toContain('The log is torn.')
  })

  it('that ends before its start is answered has died', async () => {
    const rig = await HostRig.open()
    const host = rig.host()
    rig.pods.endAtStart('w1', 2)
    await rig.worker('w1')
    await rig.until(host, () => rig.ended('w1'))
    expect(await rig.ended('w1')).toMatchObject({
      failure: 'Exited with code 2.',
      startedAt: rig.clock.now(),
    })
  })

  it('is one of ten of its endpoint that died whose files are kept, for a day', async () => {
    const rig = await HostRig.open()
    const host = rig.host()
    const die = async (id: string, more: Partial<StoredPod> = {}): Promise<void> => {
      await rig.worker(id, more)
      await rig.up(host, id)
      rig.clock.advance(1_000)
      rig.pods.exit(id, 1)
      await rig.until(host, () => rig.ended(id))
    }
    for (let n = 10; n < 22; n += 1) await die(`w${n}`)
    await die('other', { endpointId: 'e2' })
    const newest = ['other', 'w12', 'w13', 'w14', 'w15', 'w16', 'w17', 'w18', 'w19', 'w20', 'w21']
    await rig.until(host, () => rig.pods.files.length === 11)
    expect(rig.pods.files).toEqual(newest)
    rig.drop(host)
    const next = rig.host({ mayHavePods: true })
    await next.open()
    await rig.quiet(next)
    expect(rig.pods.files).toEqual(newest)
    rig.clock.advance(fleetLimits.terminatedMs)
    await rig.until(next, async () => (await rig.store.fleet.endedPods.list()).length === 0)
    await rig.until(next, () => rig.pods.files.length === 0)
  })

  it('that died keeps its files no longer than its endpoint is there', async () => {
    const rig = await HostRig.open()
    const host = rig.host()
    for (const [id, endpointId] of [
      ['w1', 'e1'],
      ['w2', 'e2'],
    ] as const) {
      await rig.worker(id, { endpointId })
      await rig.up(host, id)
      rig.pods.exit(id, 1)
      await rig.until(host, () => rig.ended(id))
    }
    await rig.quiet(host)
    expect(rig.pods.files).toEqual(['w1', 'w2'])
    await rig.store.fleet.endpoints.remove('e1')
    await rig.until(host, () => !rig.pods.files.includes('w1'))
    expect(rig.pods.files).toEqual(['w2'])
    rig.drop(host)
    await rig.store.fleet.endpoints.remove('e2')
    const next = rig.host({ mayHavePods: true })
    await rig.until(next, () => rig.pods.files.length === 0)
    expect(await rig.ended('w2')).toMatchObject({ failure: 'Exited with code 1.' })
  })

  it('that is terminated is stopped with its grace and leaves nothing', async () => {
    const rig = await HostRig.open()
    const host = rig.host()
    await rig.worker('w1')
    await rig.up(host, 'w1')
    await rig.change('w1', { desiredStatus: 'TERMINATED' })
    await rig.until(host, () => rig.ended('w1'))
    expect(rig.pods.asked).toContain(`stop w1 ${GRACE_MS}`)
    expect(rig.pods.files).toEqual([])
    expect(await rig.tokens()).toEqual([])
    expect(await rig.ended('w1')).toMatchObject({ lastStatusChange: 'ended as asked' })
    expect((await rig.ended('w1'))?.failure).toBeUndefined()
  })

  it('that was ended as a failure keeps its files', async () => {
    const rig = await HostRig.open()
    const host = rig.host()
    await rig.worker('w1')
    await rig.up(host, 'w1')
    await rig.change('w1', { desiredStatus: 'TERMINATED', failure: 'it was not ready after 300 s' })
    await rig.until(host, () => rig.ended('w1'))
    expect(await rig.ended('w1')).toMatchObject({
      failure: 'it was not ready after 300 s',
      lastStatusChange: 'it was not ready after 300 s',
    })
    expect(rig.pods.files).toEqual(['w1'])
    expect(rig.pods.running).toEqual([])
  })

  it('that is not wanted before it was started never is', async () => {
    const rig = await HostRig.open()
    const host = rig.host()
    await rig.worker('w1', { desiredStatus: 'TERMINATED' })
    await rig.worker('w2', { drain: 'superseded' })
    await rig.until(host, async () => (await rig.ended('w1')) && (await rig.ended('w2')))
    expect(rig.pods.asked.filter((what) => what.startsWith('start'))).toEqual([])
    expect(await rig.ended('w2')).toMatchObject({ lastStatusChange: 'drained: superseded' })
  })

  it('holds up no other while its start takes long, and can be ended in it', async () => {
    const rig = await HostRig.open()
    const host = rig.host()
    const letGo = rig.pods.hold('start slow')
    await rig.worker('slow')
    await rig.until(host, () => rig.pods.asked.includes('start slow'))
    await rig.worker('w1')
    await rig.up(host, 'w1')
    await rig.change('slow', { desiredStatus: 'TERMINATED' })
    await rig.until(host, () => rig.ended('slow'))
    letGo()
    expect((await rig.ended('slow'))?.failure).toBeUndefined()
    expect(await rig.tokens()).toEqual(['pod-w1'])
    expect(rig.pods.files).toEqual(['w1'])
  })
})

describe('a worker that drains', () => {
  async function draining(holds?: number): Promise<{ rig: HostRig; host: ReturnType<HostRig['host']> }> {
    const rig = await HostRig.open()
    const host = rig.host()
    await rig.worker('w1')
    await rig.up(host, 'w1')
    if (holds !== undefined) rig.holds('w1', holds)
    await rig.change('w1', { drain: 'too many' })
    await host.step()
    expect(rig.drained).toContain('e1/w1')
    return { rig, host }
  }

  it('is stopped once it has held nothing for two seconds, and is no failure', async () => {
    const { rig, host } = await draining(2)
    for (let n = 0; n < 5; n += 1) {
      rig.clock.advance(60_000)
      await host.step()
    }
    rig.holds('w1', 0)
    await host.step()
    rig.clock.advance(1_999)
    await host.step()
    expect(rig.pods.running).toEqual(['w1'])
    rig.clock.advance(1)
    await rig.until(host, () => rig.ended('w1'))
    expect(await rig.ended('w1')).toMatchObject({ lastStatusChange: 'drained: too many' })
    expect((await rig.ended('w1'))?.failure).toBeUndefined()
    expect(rig.pods.files).toEqual([])
    expect(rig.pods.asked).toContain(`stop w1 ${GRACE_MS}`)
  })

  it('begins the two seconds anew when it is seen with a job', async () => {
    const { rig, host } = await draining(0)
    rig.clock.advance(1_500)
    rig.holds('w1', 1)
    await host.step()
    rig.holds('w1', 0)
    rig.clock.advance(1_500)
    await host.step()
    await rig.quiet(host)
    expect(rig.pods.running).toEqual(['w1'])
    rig.clock.advance(2_000)
    await rig.until(host, () => rig.ended('w1'))
  })

  it('is no failure when it ends by itself, however', async () => {
    const { rig, host } = await draining(1)
    rig.pods.exit('w1', 1)
    await rig.until(host, () => rig.ended('w1'))
    expect((await rig.ended('w1'))?.failure).toBeUndefined()
    expect(rig.pods.files).toEqual([])
  })

  it('has no jobs if it never asked for one', async () => {
    const { rig, host } = await draining()
    rig.clock.advance(2_000)
    await rig.until(host, () => rig.ended('w1'))
  })

  it('may come back with its jobs when it was heard before and is not now', async () => {
    const { rig, host } = await draining(1)
    rig.heard.clear()
    await host.step()
    rig.clock.advance(59_999)
    await host.step()
    await rig.quiet(host)
    expect(rig.pods.running).toEqual(['w1'])
    rig.clock.advance(1)
    await rig.until(host, () => rig.ended('w1'))
  })

  it('is looked at again when nobody could be asked', async () => {
    const { rig, host } = await draining(0)
    rig.broken.add('heard')
    rig.clock.advance(5_000)
    await host.step()
    expect(rig.pods.running).toEqual(['w1'])
    expect(rig.warnings.at(-1)).toContain('Nobody can be heard.')
    rig.broken.clear()
    await rig.until(host, () => rig.ended('w1'))
  })

  it('is what a restart makes of it', async () => {
    const rig = await HostRig.open()
    const host = rig.host()
    await rig.worker('w1')
    await rig.up(host, 'w1')
    await rig.change('w1', { isRestartAsked: true })
    await rig.until(host, async () => (await rig.record('w1'))?.drain)
    expect((await rig.record('w1'))?.isRestartAsked).toBeUndefined()
    expect(rig.pods.running).toEqual(['w1'])
  })
})

describe("a pod of one's own", () => {
  it('is stopped and started as asked, and keeps what it has', async () => {
    const rig = await HostRig.open()
    const host = rig.host()
    await rig.own('p1', { made: { ports: ['80/http'] } })
    await rig.up(host, 'p1')
    expect(rig.pods.specs.get('p1')?.env).toEqual({})
    expect(await rig.tokens()).toEqual([])
    await rig.change('p1', { desiredStatus: 'EXITED' })
    await rig.until(host, async () => (await rig.record('p1'))?.lastStatusChange === 'stopped as asked')
    expect(await rig.record('p1')).toMatchObject({ desiredStatus: 'EXITED', portMappings: {} })
    expect(rig.pods.running).toEqual([])
    rig.clock.advance(1_000)
    await rig.change('p1', { desiredStatus: 'RUNNING' })
    await rig.until(host, async () => (await rig.record('p1'))?.startedAt === rig.clock.now())
    expect(await rig.record('p1')).toMatchObject({
      portMappings: { '80': 40_080 },
      lastStatusChange: 'started',
    })
    expect(rig.pods.asked).not.toContain('remove p1')
  })

  it('is stopped and started for a restart, once', async () => {
    const rig = await HostRig.open()
    const host = rig.host()
    await rig.own('p1')
    await rig.up(host, 'p1')
    rig.clock.advance(1_000)
    await rig.change('p1', { isRestartAsked: true })
    await rig.until(host, async () => (await rig.record('p1'))?.startedAt === rig.clock.now())
    await rig.quiet(host)
    expect((await rig.record('p1'))?.isRestartAsked).toBeUndefined()
    expect(rig.pods.asked.filter((what) => /^(start|stop) /.test(what))).toEqual([
      'start p1',
      `stop p1 ${GRACE_MS}`,
      'start p1',
    ])
  })

  it('that ends well is left ended', async () => {
    const rig = await HostRig.open()
    const host = rig.host()
    await rig.own('p1')
    await rig.up(host, 'p1')
    rig.pods.exit('p1', 0)
    await rig.until(host, async () => (await rig.record('p1'))?.desiredStatus === 'EXITED')
    await rig.quiet(host)
    expect(await rig.record('p1')).toMatchObject({ lastStatusChange: 'Exited with code 0.' })
    expect(rig.pods.running).toEqual([])
  })

  it('that dies is started again after waits that double up to a minute, and says why and when', async () => {
    const rig = await HostRig.open()
    const host = rig.host()
    await rig.own('p1')
    const waits: number[] = []
    const die = async (): Promise<number> => {
      rig.pods.exit('p1', 3)
      await rig.until(host, async () => (await rig.record('p1'))?.failure)
      const { lastStatusChange = '' } = (await rig.record('p1')) ?? {}
      const [, at = ''] = /^Exited with code 3\. It is started again at (.*Z)\.$/.exec(lastStatusChange) ?? []
      const wait = Date.parse(at) - rig.clock.now()
      rig.clock.advance(wait - 1)
      await host.step()
      await rig.quiet(host)
      expect(rig.pods.running).toEqual([])
      rig.clock.advance(2)
      await rig.until(host, async () => rig.pods.running.length > 0 && !(await rig.record('p1'))?.failure)
      return wait
    }
    await rig.up(host, 'p1')
    for (let n = 0; n < 8; n += 1) waits.push(await die())
    for (const [n, wait] of waits.entries()) {
      const most = Math.min(60_000, 1_000 * 2 ** n)
      expect(wait).toBeGreaterThanOrEqual(Math.floor(most / 2))
      expect(wait).toBeLessThanOrEqual(most)
    }
    rig.clock.advance(60_000)
    expect(await die()).toBeLessThanOrEqual(1_000)
  })

  it('that cannot be started is tried again', async () => {
    const rig = await HostRig.open()
    const host = rig.host()
    rig.pods.fail('start p1', refused('The engine is away.'))
    await rig.own('p1')
    await rig.until(host, async () => (await rig.record('p1'))?.failure)
    expect((await rig.record('p1'))?.lastStatusChange).toMatch(
      /^The engine is away\. It is started again at /,
    )
    rig.clock.advance(1_000)
    await rig.up(host, 'p1')
    expect((await rig.record('p1'))?.failure).toBeUndefined()
  })

  it('is started at once by a start after a stop, whatever it died of before', async () => {
    const rig = await HostRig.open()
    const host = rig.host()
    await rig.own('p1')
    await rig.up(host, 'p1')
    rig.pods.exit('p1', 3)
    await rig.until(host, async () => (await rig.record('p1'))?.failure)
    await rig.change('p1', { desiredStatus: 'EXITED' })
    await rig.until(host, async () => (await rig.record('p1'))?.lastStatusChange === 'stopped as asked')
    await rig.change('p1', { desiredStatus: 'RUNNING' })
    await rig.up(host, 'p1')
  })

  it('that is terminated is removed, and its record can be read for a day', async () => {
    const rig = await HostRig.open()
    const host = rig.host()
    await rig.own('p1')
    await rig.up(host, 'p1')
    await rig.change('p1', { desiredStatus: 'TERMINATED' })
    await rig.until(host, () => rig.ended('p1'))
    expect(rig.pods.files).toEqual([])
    rig.clock.advance(fleetLimits.terminatedMs - 1)
    await host.step()
    expect(await rig.ended('p1')).toBeDefined()
    rig.clock.advance(60_000)
    await rig.until(host, async () => !(await rig.ended('p1')))
  })
})

describe('what a pod is started from', () => {
  it.each([
    ['file:./sub/handler.ts', '/home/owner/sub/handler.ts'],
    ['file:handler', '/home/owner/handler'],
    ['file:/srv/handler.ts', '/srv/handler.ts'],
    ['file:///srv/a%20b.ts', '/srv/a b.ts'],
  ])('is the worker on the file of %s', async (image, file) => {
    const rig = await HostRig.open()
    const host = rig.host()
    await rig.worker('w1', { image })
    await rig.up(host, 'w1')
    expect(rig.pods.specs.get('w1')?.command).toEqual(['run-worker', file])
  })

  it('is its own command where it has one', async () => {
    const rig = await HostRig.open()
    const host = rig.host()
    await rig.worker('w1', { made: { dockerStartCmd: ['node', 'own.ts'] } })
    await rig.up(host, 'w1')
    expect(rig.pods.specs.get('w1')?.command).toBeUndefined()
  })

  it.each([
    ['a service that others can reach', { host: { allowsFileImages: false } }, '--allow-file-images'],
    ['Docker', { kind: 'docker' } as const, 'longshore build'],
  ])('is no file with %s', async (_what, options, mend) => {
    const rig = await HostRig.open(options)
    const host = rig.host()
    await rig.worker('w1', { made: { dockerStartCmd: ['node', 'own.ts'] } })
    await rig.own('p1')
    await rig.until(host, () => rig.ended('w1'))
    expect((await rig.ended('w1'))?.failure).toContain(
      'Pod w1 cannot be started: file:./handler.ts is a file',
    )
    expect((await rig.ended('w1'))?.failure).toContain(mend)
    await rig.until(host, async () => (await rig.record('p1'))?.failure?.includes(mend))
    expect(rig.pods.asked.filter((what) => what.startsWith('start'))).toEqual([])
    expect(await rig.tokens()).toEqual([])
  })

  it('has the credentials of its registry, opened, with Docker alone', async () => {
    const openAuth = (sealed: string): string => sealed.replace('sealed-', '')
    const auth = { id: 'a1', name: 'a1', username: 'me', sealedPassword: 'sealed-secret' }
    const made = { containerRegistryAuthId: 'a1' }
    const credentials = async (kind: 'docker' | 'process'): Promise<unknown> => {
      const rig = await HostRig.open({ kind, openAuth })
      const host = rig.host()
      await rig.store.fleet.registryAuths.add(auth)
      await rig.worker('w1', { image: 'private:1', made })
      await rig.up(host, 'w1')
      return rig.pods.specs.get('w1')?.registryAuth
    }
    expect(await credentials('docker')).toEqual({ username: 'me', password: 'secret' })
    expect(await credentials('process')).toBeUndefined()
  })

  it.each([
    ['it is gone', [], () => '', "registry auth 'a1' is gone"],
    ['nothing opens it', ['a1'], undefined, 'has no secret'],
    ['another secret sealed it', ['a1'], () => expect.unreachable('not opened'), 'LONGSHORE_SECRET_KEY'],
  ])('is refused without the credentials that it names: %s', async (_what, auths, openAuth, words) => {
    const rig = await HostRig.open({ kind: 'docker', openAuth })
    const host = rig.host()
    for (const id of auths)
      await rig.store.fleet.registryAuths.add({ id, name: id, username: 'me', sealedPassword: 'x' })
    await rig.worker('w1', { image: 'private:1', made: { containerRegistryAuthId: 'a1' } })
    await rig.until(host, () => rig.ended('w1'))
    expect((await rig.ended('w1'))?.failure).toContain(words)
  })
})

describe('the next service', () => {
  const AT = 1_749_999_000_000

  it('takes over what runs, without starting it again or giving it another key', async () => {
    const rig = await HostRig.open()
    const first = rig.host()
    await rig.worker('w1')
    await rig.own('p1')
    await rig.up(first, 'w1', 'p1')
    const before = [await rig.record('w1'), await rig.record('p1'), await rig.store.keys.listKeys()]
    rig.drop(first)
    rig.clock.advance(5_000)
    const next = rig.host({ mayHavePods: true })
    await next.open()
    await rig.quiet(next)
    expect([await rig.record('w1'), await rig.record('p1'), await rig.store.keys.listKeys()]).toEqual(before)
    expect(rig.pods.asked.filter((what) => what.startsWith('start'))).toHaveLength(2)
    rig.pods.exit('w1', null)
    await rig.until(next, () => rig.ended('w1'))
    expect((await rig.ended('w1'))?.failure).toContain('Ended out of sight')
  })

  it('replaces at once a worker that reaches the service at another address', async () => {
    const rig = await HostRig.open()
    const first = rig.host()
    await rig.worker('w1')
    await rig.own('p1')
    await rig.up(first, 'w1', 'p1')
    rig.drop(first)
    const letGo = rig.pods.hold('stop w1')
    const next = rig.host({ mayHavePods: true, url: () => 'http://127.0.0.1:9000' })
    await next.open()
    await rig.until(next, async () => (await rig.record('w1'))?.desiredStatus === 'TERMINATED')
    expect(rig.pods.running).toEqual(['p1', 'w1'])
    letGo()
    await rig.until(next, () => rig.ended('w1'))
    expect(await rig.ended('w1')).toMatchObject({
      lastStatusChange:
        'it reaches the service at another address: http://127.0.0.1:8000, not http://127.0.0.1:9000',
    })
    // It did not die: what is started in its place is not held up.
    expect((await rig.ended('w1'))?.failure).toBeUndefined()
    expect(rig.pods.asked).toContain(`stop w1 ${GRACE_MS}`)
    await rig.quiet(next)
    expect(rig.pods.running).toEqual(['p1'])
  })

  it('writes down what the one before started and did not live to write', async () => {
    const rig = await HostRig.open()
    await rig.worker('w1')
    rig.pods.put('w1', AT, { '80': 8_080 })
    const host = rig.host({ mayHavePods: true })
    await host.open()
    await rig.until(host, async () => (await rig.record('w1'))?.startedAt === AT)
    expect(await rig.record('w1')).toMatchObject({ portMappings: { '80': 8_080 } })
    expect(rig.pods.asked).not.toContain('start w1')
  })

  it('clears from the record of what runs what was said of it before', async () => {
    const rig = await HostRig.open()
    const first = rig.host()
    await rig.own('p1')
    await rig.worker('w1')
    await rig.up(first, 'p1', 'w1')
    rig.drop(first)
    await rig.change('p1', {
      failure: 'There is no engine.',
      lastStatusChange: 'There is no engine. It is started again at noon.',
    })
    await rig.change('w1', { drain: 'too many', lastStatusChange: 'draining: too many' })
    const next = rig.host({ mayHavePods: true })
    await next.open()
    await rig.until(next, async () => (await rig.record('p1'))?.lastStatusChange === 'started')
    expect((await rig.record('p1'))?.failure).toBeUndefined()
    await rig.quiet(next)
    expect(await rig.record('w1')).toMatchObject({ lastStatusChange: 'draining: too many' })
    await rig.change('p1', { lastStatusChange: 'asked to start' })
    await rig.until(next, async () => (await rig.record('p1'))?.lastStatusChange === 'started')
  })

  it('ends what runs without a record, or was to end', async () => {
    const rig = await HostRig.open()
    for (const id of ['stray', 'w1', 'w2', 'p1']) rig.pods.put(id, AT)
    rig.pods.put('ended-stray', AT)
    rig.pods.exit('ended-stray', 0)
    const ran = { startedAt: AT }
    await rig.worker('w1', { ...ran, desiredStatus: 'TERMINATED' })
    await rig.worker('w2', { ...ran, drain: 'too many' })
    await rig.own('p1', { ...ran, desiredStatus: 'EXITED' })
    const host = rig.host({ mayHavePods: true })
    await host.open()
    await rig.until(host, () => rig.ended('w1'))
    await rig.until(host, async () => (await rig.record('p1'))?.lastStatusChange === 'stopped as asked')
    await rig.quiet(host)
    // It may have jobs of before.
    expect(rig.pods.running).toEqual(['w2'])
    expect(rig.pods.files).toEqual(['p1', 'w2'])
    rig.clock.advance(60_000)
    await rig.until(host, () => rig.ended('w2'))
  })

  it('ends a worker that ended while nobody looked, and starts a pod of its own again', async () => {
    const rig = await HostRig.open()
    for (const id of ['seen', 'unseen', 'stopped', 'p2']) rig.pods.put(id, AT)
    rig.pods.exit('seen', 4, { isSeen: false })
    rig.pods.exit('unseen', null, { isSeen: false })
    rig.pods.exit('p2', 0, { isSeen: false })
    await rig.pods.open().stop('stopped', { graceMs: 0 })
    for (const id of ['seen', 'unseen', 'stopped', 'gone']) await rig.worker(id, { startedAt: AT })
    await rig.worker('drained', { startedAt: AT, drain: 'too many' })
    for (const id of ['p1', 'p2']) await rig.own(id, { startedAt: AT })
    const host = rig.host({ mayHavePods: true })
    await host.open()
    const failureOf = async (id: string): Promise<string | undefined> => {
      await rig.until(host, () => rig.ended(id))
      return (await rig.ended(id))?.failure
    }
    expect(await failureOf('seen')).toBe('ended while the service was away: Exited with code 4.')
    expect(await failureOf('unseen')).toBe('ended while the service was away')
    expect(await failureOf('gone')).toBe('ended while the service was away')
    expect(await failureOf('stopped')).toBeUndefined()
    expect(await failureOf('drained')).toBeUndefined()
    await rig.up(host, 'p1', 'p2')
    expect(rig.pods.files).toEqual(['p1', 'p2', 'seen', 'unseen'])
  })

  it('starts a worker that the one before did not come to', async () => {
    const rig = await HostRig.open()
    await rig.worker('w1')
    const host = rig.host()
    await host.open()
    await rig.up(host, 'w1')
  })

  it('goes on with an end that was begun, for the same reason', async () => {
    const rig = await HostRig.open()
    const first = rig.host()
    await rig.worker('w1')
    await rig.up(first, 'w1')
    rig.broken.add('pods.remove')
    rig.pods.exit('w1', 3)
    await rig.until(first, async () => rig.warnings.some((line) => line.includes('pods.remove failed')))
    rig.drop(first)
    rig.broken.clear()
    const endedAt = rig.clock.now()
    rig.clock.advance(5_000)
    const next = rig.host({ mayHavePods: true })
    await next.open()
    await rig.until(next, () => rig.ended('w1'))
    expect(await rig.ended('w1')).toMatchObject({ failure: 'Exited with code 3.', endedAt })
    expect(rig.pods.files).toEqual(['w1'])
  })
})

describe('a host of pods', () => {
  it('sees to its own pods alone, beside another one on the same store', async () => {
    const rig = await HostRig.open()
    const theirs = await HostRig.open()
    const host = rig.host()
    const other = rig.host({ id: 'there', openProvider: async () => theirs.pods.open() })
    await rig.worker('w1')
    await rig.worker('w2', { hostId: 'there' })
    await Promise.all([rig.up(host, 'w1'), rig.until(other, () => theirs.pods.running.length > 0)])
    await rig.quiet(host)
    expect([rig.pods.running, theirs.pods.running]).toEqual([['w1'], ['w2']])
    await other.close()
    expect(await rig.ended('w2')).toMatchObject({ lastStatusChange: 'ended with the service' })
    expect(rig.pods.running).toEqual(['w1'])
  })

  it('opens its provider for nothing but pods', async () => {
    const rig = await HostRig.open()
    const host = rig.host()
    await host.open()
    await host.step()
    await rig.worker('other', { hostId: 'there' })
    await host.step()
    await host.close()
    expect(rig.pods.asked).toEqual([])
  })

  it('never looks twice at a time, and looks once more after a look in which it was asked to', async () => {
    const rig = await HostRig.open()
    const host = rig.host()
    const gate = Promise.withResolvers<void>()
    let looks = 0
    const look = async (): Promise<void> => {
      looks += 1
      rig.before.set('pods.list', look)
      await gate.promise
    }
    rig.before.set('pods.list', look)
    const first = host.step()
    await expect.poll(() => looks).toBe(1)
    const more = [host.step(), host.step()]
    await host.machine()
    expect(looks).toBe(1)
    gate.resolve()
    await Promise.all([first, ...more])
    expect(looks).toBe(2)
  })

  it('brings its change on top of what another server has written meanwhile', async () => {
    const rig = await HostRig.open()
    const host = rig.host()
    rig.before.set('pods.replace', () => rig.change('w1', { readyAt: 7 }))
    await rig.worker('w1')
    await rig.up(host, 'w1')
    expect(await rig.record('w1')).toMatchObject({ readyAt: 7, lastStatusChange: 'started' })
  })

  it.each(['keys.revokeKey', 'keys.addKey', 'pods.find', 'pods.replace'])(
    'starts a worker once, also where the store fails in between: %s',
    async (verb) => {
      const rig = await HostRig.open()
      const host = rig.host()
      rig.broken.add(verb)
      await rig.worker('w1')
      await rig.until(host, () => rig.warnings.some((line) => line.includes(`${verb} failed`)))
      rig.broken.clear()
      rig.clock.advance(1_000)
      await rig.up(host, 'w1')
      expect(rig.pods.asked.filter((what) => what === 'start w1')).toHaveLength(1)
      expect(await rig.tokens()).toEqual(['pod-w1'])
    },
  )

  it.each(['pods.replace', 'keys.revokeKey', 'endedPods.add', 'pods.remove'])(
    'ends a worker, also where the store fails in between: %s',
    async (verb) => {
      const rig = await HostRig.open()
      const host = rig.host()
      await rig.worker('w1')
      await rig.up(host, 'w1')
      rig.broken.add(verb)
      rig.pods.exit('w1', 3)
      await rig.until(host, () => rig.warnings.some((line) => line.includes(`${verb} failed`)))
      rig.broken.clear()
      rig.clock.advance(1_000)
      await rig.until(host, () => rig.ended('w1'))
      expect((await rig.ended('w1'))?.failure).toBe('Exited with code 3.')
      expect(await rig.tokens()).toEqual([])
      expect(rig.pods.files).toEqual(['w1'])
    },
  )

  it('tries an end again that the provider could not bring about', async () => {
    const rig = await HostRig.open()
    const host = rig.host()
    await rig.worker('w1')
    await rig.up(host, 'w1')
    rig.pods.fail('stop w1', refused('The engine is away.'))
    await rig.change('w1', { desiredStatus: 'TERMINATED' })
    await rig.until(host, () => rig.warnings.some((line) => line.includes('The engine is away.')))
    await rig.quiet(host)
    expect(rig.pods.running).toEqual(['w1'])
    rig.clock.advance(1_000)
    await rig.until(host, () => rig.ended('w1'))
  })

  it('says of what never ran why it does not, and leaves alone what may run, while its provider is away', async () => {
    const rig = await HostRig.open()
    const startedAt = rig.clock.now()
    rig.pods.put('w1', startedAt)
    await rig.worker('w1', { startedAt })
    await rig.worker('w2')
    await rig.own('p1')
    rig.pods.fail('list', refused('There is no engine.'))
    const host = rig.host({ mayHavePods: true })
    await host.open()
    await rig.until(host, () => rig.ended('w2'))
    expect((await rig.ended('w2'))?.failure).toBe('There is no engine.')
    await rig.until(host, async () => (await rig.record('p1'))?.failure)
    expect(rig.pods.asked).toEqual(['list', 'close'])
    rig.clock.advance(1_000)
    await rig.up(host, 'p1', 'w1')
    expect(await rig.record('w1')).toMatchObject({ startedAt })
  })

  it('says what the machine is', async () => {
    const rig = await HostRig.open()
    expect(await rig.host().machine()).toMatchObject({ id: 'scripted' })
  })
})

describe('a service that ends', () => {
  it('ends its workers with their grace while their keys still open, and leaves its own pods to the next', async () => {
    const rig = await HostRig.open()
    const host = rig.host()
    await rig.worker('w1')
    await rig.worker('w2')
    await rig.own('p1', { made: { ports: ['80/http'] } })
    await rig.own('p2')
    await rig.up(host, 'w1', 'w2', 'p1', 'p2')
    await rig.change('p2', { desiredStatus: 'EXITED' })
    const letGo = rig.pods.hold('stop w1')
    const closed = host.close()
    await expect.poll(() => rig.pods.asked).toContain(`stop w1 ${GRACE_MS}`)
    expect(await rig.tokens()).toContain('pod-w1')
    letGo()
    await closed
    expect(await host.close()).toBeUndefined()
    expect(await rig.ended('w1')).toMatchObject({ lastStatusChange: 'ended with the service' })
    expect((await rig.ended('w2'))?.failure).toBeUndefined()
    expect(await rig.tokens()).toEqual([])
    expect(rig.pods.files).toEqual(['p1', 'p2'])
    expect(rig.pods.running).toEqual([])
    expect(await rig.record('p1')).toMatchObject({
      desiredStatus: 'RUNNING',
      lastStatusChange: 'stopped with the service',
      portMappings: {},
    })
    expect(await rig.record('p2')).toMatchObject({ lastStatusChange: 'stopped as asked' })
    const next = rig.host({ mayHavePods: true })
    await next.open()
    await rig.up(next, 'p1')
    await rig.quiet(next)
    expect(rig.pods.running).toEqual(['p1'])
  })

  it('starts nothing more, and calls off what is being started', async () => {
    const rig = await HostRig.open()
    const host = rig.host()
    rig.pods.hold('start w1')
    await rig.worker('w1')
    await rig.until(host, () => rig.pods.asked.includes('start w1'))
    const closed = host.close()
    await rig.worker('w2')
    await host.step()
    await closed
    expect(rig.pods.asked).not.toContain('start w2')
    expect(await rig.ended('w1')).toMatchObject({ lastStatusChange: 'ended with the service' })
    expect(await rig.tokens()).toEqual([])
  })

  it.each([
    ['delete', 'w1', { desiredStatus: 'TERMINATED' }],
    ['stop', 'p1', { desiredStatus: 'EXITED' }],
  ] as const)(
    'tells all pods at once, also during a %s, which it does not begin anew',
    async (_what, slow, change) => {
      const rig = await HostRig.open()
      const host = rig.host()
      await rig.worker('w1')
      await rig.own('p1')
      await rig.worker('w2')
      await rig.own('p2')
      await rig.up(host, 'w1', 'p1', 'w2', 'p2')
      const letGo = rig.pods.hold(`stop ${slow}`)
      await rig.change(slow, change)
      await rig.until(host, () => rig.pods.asked.includes(`stop ${slow} ${GRACE_MS}`))
      const closed = host.close()
      const stops = (): string[] => rig.pods.asked.filter((what) => what.startsWith('stop')).toSorted()
      const others = ['w1', 'p1', 'w2', 'p2'].filter((id) => id !== slow)
      await expect.poll(stops).toEqual([slow, ...others].map((id) => `stop ${id} ${GRACE_MS}`).toSorted())
      await expect.poll(() => rig.pods.running).toEqual([slow])
      letGo()
      await closed
      expect(rig.pods.running).toEqual([])
      expect(stops()).toHaveLength(4)
      expect((await rig.ended('w1'))?.failure).toBeUndefined()
      expect(await rig.record('p1')).toBeDefined()
    },
  )

  it('waits no longer than one grace and a little for what does not end', async () => {
    const rig = await HostRig.open()
    const host = rig.host()
    await rig.worker('w1')
    await rig.worker('w2')
    await rig.up(host, 'w1', 'w2')
    const letGo = [rig.pods.hold('stop w1'), rig.pods.hold('stop w2')]
    await rig.change('w1', { desiredStatus: 'TERMINATED' })
    await rig.until(host, () => rig.pods.asked.includes(`stop w1 ${GRACE_MS}`))
    const closed = host.close()
    await expect.poll(() => [rig.pods.asked.at(-1), rig.clock.pending]).toEqual([`stop w2 ${GRACE_MS}`, 1])
    rig.clock.advance(GRACE_MS + 15_000)
    await closed
    expect(rig.warnings).toEqual([
      expect.stringContaining('Pod w1 has not ended in time'),
      expect.stringContaining('Pod w2 has not ended in time'),
    ])
    for (const release of letGo) release()
  })

  it('leaves its pods running where they are kept', async () => {
    const rig = await HostRig.open()
    const host = rig.host({ keepsPods: true })
    await rig.worker('w1')
    await rig.own('p1')
    await rig.up(host, 'w1', 'p1')
    await host.close()
    expect(rig.pods.running).toEqual(['p1', 'w1'])
    expect(await rig.tokens()).toEqual(['pod-w1'])
    expect(await rig.record('w1')).toMatchObject({ desiredStatus: 'RUNNING', lastStatusChange: 'started' })
    expect(rig.pods.asked.at(-1)).toBe('close')
  })

  it('calls off a start that outlasts the grace, also where pods are kept', async () => {
    const rig = await HostRig.open()
    const host = rig.host({ keepsPods: true })
    rig.pods.hold('start w1')
    await rig.worker('w1')
    await rig.until(host, () => rig.pods.asked.includes('start w1'))
    const closed = host.close()
    await expect.poll(() => rig.clock.pending).toBe(1)
    expect(rig.pods.asked).not.toContain(`stop w1 ${GRACE_MS}`)
    rig.clock.advance(GRACE_MS)
    await closed
    expect((await rig.record('w1'))?.startedAt).toBeUndefined()
  })

  it.each(['pods.list', 'pods.replace'])('stops its pods, also where the store fails: %s', async (verb) => {
    const rig = await HostRig.open()
    const host = rig.host()
    await rig.worker('w1')
    await rig.own('p1')
    await rig.up(host, 'w1', 'p1')
    rig.broken.add(verb)
    await host.close()
    expect(rig.pods.running).toEqual([])
    rig.broken.clear()
    const next = rig.host({ mayHavePods: true })
    await next.open()
    await rig.until(next, () => rig.ended('w1'))
    expect(await rig.ended('w1')).toMatchObject({ lastStatusChange: 'ended with the service' })
    await rig.up(next, 'p1')
  })

  it('ends the reading of logs', async () => {
    const rig = await HostRig.open()
    const host = rig.host()
    const signals: (AbortSignal | undefined)[] = []
    const provider = rig.pods.open()
    const next = rig.host({
      openProvider: async () => ({
        ...provider,
        logs: async function* (_podId, options) {
          signals.push(options?.signal)
          yield 'first'
        },
      }),
    })
    expect(await linesOf(next.logs('w1', { follow: true }))).toEqual(['first'])
    expect(signals[0]?.aborted).toBe(false)
    await next.close()
    expect(signals[0]?.aborted).toBe(true)
    await host.close()
  })
})

describe('pods as real processes', () => {
  const path = [dirname(process.execPath), process.env['PATH']].join(delimiter)

  async function openPlace(): Promise<{ dir: string; open: () => Promise<ProcessProvider> }> {
    const dir = mkdtempSync(join(tmpdir(), 'longshore-host-'))
    const providers: ProcessProvider[] = []
    const open = async (): Promise<ProcessProvider> => {
      const onTrouble = (podId: string, error: unknown): void => console.error(podId, error)
      const options = { dir, clock: systemClock, baseEnv: { PATH: path }, tickMs: 20, onTrouble }
      const provider = await ProcessProvider.open(options)
      providers.push(provider)
      return provider
    }
    onTestFinished(async () => {
      const last = providers.at(-1)
      for (const { podId } of (await last?.list()) ?? []) await last?.remove(podId)
      for (const provider of providers) await provider.close()
      rmSync(dir, { recursive: true })
    })
    return { dir, open }
  }

  it('are taken over by the next service, which sees their end and keeps their log', async () => {
    const { open } = await openPlace()
    const rig = await HostRig.open({ host: { openProvider: open } })
    const first = rig.host()
    await rig.worker('w1', { made: { dockerStartCmd: ['node', '-e', programs.patient] } })
    await rig.until(first, async () => (await rig.record('w1'))?.startedAt)
    expect(await linesOf(first.logs('w1', { follow: true }), 1)).toEqual(['up'])
    const before = await rig.record('w1')
    rig.drop(first)
    let pid = 0
    const next = rig.host({
      mayHavePods: true,
      openProvider: async () => {
        const provider = await open()
        const [pod] = await provider.list()
        if (pod?.state === 'running' && pod.handle.kind === 'process') pid = pod.handle.pid
        return provider
      },
    })
    await next.open()
    await next.step()
    expect(await rig.record('w1')).toEqual(before)
    expect(isRunning(pid)).toBe(true)
    process.kill(pid, 'SIGKILL')
    await rig.until(next, () => rig.ended('w1'))
    expect((await rig.ended('w1'))?.failure).toContain('Ended out of sight')
    expect(await linesOf(next.logs('w1'))).toEqual(['up'])
  })

  it('have no image to take a command from', async () => {
    const { open } = await openPlace()
    const rig = await HostRig.open({ host: { openProvider: open } })
    const host = rig.host()
    await rig.worker('w1', { image: 'python:3' })
    await rig.until(host, () => rig.ended('w1'))
    expect((await rig.ended('w1'))?.failure).toContain('nothing says what to run')
    expect(await rig.tokens()).toEqual([])
  })
})
