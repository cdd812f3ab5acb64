// A download into a file: in parts side by side, each resumed where it broke off, and all of it or nothing.

import { randomBytes } from 'node:crypto'
import { mkdir, open, rename, rm, type FileHandle } from 'node:fs/promises'
import { dirname } from 'node:path'
import { backoffMs } from '../lib/backoff.ts'
import { pause, type Clock } from '../lib/clock.ts'
import type { OpenedRange, RangeSource } from './bucket.ts'
import { inParallel } from './in-parallel.ts'
import { S3Error } from './s3-error.ts'
import type { Transfer } from './transfers.ts'
import { writeTrouble } from './write-trouble.ts'

/** With 8 MB a file takes a tenth more processor time; with 32 MB little less, and fewer files have parts to fetch side by side. */
const PART_BYTES = 16_777_216
const PARTS_AT_A_TIME = 4
/** Tries in a row that brought nothing new. */
const TRIES = 6
const PAUSE = { baseMs: 100, maxMs: 5_000 }
/** A connection on which nothing comes for so long is given up. */
const IDLE_MS = 30_000

export interface DownloadOptions {
  maxBytes: number
  signal: AbortSignal
  clock: Clock
  transfer: Transfer
}

export interface FetchedFile {
  bytes: number
  contentType?: string
}

/** Bytes that one stretch of the file is to have; `to` is the last one, unknown until the source tells. */
interface Stretch {
  from: number
  to: number | undefined
}

/** Downloads the source to `file`, which appears when it is whole. Throws S3Error, or the signal's reason. */
export async function downloadTo(
  source: RangeSource,
  file: string,
  options: DownloadOptions,
): Promise<FetchedFile> {
  const draft = `${file}.${randomBytes(4).toString('hex')}.part`
  let handle: FileHandle
  try {
    await mkdir(dirname(file), { recursive: true })
    handle = await open(draft, 'wx')
  } catch (cause) {
    throw writeTrouble(cause, file)
  }
  try {
    const fetched = await fetchInto(source, { ...options, file, handle })
    await closed(handle, file)
    await rename(draft, file).catch((cause: unknown) => {
      throw writeTrouble(cause, file)
    })
    options.transfer.finish()
    return fetched
  } catch (cause) {
    await handle.close().catch(() => undefined)
    await rm(draft, { force: true })
    throw options.signal.aborted ? options.signal.reason : cause
  }
}

async function fetchInto(
  source: RangeSource,
  options: DownloadOptions & { file: string; handle: FileHandle },
): Promise<FetchedFile> {
  const ranged = new Download(source, options)
  try {
    return await ranged.run()
  } catch (cause) {
    const isTornApart = cause instanceof S3Error && cause.code === 'S3_OBJECT_CHANGED'
    if (!isTornApart || !source.isManyfold) throw cause
    // One answer alone fits itself.
    await options.handle.truncate(0)
    options.transfer.moved(-ranged.bytes)
    return await new Download(source, options).runInOne()
  }
}

class Download {
  readonly #source: RangeSource
  readonly #options: DownloadOptions & { file: string; handle: FileHandle }
  /** What the first answer said of the whole; every later one has to say the same. */
  #whole: OpenedRange | undefined
  #bytes = 0

  constructor(source: RangeSource, options: DownloadOptions & { file: string; handle: FileHandle }) {
    this.#source = source
    this.#options = options
  }

  /** Written so far. */
  get bytes(): number {
    return this.#bytes
  }

