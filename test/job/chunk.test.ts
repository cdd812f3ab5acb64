import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { joinChunks, splitBytes, splitJson, type Chunk, type Piece } from '../../src/job/chunk.ts'
import { chunksBody } from '../../src/server/replies.ts'

const CHUNK_BYTES = 1_000_000

/** As late in a stream as can be: the numbers of an envelope are at their longest. */
const LATE = { index: 10 ** 15, attempt: 10 }

/** The answer that carries one piece, as a client receives it. */
function bodyOf({ output, part }: Piece, at: number, metrics?: string): Buffer {
  const index = LATE.index + at
  return chunksBody([
    {
      index,
      attempt: LATE.attempt,
      output: Buffer.from(output),
      ...(metrics !== undefined && at === 0 && { metrics }),
      ...(part && { part: { as: part.as, first: index - part.back, last: part.last } }),
    },
  ])
}

/** Sends pieces the way they travel, each under the limit, and gives the chunks that a client reads. */
function travel(pieces: readonly Piece[], metrics?: string): Chunk[] {
  return pieces.flatMap((piece, at) => {
    const body = bodyOf(piece, at, metrics)
    expect(body.byteLength).toBeLessThanOrEqual(CHUNK_BYTES)
    return JSON.parse(body.toString()) as Chunk[]
  })
}

/** Metrics of about this many bytes as JSON; none for 0. */
function metricsOf(bytes: number): string | undefined {
  return bytes === 0 ? undefined : JSON.stringify({ m: 'x'.repeat(bytes) })
}

/** The pieces of a value, after checking that they are in order and join to exactly the value. */
function checkedPieces(value: unknown, metricsBytes = 0): Piece[] {
  const metrics = metricsOf(metricsBytes)
  const json = JSON.stringify(value)
  const pieces = splitJson(json, Buffer.byteLength(metrics ?? ''))
  const chunks = travel(pieces, metrics)
  const joined = joinChunks(chunks)
  expect(joined).toHaveLength(1)
  // Comparing texts is exact, also about the order of keys, and quick for large values.
  expect(JSON.stringify(joined[0]) === json).toBe(true)
  if (pieces.length > 1) {
    expect(pieces.map(({ part }) => part?.back)).toEqual([...pieces.keys()])
    expect(pieces.map(({ part }) => part?.last)).toEqual(pieces.map((_, at) => at === pieces.length - 1))
    expect(new Set(pieces.map(({ part }) => part?.as)).size).toBe(1)
  }
  return pieces
}

function kindsOf(pieces: readonly Piece[]): (string | undefined)[] {
  return [...new Set(pieces.map(({ part }) => part?.as))]
}

const metricsBytes = fc.constantFrom(0, 0, 0, 1, 1000, 63_900)

/** Long texts of pieces that are hard to cut: escapes, two to four bytes a character, pairs, lone halves. */
const hardText = fc
  .tuple(
    fc.array(
      fc.tuple(
        fc.constantFrom(
          'a',
          '"',
          '\\',
          '\n',
          '\u0001',
          'é',
          '€',
          '😀',
          '👩‍👩‍👧‍👦',
          '\ud83d',
          '\ude00',
          '\u2028',
          '}{',
        ),
        fc.integer({ min: 1, max: 120_000 }),
      ),
      { minLength: 1, maxLength: 6 },
    ),
    fc.string({ unit: 'binary', maxLength: 8 }),
  )
  .map(([runs, mixed]) => mixed + runs.map(([text, times]) => text.repeat(times)).join(mixed))

