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
  const tellLine = (text: string): void => {
    const [before, run, line] = text.split(MARK, 3)
    if (before === '' && line !== undefined)
      tell({ run: Number(run), line: text.slice(`${MARK}${run}${MARK}`.length) })
    else tell({ line: text })
  }
  stream.setEncoding('utf8')
  stream.on('data', (text: string) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) tellLine(line)
    if (rest.length <= MAX_LINE_CHARS) return
    tellLine(rest)
    rest = ''
  })
  stream.on('end', () => rest && tellLine(rest))
}
