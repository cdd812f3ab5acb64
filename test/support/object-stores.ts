// The S3 servers of the tests in test/s3: both are started once, before the first of these tests, and stopped.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { isInstalled, type ObjectStore, type StartedObjectStore } from './daemons.ts'
import { RADOSGW_PROGRAMS, startRadosgw } from './radosgw.ts'
import { startSwift, SWIFT_PROGRAMS } from './swift.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    /** Undefined when it is not installed. */
    radosgw: ObjectStore | undefined
    /** Undefined when it is not installed. */
    swift: ObjectStore | undefined
  }
}

const PACKAGES = {
  radosgw: 'ceph-mon ceph-osd radosgw ceph-common',
  swift: 'swift-proxy swift-account swift-container swift-object memcached',
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const dir = mkdtempSync(join(tmpdir(), 'longshore-stores-'))
  const outcomes = await Promise.allSettled([
    start('radosgw', RADOSGW_PROGRAMS, () => startRadosgw({ dir: join(dir, 'radosgw') })),
    start('swift', SWIFT_PROGRAMS, () => startSwift({ dir: join(dir, 'swift') })),
  ])
  const stop = async (): Promise<void> => {
    const started = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []))
    await Promise.all(started.map(async (store) => store?.close()))
    rmSync(dir, { recursive: true, force: true })
  }
  const [radosgw, swift] = outcomes
  if (radosgw.status === 'fulfilled' && swift.status === 'fulfilled') {
    project.provide('radosgw', toProvide(radosgw.value))
    project.provide('swift', toProvide(swift.value))
    return stop
  }
  await stop()
  throw outcomes.find((outcome) => outcome.status === 'rejected')?.reason
}

/** Undefined when it is not installed: its tests are skipped then. Where CI runs they may not be. */
async function start(
  name: keyof typeof PACKAGES,
  programs: string[],
  open: () => Promise<StartedObjectStore>,
): Promise<StartedObjectStore | undefined> {
  const missing = programs.filter((program) => !isInstalled(program))
  if (missing.length === 0) return open()
  if (process.env['CI'] !== 'true') return undefined
  throw new Error(
    `The tests in test/s3 need ${name}, and there is no ${missing.join(', ')}. ` +
      `Install the Debian packages: apt-get install --no-install-recommends ${PACKAGES[name]}.`,
  )
}

/** What can be sent to the processes that run the tests: no functions. */
function toProvide(store: StartedObjectStore | undefined): ObjectStore | undefined {
  return store && { endpoint: store.endpoint, accessId: store.accessId, accessSecret: store.accessSecret }
}
