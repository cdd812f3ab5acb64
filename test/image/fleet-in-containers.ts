// A service whose workers are containers: scaled by the load, replaced by releases, adopted after a crash, and none left behind.

import { expect, it, onTestFinished } from 'vitest'
import { containerName } from '../../src/fleet/providers/container-request.ts'
import type { Pod } from '../../src/resource/pod.ts'
import type { Docker } from '../support/docker.ts'
import { fleetService, versionsEndpoint, type FleetService } from '../support/fleet-service.ts'
import { KEY } from '../support/processes.ts'

const LONG = { timeout: 60_000, interval: 100 }
/** Shorter than the image's own: what is ended here has nothing to finish. */
const ENV = { LONGSHORE_DRAIN_MS: '300' }

export interface FleetEngine {
  docker: () => Docker
  /** Of says-its-version.ts. */
  image: string
}

export function describeFleet({ docker, image }: FleetEngine): void {
  it('has its workers scaled, replaced, adopted and ended by a service', { timeout: 180_000 }, async () => {
    const service = await containerService(docker())
    const { history, port, link, start, resources } = service
    const first = await start()
    const running = () => containers(docker())
    const made = { imageName: image, env: { ...ENV, VERSION: '1' }, workersMax: 2, running }
    const versions = await versionsEndpoint(service, made)
    const { id, client, submit, update, newest, workers, completed } = versions

    expect(await running()).toEqual([])
    await submit(30, 400)
    await expect.poll(completed, LONG).toBeGreaterThan(3)
    await update({ env: { ...ENV, VERSION: '2' } })
    await expect.poll(completed, LONG).toBe(30)
    await expect.poll(async () => (await newest()).state, LONG).toBe('COMPLETED')
    await expect.poll(running, LONG).toEqual([])
    // One more than workersMax may be there while a release rolls.
    expect(versions.most()).toBeGreaterThanOrEqual(2)
    expect(versions.most()).toBeLessThanOrEqual(3)
    // Nothing is kept of those that were drained.
    expect(await containers(docker(), '--all')).toEqual([])

    await update({ dockerStartCmd: ['sh', '-c', 'echo no luck; exit 1'] })
    await submit(5, 50)
    await expect.poll(async () => (await newest()).state, LONG).toBe('STOPPED')
    expect((await newest()).reason).toMatch(
      /3 workers of version 3 failed in a row.*Version 2 goes on serving/,
    )
    await expect.poll(completed, LONG).toBe(35)
    const dead = await containers(docker(), '--all', '--filter', 'status=exited')
    expect(dead.length).toBeGreaterThanOrEqual(3)

    await update({ dockerStartCmd: [], env: { ...ENV, VERSION: '4' } })
    await submit(20, 400)
    await expect
      .poll(async () => (await workers()).some(({ slsVersion }) => slsVersion === 4), LONG)
      .toBe(true)
    expect((await newest()).state).toBe('ROLLING')
    await expect.poll(async () => (await running()).length, LONG).toBeGreaterThan(0)
    expect(await first.kill('SIGKILL')).toBe('SIGKILL')
    const left = await running()
    expect(left).not.toEqual([])

    const second = await start()
    await expect.poll(completed, LONG).toBe(55)
    await expect.poll(async () => (await newest()).state, LONG).toBe('COMPLETED')
    expect(versions.most()).toBeLessThanOrEqual(3)
    await expect.poll(running, LONG).toEqual([])

    // They were the next service's, and ended as its own do.
    const ends = await endsOf(port, left)
    expect(ends.filter((words) => !words.startsWith('drained: '))).toEqual([])

    await versions.check()
    expect(await versions.story()).toEqual([
      [4, 'COMPLETED'],
      [3, 'STOPPED'],
      [2, 'COMPLETED'],
      [1, 'COMPLETED'],
    ])

    const long = await client.submit({ input: { ms: 4_000 } })
    await expect.poll(async () => (await client.count()).inProgress, LONG).toBe(1)
    expect(await running()).toHaveLength(1)
    expect(await second.kill('SIGTERM')).toBe(0)
    expect(await running()).toEqual([])
    const third = await start()
    await expect.poll(completed, LONG).toBe(56)
    await client.look(long)
    await client.count()
    expect(history.findings()).toEqual([])

    await resources.deleteEndpoint(id)
    await expect.poll(() => containers(docker(), '--all'), LONG).toEqual([])
    expect(await third.kill('SIGTERM')).toBe(0)
    link.close()
  })
}

/** Its workers are containers on the network of this machine. */
function containerService(docker: Docker): Promise<FleetService> {
  onTestFinished(async () => {
    const left = await containers(docker, '--all')
    if (left.length > 0) await docker.run('rm', '--force', ...left)
  })
  return fleetService({ args: ['--provider', 'docker', '--docker-network', 'host'], env: docker.env })
}

/** The pods of this engine: those that run, or as the words say. */
async function containers(docker: Docker, ...words: string[]): Promise<string[]> {
  const said = await docker.run('ps', '--filter', 'label=longshore.pod', '--format', '{{.Names}}', ...words)
  return said.split('\n').filter(Boolean)
}

/** What their records say of how these containers ended. */
function endsOf(port: number, names: readonly string[]): Promise<string[]> {
  const headers = { authorization: `Bearer ${KEY}` }
  return Promise.all(
    names.map(async (name) => {
      const podId = name.slice(containerName('').length)
      const reply = await fetch(`http://127.0.0.1:${port}/v1/pods/${podId}`, { headers })
      return ((await reply.json()) as Pod).lastStatusChange
    }),
  )
}
