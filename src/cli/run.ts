// longshore run: one job from a flag or a file, on the same executor as in production, without a queue.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import type { Settled } from '../config/settings.ts'
import { systemClock } from '../lib/clock.ts'
import { s3ConfigSchema } from '../job/job.ts'
import { LOCAL_BUCKET } from '../s3/config.ts'
import { handlerEnv } from '../worker/config.ts'
import { createWorkerEvents } from '../worker/events.ts'
import { Executor } from '../worker/executor.ts'
import type { Outcome } from '../worker/outcome.ts'
import { findHandlerFile } from '../worker/handler.ts'
import { runLocally, type LocalJob } from '../worker/local-run.ts'
import type { TransferBars } from './transfer-bars.ts'
import { sourceFrame } from './source-frame.ts'
import { CommandError } from './fail.ts'
import { gather, namedHandler, settingsFor, type Flags } from './sources.ts'
import { stopSignal } from './stop-signal.ts'
import { testInputBeside } from './test-input.ts'

/** What one job without a queue goes by. */
export interface RunOptions extends Settled<'run'> {
  testInput?: string | undefined
  /** The one that gave the job, for the words about it. */
  flag: '--test-input' | '--test_input'
}

export async function runCommand(flags: Flags, testInput: string | undefined): Promise<void> {
  await runWith({ ...settingsFor('run', await gather(flags)), testInput, flag: '--test-input' })
}

/** Prints what the handler makes on stdout and how it goes on stderr; exit code 1 when the job fails. */
export async function runWith({ testInput, flag, ...settings }: RunOptions): Promise<void> {
  const handlerPath = namedHandler(settings, flag === '--test_input' ? 'start' : 'run')
  findHandlerFile(handlerPath)
  const job = readJob(findTestInput(handlerPath, testInput, flag))
  const stop = stopSignal()
  const printed = new Printer(process.stderr.isTTY ? await transferBars() : undefined)
  const events = createWorkerEvents()
  events.on('log', ({ level, message, fields }) => {
    const more = Object.keys(fields).length > 0 ? ` ${JSON.stringify(fields)}` : ''
    printed.note(`${level}: ${message}${more}\n`)
  })
  events.on('line', ({ line }) => printed.note(`${line}\n`))
  const executor = new Executor({
    handlerPath,
    env: { ...handlerEnv(process.env, settings), [LOCAL_BUCKET]: join(process.cwd(), 'local-bucket') },
    clock: systemClock,
    events,
    output: 'lines',
    executors: 1,
    spare: 'none',
    importTimeoutMs: 60_000,
    setupTimeoutMs: 600_000,
    killGraceMs: 5_000,
  })
  // Between a process that died and the next one nothing else keeps this one.
  const waiting = setInterval(() => undefined, 60_000)
  try {
    const over = Promise.race([stop.told, readerGone()])
    const first = await Promise.race([executor.start(), over])
    if (first !== undefined) return void (process.exitCode = 1)
    // The handler hears of it, and may put away what it has begun; a second signal does not wait for that.
    const stopping = new AbortController()
    void over.then(() => stopping.abort())
    const again = new Promise<'again'>((tell) =>
      stop.onSignal(() => stopping.signal.aborted && tell('again')),
    )
    const hopeless = executor.hopeless.then((cause) => Promise.reject(cause))
    const done = runLocally(executor, job, printed, stopping.signal)
    const outcome = await Promise.race([done, again, hopeless])
    printed.finish()
    if (typeof outcome === 'string') process.exitCode = 1
    else report(outcome, printed.hasValues)
  } finally {
    clearInterval(waiting)
    await executor.close()
    stop.release()
  }
}

async function transferBars(): Promise<TransferBars> {
  const { TransferBars } = await import('./transfer-bars.ts')
  return new TransferBars(process.stderr)
}

