// One job's way back to the hosted platform: its chunks, its progress and its end, one after the other, until accepted.

import { backoffMs } from '../lib/backoff.ts'
import { pause, type Clock } from '../lib/clock.ts'
import type { ChunkReport, LeaseRef } from '../protocol/exchange.ts'
import {
  chunkBody,
  errorText,
  isStream,
  progressBody,
  resultBody,
  type HostedSpeaker,
  type ToldEnd,
} from './hosted-result.ts'
import type { HostedAnswer, HostedWire } from './hosted-wire.ts'
import { mayPass, QueueUnreachableError, readError, retryAfterMsOf } from './http.ts'

export interface LaneOptions {
  wire: HostedWire
  clock: Clock
  speaker: HostedSpeaker
  /** Chunks up to this ordinal are the platform's. */
  onStored: (lane: HostedLane) => void
  /** The platform has the job's end, or has it given up: the worker need not hold it any more. */
  onOver: (lane: HostedLane, how: 'accepted' | 'stale') => void
  /** The run is of no use any more; its end is told by the lane itself. */
  onFailing: (lane: HostedLane) => void
  onAnswer: () => void
  onTrouble: (cause: QueueUnreachableError) => void
  onWarning: (message: string, id: string) => void
}

type Post =
  | { kind: 'chunk'; report: ChunkReport; body: Buffer }
  | { kind: 'progress'; value: Uint8Array; body: Buffer }
  | { kind: 'end'; isStream: boolean; body: Buffer }

const BACKOFF = { baseMs: 200, maxMs: 5_000 }
const THROTTLED_MS = 5_000
const QUOTED_CHARS = 200

export class HostedLane {
  readonly ref: LeaseRef
  readonly #options: LaneOptions
  readonly #abort = new AbortController()
  readonly #chunks: { report: ChunkReport; output: Uint8Array }[] = []
  /** The latest ordinal that was told; what is told again is here already. */
  #lastOrdinal = 0
  #stored = 0
  #progress: Uint8Array | undefined
  #lastProgress: Uint8Array | undefined
  #end: { isStream: boolean; body: Buffer } | undefined
  /** The end tells that the platform did not want another one. */
  #isSubstitute = false
  #isDelivering = false

  constructor(ref: LeaseRef, options: LaneOptions) {
    this.ref = ref
    this.#options = options
  }

  get stored(): number {
    return this.#stored
  }

  get hasEnd(): boolean {
    return this.#end !== undefined
  }

