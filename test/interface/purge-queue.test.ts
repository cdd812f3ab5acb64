import { describe, expect, it } from 'vitest'
import { startRig } from '../support/interface-rig.ts'

describe('POST /purge-queue', () => {
  it('[PRG-1, PRG-2] needs no body, and answers how many were removed, and a status', async () => {
    const rig = await startRig()
    for (let n = 0; n < 3; n += 1) await rig.submit()
    const reply = await rig.post('/purge-queue')
    expect([reply.statusCode, reply.json()]).toEqual([200, { removed: 3, status: expect.any(String) }])
    expect((await rig.post('/purge-queue')).json()).toMatchObject({ removed: 0 })
  })

  it('[PRG-3, PRG-4] removes what waits and nothing else: running jobs go on, results stay', async () => {
    const rig = await startRig()
    const completed = await rig.completed('kept')
    const running = await rig.running()
    const waiting = await rig.submit()
    expect((await rig.post('/purge-queue')).json()).toMatchObject({ removed: 1 })
    expect((await rig.health()).jobs).toMatchObject({ inQueue: 0, inProgress: 1 })
    expect(await rig.record(completed)).toMatchObject({ status: 'COMPLETED', output: 'kept' })
    expect(await rig.statusOf(running)).toBe('IN_PROGRESS')
    await rig.worker.done(running, { output: 'done' })
    expect(await rig.record(running)).toMatchObject({ status: 'COMPLETED', output: 'done' })
    expect(await rig.statusOf(waiting)).not.toBe('IN_QUEUE')
  })

  it('[PRG-3] removes what waits on its own endpoint only', async () => {
    const rig = await startRig()
    await rig.service.store.endpoints.ensureEndpoint('other')
    const id = await rig.submit()
    const headers = { authorization: 'test-key' }
    await rig.service.http.inject({ method: 'POST', url: '/v2/other/purge-queue', headers })
    expect(await rig.statusOf(id)).toBe('IN_QUEUE')
  })

  it('[PRG-5, STA-14] says completed, and keeps a purged job as CANCELLED with its reason', async () => {
    const rig = await startRig()
    const id = await rig.submit()
    expect((await rig.post('/purge-queue')).json()).toEqual({ removed: 1, status: 'completed' })
    expect(await rig.record(id)).toMatchObject({ status: 'CANCELLED', reason: 'purged' })
    await rig.jump(30 * 60_000)
    expect((await rig.get(`/status/${id}`)).statusCode).toBe(404)
  })
})
