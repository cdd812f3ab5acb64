import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { HostedWorker, startRig } from '../support/interface-rig.ts'

describe('GET /health', () => {
  it('[HLT-1, HLT-2] needs no body, and answers whole numbers for jobs and workers', async () => {
    const rig = await startRig()
    const reply = await rig.get('/health')
    expect(reply.statusCode).toBe(200)
    expect(reply.json()).toEqual({
      jobs: { completed: 0, failed: 0, inProgress: 0, inQueue: 0, retried: 0 },
      workers: { idle: 0, running: 0, ready: 0, initializing: 0, throttled: 0, unhealthy: 0 },
    })
  })

  it('[HEA-1, HEA-2, HEA-3, HEA-4] counts the jobs that completed, failed, run and wait', async () => {
    const rig = await startRig()
    for (let n = 0; n < 2; n += 1) await rig.completed()
    for (let n = 0; n < 3; n += 1) await rig.failed()
    for (let n = 0; n < 4; n += 1) await rig.running()
    for (let n = 0; n < 5; n += 1) await rig.submit()
    expect((await rig.health()).jobs).toMatchObject({ completed: 2, failed: 3, inProgress: 4, inQueue: 5 })
  })

  it('[HEA-5, HEA-10] counts as retried what a worker lost and what a client retried', async () => {
    const rig = await startRig()
    const lost = await rig.running()
    await rig.worker.ping(lost)
    await rig.pass(31_000)
    expect((await rig.health()).jobs).toMatchObject({ retried: 1, inQueue: 1 })
    await rig.other.take()
    await rig.other.done(lost, { error: 'no' })
    await rig.post(`/retry/${lost}`)
    expect((await rig.health()).jobs).toMatchObject({ retried: 2, failed: 1, inQueue: 1 })
  })

  it('[HEA-6, HEA-7] counts the workers that hold no job and those that hold one', async () => {
    const rig = await startRig()
    for (const name of ['a', 'b', 'c']) await new HostedWorker(rig.service, name).ping()
    expect((await rig.health()).workers).toMatchObject({ idle: 3, running: 0 })
    await rig.running()
    expect((await rig.health()).workers).toMatchObject({ idle: 3, running: 1 })
    await rig.worker.done((await rig.get('/requests')).json().requests[0].id, { output: 1 })
    expect((await rig.health()).workers).toMatchObject({ idle: 4, running: 0 })
  })

  it('[HEA-6, HEA-7] takes a worker at the word of its ping about the jobs it holds', async () => {
    const rig = await startRig()
    await rig.worker.ping('some-job')
    expect((await rig.health()).workers).toMatchObject({ idle: 0, running: 1 })
    await rig.worker.ping()
    expect((await rig.health()).workers).toMatchObject({ idle: 1, running: 0 })
  })

  it('[HLT-2] tells of its own endpoint alone', async () => {
    const rig = await startRig()
    await rig.service.store.endpoints.ensureEndpoint('other')
    await rig.completed()
    await rig.running()
    await rig.submit()
    const headers = { authorization: 'test-key' }
    const other = await rig.service.http.inject({ url: '/v2/other/health', headers })
    expect(other.json()).toMatchObject({
      jobs: { completed: 0, inProgress: 0, inQueue: 0 },
      workers: { idle: 0, running: 0 },
    })
  })

  it('[HEA-8] counts up for good: its sums outlive the jobs and a restart', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'longshore-test-'))
    onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
    const file = join(directory, 'queue.db')
    const first = await startRig({ file })
    await first.completed()
    await first.post(`/retry/${await first.failed()}`)
    await first.post('/purge-queue')
    await first.jump(3_600_000)
    expect((await first.get('/requests')).json().requests).toEqual([])
    const sums = { completed: 1, failed: 1, retried: 1, inQueue: 0 }
    expect((await first.health()).jobs).toMatchObject(sums)
    await first.service.close()
    const second = await startRig({ file, clock: first.clock })
    expect((await second.health()).jobs).toMatchObject(sums)
  })

  it('[HEA-9] takes TIMED_OUT for failed, and CANCELLED for nothing', async () => {
    const rig = await startRig()
    await rig.timedOut()
    await rig.post(`/cancel/${await rig.running()}`)
    await rig.submit()
    await rig.post('/purge-queue')
    expect((await rig.health()).jobs).toEqual({
      completed: 0,
      failed: 1,
      inProgress: 0,
      inQueue: 0,
      retried: 0,
    })
  })

  it('[HEA-11] calls ready whoever is idle or running, and has the other kinds of workers', async () => {
    const rig = await startRig()
    await new HostedWorker(rig.service, 'idle').ping()
    await rig.running()
    expect((await rig.health()).workers).toEqual({
      idle: 1,
      running: 1,
      ready: 2,
      initializing: 0,
      throttled: 0,
      unhealthy: 0,
    })
  })

  it('[HEA-12] calls unhealthy a worker of the hosted kind that says so in a ping, until it says otherwise', async () => {
    const rig = await startRig()
    await rig.get('/ping/w1?status=unhealthy&check=gpu&reason=gone')
    expect((await rig.health()).workers).toMatchObject({ idle: 0, running: 0, ready: 0, unhealthy: 1 })
    await rig.worker.ping()
    expect((await rig.health()).workers).toMatchObject({ idle: 1, ready: 1, unhealthy: 0 })
  })

  it('[HEA-13] forgets a worker of the hosted kind after 30 seconds of silence', async () => {
    const rig = await startRig()
    await rig.worker.ping()
    await rig.jump(29_999)
    expect((await rig.health()).workers).toMatchObject({ idle: 1 })
    await rig.jump(1)
    expect((await rig.health()).workers).toMatchObject({ idle: 0, ready: 0 })
  })
})
