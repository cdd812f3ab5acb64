import { expect, it, onTestFinished } from 'vitest'
import { Fleet } from '../../src/fleet/fleet.ts'
import { podFrom } from '../../src/resource/pod.ts'
import { openStore } from '../../src/store/open-store.ts'
import { StoreError } from '../../src/store/store-error.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { ScriptedPods } from '../support/scripted-pods.ts'

it('starts while the store is away, and finds its pods when that is back', async () => {
  const clock = new FakeClock()
  const store = await openStore('sqlite::memory:')
  const place = { id: 'p1', machineId: 'here', vcpuCount: 1, memoryInGb: 1 }
  const pod = podFrom({ image: 'file:./handler.ts' }, place)
  await store.fleet.pods.add({ ...pod, hostId: 'here', createdAt: 0 })
  let isAway = true
  const list = store.fleet.pods.list.bind(store.fleet.pods)
  store.fleet.pods.list = () =>
    isAway ? Promise.reject(new StoreError('STORE_UNAVAILABLE', 'The store is away.')) : list()
  const pods = new ScriptedPods(clock)
  const errors: string[] = []
  const note = (_fields: object, message: string): void => void errors.push(message)
  const fleet = new Fleet({
    store,
    clock,
    log: { info: () => undefined, warn: note, error: note },
    workforce: {
      heard: async () => [],
      load: () => Promise.reject(new Error('There is no endpoint.')),
      drain: () => undefined,
      setFleetCounts: () => undefined,
      forget: () => undefined,
    },
    host: {
      id: 'here',
      kind: 'process',
      openProvider: async () => pods.open(),
      mayHavePods: true,
      url: () => 'http://127.0.0.1:8000',
      workerCommand: (handler) => ['run-worker', handler],
      allowsFileImages: true,
      cwd: '/home/owner',
      keepsPods: false,
      stopGraceMs: 1_000,
    },
  })
  onTestFinished(async () => {
    await fleet.close()
    await store.close()
    expect(clock.pending).toBe(0)
  })

  await fleet.start()
  expect(errors[0]).toBe('finding the pods failed; the next tick tries again')
  isAway = false
  // At the time of a tick, whenever the one before it is over.
  await expect.poll(() => (clock.advance(1_000), pods.running)).toEqual(['p1'])
})
