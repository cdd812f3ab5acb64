import { setImmediate } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { FleetController, type Scaler } from '../../src/fleet/controller.ts'
import { StoreContact } from '../../src/fleet/service/store-contact.ts'
import type { Store } from '../../src/store/store.ts'
import type { StoreEvent } from '../../src/store/store-event.ts'
import { podFrom, type StoredPod } from '../../src/resource/pod.ts'
import { FleetRig } from '../support/fleet-rig.ts'

let rig: FleetRig
let controllers: FleetController[]
const listeners = new Set<(event: StoreEvent) => void>()
/** Steps that are under way, of scalers and hosts. */
let busy = 0
beforeEach(() => {
  rig = new FleetRig()
  controllers = []
  busy = 0
})
afterEach(async () => {
  await Promise.all(controllers.map((controller) => controller.close()))
  expect([rig.clock.pending, listeners.size, rig.counts.killedWithJobs]).toEqual([0, 0, 0])
  await rig.close()
})

async function counted(step: () => Promise<void>): Promise<void> {
  busy += 1
  await step().finally(() => {
    busy -= 1
  })
}

interface Made {
  hostId?: string
  makeScaler?: (endpointId: string, more: { onOrder: () => void }) => Scaler
  hasHost?: boolean
  fleet?: Store['fleet']
}

/** A server on the store of the rig. */
function controllerOf({ hostId = 'host-a', makeScaler, hasHost = true, fleet = rig.store.fleet }: Made = {}) {
  const podHost = { step: () => counted(() => rig.hostStep(hostId)) }
  const watch: Store['watch'] = (listener) => {
    listeners.add(listener)
    return () => void listeners.delete(listener)
  }
  const controller = new FleetController({
    store: { fleet, watch },
    clock: rig.clock,
    log: rig.log,
    hostId,
    contact: new StoreContact(rig.clock),
    tokens: { revoke: async () => undefined },
    ...(hasHost && { podHost }),
    makeScaler(endpointId, more) {
      const scaler = makeScaler?.(endpointId, more) ?? rig.scaler(endpointId, { hostId, ...more })
      return {
        step: () => counted(() => scaler.step()),
        close: () => scaler.close(),
        get isOver() {
          return scaler.isOver
        },
      }
    },
  })
  controllers.push(controller)
  controller.start()
  return controller
}

async function turnsUntil(isSo: () => boolean): Promise<void> {
  for (let turns = 0; !isSo(); turns += 1) {
    if (turns > 10_000) throw new Error(`It was not so after ${turns} turns: ${isSo.toString()}`)
    await setImmediate()
  }
}

/** What was begun is over, and so is what that began. */
async function quiet(): Promise<void> {
  for (let idle = 0, turns = 0; idle < 10; turns += 1) {
    if (turns > 10_000) throw new Error(`${busy} steps are under way after ${turns} turns.`)
    await setImmediate()
    idle = busy === 0 ? idle + 1 : 0
  }
}

async function until(isSo: () => boolean | Promise<boolean>, withinMs = 60_000): Promise<void> {
  await quiet()
  for (const end = rig.clock.now() + withinMs; !(await isSo());) {
    if (rig.clock.now() >= end) throw new Error(`It was not so within ${withinMs} ms: ${isSo.toString()}`)
    await pass(250)
  }
}

async function pass(ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 250) {
    rig.move()
    await quiet()
  }
}

const queued = (endpoint: string): void =>
  listeners.forEach((listener) => listener({ kind: 'queued', endpoint }))

/** A scaler that counts its steps, and is over when told. */
function counting() {
  const scaler = { steps: 0, closed: 0, isOver: false, work: () => Promise.resolve() }
  return Object.assign(scaler, {
    async step() {
      scaler.steps += 1
      await scaler.work()
    },
    async close() {
      scaler.closed += 1
    },
  })
}