describe('splitJson', () => {
  it('keeps a value that fits as one chunk without a part', () => {
    for (const value of [null, 0, 'x', [], {}, { a: [1] }, 'x'.repeat(900_000)]) {
      expect(splitJson(JSON.stringify(value))).toEqual([{ output: JSON.stringify(value) }])
    }
  })

  it('passes the text of a value that fits on as it is', () => {
    const json = '{ "n": 12345678901234567890, "f": 1.0 }'
    expect(splitJson(json)).toEqual([{ output: json }])
  })

  it('gives any small JSON value back from one chunk', () => {
    fc.assert(fc.property(fc.jsonValue(), (value) => checkedPieces(value).length === 1))
  })

  it('gives any long text back, each piece under the limit and without a broken surrogate pair', () => {
    fc.assert(
      fc.property(hardText, metricsBytes, (text, metrics) => {
        const pieces = checkedPieces(text, metrics)
        if (pieces.length > 1) expect(hasBrokenPair(pieces)).toBe(false)
      }),
      { numRuns: 12 },
    )
  })

  it('puts no half of a pair at either end of a piece when the text has only whole ones', () => {
    const text = `x${'😀'.repeat(700_000)}`
    const pieces = checkedPieces(text)
    expect(kindsOf(pieces)).toEqual(['text'])
    expect(pieces.length).toBeGreaterThan(2)
    for (const { output } of pieces) expect((JSON.parse(output) as string).isWellFormed()).toBe(true)
  })

  it('never breaks an escape of the JSON text', () => {
    const pieces = checkedPieces({ text: '\\"\u0000\ud800'.repeat(150_000) })
    expect(kindsOf(pieces)).toEqual(['json'])
  })

  it('gives any array of many elements back, each part with whole elements', () => {
    const element = fc.oneof(
      fc.jsonValue({ maxDepth: 2 }),
      hardText.map((text) => text.slice(0, 50_000)),
    )
    fc.assert(
      fc.property(fc.array(element, { minLength: 1, maxLength: 8 }), metricsBytes, (few, metrics) => {
        const bytes = Buffer.byteLength(JSON.stringify(few))
        // Of the smallest elements half the bytes are brackets that are there once only.
        const values = Array.from({ length: Math.ceil(2_400_000 / bytes) }, () => few).flat()
        const pieces = checkedPieces(values, metrics)
        expect(kindsOf(pieces)).toEqual(['array'])
        const parts = pieces.map(({ output }) => JSON.parse(output) as unknown[])
        expect(parts.every((part) => Array.isArray(part) && part.length > 0)).toBe(true)
        expect(JSON.stringify(parts.flat(1)) === JSON.stringify(values)).toBe(true)
      }),
      { numRuns: 8 },
    )
  })

  it('keeps arrays that are elements whole', () => {
    const values = [['x'.repeat(600_000)], [[]], ['y'.repeat(600_000), ['z']]]
    expect(kindsOf(checkedPieces(values))).toEqual(['array'])
  })

  // Chunks of other runtimes come as their JSON text, with numbers that JavaScript rounds.
  it('keeps every digit of the elements, as a value that fits keeps them', () => {
    const element = `{"big":12345678901234567890,"tiny":1.0,"huge":1e400,"text":"${'x'.repeat(400_000)}"}`
    const pieces = splitJson(`[${element},${element},${element}]`)
    expect(kindsOf(pieces)).toEqual(['array'])
    for (const { output } of pieces) expect(output.slice(1, 48)).toBe(element.slice(0, 47))
  })

  // Seen: the parser takes any depth, but writing the elements anew ran out of stack.
  it('takes elements that are nested very deep', () => {
    const deep = '['.repeat(100_000) + ']'.repeat(100_000)
    const [joined] = joinChunks(travel(splitJson(`[${deep},"${'x'.repeat(1_200_000)}"]`)))
    expect(joined).toHaveLength(2)
  })

  it('cuts an array as JSON text when one of its elements is too large alone', () => {
    expect(kindsOf(checkedPieces([1, 'x'.repeat(1_100_000), 2]))).toEqual(['json'])
    expect(kindsOf(checkedPieces([{ text: '😀'.repeat(300_000) }]))).toEqual(['json'])
  })

  it('gives any object over 1 MB back as pieces of its JSON text', () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string(), fc.jsonValue()),
        hardText,
        metricsBytes,
        (some, text, metrics) => {
          const value = { some, text, rest: Array.from({ length: 110_000 }, (_, at) => `item ${at}`) }
          expect(kindsOf(checkedPieces(value, metrics))).toEqual(['json'])
        },
      ),
      { numRuns: 6 },
    )
  })

  it('cuts at the limit exactly: one byte more makes a second piece', () => {
    const lengths = Array.from({ length: 300 }, (_, less) => CHUNK_BYTES - less)
    const isWhole = (length: number): boolean => splitJson(`"${'x'.repeat(length)}"`).length === 1
    const bytes = lengths[firstOf(300, (at) => isWhole(lengths[at] ?? 0))] ?? 0
    expect(bytes).toBeGreaterThan(CHUNK_BYTES - 300)
    expect(checkedPieces('x'.repeat(bytes))).toHaveLength(1)
    expect(checkedPieces('x'.repeat(bytes + 1))).toHaveLength(2)
    expect(checkedPieces(['x'.repeat(bytes - 2)])).toHaveLength(1)
    expect(kindsOf(checkedPieces(['x'.repeat(bytes - 1)]))).toEqual(['json'])
  })

  it.each([1, 1000, 63_900])('leaves room for %i bytes of metrics beside the first piece', (bytes) => {
    for (const length of [999_000 - bytes, 999_740 - bytes, 999_999 - bytes])
      checkedPieces('x'.repeat(length), bytes)
  })

  // Seen: when metrics left no room for output, cutting did not come to an end.
  it.each([64_001, 999_740, 2_000_000])('refuses %i bytes of metrics', (bytes) => {
    expect(() => splitJson('"ab"', bytes)).toThrow('64000')
    expect(() => splitBytes(Buffer.from('ab'), bytes)).toThrow('64000')
  })
})

