import { describe, expect, it } from 'vitest'
import { startRig, turns, type Rig } from '../support/interface-rig.ts'

const MINUTE = 60_000

/** A job of /runsync that has just completed. */
async function ranSync(rig: Rig, query = '', policy = {}): Promise<string> {
  const reply = rig.post(`/runsync${query}`, { input: {}, policy })
  await turns()
  const { id } = await rig.worker.take()
  await rig.worker.done(id, { output: 'made' })
  await reply
  return id
}

/** To the millisecond. */
async function expectKept(rig: Rig, id: string, ms: number): Promise<void> {
  await rig.jump(ms - 1)
  expect(await rig.record(id)).toMatchObject({ output: 'made' })
  await rig.jump(1)
  const reply = await rig.get(`/status/${id}`)
  expect([reply.statusCode, reply.json().code]).toEqual([404, 'JOB_NOT_FOUND'])
}

describe('a result', () => {
  it('[RET-2, LIM-7, ERR-18] is kept for 30 minutes when the job came by /run', async () => {
    const rig = await startRig()
    await expectKept(rig, await rig.completed(), 30 * MINUTE)
  })

  it('[RET-3, LIM-7, ERR-18] is kept for 1 minute when the job came by /runsync', async () => {
    const rig = await startRig()
    await expectKept(rig, await ranSync(rig), MINUTE)
  })

  it.each(['1000', '90000', '300000'])(
    '[RET-4, RET-5, LIM-7] is kept for 5 minutes when /runsync had the query wait: %s',
    async (wait) => {
      const rig = await startRig()
      await expectKept(rig, await ranSync(rig, `?wait=${wait}`), 5 * MINUTE)
    },
  )

  it('[RET-1] is kept for its time whatever the ttl is: beyond a short one, and not for a long one', async () => {
    const rig = await startRig()
    await expectKept(rig, await rig.completed('made', { policy: { ttl: 10_000 } }), 30 * MINUTE)
    await expectKept(rig, await ranSync(rig, '', { ttl: 604_800_000 }), MINUTE)
  })

  it('[RET-6] is kept from the end of its job on, not from submission', async () => {
    const rig = await startRig()
    const id = await rig.submit()
    await rig.jump(3 * 60 * MINUTE)
    await rig.worker.take()
    await rig.worker.done(id, { output: 'made' })
    await expectKept(rig, id, 30 * MINUTE)
  })

  it('[RET-6] is kept anew after the next end of a retried job', async () => {
    const rig = await startRig()
    const id = await rig.failed()
    await rig.jump(29 * MINUTE)
    await rig.post(`/retry/${id}`)
    await rig.jump(29 * MINUTE)
    await rig.worker.take()
    await rig.worker.done(id, { output: 'made' })
    await expectKept(rig, id, 30 * MINUTE)
  })
})
