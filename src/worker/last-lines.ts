// What a process printed last, as far as it says why the process ended.

import type { LastLine } from './death.ts'

const KEPT_LINES = 20
const MAX_LINE_CHARS = 2_000
/** What the engine says when it ends for want of memory. */
const FATAL = 'heap out of memory'
/** What it says beside that: lines, often more than a hundred, that only its makers can read. */
const OF_THE_ENGINE =
  /^\s*$|^\s*\d+: 0x[0-9a-f]+ |^\[\d+:0x[0-9a-f]+\] |^----- (Native|JavaScript) stack trace -----|^<--- .* --->$/

export class LastLines {
  readonly #all: LastLine[] = []
  #fatal: LastLine | undefined

  /** The last one last; without the engine's native stack. */
  get all(): readonly LastLine[] {
    return this.#all
  }

  /** That the memory is used up, in the engine's words, however much was printed after it. */
  get fatal(): LastLine | undefined {
    return this.#fatal
  }

  add(line: LastLine): void {
    const isNobodys = line.run === undefined
    if (isNobodys && OF_THE_ENGINE.test(line.line)) return
    const kept = { ...line, line: line.line.slice(0, MAX_LINE_CHARS) }
    if (isNobodys && kept.line.includes(FATAL)) this.#fatal = kept
    this.#all.push(kept)
    if (this.#all.length > KEPT_LINES) this.#all.shift()
  }
}