  /** All of it as one stretch, from one answer as long as that lasts. */
  async runInOne(): Promise<FetchedFile> {
    await this.#fill({ from: 0, to: undefined }, this.#options.signal, undefined)
    const contentType = this.#whole?.contentType
    return { bytes: this.#bytes, ...(contentType !== undefined && { contentType }) }
  }

  async run(): Promise<FetchedFile> {
    // Its answer tells how large the whole is, and whether there are parts at all.
    const { signal } = this.#options
    const first = await this.#patiently(() => this.#begin(signal))
    const { total, contentType } = first
    // Parts, where there are any; else one stretch that ends where the source does.
    const end = first.isPart && total !== undefined ? total : undefined
    const stretches: Stretch[] = [
      { from: 0, to: end === undefined ? undefined : Math.min(PART_BYTES, end) - 1 },
    ]
    for (let from = PART_BYTES; from < (end ?? 0); from += PART_BYTES)
      stretches.push({ from, to: Math.min(from + PART_BYTES, end ?? 0) - 1 })
    let opened: OpenedRange | undefined = first
    // Nobody may come to read it, and an error that nobody listens to ends the process.
    first.body.on('error', () => undefined)
    await inParallel(stretches, PARTS_AT_A_TIME, signal, async (stretch, either) => {
      const given = stretch.from === 0 ? opened : undefined
      opened = undefined
      await this.#fill(stretch, either, given)
    }).finally(() => first.body.destroy())
    return { bytes: this.#bytes, ...(contentType !== undefined && { contentType }) }
  }

  async #begin(signal: AbortSignal): Promise<OpenedRange> {
    const first = await this.#open({ from: 0, to: PART_BYTES - 1 }, signal)
    if (!first.isPart || first.total !== undefined) return first
    // A part of nobody knows how much: where the whole ends shows only when it is asked for.
    discard(first)
    this.#whole = undefined
    return this.#open({ from: 0, to: undefined }, signal)
  }

  async #open({ from, to }: Stretch, signal: AbortSignal): Promise<OpenedRange> {
    const opened = await this.#source.open(to === undefined ? { from } : { from, to }, signal)
    const { maxBytes } = this.#options
    const whole = (this.#whole ??= opened)
    this.#options.transfer.totalBytes = whole.total
    const problem =
      differs(opened.version, whole.version) || differs(opened.total, whole.total)
        ? new S3Error(
            'S3_OBJECT_CHANGED',
            `${this.#source.label} was replaced while it was downloaded. Download it again.`,
          )
        : (opened.total ?? 0) > maxBytes
          ? this.#tooLarge(`is ${opened.total} bytes`)
          : undefined
    if (!problem) return opened
    discard(opened)
    throw problem
  }

  /** Has all bytes of the stretch written, however often the source breaks off. */
  async #fill(stretch: Stretch, signal: AbortSignal, given: OpenedRange | undefined): Promise<void> {
    let at = stretch.from
    let opened = given
    /** How far it ever was: a source without ranges begins anew each time, which is no progress. */
    let best = at
    let failures = 0
    for (;;) {
      try {
        opened ??= await this.#open({ from: at, to: stretch.to }, signal)
        if (opened.from !== at) at = await this.#restart(at, opened, stretch)
        for await (const chunk of this.#chunks(opened, signal)) {
          at += await this.#write(chunk, at, stretch)
          // A server may send more than it was asked for, and without end.
          if (stretch.to !== undefined && at > stretch.to) break
        }
        if (this.#isFilled(at, stretch)) return
        throw new Error(`the answer ended at byte ${at}, before its end`)
      } catch (cause) {
        signal.throwIfAborted()
        failures = at > best ? 1 : failures + 1
        best = Math.max(best, at)
        await this.#recover(cause, failures, signal)
      } finally {
        opened?.body.destroy()
        opened = undefined
      }
    }
  }

  #isFilled(at: number, { to }: Stretch): boolean {
    if (to !== undefined) return at === to + 1
    const total = this.#whole?.total
    return total === undefined || at === total
  }

  /** The source gave all from its beginning instead of the rest. */
  async #restart(at: number, { from }: OpenedRange, { to }: Stretch): Promise<number> {
    if (from !== 0 || to !== undefined) {
      const message = `${this.#source.label} answered with bytes from ${from} instead of ${at}. Download it in another way.`
      throw new S3Error('S3_FAILED', message)
    }
    await this.#options.handle.truncate(0)
    this.#bytes -= at
    this.#options.transfer.moved(-at)
    return 0
  }

  async #write(chunk: Uint8Array, at: number, { to }: Stretch): Promise<number> {
    const { handle, file, maxBytes, transfer } = this.#options
    // A server may send more than it was asked for.
    const bytes = to === undefined ? chunk : chunk.subarray(0, to + 1 - at)
    if (this.#bytes + bytes.byteLength > maxBytes) throw this.#tooLarge('is larger')
    let written = 0
    try {
      while (written < bytes.byteLength) {
        const { bytesWritten } = await handle.write(bytes, written, bytes.byteLength - written, at + written)
        written += bytesWritten
      }
    } catch (cause) {
      throw writeTrouble(cause, file)
    }
    this.#bytes += written
    transfer.moved(written)
    return written
  }

  /** The body's chunks, none of them waited for too long. */
  async *#chunks({ body }: OpenedRange, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    const { clock } = this.#options
    const onAbort = (): void => void body.destroy(signal.reason as Error)
    const onIdle = (): void => void body.destroy(new Error(`nothing came for ${IDLE_MS} ms`))
    let timer = clock.after(IDLE_MS, onIdle)
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      for await (const chunk of body as AsyncIterable<Uint8Array>) {
        timer.clear()
        yield chunk
        timer = clock.after(IDLE_MS, onIdle)
      }
    } finally {
      timer.clear()
      signal.removeEventListener('abort', onAbort)
    }
  }

  async #patiently<Result>(attempt: () => Promise<Result>): Promise<Result> {
    for (let failures = 1; ; failures += 1) {
      try {
        return await attempt()
      } catch (cause) {
        await this.#recover(cause, failures, this.#options.signal)
      }
    }
  }

  /** Waits before the next try, or throws when there is to be none. */
  async #recover(cause: unknown, failures: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    if (cause instanceof S3Error) throw cause
    const final = this.#source.judge(cause)
    if (final) throw final
    if (failures >= TRIES) throw this.#source.unreachable(cause)
    await pause(this.#options.clock, backoffMs(failures, PAUSE), signal)
    signal.throwIfAborted()
  }

  #tooLarge(words: string): S3Error {
    return new S3Error(
      'S3_TOO_LARGE',
      `${this.#source.label} ${words}, more than the limit of ${this.#options.maxBytes}. Raise maxBytes, or take a smaller one.`,
    )
  }
}

function discard({ body }: OpenedRange): void {
  // Some bodies tell of their own end as an error, and one that nobody listens to ends the process.
  body.on('error', () => undefined).destroy()
}

/** What only one of the two says is no difference. */
function differs<Value>(one: Value | undefined, other: Value | undefined): boolean {
  return one !== undefined && other !== undefined && one !== other
}

/** Some disks say only here that they are full. */
async function closed(handle: FileHandle, file: string): Promise<void> {
  try {
    await handle.close()
  } catch (cause) {
    throw writeTrouble(cause, file)
  }
}
