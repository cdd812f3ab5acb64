// What a pod printed: a live file that the pod itself writes to, and a few older ones.
//
// The pod holds the live file's descriptor, so that it prints on when the service is gone; it cannot be told to open another
// one. So the file is copied and then emptied. The pod appends, and goes on at its start.

import {
  closeSync,
  existsSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readSync,
  renameSync,
  statSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { pause, type Clock } from '../../lib/clock.ts'
import { LineSplitter } from './line-splitter.ts'
import type { LogOptions } from './provider.ts'

const BLOCK_BYTES = 65_536
const NEWLINE = 10
const FOLLOW_MS = 200

export interface PodLogOptions {
  dir: string
  clock: Clock
  /** From this size on the live file is rotated. */
  fileBytes: number
  /** Of all files, the live one too; 2 at least. */
  files: number
}

/** A file's part of all that was printed since this object was made, in bytes. */
interface Segment {
  path: string
  start: number
  bytes: number
}

export class PodLog {
  readonly file: string
  readonly #options: PodLogOptions
  /** The newest first, without the live one. */
  #older: Segment[] = []
  #liveStart = 0

  constructor(options: PodLogOptions) {
    this.#options = options
    this.file = join(options.dir, 'log')
    for (let n = options.files - 1; n >= 1; n -= 1) {
      if (!existsSync(this.#olderFile(n))) continue
      this.#add(this.#liveStart, statSync(this.#olderFile(n)).size)
    }
  }

  /**
   * Makes room when the live file is full. What the pod prints between the last read and the emptying is lost: a few
   * microseconds. A crash in between leaves lines twice.
   */
  rotate(): void {
    const { fileBytes } = this.#options
    const size = this.#liveSize()
    if (size < fileBytes) return
    // A pod that prints faster than we look keeps its latest words.
    const from = size > 2 * fileBytes ? size - fileBytes : 0
    const live = openSync(this.file, 'r+')
    const copyPath = `${this.file}.next`
    const copy = openSync(copyPath, 'w', 0o600)
    try {
      let copied = copyBytes(live, copy, { from, most: size - from })
      this.#shift(copyPath)
      // What came while we copied; bounded, for a pod may print as fast as we read.
      copied += copyBytes(live, copy, { from: from + copied, most: 2 * fileBytes })
      ftruncateSync(live, 0)
      this.#add(this.#liveStart + from, copied)
    } finally {
      closeSync(live)
      closeSync(copy)
    }
  }

  /** With `follow`, until `isOver` says that nobody prints any more. */
  async *lines(options: LogOptions, isOver: () => boolean): AsyncGenerator<string> {
    const { tail, follow = false, signal } = options
    const splitter = new LineSplitter()
    const block = Buffer.alloc(BLOCK_BYTES)
    const end = this.#liveStart + this.#liveSize()
    let at = tail === undefined ? 0 : this.#startOfTail(tail, end)
    for (;;) {
      const isLast = !follow || isOver()
      for (;;) {
        if (signal?.aborted) return
        const read = this.#read(block, at)
        at = read.at + read.bytes
        if (read.bytes === 0) break
        yield* splitter.push(block.subarray(0, read.bytes))
        if (!follow && at >= end) break
      }
      if (isLast) break
      await pause(this.#options.clock, FOLLOW_MS, signal)
    }
    yield* splitter.end()
  }

  /** At `at`, or behind it where that is no longer kept. At once, so that no rotation comes between. */
  #read(block: Buffer, at: number): { at: number; bytes: number } {
    const segment = this.#all().find(({ start, bytes }) => start + bytes > at)
    if (!segment) return { at: Math.max(at, this.#liveStart), bytes: 0 }
    const from = Math.max(at, segment.start)
    const most = Math.min(block.length, segment.start + segment.bytes - from)
    const file = openSync(segment.path, 'r')
    try {
      return { at: from, bytes: readSync(file, block, 0, most, from - segment.start) }
    } finally {
      closeSync(file)
    }
  }

  /** Where the last `lines` lines before `end` begin. */
  #startOfTail(lines: number, end: number): number {
    if (lines <= 0) return end
    const block = Buffer.alloc(BLOCK_BYTES)
    let left = lines
    for (const { path, start, bytes } of this.#all().toReversed()) {
      const file = openSync(path, 'r')
      try {
        for (let to = bytes; to > 0; to -= BLOCK_BYTES) {
          const from = Math.max(0, to - BLOCK_BYTES)
          const got = readSync(file, block, 0, to - from, from)
          for (let n = got - 1; n >= 0; n -= 1) {
            const at = start + from + n
            // The newline at the very end begins no line.
            if (block[n] === NEWLINE && at < end - 1 && (left -= 1) === 0) return at + 1
          }
        }
      } finally {
        closeSync(file)
      }
    }
    return 0
  }

  /** The oldest first. */
  #all(): Segment[] {
    const live = { path: this.file, start: this.#liveStart, bytes: this.#liveSize() }
    return [...this.#older.toReversed(), live].filter(({ bytes }) => bytes > 0)
  }

  #liveSize(): number {
    return statSync(this.file, { throwIfNoEntry: false })?.size ?? 0
  }

  /** Each older file becomes one older, the last one goes, and the copy is the first of them. */
  #shift(copyPath: string): void {
    for (let n = this.#options.files - 2; n >= 1; n -= 1)
      if (existsSync(this.#olderFile(n))) renameSync(this.#olderFile(n), this.#olderFile(n + 1))
    renameSync(copyPath, this.#olderFile(1))
  }

  #add(start: number, bytes: number): void {
    const kept = [{ start, bytes }, ...this.#older].slice(0, this.#options.files - 1)
    this.#older = kept.map((segment, n) => ({ ...segment, path: this.#olderFile(n + 1) }))
    this.#liveStart = start + bytes
  }

  #olderFile(n: number): string {
    return `${this.file}.${n}`
  }
}

function copyBytes(source: number, target: number, { from, most }: { from: number; most: number }): number {
  const block = Buffer.alloc(Math.min(1_048_576, Math.max(BLOCK_BYTES, fstatSync(source).size)))
  let copied = 0
  while (copied < most) {
    const bytes = readSync(source, block, 0, Math.min(block.length, most - copied), from + copied)
    if (bytes === 0) break
    writeSync(target, block, 0, bytes)
    copied += bytes
  }
  return copied
}
