// A replica that has what was written, and one that falls silent: what is told then, and what is not.

import { expect, it, onTestFinished } from 'vitest'
import { templateFrom } from '../../src/resource/template.ts'
import { policySchema } from '../../src/job/job.ts'
import { openStore } from '../../src/store/open-store.ts'
import { allScripts } from '../../src/store/redis/redis-store.ts'
import type { Store } from '../../src/store/store.ts'
import { longshore } from '../support/processes.ts'
import { startRedis, type RedisServer } from '../support/redis.ts'
import { switchedLink } from '../support/switched-link.ts'
import { describeWithRedis } from '../support/with-redis.ts'

const LONG = { timeout: 20_000, interval: 50 }

/** From `silence` on the replica hears nothing, and its master does not know that yet. */
async function replicated(): Promise<{ master: RedisServer; silence: () => void }> {
  const master = await startRedis()
  onTestFinished(() => master.stop())
  const wire = await switchedLink(master.port)
  onTestFinished(() => wire.close())
  const replica = await startRedis(['--replicaof', `127.0.0.1 ${wire.port}`])
  onTestFinished(() => replica.stop())
  await expect.poll(() => master.cli('info', 'replication'), LONG).toContain('state=online')
  return { master, silence: () => wire.swallow() }
}

const codeOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => 'ok',
    (cause: { code?: string }) => cause.code ?? cause,
  )

async function open(url: string, replicas = 1): Promise<Store> {
  const store = await openStore(url, { replicas })
  onTestFinished(() => store.close())
  await store.endpoints.ensureEndpoint('ep')
  return store
}

describeWithRedis('With --redis-wait 1', () => {
  it('nobody is shown a record, an endpoint or a key that a failover would undo', async () => {
    const { master, silence } = await replicated()
    const [plain, store] = [await open(master.url, 0), await open(master.url)]
    const { templates } = store.fleet
    const kept = templateFrom({ name: 'kept', imageName: 'image:1' }, 'kept')
    await templates.add(kept)
    const shown: Record<string, () => Promise<unknown>> = {
      find: () => templates.find('kept'),
      list: () => templates.list(),
      findEndpoint: () => store.endpoints.findEndpoint('ep'),
      listEndpoints: () => store.endpoints.listEndpoints(),
      listKeys: () => store.keys.listKeys(),
    }
    for (const show of Object.values(shown)) await show()
    silence()
    expect(await codeOf(templates.replace({ ...kept, readme: '# 2' }, 1))).toBe('STORE_UNAVAILABLE')
    // It has happened on the master all the same.
    expect(await plain.fleet.templates.find('kept')).toMatchObject({ value: { readme: '# 2' } })
    const codes = Object.entries(shown).map(async ([name, show]) => [name, await codeOf(show())])
    expect(await Promise.all(codes)).toEqual(Object.keys(shown).map((name) => [name, 'STORE_UNAVAILABLE']))
  })

  it('each verb of a job that tells or changes anything waits for a replica', async () => {
    const { master, silence } = await replicated()
    const store = await open(master.url)
    const { jobs, clock, webhooks } = store
    const submit = (id: string): Promise<unknown> =>
      jobs.enqueue({
        endpoint: 'ep',
        id,
        input: Buffer.from('1'),
        policy: policySchema.parse({}),
        webhook: 'https://receiver.example/',
        retentionMs: 600_000,
        now: clock.now(),
      })
    const ids = ['failed', 'runs', 'streams', 'releases', 'settles', 'starts', 'progress', 'loses']
    for (const id of ids) await submit(id)
    const ask = { endpoint: 'ep', worker: 'w', leaseMs: 60_000 }
    const leases = await jobs.lease({ ...ask, count: ids.length, now: clock.now() })
    const held = (id: string): { endpoint: string; id: string; lease: string } => ({
      endpoint: 'ep',
      id,
      lease: leases.find((one) => one.id === id)!.lease,
    })
    const error = { type: 'Error', message: 'm', code: 'HANDLER_ERROR' } as const
    await jobs.settle(held('failed'), { event: 'fail', error }, { now: clock.now() })
    for (const id of ['waits', 'cancelled']) await submit(id)
    silence()
    const now = clock.now()
    const verbs: Record<string, () => Promise<unknown>> = {
      enqueue: () => submit('new'),
      find: () => jobs.find('ep', 'runs', now),
      list: () => jobs.list('ep', { count: 9, now }),
      count: () => jobs.count('ep'),
      readChunks: () => jobs.readChunks('ep', 'runs', { maxBytes: 1_000, now }),
      cancel: () => jobs.cancel('ep', 'cancelled', now),
      retry: () => jobs.retry('ep', 'failed', now),
      setTtl: () => jobs.setTtl('ep', 'waits', 90_000, now),
      purge: () => jobs.purge('ep', now),
      lease: () => jobs.lease({ ...ask, count: 1, now }),
      start: () => jobs.start(held('starts'), { agoMs: 0, graceMs: 1, leaseMs: 60_000, now }),
      extend: () => jobs.extend('ep', [held('runs')], { now, leaseMs: 60_000 }),
      appendChunks: () => jobs.appendChunks(held('streams'), { chunks: [{ output: Buffer.from('1') }], now }),
      setProgress: () => jobs.setProgress(held('progress'), Buffer.from('1')),
      settle: () => jobs.settle(held('settles'), { event: 'fail', error }, { now }),
      release: () => jobs.release(held('releases'), now),
      lose: () => jobs.lose(held('loses'), { error, executionMs: 1, now }),
      sweep: () => jobs.sweep(now, { leaseMs: 60_000, servedMs: 60_000 }),
      claim: () => webhooks.claimDeliveries({ count: 9, holdMs: 1, without: [], now }),
    }
    const codes = Object.entries(verbs).map(async ([name, verb]) => [name, await codeOf(verb())])
    expect(await Promise.all(codes)).toEqual(Object.keys(verbs).map((name) => [name, 'STORE_UNAVAILABLE']))
    const rate = { endpoint: 'ep', bucket: 'b', limit: 10, now }
    expect(await codeOf(store.rates.enter(rate))).toBe('ok')
  })

  it('no script is exempt but those whose answer lasts for nobody', () => {
    const exempt = allScripts.filter(({ promises }) => !promises).map(({ name }) => name)
    const [rates, presence] = [
      ['enter', 'leave'],
      ['tell', 'listWorkers'],
    ]
    const own = ['sign', 'renew', 'letGo']
    const looks = ['headWaited', 'load', 'nextDue', 'markRead']
    expect(new Set(exempt)).toEqual(new Set([...rates, ...presence, ...own, ...looks]))
  })

  it('longshore keys has done only what a replica has', async () => {
    const { master, silence } = await replicated()
    const store = await open(master.url, 0)
    for (const id of ['key_1', 'key_2'])
      await store.keys.addKey({ id, name: id, permissions: ['read'], createdAt: 0, hash: id })
    const keys = (...words: string[]): ReturnType<typeof longshore> =>
      longshore(['keys', ...words, '--store', master.url], { env: { LONGSHORE_REDIS_WAIT: '1' } })
    expect(await keys('revoke', 'key_1').exit).toBe(0)
    silence()
    const [revoked, made] = [keys('revoke', 'key_2'), keys('create')]
    for (const command of [revoked, made]) {
      expect(await command.exit).toBe(1)
      expect(command.stderr).toContain('0 of 1 replicas have what was written')
    }
    expect(made.stdout).toBe('')
  })
})
