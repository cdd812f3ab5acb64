// JSON that travels as the bytes it came in: finding a member in a document, and putting one into another.

import { isUtf8 } from 'node:buffer'

/** JSON text that is passed on without being parsed. Whoever makes one has checked it or trusts its maker. */
export class RawJson {
  readonly bytes: Uint8Array

  constructor(bytes: Uint8Array) {
    this.bytes = bytes
  }

  static from(value: unknown): RawJson {
    return new RawJson(Buffer.from(JSON.stringify(value)))
  }

  parse(): unknown {
    return JSON.parse(this.toString())
  }

  toString(): string {
    return Buffer.from(this.bytes.buffer, this.bytes.byteOffset, this.bytes.byteLength).toString('utf8')
  }

  get isObject(): boolean {
    return this.bytes[0] === OPEN_BRACE
  }
}

/** Why a document cannot be taken: not UTF-8, not JSON, or nested deeper than allowed. */
export class JsonTextError extends Error {
  readonly kind: 'encoding' | 'syntax' | 'depth'

  constructor(kind: 'encoding' | 'syntax' | 'depth', message: string) {
    super(message)
    this.kind = kind
  }
}

/**
 * Parses a JSON document whose members named in `raw` stay bytes: an object comes back with a RawJson at each
 * of them, any other document as JSON.parse gives it. Later duplicates of a member win, as in JSON.parse.
 * Throws JsonTextError.
 */
export function parseKeepingRaw(bytes: Uint8Array, raw: readonly string[], maxDepth: number): unknown {
  if (!isUtf8(bytes)) throw new JsonTextError('encoding', 'the text is not UTF-8')
  const { members, depth } = scan(bytes)
  if (depth > maxDepth)
    throw new JsonTextError('depth', `it is nested ${depth} levels deep, at most ${maxDepth} are taken`)
  const document = parseText(bytes)
  if (typeof document !== 'object' || document === null || Array.isArray(document)) return document
  const result: Record<string, unknown> = { ...document }
  for (const member of members) {
    const name = String(JSON.parse(textOf(bytes, member.key)))
    if (raw.includes(name)) result[name] = new RawJson(bytes.subarray(member.value.start, member.value.end))
  }
  return result
}

/** `{…fields, …members}` as JSON bytes, where each member is JSON text already. Undefined members are left out. */
export function jsonWithRaw(
  fields: Readonly<Record<string, unknown>>,
  members: Readonly<Record<string, Uint8Array | undefined>>,
): Buffer {
  const head = JSON.stringify(fields)
  const parts: Uint8Array[] = [Buffer.from(head.slice(0, -1))]
  let isFirst = head === '{}'
  for (const [name, bytes] of Object.entries(members)) {
    if (!bytes) continue
    parts.push(Buffer.from(`${isFirst ? '' : ','}${JSON.stringify(name)}:`), bytes)
    isFirst = false
  }
  parts.push(Buffer.from('}'))
  return Buffer.concat(parts)
}

/** `[a,b,…]` as JSON bytes from elements that are JSON text already. */
export function jsonArrayOfRaw(elements: readonly Uint8Array[]): Buffer {
  const parts: Uint8Array[] = [Buffer.from('[')]
  elements.forEach((element, at) => parts.push(...(at > 0 ? [Buffer.from(',')] : []), element))
  parts.push(Buffer.from(']'))
  return Buffer.concat(parts)
}

/** The elements of an array that is valid JSON, each as the bytes it came as. */
export function sliceElements(bytes: Uint8Array): Uint8Array[] {
  const elements: Uint8Array[] = []
  let depth = 0
  let start = 0
  const close = (end: number): void => {
    const span = trim(bytes, start, end)
    if (span.end > span.start) elements.push(bytes.subarray(span.start, span.end))
  }
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at]
    if (byte === QUOTE) at = endOfString(bytes, at) - 1
    else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      depth += 1
      if (depth === 1) start = at + 1
    } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
      if (depth === 1) close(at)
      depth -= 1
    } else if (byte === COMMA && depth === 1) {
      close(at)
      start = at + 1
    }
  }
  return elements
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d

interface Span {
  start: number
  end: number
}

// Reads structure only, so it is right for valid JSON and harmless for anything else: syntax is JSON.parse's.
function scan(bytes: Uint8Array): { members: { key: Span; value: Span }[]; depth: number } {
  const members: { key: Span; value: Span }[] = []
  let depth = 0
  let deepest = 0
  let key: Span | undefined
  let valueStart = -1
  const closeMember = (end: number): void => {
    if (key && valueStart >= 0) members.push({ key, value: trim(bytes, valueStart, end) })
    key = undefined
    valueStart = -1
  }
  for (let at = 0; at < bytes.length; at += 1) {
    switch (bytes[at]) {
      case QUOTE: {
        const end = endOfString(bytes, at)
        if (depth === 1 && valueStart < 0) key = { start: at, end }
        at = end - 1
        break
      }
      case OPEN_BRACE:
      case OPEN_BRACKET:
        depth += 1
        if (depth > deepest) deepest = depth
        break
      case CLOSE_BRACE:
      case CLOSE_BRACKET:
        if (depth === 1) closeMember(at)
        depth -= 1
        break
      case COMMA:
        if (depth === 1) closeMember(at)
        break
      case COLON:
        if (depth === 1 && valueStart < 0) valueStart = at + 1
        break
      default:
    }
  }
  return { members, depth: deepest }
}

function endOfString(bytes: Uint8Array, start: number): number {
  let at = start + 1
  for (;;) {
    const quote = bytes.indexOf(QUOTE, at)
    if (quote < 0) return bytes.length
    let backslashes = 0
    while (bytes[quote - 1 - backslashes] === BACKSLASH) backslashes += 1
    if (backslashes % 2 === 0) return quote + 1
    at = quote + 1
  }
}

function trim(bytes: Uint8Array, from: number, to: number): Span {
  const isSpace = (byte: number | undefined): boolean =>
    byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09
  let start = from
  let end = to
  while (start < end && isSpace(bytes[start])) start += 1
  while (end > start && isSpace(bytes[end - 1])) end -= 1
  return { start, end }
}

function textOf(bytes: Uint8Array, span: Span): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset + span.start, span.end - span.start).toString('utf8')
}

function parseText(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(textOf(bytes, { start: 0, end: bytes.length }))
  } catch (cause) {
    // The engine's message quotes the text, which may be a secret: say only where.
    throw new JsonTextError(
      'syntax',
      whereItBreaks(cause instanceof Error ? cause.message : '', bytes.length),
    )
  }
}

function whereItBreaks(message: string, bytes: number): string {
  if (bytes === 0) return 'it is empty'
  const place = /position (\d+)/.exec(message)
  if (place) return `it breaks off at character ${place[1]} or so`
  return message.startsWith('Unexpected end') ? 'it ends too early' : 'it is no JSON document'
}
