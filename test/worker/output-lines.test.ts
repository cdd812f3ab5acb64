import { PassThrough } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { LineMarker, readLines, type OutputLine } from '../../src/worker/output-lines.ts'

async function read(pieces: readonly string[]): Promise<OutputLine[]> {
  const stream = new PassThrough()
  const lines: OutputLine[] = []
  readLines(stream, (line) => lines.push(line))
  for (const piece of pieces) {
    stream.write(piece)
    // Each is read by itself, as it would be from a pipe.
    await new Promise((resolve) => setImmediate(resolve))
  }
  stream.end()
  await new Promise((resolve) => stream.once('close', resolve))
  return lines
}

describe('lines that were printed', () => {
  it('carry the run they belong to, and no other', async () => {
    const marker = new LineMarker()
    const printed = [
      marker.mark('one\ntwo', 1),
      marker.mark('other\n', 2),
      marker.mark('nobody\n', undefined),
    ]
    expect(await read(printed)).toEqual([
      { line: 'one', run: 1 },
      { line: 'two', run: 1 },
      { line: 'other', run: 2 },
      { line: 'nobody' },
    ])
  })

  // Seen: all but the first piece of a very long line were nobody's, and stood in the error of the next job that died.
  it('carry it in every piece of a line that is told in pieces', async () => {
    const long = new LineMarker().mark(`${'x'.repeat(200_000)} card=4111\n`, 7)
    const pieces = Array.from({ length: 4 }, (_, at) => long.slice(at * 70_000, (at + 1) * 70_000))
    const lines = await read([...pieces, 'next\n'])
    expect(lines.length).toBeGreaterThan(3)
    expect(lines.at(-1)).toEqual({ line: 'next' })
    expect(new Set(lines.slice(0, -1).map(({ run }) => run))).toEqual(new Set([7]))
    expect(
      lines
        .slice(0, -1)
        .map(({ line }) => line)
        .join(''),
    ).toBe(`${'x'.repeat(200_000)} card=4111`)
  })

  it('are told up to the last one, which may not be ended', async () => {
    expect(await read(['a\nb'])).toEqual([{ line: 'a' }, { line: 'b' }])
  })
})
