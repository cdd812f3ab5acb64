// A service that starts its own workers: scaled by the load, replaced by releases, adopted after a crash.

import { expect, it } from 'vitest'
import { fleetService, runningPods, versionsEndpoint } from '../support/fleet-service.ts'
import { fixture } from '../support/processes.ts'

// A release goes in steps of seconds, and a busy machine takes its time for each start.
const LONG = { timeout: 90_000, interval: 50 }
const HANDLER = `file:${fixture('says-its-version.ts')}`
const BROKEN = `file:${fixture('fails-to-load.ts')}`

it(
  'scales with a burst, replaces its workers meanwhile, keeps the old ones where the new fail, and outlives its own death',
  { timeout: 240_000 },
  async () => {
    const service = await fleetService()
    const { fleetDir, link, start, resources } = service
    const first = await start()
    const running = async (): Promise<string[]> => runningPods(fleetDir)
    const made = { imageName: HANDLER, env: { VERSION: '1' }, workersMax: 3, running }
    const versions = await versionsEndpoint(service, made)
    const { id, submit, update, newest, workers, completed } = versions

    expect(await workers()).toEqual([])
    await submit(200, 100)
    await expect.poll(completed, LONG).toBeGreaterThan(30)
    await update({ env: { VERSION: '2' } })
    await expect.poll(completed, LONG).toBe(200)
    await expect.poll(async () => (await newest()).state, LONG).toBe('COMPLETED')
    // One more than workersMax may be there while a release rolls.
    expect(versions.most()).toBeGreaterThanOrEqual(3)
    expect(versions.most()).toBeLessThanOrEqual(4)
    await expect.poll(() => runningPods(fleetDir), LONG).toEqual([])
    await expect.poll(workers, LONG).toEqual([])
    expect((await resources.endpoint(id)).version).toBe(2)

    await update({ imageName: BROKEN })
    await submit(20, 50)
    await expect.poll(async () => (await newest()).state, LONG).toBe('STOPPED')
    expect((await newest()).reason).toMatch(
      /3 workers of version 3 failed in a row.*Version 2 goes on serving/,
    )
    await expect.poll(completed, LONG).toBe(220)

    await update({ imageName: HANDLER, env: { VERSION: '4' } })
    await submit(100, 200)
    const hasNewOne = async (): Promise<boolean> => {
      const pods = runningPods(fleetDir)
      return (await workers()).some((pod) => pod.slsVersion === 4 && pods.includes(pod.id))
    }
    await expect.poll(hasNewOne, LONG).toBe(true)
    expect((await newest()).state).toBe('ROLLING')
    const before = runningPods(fleetDir)
    expect(await first.kill('SIGKILL')).toBe('SIGKILL')
    // They go on; one that was told to go may have gone by now.
    const after = runningPods(fleetDir)
    expect(after.length).toBeGreaterThan(0)
    expect(before).toEqual(expect.arrayContaining(after))

    const second = await start()
    await expect.poll(completed, LONG).toBe(320)
    await expect.poll(async () => (await newest()).state, LONG).toBe('COMPLETED')
    expect(versions.most()).toBeLessThanOrEqual(4)
    await expect.poll(() => runningPods(fleetDir), LONG).toEqual([])

    await versions.check()
    expect(await versions.story()).toEqual([
      [4, 'COMPLETED'],
      [3, 'STOPPED'],
      [2, 'COMPLETED'],
      [1, 'COMPLETED'],
    ])
    expect(await second.kill('SIGTERM')).toBe(0)
    link.close()
  },
)