describe('a controller', () => {
  it('scales every endpoint there is, those that come later too, and runs what they order at once', async () => {
    const first = await rig.endpoint({ workersMin: 1 })
    controllerOf()
    await quiet()
    // No time has passed.
    expect(rig.counts.started).toBe(1)
    rig.clock.advance(1)
    const second = await rig.endpoint({ workersMin: 1 })
    await until(() => rig.ready() === 2, 3_000)
    const owners = new Set((await rig.pods()).map(({ endpointId }) => endpointId))
    expect(owners).toEqual(new Set([first.id, second.id]))
  })

  it('says all the while that its service lives', async () => {
    controllerOf()
    for (let passed = 0; passed < 40_000; passed += 1_000) {
      await pass(1_000)
      const ask = { holder: 'host-b', forMs: 1, now: rig.clock.now() + 20_000 }
      expect(await rig.store.fleet.hold('host:host-a', ask)).toBe(false)
    }
  })

  it('wakes an endpoint that sleeps when a job comes', async () => {
    const { id } = await rig.endpoint()
    controllerOf()
    await pass(1_250)
    rig.submit(id, 1)
    queued(id)
    await quiet()
    expect(rig.counts.started).toBe(1)
    await until(() => rig.counts.ended === 1)
    await until(() => rig.bodies.size === 0)
  })

  it('looks at an endpoint five times a second at most, however many jobs come', async () => {
    const scaler = counting()
    const { id } = await rig.endpoint()
    controllerOf({ makeScaler: () => scaler })
    await quiet()
    for (let n = 0; n < 100; n += 1) {
      queued(id)
      rig.clock.advance(10)
      await setImmediate()
    }
    await quiet()
    expect(scaler.steps).toBeGreaterThanOrEqual(5)
    expect(scaler.steps).toBeLessThanOrEqual(7)
  })

  it('never has two steps of an endpoint under way, and takes the second after the first', async () => {
    const scaler = counting()
    let free = (): void => {}
    let most = 0
    let now = 0
    scaler.work = async () => {
      now += 1
      most = Math.max(most, now)
      await new Promise<void>((resolve) => (free = resolve))
      now -= 1
    }
    const { id } = await rig.endpoint()
    const controller = controllerOf({ makeScaler: () => scaler })
    await turnsUntil(() => scaler.steps === 1)
    for (let n = 0; n < 5; n += 1) controller.wake(id)
    for (let turns = 0; turns < 20; turns += 1) await setImmediate()
    expect(scaler.steps).toBe(1)
    free()
    for (let turns = 0; turns < 20; turns += 1) await setImmediate()
    // Before the next tick: it was asked for.
    rig.clock.advance(200)
    await turnsUntil(() => scaler.steps === 2)
    scaler.work = () => Promise.resolve()
    free()
    await quiet()
    expect(most).toBe(1)
  })

  it('logs a step that fails, and takes the next one with the next tick', async () => {
    const scaler = counting()
    scaler.work = () => Promise.reject(new Error('the store is away'))
    const { id } = await rig.endpoint()
    controllerOf({ makeScaler: () => scaler })
    await quiet()
    expect(rig.logged).toMatchObject([
      {
        level: 'error',
        message: 'scaling an endpoint failed; the next tick tries again',
        fields: { endpoint: id, err: { message: 'the store is away' } },
      },
    ])
    await pass(1_000)
    expect(scaler.steps).toBe(2)
  })

  it('goes on where the store could not be read', async () => {
    let isAway = true
    const { fleet } = rig.store
    const endpoints = {
      ...fleet.endpoints,
      list: () => (isAway ? Promise.reject(new Error('away')) : fleet.endpoints.list()),
    }
    await rig.endpoint({ workersMin: 1 })
    controllerOf({ fleet: { ...fleet, endpoints } })
    await pass(1_000)
    expect(rig.logged[0]).toMatchObject({ level: 'error', fields: { err: { message: 'away' } } })
    isAway = false
    await until(() => rig.ready() === 1, 3_000)
  })

  it('waits at its end for what is under way, begins nothing after it, and lets go', async () => {
    const scaler = counting()
    let free = (): void => {}
    scaler.work = () => new Promise<void>((resolve) => (free = resolve))
    const { id } = await rig.endpoint()
    const controller = controllerOf({ makeScaler: () => scaler })
    await turnsUntil(() => scaler.steps === 1)
    controller.wake(id)
    let isClosed = false
    const closing = controller.close().then(() => (isClosed = true))
    for (let turns = 0; turns < 20; turns += 1) await setImmediate()
    expect(isClosed).toBe(false)
    free()
    await closing
    controller.wake(id)
    rig.clock.advance(5_000)
    await quiet()
    expect([scaler.steps, scaler.closed]).toEqual([1, 1])
  })

  it('without a host scales nothing', async () => {
    const { id } = await rig.endpoint({ workersMin: 1 })
    const controller = controllerOf({ hasHost: false })
    controller.wake(id)
    await pass(2_000)
    expect([await rig.pods(), await rig.scaling(id)]).toEqual([[], undefined])
  })

  it('ends the pods of an endpoint that is deleted, though it began after that, and is done with it', async () => {
    const { id } = await rig.endpoint({ workersMin: 2 })
    const before = controllerOf()
    await until(() => rig.ready() === 2)
    await before.close()
    await rig.store.fleet.endpoints.remove(id)
    controllerOf()
    await until(async () => (await rig.pods()).length === 0, 3_000)
    await until(async () => (await rig.releases.list(id)).length === 0, 3_000)
    // Nobody holds what is gone.
    const ask = { holder: 'host-z', forMs: 1, now: rig.clock.now() }
    expect(await rig.store.fleet.hold(`scale:${id}`, ask)).toBe(true)
  })
})

