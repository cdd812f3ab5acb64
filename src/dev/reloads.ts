// From a saved file to a fresh process with it, and what is said of that.

import { basename, relative } from 'node:path'
import type { Clock } from '../lib/clock.ts'
import type { WorkerEvents } from '../worker/events.ts'
import type { Executor } from '../worker/executor.ts'
import { versionOf } from '../worker/file-version.ts'
import type { SourcePlace, StartFacts } from '../worker/messages.ts'
import type { SlowLoad } from '../worker/slow-load.ts'
import type { Screen } from './screen.ts'
import { WatchedFiles } from './watched-files.ts'

export interface ReloadsOptions {
  /** Watched also when it could not be loaded. */
  handlerFile: string
  executor: Pick<Executor, 'reload' | 'readyProcesses' | 'outdatedRuns' | 'facts'>
  events: WorkerEvents
  screen: Screen
  clock: Clock
  /** That line with those around it. */
  codeFrame: (place: SourcePlace) => string | undefined
}

const MB = 1_000_000
const MOST_NAMES = 3

export class Reloads {
  readonly #options: ReloadsOptions
  readonly #files: WatchedFiles
  /** Why the handler is being loaded again, since when; undefined when nobody has asked for that. */
  #asked: { why: string; at: number } | undefined
  /** Whether the last that was said is that the handler is ready: what dies, or is for one job only, has many successors. */
  #isReadySaid = false
  #isClosed = false

  constructor(options: ReloadsOptions) {
    this.#options = options
    const { handlerFile, events, clock } = options
    this.#files = new WatchedFiles({
      clock,
      onChange: (files, folders) => this.#reload(reasonOf(files, folders)),
    })
    this.#files.note({ path: handlerFile, version: versionOf(handlerFile) })
    events.on('file', (file) => this.#files.note(file))
    events.on('loaded', (start) => this.#loaded(start))
    events.on('slow', (load) => this.#slow(load))
    events.on('unready', ({ cause, isSpare }) => {
      if (!isSpare) this.#failed(cause)
    })
  }

  /** As after a save. */
  again(): void {
    this.#files.begin()
    this.#reload('asked for')
  }

  /** Whatever a load still comes to is no news to anybody. */
  close(): void {
    this.#isClosed = true
    this.#files.close()
  }

  #reload(why: string): void {
    const { handlerFile, clock, executor } = this.#options
    this.#asked = { why, at: clock.monotonic() }
    this.#files.note({ path: handlerFile, version: versionOf(handlerFile) })
    executor.reload()
  }

  #loaded({ runtimeMs, importMs, setupMs, rssBytes }: StartFacts): void {
    if (this.#isClosed) return
    const { screen, clock, executor } = this.#options
    this.#files.succeed()
    if (!this.#asked && this.#isReadySaid) return
    this.#isReadySaid = true
    const coldMs = runtimeMs + importMs + setupMs
    const parts = `runtime ${rounded(runtimeMs)}, import ${rounded(importMs)}, setup ${rounded(setupMs)}`
    const facts = `cold start ${rounded(coldMs)} ms (${parts}), memory ${rounded(rssBytes / MB)} MB`
    const asked = this.#asked
    this.#asked = undefined
    const what = asked
      ? `Reloaded in ${rounded(clock.monotonic() - asked.at)} ms (${asked.why})`
      : 'Handler ready'
    screen.print(`${screen.styled('green', what)}: ${facts}`)
    const { outdatedRuns: runs } = executor
    // There may have been several saves since they began.
    if (runs === 1) screen.print('  1 job goes on in the version that it began in.')
    if (runs > 1) screen.print(`  ${runs} jobs go on in the versions that they began in.`)
  }

  #slow({ stage, ms }: SlowLoad): void {
    if (this.#isClosed) return
    const { handlerFile, screen, executor } = this.#options
    // Each of its jobs has a process of its own, and a start of its own to wait for.
    if (!this.#asked && this.#isReadySaid && executor.facts?.refresh) return
    const name = relative(process.cwd(), handlerFile)
    const what =
      stage === 'import' ? `${name} is still being imported` : `setup() of ${name} is still under way`
    const meanwhile = executor.readyProcesses > 0 ? 'the version before goes on serving' : 'jobs wait'
    screen.print(screen.styled('yellow', `${what} (${rounded(ms / 1_000)} s); ${meanwhile}.`))
  }

  #failed(cause: unknown): void {
    if (this.#isClosed) return
    const { screen, executor, codeFrame } = this.#options
    this.#asked = undefined
    this.#isReadySaid &&= executor.readyProcesses > 0
    const place = cause instanceof Error && 'place' in cause ? (cause.place as SourcePlace) : undefined
    screen.print(screen.styled('red', cause instanceof Error ? cause.message : String(cause)))
    const frame = place && codeFrame(place)
    if (frame !== undefined) screen.print(frame)
    screen.print(
      executor.readyProcesses > 0
        ? 'The version before goes on serving.'
        : 'Nothing serves as long as that is so: jobs wait, and the next save is tried.',
    )
  }
}

function rounded(value: number): string {
  return String(Math.round(value))
}

/** What was looked for in a folder is a file by now, or is not there yet. */
function reasonOf(files: readonly string[], folders: readonly string[]): string {
  return files.length > 0 ? namesOf(files) : `new file in ${namesOf(folders)}`
}

function namesOf(paths: readonly string[]): string {
  const names = paths.slice(0, MOST_NAMES).map((path) => basename(path))
  const more = paths.length - names.length
  return more > 0 ? `${names.join(', ')} and ${more} more` : names.join(', ')
}
