import { describe, expect, it } from 'vitest'
import { startRig, turns } from '../support/interface-rig.ts'

describe('POST /cancel/{id}', () => {
  it('[CAN-1, CAN-2] needs no body, and answers the id and CANCELLED', async () => {
    const rig = await startRig()
    const id = await rig.submit()
    const reply = await rig.post(`/cancel/${id}`)
    expect([reply.statusCode, reply.json()]).toEqual([200, { id, status: 'CANCELLED' }])
  })

  it('[STA-3] takes a job that waits out of the queue before it starts', async () => {
    const rig = await startRig()
    const cancelled = await rig.submit()
    const next = await rig.submit()
    await rig.post(`/cancel/${cancelled}`)
    expect((await rig.worker.take()).id).toBe(next)
    expect(await rig.record(cancelled)).toMatchObject({ status: 'CANCELLED', executionTime: 0 })
    expect((await rig.health()).jobs).toMatchObject({ inQueue: 0, inProgress: 1 })
  })

  it('[STA-4] stops a job that runs, and answers without waiting for that', async () => {
    const rig = await startRig()
    const id = await rig.running()
    const reply = await rig.post(`/cancel/${id}`)
    expect(reply.json()).toEqual({ id, status: 'CANCELLED' })
    // The worker has not even asked what to stop.
    expect(await rig.statusOf(id)).toBe('CANCELLED')
    expect(await rig.worker.stops()).toEqual([id])
  })

  it('[STA-4] tells a worker that asks what to stop in the same moment', async () => {
    const rig = await startRig()
    const id = await rig.running()
    const stops = rig.worker.stops()
    await turns()
    await rig.post(`/cancel/${id}`)
    expect(await stops).toEqual([id])
  })

  it('[CAN-3] is no error when it comes again or too late: it answers the status there is', async () => {
    const rig = await startRig()
    const ended = {
      COMPLETED: await rig.completed(),
      FAILED: await rig.failed(),
      TIMED_OUT: await rig.timedOut(),
    }
    for (const [status, id] of Object.entries(ended)) {
      const reply = await rig.post(`/cancel/${id}`)
      expect([reply.statusCode, reply.json()]).toEqual([200, { id, status }])
    }
    const id = await rig.submit()
    for (let n = 0; n < 2; n += 1) {
      expect((await rig.post(`/cancel/${id}`)).json()).toEqual({ id, status: 'CANCELLED' })
    }
    expect(await rig.record(ended.COMPLETED)).toMatchObject({ status: 'COMPLETED', output: 'made' })
  })
})