const testInputSchema = z.object({
  input: z.record(z.string(), z.unknown(), 'must be an object'),
  s3Config: s3ConfigSchema.optional(),
  policy: z.object({ executionTimeout: z.int().min(1).optional() }).optional(),
})

interface TestInput {
  text: string
  place: string
}

function readJob({ text, place }: TestInput): LocalJob {
  let document: unknown
  try {
    document = JSON.parse(text)
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new CommandError(`${place} is not JSON: ${why}. Write it as {"input":{…}}.`)
  }
  const parsed = testInputSchema.safeParse(document)
  if (!parsed.success) {
    const issue = parsed.error.issues[0]
    const field = issue?.path.join('.') || 'the document'
    const isMissing = field === 'input' && !Object.hasOwn(document as object, 'input')
    const wanted = isMissing ? 'must be an object, and there is none' : 'must be an object'
    const problem = issue?.path[0] === 'input' ? wanted : issue?.message
    throw new CommandError(`${place}: ${field} ${problem}. Write it as {"input":{…}}.`)
  }
  const { input, s3Config, policy } = parsed.data
  return {
    input,
    ...(s3Config && { s3Config }),
    ...(policy?.executionTimeout !== undefined && { executionTimeoutMs: policy.executionTimeout }),
  }
}

function findTestInput(handlerPath: string, testInput: string | undefined, flag: string): TestInput {
  if (testInput !== undefined && !testInput.startsWith('@')) return { text: testInput, place: flag }
  const file = testInput?.slice(1) ?? testInputBeside(handlerPath)
  try {
    return { text: readFileSync(file, 'utf8'), place: file }
  } catch (cause) {
    const why = (cause as NodeJS.ErrnoException).code === 'ENOENT' ? 'it does not exist' : String(cause)
    throw new CommandError(
      `The job cannot be read from ${file}: ${why}. Give one with ${flag} '{"input":{…}}' or ${flag} @file.json.`,
    )
  }
}

/** Resolves when nobody reads what is printed any more, as behind `head`. */
function readerGone(): Promise<'EPIPE'> {
  return new Promise((resolve) => process.stdout.on('error', () => resolve('EPIPE')))
}

/** Text goes out as it is, so that a streamed answer reads like one; everything else as a line of JSON. */
class Printer {
  hasValues = false
  readonly #bars: TransferBars | undefined
  #endsLine = true

  constructor(bars: TransferBars | undefined) {
    this.#bars = bars
  }

  onValue(value: unknown): void {
    this.hasValues = true
    if (typeof value === 'string') return this.#write(value)
    this.#endLine()
    const shown = value instanceof Uint8Array ? { bytes: value.byteLength } : value
    this.#write(`${JSON.stringify(shown)}\n`)
  }

  onProgress(progress: unknown): void {
    if (!this.#bars?.show(progress)) this.note(`progress: ${JSON.stringify(progress)}\n`)
  }

  /** Something beside the output. */
  note(line: string): void {
    if (!this.#bars?.print(line)) process.stderr.write(line)
  }

  finish(): void {
    this.#bars?.close()
    this.#endLine()
  }

  #endLine(): void {
    if (!this.#endsLine) this.#write('\n')
  }

  #write(text: string): void {
    process.stdout.write(text)
    if (text !== '') this.#endsLine = text.endsWith('\n')
  }
}

function report(outcome: Outcome, hasValues: boolean): void {
  if (outcome.kind === 'completed') {
    const output: unknown = JSON.parse(Buffer.from(outcome.output).toString('utf8'))
    // A generator without an output of its own has said all it had to say.
    if (!hasValues || output !== null) process.stdout.write(`${JSON.stringify(output, null, 2)}\n`)
    return
  }
  process.exitCode = 1
  if (outcome.kind === 'stopped') return
  const { type, message, code, stack } = outcome.error
  process.stderr.write(`${type}: ${message} [${code}]\n`)
  const frame = stack === undefined ? undefined : sourceFrame(stack)
  if (frame) process.stderr.write(`${frame}\n`)
}
