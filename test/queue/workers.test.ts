import { beforeEach, describe, expect, it } from 'vitest'
import { Workers } from '../../src/queue/workers.ts'
import type { Presence } from '../../src/store/traffic.ts'
import { FakeClock } from '../support/fake-clock.ts'

let clock: FakeClock
let told: Presence[]
let workers: Workers
beforeEach(() => {
  clock = new FakeClock()
  told = []
  const presence = {
    tell: async (_endpoint: string, heard: readonly Presence[]) => void told.push(...heard),
    list: async () => [],
  }
  const onError = (cause: unknown): void => {
    throw cause
  }
  workers = new Workers({ clock, presence, onError })
})

const hear = (holds: number, aliveMs = 20_000): void =>
  workers.hear('ep', 'w1', { holds, lowPriority: 0, aliveMs })
const holds = (): number[] => told.map((one) => one.holds)

describe('what other servers are told of a worker', () => {
  it('is what it does a second later at most, though it says nothing meanwhile', () => {
    hear(0)
    clock.advance(100)
    hear(1)
    expect(holds()).toEqual([0])
    const until = clock.now() + 20_000
    clock.advance(900)
    expect(holds()).toEqual([0, 1])
    expect(told.at(-1)).toMatchObject({ worker: 'w1', aliveUntil: until })
    clock.advance(60_000)
    expect(told).toHaveLength(2)
  })

  it('is told once a second, however many jobs it has in it', () => {
    for (let n = 0; n < 100; n += 1) {
      hear(n % 2)
      clock.advance(30)
    }
    expect(told.length).toBeLessThanOrEqual(4)
    clock.advance(1_000)
    expect(holds().at(-1)).toBe(1)
  })

  it('is nothing more once it is gone, or this server stops', async () => {
    hear(0)
    hear(1)
    workers.forget('ep', 'w1')
    expect(told.at(-1)).toMatchObject({ aliveUntil: 0 })
    clock.advance(2_000)
    expect(told).toHaveLength(2)
    hear(0)
    hear(1)
    workers.close()
    hear(0)
    clock.advance(2_000)
    expect(holds()).toEqual([0, 1, 0])
  })

  it('is nothing of one that has fallen silent since', () => {
    hear(0)
    hear(1, 500)
    clock.advance(2_000)
    expect(holds()).toEqual([0])
  })
})
