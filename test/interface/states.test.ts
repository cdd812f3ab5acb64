import { describe, expect, it } from 'vitest'
import { jobStatuses } from '../../src/job/lifecycle.ts'
import { HostedWorker, startRig } from '../support/interface-rig.ts'

describe('the states of a job', () => {
  it('[STA-1, JOB-4] are six, and each can be reached', async () => {
    const rig = await startRig()
    const purged = await rig.submit()
    await rig.post('/purge-queue')
    const ids = [
      await rig.timedOut(),
      await rig.completed(),
      await rig.failed(),
      await rig.running(),
      await rig.submit(),
      purged,
    ]
    const seen = new Set(await Promise.all(ids.map((id) => rig.statusOf(id))))
    expect(seen).toEqual(
      new Set(['IN_QUEUE', 'IN_PROGRESS', 'COMPLETED', 'FAILED', 'CANCELLED', 'TIMED_OUT']),
    )
    expect(new Set(jobStatuses)).toEqual(seen)
  })

  it('[STA-8] turn to IN_PROGRESS when a worker takes the job', async () => {
    const rig = await startRig()
    const id = await rig.submit()
    expect((await rig.worker.take()).id).toBe(id)
    expect(await rig.record(id)).toMatchObject({ status: 'IN_PROGRESS', workerId: 'w1' })
  })

  it('[STA-9, STA-10, ERR-16] turn to COMPLETED with a result and to FAILED with an error', async () => {
    const rig = await startRig()
    expect(await rig.record(await rig.completed('x'))).toMatchObject({ status: 'COMPLETED', output: 'x' })
    expect(await rig.record(await rig.failed())).toMatchObject({
      status: 'FAILED',
      error: { message: 'it broke', code: 'HANDLER_ERROR' },
    })
  })

  it('[STA-12] turn back to IN_QUEUE when a worker is lost, ahead of those that came later', async () => {
    const rig = await startRig()
    const lost = await rig.running()
    await rig.worker.ping(lost)
    const later = await rig.submit()
    await rig.pass(29_500)
    expect(await rig.statusOf(lost)).toBe('IN_PROGRESS')
    await rig.pass(1_000)
    expect(await rig.record(lost)).toMatchObject({ status: 'IN_QUEUE', attempt: 2, reason: 'lease-lapsed' })
    const other = new HostedWorker(rig.service, 'w2')
    expect([(await other.take()).id, (await other.take()).id]).toEqual([lost, later])
  })

  it('[STA-13] turn to FAILED when a second worker is lost', async () => {
    const rig = await startRig()
    const id = await rig.submit()
    for (const name of ['w1', 'w2']) {
      const worker = new HostedWorker(rig.service, name)
      await worker.take()
      await worker.ping(id)
      await rig.pass(31_000)
    }
    expect(await rig.record(id)).toMatchObject({
      status: 'FAILED',
      reason: 'worker-lost',
      error: { code: 'WORKER_LOST' },
    })
  })

  it('[STA-15] are not touched by what comes after an end', async () => {
    const rig = await startRig()
    const cancelled = await rig.running()
    await rig.post(`/cancel/${cancelled}`)
    const completed = await rig.completed('first')
    const failed = await rig.failed()
    for (const id of [cancelled, completed, failed]) {
      const before = await rig.record(id)
      for (const report of [{ output: 'late' }, { error: 'late' }, { status: 'IN_PROGRESS', output: 1 }]) {
        expect((await rig.worker.done(id, report)).statusCode).toBe(200)
      }
      await rig.worker.stream(id, 'late')
      await rig.post(`/cancel/${id}`)
      expect(await rig.record(id)).toEqual(before)
      expect(await rig.chunks(id)).toEqual([])
    }
  })
})