describe("pods of one's own of a service that is gone", () => {
  const own = async (id: string, more: Partial<StoredPod> = {}): Promise<void> => {
    const from = { id, machineId: 'machine', vcpuCount: 1, memoryInGb: 1 }
    const pod = { ...podFrom({ image: 'image:1' }, from), hostId: 'gone', createdAt: 1, ...more }
    expect(await rig.store.fleet.pods.add(pod)).toBe(true)
  }
  const pod = async (id: string) => (await rig.store.fleet.pods.find(id))?.value

  it('are gone where they were to end, and are in doubt where they were to run', async () => {
    await own('deleted', { desiredStatus: 'TERMINATED', lastStatusChange: 'asked to end' })
    await own('stays', { lastStatusChange: 'started' })
    await own('stopped', { desiredStatus: 'EXITED', lastStatusChange: 'stopped as asked' })
    const ask = { holder: 'gone', forMs: 30_000, now: rig.clock.now() }
    await rig.store.fleet.hold('host:gone', ask)
    controllerOf()
    await pass(29_000)
    expect(await pod('deleted')).toMatchObject({ lastStatusChange: 'asked to end' })
    expect(await pod('stays')).toMatchObject({ lastStatusChange: 'started' })
    await until(async () => (await pod('deleted')) === undefined, 6_000)
    const words = "its service 'gone' was not heard for 30 s"
    const { value } = (await rig.store.fleet.endedPods.find('deleted')) ?? {}
    expect(value).toMatchObject({ desiredStatus: 'TERMINATED', lastStatusChange: `ended: ${words}` })
    expect(value?.endedAt).toBeGreaterThan(0)
    expect(await pod('stays')).toMatchObject({
      desiredStatus: 'RUNNING',
      lastStatusChange: `${words}: whether it runs is not known`,
    })
    expect(await pod('stopped')).toMatchObject({ lastStatusChange: 'stopped as asked' })
    await pass(5_000)
    const said = rig.logged.filter(({ message }) => message.startsWith("Service 'gone'"))
    expect(said).toMatchObject([{ level: 'warn', fields: { host: 'gone' } }])
    expect(said[0]?.message).toContain('--fleet-dir')
  })
})

describe('two controllers on one store', () => {
  it('start what is missing once, through a burst, a release and the end of either', async () => {
    const { id, templateId } = await rig.endpoint({ workersMin: 1, workersMax: 3 })
    const [first, second] = [controllerOf(), controllerOf({ hostId: 'host-b' })]
    await until(() => rig.ready() === 1)
    rig.submit(id, 60, { runMs: 500 })
    queued(id)
    await until(() => rig.ready() === 3)
    expect(rig.counts.mostBodies).toBe(3)
    await rig.templates.update(templateId, { imageName: 'image:2' })
    controllers.forEach((controller) => controller.wake(id))
    await pass(2_000)
    const owner = (await rig.pods())[0]?.hostId
    const [holder, other] = owner === 'host-a' ? [first, second] : [second, first]
    await holder?.close()
    await until(async () => (await rig.release(id, 2))?.state === 'ROLLING', 250)
    // Its pods run on, as after a stop that keeps them; their host goes on to do what their records say.
    rig.life = () => ({ readyMs: 500 })
    const ownerHost = controllerOf({ hostId: owner ?? '', makeScaler: () => counting() })
    await until(async () => (await rig.release(id, 2))?.state === 'COMPLETED')
    expect(rig.counts.mostBodies).toBeLessThanOrEqual(4)
    await until(() => rig.counts.ended === 60)
    await ownerHost.close()
    await other?.close()
  })
})
