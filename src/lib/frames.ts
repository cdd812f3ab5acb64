// Length-prefixed frames over a byte stream: a small JSON head, then a payload that nobody on the way parses.

import { allocateBytes, bytesFrom, concatBytes, countBytes, parseJson, stringifyJson } from './intrinsics.ts'

const PREFIX_BYTES = 8

export interface Frame {
  head: unknown
  payload: Uint8Array
}

const NOTHING = new Uint8Array(0)

/** One frame as bytes to write in order: `[head length u32][payload length u32][head][payload]`. */
export function encodeFrame(head: unknown, payload: Uint8Array = NOTHING): Uint8Array[] {
  const text = stringifyJson(head)
  const headBytes = countBytes(text)
  const start = allocateBytes(PREFIX_BYTES + headBytes)
  start.writeUInt32BE(headBytes, 0)
  start.writeUInt32BE(payload.byteLength, 4)
  start.write(text, PREFIX_BYTES, 'utf8')
  return payload.byteLength > 0 ? [start, payload] : [start]
}

export interface FrameLimits {
  headBytes: number
  payloadBytes: number
}

/** Cuts a stream of bytes into frames, wherever the reads happen to fall. */
export class FrameDecoder {
  readonly #limits: FrameLimits
  #parts: Uint8Array[] = []
  #buffered = 0

  constructor(limits: FrameLimits) {
    this.#limits = limits
  }

  /** Takes what was read; gives the frames that are whole by now. Throws when a frame is over its limit or its head is no JSON. */
  push(bytes: Uint8Array): Frame[] {
    this.#parts.push(bytes)
    this.#buffered += bytes.byteLength
    const frames: Frame[] = []
    for (
      let size = this.#nextSize();
      size !== undefined && this.#buffered >= size.total;
      size = this.#nextSize()
    ) {
      const whole = this.#take(size.total)
      const headEnd = PREFIX_BYTES + size.head
      const head: unknown = parseJson(whole.toString('utf8', PREFIX_BYTES, headEnd))
      frames.push({ head, payload: whole.subarray(headEnd) })
    }
    return frames
  }

  #nextSize(): { head: number; total: number } | undefined {
    if (this.#buffered < PREFIX_BYTES) return undefined
    const first = this.#parts[0]
    // The prefix may itself straddle two reads; joining the parts is rare and cheap then.
    if (!first || first.byteLength < PREFIX_BYTES) this.#parts = [concatBytes(this.#parts)]
    const start = this.#parts[0]
    if (!start) return undefined
    const view = new DataView(start.buffer, start.byteOffset, start.byteLength)
    const head = view.getUint32(0)
    const payload = view.getUint32(4)
    if (head > this.#limits.headBytes || payload > this.#limits.payloadBytes) {
      throw new Error(`A frame announces ${head} + ${payload} bytes, more than its limits allow.`)
    }
    return { head, total: PREFIX_BYTES + head + payload }
  }

  #take(bytes: number): Buffer {
    const first = this.#parts[0]
    const whole = first && first.byteLength >= bytes ? first : concatBytes(this.#parts)
    const rest = whole.subarray(bytes)
    const left = this.#parts.slice(1)
    if (whole === first) this.#parts = rest.byteLength > 0 ? [rest, ...left] : left
    else this.#parts = rest.byteLength > 0 ? [rest] : []
    this.#buffered -= bytes
    return bytesFrom(whole.buffer, whole.byteOffset, bytes)
  }
}
