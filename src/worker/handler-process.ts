// One child process with the author's handler in it: spawned, spoken to in frames, ended with its whole group.

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import type { Duplex } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { pause, type Clock } from '../lib/clock.ts'
import { encodeFrame, FrameDecoder } from '../lib/frames.ts'
import { limits } from '../job/limits.ts'
import { fromChildSchema, type FromChild, type ToChild } from './messages.ts'

export interface ProcessListener {
  /** A job's message; `log` lines too. */
  onMessage(message: Extract<FromChild, { run: number }>, payload: Uint8Array): void
  /** A line that the handler's code wrote by itself. */
  onLine(stream: 'stdout' | 'stderr', line: string): void
}

export interface HandlerProcessOptions {
  handlerPath: string
  env: NodeJS.ProcessEnv
  clock: Clock
  listener: ProcessListener
  /** Where the handler's own output goes: to `listener.onLine`, or to this process's stderr as it is. */
  output: 'lines' | 'stderr'
}

/** How the process ended. */
export interface Death {
  exitCode: number | null
  signal: NodeJS.Signals | null
  /** Whether it was ended on purpose, for the sake of one of its jobs. */
  wasKilled: boolean
  /** What it sent that could not be read, when that is why it was ended. */
  garbled?: string
  lastLines: string[]
}

export class UnreadyError extends Error {
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

const LIMITS = { headBytes: 1_048_576, payloadBytes: limits.outputBytes + limits.chunkBytes }
/** Between SIGTERM and SIGKILL. */
const LAST_CHANCE_MS = 100
/** How long to read on after the exit. */
const LAST_BYTES_MS = 200
const KEPT_LINES = 20

export class HandlerProcess {
  /** Resolves when the handler is loaded and set up; rejects with UnreadyError. */
  readonly ready: Promise<void>
  /** Resolves once the process is gone. */
  readonly died: Promise<Death>
  readonly #child: ChildProcess
  readonly #socket: Duplex
  readonly #options: HandlerProcessOptions
  readonly #lastLines: string[] = []
  #outgoing: Uint8Array[] = []
  #wasKilled = false
  #garbled: string | undefined

  constructor(options: HandlerProcessOptions) {
    this.#options = options
    const extension = import.meta.filename.endsWith('.ts') ? 'ts' : 'js'
    const entry = fileURLToPath(new URL(`./child.${extension}`, import.meta.url))
    this.#child = spawn(process.execPath, [...nodeFlags(), entry, options.handlerPath], {
      stdio: [
        'ignore',
        options.output === 'lines' ? 'pipe' : 2,
        options.output === 'lines' ? 'pipe' : 2,
        'pipe',
      ],
      env: options.env,
      // A group of its own, so that whatever the handler starts ends with it.
      detached: true,
    })
    this.#socket = this.#child.stdio[3] as Duplex
    // A write after the child's death is no news: its end is told by `died`.
    this.#socket.on('error', () => undefined)
    this.#readLines('stdout')
    this.#readLines('stderr')
    const readiness = Promise.withResolvers<void>()
    this.ready = readiness.promise
    this.ready.catch(() => undefined)
    this.died = this.#watchDeath(readiness.reject)
    this.#readFrames(readiness)
  }

  get pid(): number | undefined {
    return this.#child.pid
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

  #readFrames(readiness: { resolve: () => void; reject: (reason: Error) => void }): void {
    const decoder = new FrameDecoder(LIMITS)
    this.#socket.on('data', (bytes: Buffer) => {
      try {
        for (const { head, payload } of decoder.push(bytes)) {
          const message = fromChildSchema.parse(head)
          if (message.type === 'ready') readiness.resolve()
          else if (message.type === 'unready')
            readiness.reject(new UnreadyError(message.code, message.message))
          else this.#options.listener.onMessage(message, payload)
        }
      } catch (cause) {
        // Whatever the author's code wrote there, the stream cannot be trusted any more.
        this.#garbled ??= cause instanceof Error ? cause.message : String(cause)
        this.#signalGroup('SIGKILL')
      }
    })
  }

  async #watchDeath(reject: (reason: Error) => void): Promise<Death> {
    const spawnFailed = once(this.#child, 'error').then(([error]) => error as Error)
    const exited = once(this.#child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>
    const closed = once(this.#child, 'close')
    const end = await Promise.race([exited, spawnFailed])
    this.#signalGroup('SIGKILL')
    // Its last bytes may still be in the pipes; a program it left behind in another group may keep them open for ever.
    if (!(end instanceof Error)) await Promise.race([closed, pause(this.#options.clock, LAST_BYTES_MS)])
    const [exitCode, signal] = end instanceof Error ? [null, null] : end
    const why = end instanceof Error ? end.message : signal ? `signal ${signal}` : `exit code ${exitCode}`
    const said = this.#lastLines.length > 0 ? ` Its last words: ${this.#lastLines.slice(-3).join(' | ')}` : ''
    reject(
      new UnreadyError(
        'EXECUTOR_DIED',
        `The handler's process ended before it was ready (${why}). Run the handler file alone to see why.${said}`,
      ),
    )
    const garbled = this.#garbled === undefined ? {} : { garbled: this.#garbled }
    return { exitCode, signal, wasKilled: this.#wasKilled, lastLines: [...this.#lastLines], ...garbled }
  }

  #readLines(name: 'stdout' | 'stderr'): void {
    const stream = this.#child[name]
    if (!stream) return
    let rest = ''
    const tell = (line: string): void => {
      this.#lastLines.push(line)
      if (this.#lastLines.length > KEPT_LINES) this.#lastLines.shift()
      this.#options.listener.onLine(name, line)
    }
    stream.setEncoding('utf8')
    stream.on('data', (text: string) => {
      const lines = (rest + text).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) tell(line)
      // A program that never ends its line must not fill the memory.
      if (rest.length > MAX_LINE_CHARS) {
        tell(rest)
        rest = ''
      }
    })
    stream.on('end', () => rest && tell(rest))
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

const MAX_LINE_CHARS = 65_536

/** Folders that jobs left behind because their process died. */
export async function removeScratch(directory: string): Promise<void> {
  await rm(directory, { recursive: true, force: true })
}

// From sources, the child is TypeScript as well; stripping its types is no news to anybody.
function nodeFlags(): string[] {
  return ['--disable-warning=ExperimentalWarning']
}
