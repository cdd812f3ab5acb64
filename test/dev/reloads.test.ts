import { mkdirSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { Reloads } from '../../src/dev/reloads.ts'
import { Screen } from '../../src/dev/screen.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { createWorkerEvents, type WorkerEvents } from '../../src/worker/events.ts'
import { versionOf } from '../../src/worker/file-version.ts'
import { temporaryDir } from '../support/processes.ts'

const START = { runtimeMs: 1, importMs: 1, setupMs: 1, rssBytes: 1 }

interface Fixture {
  dir: string
  file: string
  events: WorkerEvents
  executor: { readyProcesses: number; outdatedRuns: number; facts: { refresh: boolean; resizes: boolean } }
  /** How often the handler was to be loaded again. */
  asked: () => number
  said: () => string
}

/** Everything but the processes. */
function startReloads(): Fixture {
  const dir = temporaryDir()
  const file = join(dir, 'handler.ts')
  writeFileSync(file, '')
  const events = createWorkerEvents()
  const reload = vi.fn<() => void>()
  const executor = { reload, readyProcesses: 1, outdatedRuns: 0, facts: { refresh: false, resizes: false } }
  let said = ''
  const screen = new Screen({ write: (text: string | Uint8Array) => Boolean((said += String(text))) })
  const codeFrame = (): undefined => undefined
  const reloads = new Reloads({ handlerFile: file, executor, events, screen, clock: systemClock, codeFrame })
  onTestFinished(() => reloads.close())
  return { dir, file, events, executor, asked: () => reload.mock.calls.length, said: () => said }
}

describe('the reason of a reload', () => {
  it('leaves out the folders that were searched where a file was saved, and has them where none was', async () => {
    const { dir, file, events, asked, said } = startReloads()
    const parts = join(dir, 'parts')
    mkdirSync(parts)
    const load = (): void => {
      for (const path of [dir, parts])
        events.emit('file', { path, version: versionOf(path), isSearched: true })
    }
    load()
    writeFileSync(join(parts, 'word.ts'), 'new')
    await vi.waitUntil(() => asked() === 1)
    load()
    events.emit('unready', { cause: new Error('still missing'), failures: 1 })
    writeFileSync(join(dir, 'other.ts'), 'new')
    writeFileSync(file, 'saved')
    await vi.waitUntil(() => asked() === 2)
    events.emit('loaded', START)
    expect(said()).toMatch(/^Reloaded in \d+ ms \(handler\.ts\): /m)
  })

  it('is a new file where nothing else is known', async () => {
    const { dir, events, asked, said } = startReloads()
    events.emit('file', { path: dir, version: versionOf(dir), isSearched: true })
    writeFileSync(join(dir, 'other.ts'), 'new')
    await vi.waitUntil(() => asked() === 1)
    events.emit('loaded', START)
    expect(said()).toContain(`(new file in ${basename(dir)}): `)
  })
})

describe('jobs that began before', () => {
  it.each([
    [0, 'ends here'],
    [1, '  1 job goes on in the version that it began in.'],
    [3, '  3 jobs go on in the versions that they began in.'],
  ])('%d of them', (runs, words) => {
    const { events, executor, said } = startReloads()
    executor.outdatedRuns = runs
    events.emit('loaded', START)
    expect(`${said()}ends here`.split('\n')[1]).toBe(words)
  })
})

describe('a load that goes on', () => {
  it.each([
    ['import', 1, /handler\.ts is still being imported \(2 s\); the version before goes on serving\.\n$/],
    ['import', 0, /handler\.ts is still being imported \(2 s\); jobs wait\.\n$/],
    ['setup', 0, /^setup\(\) of \S*handler\.ts is still under way \(2 s\); jobs wait\.\n$/],
  ] as const)('%s, with %d that serve', (stage, ready, words) => {
    const { events, executor, said } = startReloads()
    executor.readyProcesses = ready
    events.emit('slow', { stage, ms: 2_000 })
    expect(said()).toMatch(words)
  })

  it('is no news where every job has a start of its own to wait for', () => {
    const { events, executor, said } = startReloads()
    executor.facts.refresh = true
    events.emit('loaded', START)
    const before = said()
    events.emit('slow', { stage: 'setup', ms: 2_000 })
    expect(said()).toBe(before)
  })
})