  addChunk(report: ChunkReport, output: Uint8Array): void {
    if (this.hasEnd || report.ordinal <= this.#lastOrdinal) return
    this.#lastOrdinal = report.ordinal
    this.#chunks.push({ report, output })
    this.#nudge()
  }

  /** The latest progress replaces one that was not sent yet. */
  setProgress(progress: Uint8Array): void {
    if (this.hasEnd || progress === this.#lastProgress) return
    this.#progress = progress
    this.#lastProgress = progress
    this.#nudge()
  }

  end(ended: ToldEnd, output: Uint8Array | undefined): void {
    if (this.hasEnd) return
    this.#end = { isStream: isStream(ended), body: resultBody(ended, output, this.#options.speaker) }
    this.#nudge()
  }

  /** Nothing more is posted for this job. */
  close(): void {
    this.#abort.abort()
  }

  #nudge(): void {
    if (!this.#isDelivering) void this.#deliver()
  }

  async #deliver(): Promise<void> {
    const { clock } = this.#options
    const { signal } = this.#abort
    this.#isDelivering = true
    let failures = 0
    for (let post = this.#next(); post && !signal.aborted; post = this.#next()) {
      const answer = await this.#send(post)
      if (signal.aborted) break
      if (answer && !mayPass(answer.status)) {
        failures = 0
        this.#settle(post, answer)
        continue
      }
      failures += 1
      const askedMs = answer && (retryAfterMsOf(answer) ?? (answer.status === 429 ? THROTTLED_MS : 0))
      await pause(clock, Math.max(askedMs ?? 0, backoffMs(failures, BACKOFF)), signal)
    }
    this.#isDelivering = false
  }

  /** Looked up anew for each try: progress that waits is replaced by later one, and dropped for the end. */
  #next(): Post | undefined {
    const [chunk] = this.#chunks
    if (chunk) return { kind: 'chunk', report: chunk.report, body: chunkBody(chunk.report, chunk.output) }
    if (this.#end) return { kind: 'end', ...this.#end }
    const value = this.#progress
    return value && { kind: 'progress', value, body: progressBody(value) }
  }

  /** Undefined when no answer came. */
  async #send(post: Post): Promise<HostedAnswer | undefined> {
    const { wire, onAnswer, onTrouble } = this.#options
    const { id } = this.ref
    const { signal } = this.#abort
    try {
      const { body } = post
      const answer =
        post.kind === 'chunk'
          ? await wire.postChunk(id, body, signal)
          : await wire.postDone(id, { body, isStream: post.kind === 'end' && post.isStream }, signal)
      if (answer.status < 500) onAnswer()
      else
        onTrouble(
          new QueueUnreachableError(`The queue answered HTTP ${answer.status} to a ${words[post.kind]}.`),
        )
      return answer
    } catch (cause) {
      if (signal.aborted) return undefined
      if (!(cause instanceof QueueUnreachableError)) throw cause
      onTrouble(cause)
      return undefined
    }
  }

  #settle(post: Post, answer: HostedAnswer): void {
    const { status } = answer
    if (status >= 200 && status < 300) return this.#accepted(post)
    if (status === 400 || status === 413) return this.#unwanted(post, answer)
    this.#giveUp(`answered HTTP ${status} to its ${words[post.kind]}`, answer)
  }

  #accepted(post: Post): void {
    if (post.kind === 'end') {
      this.close()
      return this.#options.onOver(this, 'accepted')
    }
    if (post.kind === 'chunk') {
      this.#chunks.shift()
      this.#stored = post.report.ordinal
      return this.#options.onStored(this)
    }
    if (this.#progress === post.value) this.#progress = undefined
  }

  /** Too large, or not to be read: silence would leave the job running for ever, so that is what it fails with. */
  #unwanted(post: Post, answer: HostedAnswer): void {
    const { onWarning, onFailing, speaker } = this.#options
    const what = `a ${words[post.kind]} of ${post.body.byteLength} bytes`
    if (post.kind === 'progress') {
      this.#progress = undefined
      return onWarning(`The platform answered HTTP ${answer.status} to ${what}; it is left out.`, this.ref.id)
    }
    if (this.#isSubstitute) return this.#giveUp(`answered HTTP ${answer.status} to its error, too`, answer)
    const message = `The platform answered HTTP ${answer.status} to ${what}${quoted(answer)}: too large, or it cannot be read. Return less, yield it in pieces, or upload it and return its URL.`
    onWarning(message, this.ref.id)
    this.#isSubstitute = true
    this.#chunks.length = 0
    const isStreaming = post.kind === 'chunk' || (post.kind === 'end' && post.isStream)
    const error = errorText({ type: 'OutputError', message }, speaker)
    this.#end = { isStream: isStreaming, body: Buffer.from(JSON.stringify({ error })) }
    if (post.kind === 'chunk') onFailing(this)
  }

  #giveUp(what: string, answer: HostedAnswer): void {
    const { onWarning, onOver } = this.#options
    this.close()
    onWarning(`The platform ${what}${quoted(answer)}; the job is given up.`, this.ref.id)
    onOver(this, 'stale')
  }
}

const words = { chunk: 'chunk', progress: 'progress report', end: 'result' } as const

function quoted({ body }: HostedAnswer): string {
  const { error } = readError(body)
  return error === undefined ? '' : ` ("${error.slice(0, QUOTED_CHARS)}")`
}
