import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { beforeEach, describe, expect, it } from 'vitest'
import { FakePlace, workerRecord } from '../support/fake-place.ts'
import { happens, startRig, type Rig } from '../support/interface-rig.ts'
import { KEY } from '../support/service.ts'

let rig: Rig
let place: FakePlace
beforeEach(async () => {
  place = new FakePlace()
  rig = await startRig({ fleet: { place } })
  await rig.service.store.fleet.pods.add(workerRecord('p1', 'ep1'))
})

/** Reads over a real connection, which can be slow or break. */
async function read(path: string): Promise<IncomingMessage> {
  if (!rig.service.http.server.listening) await rig.service.http.listen({ port: 0, host: '127.0.0.1' })
  const { port } = rig.service.http.server.address() as AddressInfo
  const headers = { authorization: `Bearer ${KEY}` }
  const asked = request({ port, host: '127.0.0.1', path: `/v1${path}`, headers, agent: false }).end()
  const [answer] = (await once(asked, 'response')) as [IncomingMessage]
  answer.on('error', () => undefined)
  return answer
}

/** Prints until nobody listens any more; says when that was. */
function untilToldToEnd(first: string): { isOver: () => boolean; isAsked: () => boolean } {
  let isOver = false
  let isAsked = false
  place.printed.set('p1', async function* ({ signal }) {
    try {
      isAsked = true
      yield first
      if (signal && !signal.aborted) await once(signal, 'abort')
    } finally {
      isOver = true
    }
  })
  return { isOver: () => isOver, isAsked: () => isAsked }
}

describe('GET /v1/pods/{podId}/logs', () => {
  it('[LOG-1, LOG-2] is what the pod printed, a line per line, the last ones where so many are asked for', async () => {
    const asked: unknown[] = []
    place.printed.set('p1', async function* ({ tail, follow }) {
      asked.push([tail, follow])
      yield* ['one', '', 'zwei ü']
    })
    for (const query of ['', '?tail=2', '?tail=0&follow=false', '?tail=100000&follow=true']) {
      const reply = await rig.rest('GET', `/pods/p1/logs${query}`)
      expect([reply.statusCode, reply.headers['content-type'], reply.body]).toEqual([
        200,
        'text/plain; charset=utf-8',
        'one\n\nzwei ü\n',
      ])
    }
    expect(asked).toEqual([
      [undefined, false],
      [2, false],
      [0, false],
      [100_000, true],
    ])
    place.printed.delete('p1')
    expect((await rig.rest('GET', '/pods/p1/logs')).body).toBe('')
  })

  it('[LOG-2, LOG-3, ERR-1] refuses else of both, named', async () => {
    for (const [name, value] of [
      ['tail', '-1'],
      ['tail', '100001'],
      ['tail', 'all'],
      ['tail', '1.5'],
      ['tail', ''],
      ['follow', '1'],
      ['follow', ''],
    ] as const) {
      const reply = await rig.rest('GET', `/pods/p1/logs?${name}=${value}`)
      expect([value, reply.statusCode, reply.json().error.split(' ', 1)[0]]).toEqual([value, 400, name])
    }
  })

  it('[LOG-3] sends what is printed at once while it is followed, and ends with the pod', async () => {
    let end = (): void => undefined
    place.printed.set('p1', async function* () {
      yield 'started'
      await new Promise<void>((resolve) => (end = resolve))
      yield 'the last words'
    })
    const answer = await read('/pods/p1/logs?follow=true')
    let text = ''
    answer.setEncoding('utf8').on('data', (part: string) => (text += part))
    await happens(() => text === 'started\n')
    end()
    await once(answer, 'end')
    expect(text).toBe('started\nthe last words\n')
  })

  it('[LOG-3] answers before anything is printed', async () => {
    const { isOver } = untilToldToEnd('')
    place.printed.set('p1', async function* ({ signal }) {
      if (signal && !signal.aborted) await once(signal, 'abort')
      yield* []
    })
    const answer = await read('/pods/p1/logs?follow=true')
    expect([answer.statusCode, isOver()]).toEqual([200, false])
    answer.destroy()
  })

  it('[LOG-4] is no longer read from the pod once its reader is gone', async () => {
    const { isOver } = untilToldToEnd('hello')
    const answer = await read('/pods/p1/logs?follow=true')
    await once(answer, 'data')
    expect(isOver()).toBe(false)
    answer.destroy()
    await happens(isOver)
  })

  it('[LOG-4] ends when the service does', async () => {
    const { isOver } = untilToldToEnd('hello')
    const answer = await read('/pods/p1/logs?follow=true')
    const ended = once(answer.resume(), 'end')
    await happens(() => isOver() || answer.readableFlowing === true)
    await rig.service.close()
    await ended
    expect([isOver(), answer.complete]).toEqual([true, true])
  })

  it('[LOG-5] is read from the pod no faster than its reader takes it', async () => {
    let printed = 0
    const line = 'x'.repeat(100_000)
    const isDone = { is: false }
    place.printed.set('p1', async function* () {
      for (; printed < 1_000; printed += 1) yield line
      isDone.is = true
    })
    const answer = await read('/pods/p1/logs')
    let last = -1
    // Stands still once the buffers between the two are full.
    await happens(async () => {
      const before = last
      last = printed
      await new Promise((resolve) => setImmediate(resolve))
      return printed > 0 && before === printed
    })
    expect(printed).toBeLessThan(900)
    let bytes = 0
    for await (const part of answer) bytes += (part as Buffer).byteLength
    expect([bytes, isDone.is]).toEqual([1_000 * (line.length + 1), true])
  })

  it('[LOG-6, ERR-19, ERR-20] is 404 for a pod that there is not, and 409 for one that another service runs', async () => {
    await rig.service.store.fleet.pods.add(workerRecord('p2', 'ep1', { hostId: 'other' }))
    for (const [id, status, code] of [
      ['nobody', 404, 'RESOURCE_NOT_FOUND'],
      ['p2', 409, 'POD_ELSEWHERE'],
    ] as const) {
      const reply = await rig.rest('GET', `/pods/${id}/logs?follow=true`)
      expect([reply.statusCode, reply.json().code]).toEqual([status, code])
    }
  })

  it('[LOG-6] is there for a pod that is gone while it can be read', async () => {
    place.printed.set('p9', async function* () {
      yield 'last words'
    })
    const gone = workerRecord('p9', 'ep1', { desiredStatus: 'TERMINATED', endedAt: rig.clock.now() })
    await rig.service.store.fleet.endedPods.add(gone)
    expect((await rig.rest('GET', '/pods/p9/logs')).body).toBe('last words\n')
  })

  it('[LOG-1] is an error with a status where it cannot be read at all', async () => {
    place.printed.set('p1', async function* () {
      yield* []
      throw new Error('The engine does not answer.')
    })
    const reply = await rig.rest('GET', '/pods/p1/logs')
    expect([reply.statusCode, reply.json().code]).toEqual([500, 'INTERNAL'])
    expect(rig.service.logged.join('')).toContain('The engine does not answer.')
  })
})
