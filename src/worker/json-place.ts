// Where an imported JSON file breaks off. The engine has no frame for that, and its message only sometimes a line.

import { readFileSync } from 'node:fs'
import type { SourcePlace } from './messages.ts'

export interface BrokenJson {
  file: string
  /** What is wrong with it. */
  message: string
  place: SourcePlace | undefined
}

/** So many characters before and behind what it did not expect the engine shows. */
const CONTEXT_CHARS = 10

/** Undefined for all that is no JSON file which Node itself was to read. */
export function brokenJson(cause: unknown): BrokenJson | undefined {
  if (!(cause instanceof SyntaxError)) return undefined
  const [, file, message] = /^(\/.+?\.json): (.+)$/s.exec(cause.message) ?? []
  if (file === undefined || message === undefined) return undefined
  const line = lineOf(message, file)
  return { file, message, place: line === undefined ? undefined : { file, line } }
}

function lineOf(message: string, file: string): number | undefined {
  const said = /\(line (\d+) column \d+\)/.exec(message)?.[1]
  try {
    // Node takes its mark off too.
    const text = readFileSync(file, 'utf8').replace(/^\uFEFF/, '')
    const last = text.trimEnd().split('\n').length
    // What comes to an end too early does so where there is something to be seen.
    if (said !== undefined) return Math.min(Number(said), last)
    if (message.includes('end of JSON input')) return last
    const at = positionOf(message, text)
    return at === undefined ? undefined : text.slice(0, at).split('\n').length
  } catch {
    // It is gone by now: its name alone has to do.
    return undefined
  }
}

/** By the piece of the text that the message has, unless that is there twice; a short text it has whole. */
function positionOf(message: string, text: string): number | undefined {
  const [, before, piece = '', behind] = /, (\.\.\.)?"(.*)"(\.\.\.)? is not valid JSON$/s.exec(message) ?? []
  if (before === undefined && behind === undefined) return breakOf(text)
  const start = text.indexOf(piece)
  if (piece === '' || start < 0 || start !== text.lastIndexOf(piece)) return undefined
  if (before !== undefined) return start + CONTEXT_CHARS
  return start + piece.length - CONTEXT_CHARS
}

/** The first character up to which the text can be nothing yet: what merely ends too early is told in other words. */
function breakOf(text: string): number | undefined {
  for (let at = 0; at < text.length; at += 1) {
    try {
      JSON.parse(text.slice(0, at + 1))
    } catch (cause) {
      if (cause instanceof Error && cause.message.startsWith('Unexpected token')) return at
    }
  }
  return undefined
}
