// A thread in the handler's process that no handler can block: it ends the process group when the supervisor is gone,
// and tells where the main thread is stuck.

import { Session, type Debugger } from 'node:inspector'
import { SourceMap } from 'node:module'
import { Socket } from 'node:net'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { isMainThread, parentPort } from 'node:worker_threads'
import { readSourceMap } from '../lib/source-map.ts'
import type { Stall } from './messages.ts'

/** A socket to the supervisor, inherited at this descriptor. It ends with the supervisor, however that died. */
const WATCHDOG_FD = 4
/** The supervisor's bytes come this often, ms: a thread may have been stuck for so long when it is first asked. */
const TICK_MS = 250
/** A main thread that answers nothing for so long is stuck: with the time before, it is a second. */
const STUCK_MS = 1_000 - TICK_MS
/** Within native code the debugger cannot pause: then the place stays untold. */
const CAPTURE_MS = 1_500
const FRAMES = 5

/** Its own event loop turns whatever the main thread does. The supervisor sends a byte now and then while jobs run. */
function watch(main: NonNullable<typeof parentPort>): void {
  const supervisor = new Socket({ fd: WATCHDOG_FD })
  const watched = new WatchedThread(main)
  const end = (): void => void process.kill(-process.pid, 'SIGKILL')
  supervisor.on('error', end).on('close', end)
  supervisor.on('data', (runs: Buffer) => void look(watched, supervisor, runs.at(-1)))
}

async function look(watched: WatchedThread, supervisor: Socket, run: number | undefined): Promise<void> {
  const blockedMs = watched.look(performance.now(), run)
  if (blockedMs === undefined) return
  const stall: Stall = { blockedMs: Math.round(blockedMs), frames: await captureFrames() }
  supervisor.write(`${JSON.stringify(stall)}\n`)
}

/** The main thread as seen from here: it is asked something at each look, and has answered by the next unless it is stuck. */
class WatchedThread {
  readonly #main: NonNullable<typeof parentPort>
  #answeredAt: number | undefined
  #askedAt: number | undefined
  #toldAt: number | undefined
  #run: number | undefined

  constructor(main: NonNullable<typeof parentPort>) {
    this.#main = main
    main.on('message', () => {
      this.#answeredAt = performance.now()
      this.#askedAt = undefined
      this.#toldAt = undefined
    })
    // This listener alone must not keep a thread whose supervisor is gone.
    main.unref()
  }

  /** How long it has been stuck, once for each time that it is; again when another run has begun there meanwhile. */
  look(now: number, run: number | undefined): number | undefined {
    if (this.#askedAt === undefined) {
      this.#askedAt = now
      this.#run = run
      this.#main.postMessage('turn')
      return undefined
    }
    const mayTell = this.#toldAt === undefined || (run !== this.#run && now - this.#toldAt > STUCK_MS)
    if (now - this.#askedAt < STUCK_MS || !mayTell) return undefined
    this.#toldAt = now
    this.#run = run
    return now - Math.max(this.#answeredAt ?? this.#askedAt, this.#askedAt - TICK_MS)
  }
}

/** Where the main thread is, innermost first; its job goes on after a few ms. */
function captureFrames(): Promise<string[]> {
  const session = new Session()
  // A paused frame names its script by number; the numbers come when the debugger is enabled.
  const scripts = new Map<string, Script>()
  return new Promise((resolve) => {
    const finish = (frames: string[]): void => {
      clearTimeout(late)
      session.disconnect()
      resolve(frames)
    }
    const late = setTimeout(() => finish([]), CAPTURE_MS)
    session.connectToMainThread()
    session.on('Debugger.scriptParsed', ({ params }) => {
      const { scriptId, url, sourceMapURL } = params
      if (url.startsWith('file:')) scripts.set(scriptId, { file: fileURLToPath(url), sourceMapURL })
    })
    session.on('Debugger.paused', ({ params }) => {
      finish(params.callFrames.flatMap((frame) => frameText(frame, scripts)).slice(0, FRAMES))
    })
    session.post('Debugger.enable')
    session.post('Debugger.pause')
  })
}

interface Script {
  file: string
  /** Where the way back to the author's lines is, when the code was made from other code. */
  sourceMapURL?: string | undefined
}

function frameText(
  { functionName, location }: Debugger.CallFrame,
  scripts: ReadonlyMap<string, Script>,
): string[] {
  const script = scripts.get(location.scriptId)
  if (script === undefined || script.file.startsWith(import.meta.dirname)) return []
  const place = placeOf(script, location)
  return [functionName === '' ? place : `${functionName} (${place})`]
}

/** The place in what the author wrote; in what was made of it, and saying so, where the way back cannot be had. */
function placeOf(script: Script, { lineNumber, columnNumber = 0 }: Debugger.Location): string {
  const made = `${script.file}:${lineNumber + 1}`
  if (!script.sourceMapURL) return made
  try {
    const entry = new SourceMap(readSourceMap(script.file, script.sourceMapURL)).findEntry(
      lineNumber,
      columnNumber,
    )
    if (!('originalSource' in entry)) return `${made} of the compiled code`
    return `${fileOf(entry.originalSource, script.file)}:${entry.originalLine + 1}`
  } catch {
    // A map that was not shipped with the code, or is none.
    return `${made} of the compiled code`
  }
}

function fileOf(source: string, madeFile: string): string {
  return fileURLToPath(new URL(source, pathToFileURL(madeFile)))
}

if (!isMainThread && parentPort) watch(parentPort)
