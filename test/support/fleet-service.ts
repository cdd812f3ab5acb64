// A service that runs pods, for tests: its resources over HTTP, and what it has left on the machine.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'
import { ResourceClient } from '../../src/client/resource-client.ts'
import {
  isAlive,
  parseStat,
  sessionMembers,
  type ProcessIdentity,
} from '../../src/fleet/providers/process-identity.ts'
import type { NewTemplate, TemplateUpdate } from '../../src/resource/template.ts'
import { freePort } from './free-port.ts'
import { History } from './history.ts'
import { KEY, serve, temporaryDir, type Serving } from './processes.ts'
import { recordedLink } from './recorded-link.ts'
import { RecordingClient } from './recording-client.ts'

export function resourcesOf(port: number): ResourceClient {
  const client = new ResourceClient({ serviceUrl: `http://127.0.0.1:${port}`, apiKey: KEY })
  onTestFinished(() => client.close())
  return client
}

export type FleetService = Awaited<ReturnType<typeof fleetService>>

/** A service on a port and a file of its own, whose workers speak to it through a link that records. */
export async function fleetService(options: { args?: string[]; env?: Record<string, string> } = {}) {
  const history = new History()
  const port = await freePort()
  const file = join(temporaryDir(), 'queue.db')
  const link = await recordedLink(`http://127.0.0.1:${port}/v2/any`, history)
  const fleetDir = `${file}.fleet`
  endPodsWithTest(fleetDir)
  const places = ['--port', String(port), '--pod-url', `http://127.0.0.1:${link.port}`]
  const args = [...places, ...(options.args ?? [])]
  /** Again on the same file, once the one before is gone. */
  const start = (): Promise<Serving> => serve({ ...options, file, args })
  return { history, port, fleetDir, link, start, resources: resourcesOf(port) }
}

/** An endpoint of the service that sleeps, whose handler is says-its-version.ts; all that its clients see is recorded. */
export async function versionsEndpoint(
  { history, port, resources }: FleetService,
  made: Pick<NewTemplate, 'imageName' | 'env'> & { workersMax: number; running: () => Promise<string[]> },
) {
  const { imageName, env, workersMax, running } = made
  const template = await resources.createTemplate({ name: 'versions', imageName, isServerless: true, env })
  const { id } = await resources.createEndpoint({
    name: 'versions',
    templateId: template.id,
    workersMin: 0,
    workersMax,
    idleTimeout: 1,
    scalerType: 'QUEUE_DELAY',
    scalerValue: 1,
  })
  const client = new RecordingClient(`http://127.0.0.1:${port}/v2/${id}`, history)
  onTestFinished(() => client.close())
  const ids: string[] = []
  let most = 0
  return {
    id,
    client,
    submit: async (jobs: number, ms: number): Promise<void> => {
      ids.push(...(await Promise.all(Array.from({ length: jobs }, () => client.submit({ input: { ms } })))))
    },
    update: (update: TemplateUpdate) => resources.updateTemplate(template.id, update),
    newest: async () => (await resources.releases(id))[0]!,
    workers: async () => (await resources.endpoint(id)).workers ?? [],
    /** How many jobs are; each time, those that run are counted too. */
    completed: async (): Promise<number> => {
      most = Math.max(most, (await running()).length)
      return client.completed()
    },
    /** The most that were seen to run at once. */
    most: () => most,
    /** No job was lost or done twice. */
    check: async (): Promise<void> => {
      await Promise.all(ids.map((job) => client.look(job)))
      await client.count()
      expect(history.count('settled')).toBeGreaterThanOrEqual(ids.length)
      expect(history.findings()).toEqual([])
    },
    /** Each release by its version and what became of it, newest first. */
    story: async () => (await resources.releases(id)).map(({ version, state }) => [version, state]),
  }
}

/** The pods of a fleet's folder whose process runs. */
export function runningPods(fleetDir: string): string[] {
  return [...identitiesOf(fleetDir)].filter(([, identity]) => isAlive(identity)).map(([podId]) => podId)
}

function identitiesOf(fleetDir: string): Map<string, ProcessIdentity> {
  const dir = join(fleetDir, 'pods')
  const found = new Map<string, ProcessIdentity>()
  for (const podId of existsSync(dir) ? readdirSync(dir) : []) {
    const file = join(dir, podId, 'identity')
    const identity = existsSync(file) ? parseStat(readFileSync(file, 'utf8')) : undefined
    if (identity) found.set(podId, identity)
  }
  return found
}

/** A service that a test ended by force has left its pods: they go with the test. */
export function endPodsWithTest(fleetDir: string): void {
  onTestFinished(() => {
    for (const identity of identitiesOf(fleetDir).values())
      for (const pid of sessionMembers(identity)) process.kill(pid, 'SIGKILL')
  })
}
