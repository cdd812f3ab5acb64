import { describe, expect, it } from 'vitest'
import { limits } from '../../src/job/limits.ts'
import { hashKey } from '../../src/resource/key-text.ts'
import { startRig } from '../support/interface-rig.ts'

describe('GET /status/{id}', () => {
  it('[STS-1] needs no body', async () => {
    const rig = await startRig()
    const id = await rig.submit()
    const reply = await rig.get(`/status/${id}`)
    expect([reply.statusCode, reply.json().id]).toEqual([200, id])
  })

  it('[STS-2] sets the ttl of the job to what the query says', async () => {
    const rig = await startRig()
    const id = await rig.submit({ policy: { ttl: 60_000 } })
    expect((await rig.get(`/status/${id}?ttl=120000`)).statusCode).toBe(200)
    await rig.jump(119_999)
    expect(await rig.statusOf(id)).toBe('IN_QUEUE')
    await rig.jump(1)
    expect((await rig.get(`/status/${id}`)).statusCode).toBe(404)
  })

  it('[STS-3] tells IN_QUEUE, IN_PROGRESS, COMPLETED and FAILED', async () => {
    const rig = await startRig()
    const id = await rig.submit()
    const seen = [await rig.statusOf(id)]
    await rig.worker.take()
    seen.push(await rig.statusOf(id))
    await rig.worker.done(id, { output: 1 })
    seen.push(await rig.statusOf(id))
    seen.push(await rig.statusOf(await rig.failed()))
    expect(seen).toEqual(['IN_QUEUE', 'IN_PROGRESS', 'COMPLETED', 'FAILED'])
  })

  it('[STS-4, JOB-6] has output once there is one, and not before', async () => {
    const rig = await startRig()
    const id = await rig.submit()
    expect(await rig.record(id)).not.toHaveProperty('output')
    await rig.worker.take()
    expect(await rig.record(id)).not.toHaveProperty('output')
    await rig.worker.done(id, { output: [1] })
    expect(await rig.record(id)).toMatchObject({ output: [1] })
    expect(await rig.record(await rig.failed())).not.toHaveProperty('output')
  })

  it('[STS-5] has delayTime and executionTime in every state', async () => {
    const rig = await startRig()
    const id = await rig.submit()
    const times = { delayTime: expect.any(Number), executionTime: expect.any(Number) }
    expect(await rig.record(id)).toMatchObject(times)
    await rig.worker.take()
    expect(await rig.record(id)).toMatchObject(times)
    await rig.worker.done(id, { output: 1 })
    expect(await rig.record(id)).toMatchObject(times)
  })

  it('[STS-6] tells CANCELLED and TIMED_OUT as well', async () => {
    const rig = await startRig()
    const id = await rig.submit()
    await rig.post(`/cancel/${id}`)
    expect(await rig.statusOf(id)).toBe('CANCELLED')
    expect(await rig.statusOf(await rig.timedOut())).toBe('TIMED_OUT')
  })

  it('[STS-7] takes a ttl from 10 seconds to 7 days, counted from submission', async () => {
    const rig = await startRig()
    const id = await rig.submit()
    const { min, max } = limits.ttlMs
    for (const ttl of [min - 1, max + 1, 0, -1]) {
      const reply = await rig.get(`/status/${id}?ttl=${ttl}`)
      expect([reply.statusCode, reply.json().error]).toEqual([400, expect.stringContaining('ttl must be')])
    }
    for (const ttl of [max, min]) expect((await rig.get(`/status/${id}?ttl=${ttl}`)).statusCode).toBe(200)
    await rig.jump(5_000)
    expect((await rig.get(`/status/${id}?ttl=${min}`)).statusCode).toBe(200)
    await rig.jump(min - 5_000)
    expect((await rig.get(`/status/${id}`)).statusCode).toBe(404)
  })

  it('[STS-8] deletes the job at once when the ttl is past already', async () => {
    const rig = await startRig()
    const id = await rig.running()
    await rig.jump(20_000)
    expect((await rig.get(`/status/${id}?ttl=20000`)).statusCode).toBe(404)
    expect((await rig.get(`/status/${id}`)).statusCode).toBe(404)
    expect((await rig.health()).jobs['inProgress']).toBe(0)
  })

  it('[STS-9] changes nothing about a job that has ended', async () => {
    const rig = await startRig()
    const id = await rig.completed()
    await rig.jump(20_000)
    const reply = await rig.get(`/status/${id}?ttl=10000`)
    expect([reply.statusCode, reply.json().status]).toEqual([200, 'COMPLETED'])
    await rig.jump(20_000)
    expect(await rig.statusOf(id)).toBe('COMPLETED')
  })

  it('[STS-10] sets a ttl only for a key that may write', async () => {
    const rig = await startRig()
    const id = await rig.submit()
    const key = { hash: hashKey('reader'), id: 'key_r', name: 'reader', createdAt: 1 }
    await rig.service.store.keys.addKey({ ...key, permissions: ['read'] })
    const reader = { authorization: 'reader' }
    expect((await rig.get(`/status/${id}`, reader)).statusCode).toBe(200)
    expect((await rig.get(`/status/${id}?ttl=10000`, reader)).statusCode).toBe(401)
    await rig.jump(10_000)
    expect(await rig.statusOf(id)).toBe('IN_QUEUE')
  })
})
