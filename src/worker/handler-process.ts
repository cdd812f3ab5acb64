// One child process with the author's handler in it: spawned, loaded, spoken to in frames, ended with its whole group.

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { Duplex, Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { pause, type Clock, type Timer } from '../lib/clock.ts'
import { encodeFrame, FrameDecoder } from '../lib/frames.ts'
import { limits } from '../job/limits.ts'
import type { JobError } from '../job/job.ts'
import { exitError, type Death, type LastLine } from './death.ts'
import { LastLines } from './last-lines.ts'
import { oomKills } from './memory-limit.ts'
import {
  checkPayload,
  fromChildSchema,
  type FromChild,
  type HandlerFacts,
  type SourcePlace,
  type StartFacts,
  type Stall,
  type ToChild,
} from './messages.ts'
import { readLines, type OutputLine } from './output-lines.ts'
import { tellWhileSlow, type SlowLoad } from './slow-load.ts'
import { WatchdogLink } from './watchdog-link.ts'

/** What a process tells after it was loaded, but for its readiness. */
export type ProcessMessage = Exclude<FromChild, { type: 'up' | 'imported' | 'ready' | 'unready' }>

/** What a process says once it is ready. */
export interface Readiness {
  facts: HandlerFacts
  start: StartFacts
}

export interface ProcessListener {
  onMessage(message: ProcessMessage, payload: Uint8Array): void
  /** A line that the handler's code wrote by itself. */
  onLine(stream: 'stdout' | 'stderr', line: OutputLine): void
  /** It can be spoken to no more, and will be gone in a moment. */
  onDeaf(): void
  /** It is still at it. */
  onSlow(load: SlowLoad): void
  /** The main thread does not turn. */
  onStall(stall: Stall): void
}

export interface HandlerProcessOptions {
  handlerPath: string
  env: NodeJS.ProcessEnv
  clock: Clock
  /** Where the handler's own output goes: to `listener.onLine`, or to this process's stderr as it is. */
  output: 'lines' | 'stderr'
  importTimeoutMs: number
  setupTimeoutMs: number
  /** Whether ends of jobs come with the memory that the process has then. */
  reportsMemory: boolean
  /** Whether it tells which files it imports. */
  reportsFiles?: boolean
  /** Replaces secrets in what it prints, its own programs included. */
  mask: (text: string) => string
}

export class UnreadyError extends Error {
  readonly code: string
  /** The line to be mended, where that is known. */
  readonly place: SourcePlace | undefined

  constructor(code: string, message: string, place?: SourcePlace) {
    super(message)
    this.code = code
    this.place = place
  }
}

const LIMITS = { headBytes: 1_048_576, payloadBytes: limits.outputBytes + limits.chunkBytes }
/** Between SIGTERM and SIGKILL. */
const LAST_CHANCE_MS = 100
/** From the end of its socket to its own. */
const DEAF_MS = 200
/** How long to read on after the exit when nothing comes any more. */
const LAST_BYTES_MS = 30

export class HandlerProcess {
  /** Resolves once the process is gone. */
  readonly died: Promise<Death>
  readonly #child: ChildProcess
  readonly #socket: Duplex
  readonly #watchdog: WatchdogLink
  readonly #options: HandlerProcessOptions
  readonly #readiness = Promise.withResolvers<Readiness>()
  readonly #imported = Promise.withResolvers<void>()
  readonly #lastLines = new LastLines()
  readonly #oomKillsBefore = oomKills()
  #listener: ProcessListener | undefined
  #outgoing: Uint8Array[] = []
  #isUp = false
  #isLoading = false
  #bytesRead = 0
  #wasKilled = false
  #garbled: string | undefined
  #accident: JobError | undefined

  /** Starts a process with nothing but its own runtime in it. */
  constructor(options: HandlerProcessOptions) {
    this.#options = options
    const extension = import.meta.filename.endsWith('.ts') ? 'ts' : 'js'
    const entry = fileURLToPath(new URL(`./child.${extension}`, import.meta.url))
    const printed = options.output === 'lines' ? 'pipe' : 2
    // From sources, the child is TypeScript as well; stripping its types is no news to anybody.
    this.#child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', entry], {
      stdio: ['ignore', printed, printed, 'pipe', 'pipe'],
      env: options.env,
      // A group of its own, so that whatever the handler starts ends with it.
      detached: true,
    })
    this.#socket = this.#child.stdio[3] as Duplex
    // A write after the child's death is no news: its end is told by `died`.
    this.#socket.on('error', () => undefined)
    this.#socket.once('end', () => this.#onDeaf())
    this.#watchdog = new WatchdogLink(this.#child.stdio[4] as Duplex, options.clock, {
      onStall: (stall) => this.#listener?.onStall(stall),
      onEnd: (note) => {
        const error = 'error' in note ? note.error : exitError(note.exitCode)
        this.#take({ type: 'dying', run: note.run, error }, new Uint8Array(0))
      },
    })
    this.#readOutput('stdout')
    this.#readOutput('stderr')
    this.#readiness.promise.catch(() => undefined)
    this.died = this.#watchDeath()
    this.#readFrames()
  }

  /** Whether its runtime is loaded; a handler given to it is imported at once. */
  get isUp(): boolean {
    return this.#isUp
  }

  /** Whether it was told to import the handler. */
  get isLoading(): boolean {
    return this.#isLoading
  }

  /** What was printed last, by whichever run. */
  get lastLines(): readonly LastLine[] {
    return this.#lastLines.all
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  /** Imports the handler and sets it up. Resolves when it is ready for jobs; rejects with UnreadyError. */
  load(): Promise<Readiness> {
    if (!this.#isLoading) {
      this.#isLoading = true
      const { handlerPath, reportsMemory, reportsFiles = false } = this.#options
      this.send({ type: 'load', handlerPath, reportsMemory, reportsFiles })
      void this.#boundLoading()
    }
    return this.#readiness.promise
  }

  /** Whom its messages go to. Nothing is told before. */
  listen(listener: ProcessListener): void {
    this.#listener = listener
  }

  /** Has its main thread looked at for the sake of this run, the latest of those it has; without one it has none. */
  watch(run: number | undefined): void {
    this.#watchdog.watch(run)
  }

  /** Messages of one turn leave in one write. */
  send(message: ToChild, payload?: Uint8Array): void {
    if (this.#outgoing.length === 0) queueMicrotask(() => this.#flush())
    this.#outgoing.push(...encodeFrame(message, payload))
  }

  /** Asks with SIGTERM, insists with SIGKILL, both on the whole group. Resolves once it is gone. */
  async kill(): Promise<Death> {
    this.#wasKilled = true
    this.#signalGroup('SIGTERM')
    const insist = this.#options.clock.after(LAST_CHANCE_MS, () => this.#signalGroup('SIGKILL'))
    const death = await this.died
    insist.clear()
    return death
  }

  /** Lets an idle process go by itself, and ends one that does not. */
  async leave(withinMs: number): Promise<void> {
    this.send({ type: 'leave' })
    const insist = this.#options.clock.after(withinMs, () => void this.kill())
    await this.died
    insist.clear()
  }

  #flush(): void {
    const frames = this.#outgoing
    this.#outgoing = []
    if (frames.length > 0 && this.#socket.writable)
      this.#socket.write(frames.length === 1 && frames[0] ? frames[0] : Buffer.concat(frames))
  }

  /** The clocks of loading are kept here: an import may block its process for ever. */
  async #boundLoading(): Promise<void> {
    const { importTimeoutMs, setupTimeoutMs, handlerPath, clock } = this.#options
    const giveUp = (code: string, message: string) => (): void => {
      this.#readiness.reject(new UnreadyError(code, message))
      void this.kill()
    }
    const importing = clock.after(
      importTimeoutMs,
      giveUp(
        'IMPORT_TIMED_OUT',
        `Importing ${handlerPath} did not end within ${importTimeoutMs} ms. Look for a top-level await that never settles or a loop in its top level; slow work belongs in setup(). More time: --import-timeout-ms.`,
      ),
    )
    const settled = this.#readiness.promise.then(
      () => undefined,
      () => undefined,
    )
    const slow = (stage: SlowLoad['stage']): Timer =>
      tellWhileSlow(clock, (ms) => this.#listener?.onSlow({ stage, ms }))
    const slowImport = slow('import')
    await Promise.race([this.#imported.promise, settled])
    importing.clear()
    slowImport.clear()
    const slowSetup = slow('setup')
    const settingUp = clock.after(
      setupTimeoutMs,
      giveUp(
        'SETUP_TIMED_OUT',
        `setup() of ${handlerPath} did not end within ${setupTimeoutMs} ms. Make it faster, or give it more time with --setup-timeout-ms.`,
      ),
    )
    await settled
    settingUp.clear()
    slowSetup.clear()
  }

  #readFrames(): void {
    const decoder = new FrameDecoder(LIMITS)
    this.#socket.on('data', (bytes: Buffer) => {
      this.#bytesRead += bytes.byteLength
      try {
        for (const { head, payload } of decoder.push(bytes)) {
          const message = fromChildSchema.parse(head)
          checkPayload(message, payload)
          this.#take(message, payload)
        }
      } catch (cause) {
        // Whatever the author's code wrote there, the stream cannot be trusted any more.
        this.#garbled ??= cause instanceof Error ? cause.message : String(cause)
        this.#signalGroup('SIGKILL')
      }
    })
  }

  /** It is dying, or its code has closed the descriptor: either way nothing can be said to it any more. */
  #onDeaf(): void {
    this.#listener?.onDeaf()
    const insist = this.#options.clock.after(DEAF_MS, () => {
      this.#garbled ??= 'it was closed'
      this.#signalGroup('SIGKILL')
    })
    void this.died.then(() => insist.clear())
  }

  #take(message: FromChild, payload: Uint8Array): void {
    if (message.type === 'up') return void (this.#isUp = true)
    if (message.type === 'imported') return this.#imported.resolve()
    if (message.type === 'ready') return this.#readiness.resolve(message)
    if (message.type === 'unready') {
      return this.#readiness.reject(new UnreadyError(message.code, message.message, message.place))
    }
    if (message.type === 'dying') {
      // It is told on both sockets, and either may be the first to come.
      if (this.#accident) return
      this.#accident = message.error
    }
    this.#listener?.onMessage(message, payload)
  }

  async #watchDeath(): Promise<Death> {
    const spawnFailed = once(this.#child, 'error').then(([error]) => error as Error)
    const exited = once(this.#child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>
    const closed = once(this.#child, 'close')
    const end = await Promise.race([exited, spawnFailed])
    this.#watchdog.watch(undefined)
    const isOverMemory = (oomKills() ?? 0) > (this.#oomKillsBefore ?? 0)
    this.#signalGroup('SIGKILL')
    if (!(end instanceof Error)) await this.#readOn(closed)
    // Whoever else holds their other ends must not keep this process.
    for (const stream of this.#child.stdio) stream?.destroy()
    const [exitCode, signal] = end instanceof Error ? [null, null] : end
    const why = end instanceof Error ? end.message : signal ? `signal ${signal}` : `exit code ${exitCode}`
    const lastWords = this.lastLines.slice(-3).map(({ line }) => line)
    const said = lastWords.length > 0 ? ` Its last words: ${lastWords.join(' | ')}` : ''
    this.#readiness.reject(
      new UnreadyError(
        'EXECUTOR_DIED',
        `The handler's process ended before it was ready (${why}). Run the handler file alone to see why.${said}`,
      ),
    )
    return {
      exitCode,
      signal,
      wasKilled: this.#wasKilled,
      isOverMemory: isOverMemory && signal === 'SIGKILL' && !this.#wasKilled,
      lastLines: [...this.lastLines],
      ...(this.#lastLines.fatal && { fatal: this.#lastLines.fatal }),
      ...(this.#garbled !== undefined && { garbled: this.#garbled }),
      ...(this.#accident && { accident: this.#accident }),
    }
  }

  /** Its last bytes may still be in the pipes; a program it left behind in another group may keep them open for ever. */
  async #readOn(closed: Promise<unknown>): Promise<void> {
    for (let before = -1; before !== this.#bytesRead;) {
      before = this.#bytesRead
      const silence = pause(this.#options.clock, LAST_BYTES_MS).then(() => 'open')
      if ((await Promise.race([closed, silence])) !== 'open') return
    }
  }

  #readOutput(name: 'stdout' | 'stderr'): void {
    const stream: Readable | null = this.#child[name]
    if (!stream) return
    readLines(stream, (raw) => {
      const line = { ...raw, line: this.#options.mask(raw.line) }
      this.#lastLines.add({ ...line, at: this.#options.clock.monotonic() })
      this.#listener?.onLine(name, line)
    })
  }

  #signalGroup(signal: NodeJS.Signals): void {
    const { pid } = this.#child
    if (pid === undefined) return
    try {
      process.kill(-pid, signal)
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code !== 'ESRCH') throw cause
    }
  }
}
