// What is printed: lines that stay, and on a terminal those at the bottom that are drawn again as they change.

import { clearScreenDown, moveCursor } from 'node:readline'
import { stripVTControlCharacters, styleText } from 'node:util'

export type Style = Parameters<typeof styleText>[0]

/** What is written to: a terminal, or a file or pipe. */
export type ScreenStream = Pick<NodeJS.WriteStream, 'write'> & { columns?: number; isTTY?: boolean }

/** Cells that a line leaves free: at the last one some terminals begin a new line. */
const MARGIN = 1

export class Screen {
  readonly #stream: ScreenStream
  #live: readonly string[] = []

  constructor(stream: ScreenStream) {
    this.#stream = stream
  }

  /** Whether lines can be drawn again. */
  get isLive(): boolean {
    return this.#stream.isTTY === true
  }

  get columns(): number {
    return Math.max(20, this.#stream.columns ?? 80)
  }

  styled(style: Style, text: string): string {
    return this.isLive ? styleText(style, text, { stream: this.#stream as NodeJS.WriteStream }) : text
  }

  /** Lines that stay, above those that change. */
  print(text: string): void {
    this.#clear()
    this.#stream.write(`${text}\n`)
    this.#draw()
  }

  /** Lines that change, in the place of those before; each is cut to one row. Nothing where there is no terminal. */
  show(lines: readonly string[]): void {
    if (!this.isLive) return
    this.#clear()
    this.#live = lines
    this.#draw()
  }

  #draw(): void {
    if (this.#live.length === 0) return
    const most = this.columns - MARGIN
    this.#live = this.#live.map((line) => cutTo(most, line))
    this.#stream.write(`${this.#live.join('\n')}\n`)
  }

  /** The terminal may have become narrower since they were drawn, and have broken them into several rows. */
  #clear(): void {
    if (this.#live.length === 0) return
    const rows = this.#live.reduce(
      (sum, line) => sum + Math.max(1, Math.ceil(widthOf(line) / this.columns)),
      0,
    )
    moveCursor(this.#stream as NodeJS.WriteStream, 0, -rows)
    clearScreenDown(this.#stream as NodeJS.WriteStream)
  }
}

/** Somebody else's line, without what moves the cursor or clears; a line that was written over is as it was last. */
export function tamed(line: string): string {
  const plain = stripVTControlCharacters(line).replace(/\r+$/, '')
  // oxlint-disable-next-line no-control-regex -- they are what is looked for
  return plain.slice(plain.lastIndexOf('\r') + 1).replace(/[\u0000-\u0008\u000a-\u001f\u007f-\u009f]/g, '')
}

// oxlint-disable-next-line no-control-regex -- the colours of a line
const COLOUR = /\u001b\[[0-9;]*m/y

/** Every other character counts as two cells: too few would break the line in two, too many only cut it early. */
function cellsOf(character: string): number {
  return (character.codePointAt(0) ?? 0) < 0x11_00 || character === '…' ? 1 : 2
}

function widthOf(line: string): number {
  let width = 0
  for (const { cells } of piecesOf(line)) width += cells
  return width
}

function cutTo(most: number, line: string): string {
  if (widthOf(line) <= most) return line
  let width = 0
  let kept = ''
  let isFull = false
  for (const { text, cells } of piecesOf(line)) {
    isFull ||= width + cells > most - 1
    // Colours end also behind what is left out.
    if (isFull && cells > 0) continue
    kept += isFull || width + cells <= most - 1 ? text : ''
    width += cells
  }
  return `${kept}…`
}

function* piecesOf(line: string): Generator<{ text: string; cells: number }> {
  for (let at = 0; at < line.length;) {
    COLOUR.lastIndex = at
    const colour = COLOUR.exec(line)?.[0]
    const text = colour ?? String.fromCodePoint(line.codePointAt(at) ?? 0)
    yield { text, cells: colour === undefined ? cellsOf(text) : 0 }
    at += text.length
  }
}