describe('splitBytes', () => {
  it('gives any bytes back, with a part even when one piece is enough', () => {
    const bytes = fc
      .tuple(fc.uint8Array({ minLength: 1, maxLength: 100 }), fc.integer({ min: 0, max: 60_000 }))
      .map(([few, times]) => Buffer.concat(Array.from({ length: times % 40_000 }, () => few)))
    fc.assert(
      fc.property(bytes, metricsBytes, (value, room) => {
        const metrics = metricsOf(room)
        const pieces = splitBytes(value, Buffer.byteLength(metrics ?? ''))
        expect(kindsOf(pieces)).toEqual(['bytes'])
        const [joined, ...others] = joinChunks(travel(pieces, metrics))
        expect(others).toEqual([])
        expect(Buffer.compare(joined as Uint8Array, value)).toBe(0)
      }),
      { numRuns: 20 },
    )
  })

  it('gives no bytes back as one empty piece', () => {
    const pieces = splitBytes(new Uint8Array(0))
    expect(pieces).toEqual([{ output: '""', part: { as: 'bytes', back: 0, last: true } }])
    expect(joinChunks(travel(pieces))).toEqual([new Uint8Array(0)])
  })

  it('pads the base64 of the last piece only', () => {
    const pieces = splitBytes(Buffer.alloc(2_000_000, 7))
    expect(pieces.map(({ output }) => output.includes('='))).toEqual([false, false, true])
  })

  it('reads bytes that lie inside a larger buffer', () => {
    const around = Buffer.from('xxhelloxx')
    expect(joinChunks(travel(splitBytes(around.subarray(2, 7))))).toEqual([
      new Uint8Array(Buffer.from('hello')),
    ])
  })
})

describe('joinChunks', () => {
  const part = (as: 'text' | 'array' | 'json', first: number, last: boolean) => ({ as, first, last })

  it('gives one entry per yielded value, in order', () => {
    const chunks = [
      { output: 1 },
      { output: 'a', part: part('text', 2, false) },
      { output: 'b', part: part('text', 2, true) },
      { output: [1], part: part('array', 4, false) },
      { output: [[2]], part: part('array', 4, true) },
      { output: '{"a"', part: part('json', 6, false) },
      { output: ':1}', part: part('json', 6, true) },
      { output: null },
    ]
    expect(joinChunks(chunks)).toEqual([1, 'ab', [1, [2]], { a: 1 }, null])
  })

  it('leaves out a value whose end is missing', () => {
    const chunks = [{ output: 1 }, { output: 'a', part: part('text', 2, false) }]
    expect(joinChunks(chunks)).toEqual([1])
  })

  it('does not mix the pieces of a lost attempt with those of the next', () => {
    const chunks = [
      { output: 'old', part: part('text', 1, false) },
      { output: 'ne', part: part('text', 2, false) },
      { output: 'w', part: part('text', 2, true) },
    ]
    expect(joinChunks(chunks)).toEqual(['new'])
  })

  it('gives back values of any kind that were streamed one after the other', () => {
    const value = fc.oneof(
      fc.jsonValue(),
      fc.constantFrom('x'.repeat(1_500_000), ['y'.repeat(700_000), 'z'.repeat(700_000)], {
        a: 'w'.repeat(1_200_000),
      }),
    )
    fc.assert(
      fc.property(fc.array(value, { maxLength: 4 }), (values) => {
        let index = 0
        const chunks = values.flatMap((each) =>
          splitJson(JSON.stringify(each)).map((piece) => {
            index += 1
            return {
              output: JSON.parse(piece.output) as unknown,
              ...(piece.part && { part: partAt(piece, index) }),
            }
          }),
        )
        expect(JSON.stringify(joinChunks(chunks)) === JSON.stringify(values)).toBe(true)
      }),
      { numRuns: 20 },
    )
  })
})

function partAt({ part }: Piece, index: number): NonNullable<Chunk['part']> {
  return { as: part?.as ?? 'json', first: index - (part?.back ?? 0), last: part?.last ?? true }
}

/** Whether a piece of text begins with the second half of a pair whose first half ends the piece before it. */
function hasBrokenPair(pieces: readonly Piece[]): boolean {
  const texts = pieces.map(({ output }) => JSON.parse(output) as string)
  return texts.some(
    (text, at) => /^[\udc00-\udfff]/.test(text) && /[\ud800-\udbff]$/.test(texts[at - 1] ?? ''),
  )
}

/** The first of `count` places from which on something holds. */
function firstOf(count: number, holds: (at: number) => boolean): number {
  let [low, high] = [0, count]
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    if (holds(middle)) high = middle
    else low = middle + 1
  }
  return low
}
