// oxlint-disable no-control-regex -- they are what a terminal obeys

import { describe, expect, it } from 'vitest'
import { Screen, tamed } from '../../src/dev/screen.ts'

/** A terminal of this width, as far as lines, the way up and clearing go. */
class Terminal {
  readonly isTTY = true
  columns: number
  #rows: string[] = ['']

  constructor(columns: number) {
    this.columns = columns
  }

  write(text: string): boolean {
    for (const piece of text.match(/\u001b\[\d*[A-Za-z]|\n|[^\u001b\n]+/g) ?? []) {
      const up = /^\u001b\[(\d+)A$/.exec(piece)
      if (up) this.#rows = this.#above(Number(up[1]))
      else if (piece === '\n') this.#rows.push('')
      else if (!piece.startsWith('\u001b')) this.#put(piece)
      else if (!/^\u001b\[(\d*m|0?J)$/.test(piece))
        throw new Error(`Unknown sequence ${JSON.stringify(piece)}`)
    }
    return true
  }

  get shown(): string[] {
    return this.#rows.slice(0, -1)
  }

  /** What is below is cleared right after. */
  #above(rows: number): string[] {
    return [...this.#rows.slice(0, -1 - rows), '']
  }

  #put(text: string): void {
    const row = this.#rows.pop() + text
    for (let at = 0; at < row.length; at += this.columns) this.#rows.push(row.slice(at, at + this.columns))
  }
}

function screenOf(columns = 40): { screen: Screen; terminal: Terminal } {
  const terminal = new Terminal(columns)
  return { screen: new Screen(terminal), terminal }
}

describe('lines that change', () => {
  it('are drawn in the place of those before', () => {
    const { screen, terminal } = screenOf()
    screen.show(['job 1', 'job 2'])
    screen.show(['job 1 goes on'])
    screen.show(['job 1 goes on', 'job 3'])
    expect(terminal.shown).toEqual(['job 1 goes on', 'job 3'])
    screen.show([])
    expect(terminal.shown).toEqual([])
  })

  it('stay below what is printed', () => {
    const { screen, terminal } = screenOf()
    screen.show(['job 1'])
    screen.print('hello')
    screen.print('two\nlines')
    screen.show(['job 1 goes on'])
    expect(terminal.shown).toEqual(['hello', 'two', 'lines', 'job 1 goes on'])
  })

  it('are cut to one row, also with wide characters and colours', () => {
    const { screen, terminal } = screenOf(20)
    screen.show(['x'.repeat(50), '漢'.repeat(50), `\u001b[31m${'y'.repeat(50)}\u001b[39m`])
    screen.show(['end'])
    expect(terminal.shown).toEqual(['end'])
    screen.show(['x'.repeat(50), '漢'.repeat(50)])
    expect(terminal.shown).toEqual([`${'x'.repeat(18)}…`, `${'漢'.repeat(9)}…`])
  })

  it('are not drawn where there is no terminal', () => {
    const written: string[] = []
    const screen = new Screen({ write: (text: string) => written.push(text) > 0 })
    screen.show(['job 1'])
    screen.print('hello')
    screen.print(screen.styled('red', 'plain'))
    expect(written).toEqual(['hello\n', 'plain\n'])
  })
})

describe('a line of somebody else', () => {
  it.each([
    ['plain, with\ta tab', 'plain, with\ta tab'],
    ['\u001b[2J\u001b[1;1Hhome', 'home'],
    ['\u001b[31mred\u001b[0m', 'red'],
    ['10 %\r20 %\r30 %', '30 %'],
    ['windows\r', 'windows'],
    ['bell\u0007 and \u0008back', 'bell and back'],
  ])('%j moves nothing', (line, shown) => {
    expect(tamed(line)).toBe(shown)
  })
})
