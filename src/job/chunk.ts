// The chunk rule: how one value becomes pieces of 1 MB or less of JSON, and how the pieces become it again.

import { bytesFrom, concatBytes, countBytes, parseJson, stringifyJson } from '../lib/intrinsics.ts'
import { sliceElements } from '../lib/raw-json.ts'
import { limits } from './limits.ts'

export type PartKind = 'text' | 'array' | 'bytes' | 'json'

/** Says that a chunk is one piece of a larger value. `first` is the index of the value's first piece. */
export interface Part {
  as: PartKind
  first: number
  last: boolean
}

/** One streamed piece of output as clients see it. */
export interface Chunk {
  output: unknown
  metrics: Record<string, unknown>
  index: number
  attempt?: number
  part?: Part
}

/** A piece before it has an index: its output as JSON text, and its place in the value (`back` pieces of it go before). */
export interface Piece {
  output: string
  part?: { as: PartKind; back: number; last: boolean }
}

/** What a piece weighs on its way, in bytes: a crowd of tiny ones is mostly what is said about them. */
export function pieceWeight(output: Uint8Array, metrics: string | undefined): number {
  return output.byteLength + countBytes(metrics ?? '') + ABOUT_A_PIECE_BYTES
}

const ABOUT_A_PIECE_BYTES = 200

// Room for {"output":…,"metrics":{},"index":N,"attempt":N,"part":{…}} around the output.
const ENVELOPE_BYTES = 256

/**
 * Splits one yielded value, given as JSON text. `metricsBytes` is the room its metrics take in the first piece.
 * Strings break on code points, arrays between elements; any other value, and an array with an element too
 * large for one chunk, becomes pieces of its JSON text.
 */
export function splitJson(json: string, metricsBytes = 0): Piece[] {
  const room = roomBeside(metricsBytes)
  if (countBytes(json) <= room) return [{ output: json }]
  const first = json.trimStart()[0]
  if (first === '"') return splitText(String(parseJson(json)), room, 'text')
  const groups = first === '[' ? groupElements(json, room) : undefined
  return groups ? asParts(groups, 'array') : splitText(json, room, 'json')
}

/** Splits yielded bytes into pieces of base64; even a single piece carries its part, which tells it from text. */
export function splitBytes(bytes: Uint8Array, metricsBytes = 0): Piece[] {
  const room = roomBeside(metricsBytes)
  // Whole groups of three bytes, so that there is no padding inside the value.
  const step = Math.floor((room - 2) / 4) * 3
  const outputs: string[] = []
  for (let at = 0; at === 0 || at < bytes.byteLength; at += step) {
    const slice = bytes.subarray(at, at + step)
    outputs.push(`"${bytesFrom(slice.buffer, slice.byteOffset, slice.byteLength).toString('base64')}"`)
  }
  return asParts(outputs, 'bytes')
}

/**
 * Puts the pieces of streamed chunks together again: one entry per yielded value, in order. Pieces of a value
 * whose end is missing are left out. Bytes come back as a Uint8Array.
 */
export function joinChunks(chunks: Iterable<Pick<Chunk, 'output' | 'part'>>): unknown[] {
  const values: unknown[] = []
  let open: unknown[] = []
  let first: number | undefined
  for (const { output, part } of chunks) {
    if (!part) {
      values.push(output)
      continue
    }
    if (part.first !== first) open = []
    first = part.first
    open.push(output)
    if (!part.last) continue
    values.push(joinParts(open, part.as))
    open = []
    first = undefined
  }
  return values
}

function roomBeside(metricsBytes: number): number {
  if (metricsBytes > limits.metricsBytes) {
    throw new RangeError(
      `Metrics of ${metricsBytes} bytes are more than the ${limits.metricsBytes} that may ride beside a chunk.`,
    )
  }
  return limits.chunkBytes - ENVELOPE_BYTES - metricsBytes
}

function joinParts(outputs: unknown[], as: PartKind): unknown {
  switch (as) {
    case 'text':
      return outputs.join('')
    case 'array':
      return outputs.flat(1)
    case 'bytes':
      return new Uint8Array(concatBytes(outputs.map((text) => bytesFrom(String(text), 'base64'))))
    case 'json':
      return parseJson(outputs.join(''))
    default:
      throw new TypeError(`Unknown kind of part '${String(as satisfies never)}'.`)
  }
}

function splitText(text: string, room: number, as: 'text' | 'json'): Piece[] {
  const outputs: string[] = []
  let at = 0
  while (at < text.length) {
    let end = Math.min(text.length, at + room)
    let output = stringifyJson(text.slice(at, onCodePoint(text, end)))
    // Escapes and multi-byte characters make JSON longer than the text: shrink in proportion until it fits.
    for (let size = countBytes(output); size > room; size = countBytes(output)) {
      end = at + Math.max(2, Math.floor(((end - at) * room) / size) - 1)
      output = stringifyJson(text.slice(at, onCodePoint(text, end)))
    }
    at = onCodePoint(text, end)
    outputs.push(output)
  }
  return asParts(outputs, as)
}

/** The place at or before `end` that does not part a surrogate pair. */
function onCodePoint(text: string, end: number): number {
  if (end >= text.length) return text.length
  const isPair =
    isBetween(text.charCodeAt(end - 1), 0xd800, 0xdbff) && isBetween(text.charCodeAt(end), 0xdc00, 0xdfff)
  return isPair ? end - 1 : end
}

function isBetween(value: number, low: number, high: number): boolean {
  return value >= low && value <= high
}

/** Whole elements together, as the text they came as: a number must not lose digits because its neighbours are many. */
function groupElements(json: string, room: number): string[] | undefined {
  const groups: string[] = []
  let group: string[] = []
  let size = 2
  for (const element of sliceElements(bytesFrom(json))) {
    const text = bytesFrom(element).toString('utf8')
    const bytes = element.byteLength + 1
    if (bytes + 1 > room) return undefined
    if (size + bytes > room) {
      groups.push(`[${group.join(',')}]`)
      group = []
      size = 2
    }
    group.push(text)
    size += bytes
  }
  groups.push(`[${group.join(',')}]`)
  return groups
}

function asParts(outputs: readonly string[], as: PartKind): Piece[] {
  return outputs.map((output, at) => ({ output, part: { as, back: at, last: at === outputs.length - 1 } }))
}
