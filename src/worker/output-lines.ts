// What a handler prints, as lines that know whose they are: marked in its process, read in the supervisor.

import type { Readable } from 'node:stream'

/** Stands before a line that was printed on behalf of a run: `<RS>run<RS>line`. */
const MARK = '\u001e'
const MAX_LINE_CHARS = 65_536

export interface OutputLine {
  line: string
  run?: number
}

/** Marks what is printed to one stream with the run it belongs to. */
export class LineMarker {
  #isAtStart = true
  #last: number | undefined

  /** The text as it is to be written; a line of another run that was not ended is ended first. */
  mark(text: string, run: number | undefined): string {
    let marked = ''
    if (!this.#isAtStart && run !== this.#last) {
      marked = '\n'
      this.#isAtStart = true
    }
    this.#last = run
    for (const line of text.split(/(?<=\n)/)) {
      if (this.#isAtStart && run !== undefined && line !== '') marked += `${MARK}${run}${MARK}`
      marked += line
      this.#isAtStart = line.endsWith('\n') || (this.#isAtStart && line === '')
    }
    return marked
  }
}

/** Tells every line of a stream; one that never ends is told in pieces, so that it cannot fill the memory. */
export function readLines(stream: Readable, tell: (line: OutputLine) => void): void {
  let rest = ''
  /** Whose the line is that was told in part: all its pieces are. */
  let begun: { run: number | undefined } | undefined
  const tellPiece = (text: string, isLast: boolean): void => {
    const { run, line } = begun ? { run: begun.run, line: text } : readMark(text)
    tell(run === undefined ? { line } : { line, run })
    begun = isLast ? undefined : { run }
  }
  stream.setEncoding('utf8')
  stream.on('data', (text: string) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) tellPiece(line, true)
    if (rest.length <= MAX_LINE_CHARS) return
    tellPiece(rest, false)
    rest = ''
  })
  stream.on('end', () => rest && tellPiece(rest, true))
}

function readMark(text: string): { run: number | undefined; line: string } {
  const [before, run, line] = text.split(MARK, 3)
  if (before !== '' || line === undefined) return { run: undefined, line: text }
  return { run: Number(run), line: text.slice(`${MARK}${run}${MARK}`.length) }
}
