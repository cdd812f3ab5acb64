import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  jsonArrayOfRaw,
  JsonTextError,
  jsonWithRaw,
  parseKeepingRaw,
  RawJson,
} from '../../src/lib/raw-json.ts'

const DEEP = 1000

function parse(text: string | Uint8Array, raw: readonly string[] = ['input'], maxDepth = DEEP): unknown {
  return parseKeepingRaw(typeof text === 'string' ? Buffer.from(text) : text, raw, maxDepth)
}

/** The raw `input` of a document, as text. */
function inputOf(text: string): string {
  const document = parse(text) as { input: unknown }
  expect(document.input).toBeInstanceOf(RawJson)
  return String(document.input)
}

function problemOf(text: string | Uint8Array, maxDepth = DEEP): JsonTextError {
  try {
    parse(text, ['input'], maxDepth)
  } catch (error) {
    expect(error).toBeInstanceOf(JsonTextError)
    return error as JsonTextError
  }
  throw new Error('The document was taken.')
}

describe('parseKeepingRaw', () => {
  it('keeps the named members as the bytes they came in and parses the others', () => {
    const document = parse('{"id": 7, "input": { "n": 1.0, "big": 12345678901234567890 }, "rest": [1]}')
    expect(document).toEqual({ id: 7, rest: [1], input: expect.any(RawJson) })
    expect(String((document as { input: RawJson }).input)).toBe('{ "n": 1.0, "big": 12345678901234567890 }')
  })

  it('shares its bytes with the document it read', () => {
    const bytes = Buffer.from('{"input":{"a":1}}')
    const { input } = parse(bytes) as { input: RawJson }
    expect(input.bytes.buffer).toBe(bytes.buffer)
    expect(input.bytes.byteOffset).toBe(bytes.byteOffset + 9)
  })

  it('reads a document that lies inside a larger buffer', () => {
    const around = Buffer.from('garbage"{{{"input":{"a":1}}]]]"garbage')
    const { input } = parse(around.subarray(10, 27)) as { input: RawJson }
    expect(String(input)).toBe('{"a":1}')
  })

  it('keeps every named member, whatever its type', () => {
    const document = parse('{"a":1,"b":"x","c":[1,{"d":2}],"d":null,"e":true}', [
      'a',
      'b',
      'c',
      'd',
    ]) as object
    const shown = Object.entries(document).map(([name, value]) => [
      name,
      String(value),
      value instanceof RawJson,
    ])
    expect(shown).toEqual([
      ['a', '1', true],
      ['b', '"x"', true],
      ['c', '[1,{"d":2}]', true],
      ['d', 'null', true],
      ['e', 'true', false],
    ])
  })

  it('leaves a named member out when the document has none', () => {
    expect(parse('{"other":1}')).toEqual({ other: 1 })
    expect(parse('{}')).toEqual({})
  })

  it('takes the last of several members of one name, as JSON.parse does', () => {
    expect(inputOf('{"input":{"a":1},"input":{"a":2}}')).toBe('{"a":2}')
    expect(parse('{"x":1,"input":{},"x":2}')).toEqual({ x: 2, input: expect.any(RawJson) })
  })

  it.each([
    ['{"inp\\u0075t":{"a":1}}', '{"a":1}'],
    ['{"\\u0069\\u006e\\u0070\\u0075\\u0074" : [2]}', '[2]'],
    ['{"input":1,"\\u0069nput":2}', '2'],
    ['{"inp\\u0075t":1,"input":2}', '2'],
  ])('knows a name that is written with escapes: %s', (text, input) => {
    expect(inputOf(text)).toBe(input)
  })

  it('takes no name for another that merely looks like it', () => {
    const document = parse('{"input\\\\":1,"in\\"put":2," input":3,"INPUT":4,"other":{"input":5}}')
    expect(document).toEqual({ 'input\\': 1, 'in"put': 2, ' input': 3, INPUT: 4, other: { input: 5 } })
  })

  it('takes a value for no name', () => {
    expect(parse('{"a":"input","b":["input",{"input":1}],"c":1}')).toEqual({
      a: 'input',
      b: ['input', { input: 1 }],
      c: 1,
    })
  })

  it('drops the white space around a value and keeps that inside it', () => {
    expect(inputOf(' \n\t\r{ "input" \t:\r\n { "a" :\n1 } \t\n, "x" : 1 } \n')).toBe('{ "a" :\n1 }')
    expect(inputOf('{"input":  7  }')).toBe('7')
  })

  it.each([
    '{"a":"}"}',
    '{"a":"{["}',
    '{"a":"]},\\"input\\":{"}',
    '{"a":"\\\\"}',
    '{"a":"\\\\\\""}',
    '{"\\\\":"\\\\\\\\","}":",:"}',
    '"},\\"input\\":1"',
    '"\\\\\\\\\\""',
    '{"a":"\\u0022}"}',
    '{"a":"Ω≈ç√∫˜µ≤ 😀 \\ud83d\\ude00 \\ud800"}',
  ])('is not led astray by what strings hold: %s', (input) => {
    expect(inputOf(`{"before":"}{\\\\","input":${input},"after":"]["}`)).toBe(input)
  })

  it('keeps keys that have a meaning in JavaScript as plain ones and pollutes nothing', () => {
    const text =
      '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}},"input":{"__proto__":{"x":1}}}'
    const document = parse(text) as Record<string, unknown>
    expect(Object.keys(document)).toEqual(['__proto__', 'constructor', 'input'])
    expect(Object.getPrototypeOf(document)).toBe(Object.prototype)
    expect(Object.getOwnPropertyDescriptor(document, '__proto__')?.value).toEqual({ polluted: 1 })
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined()
    expect(String(document['input'])).toBe('{"__proto__":{"x":1}}')
  })

  it.each([
    ['null', null],
    ['7', 7],
    ['"input"', 'input'],
    ['[{"input":1},2]', [{ input: 1 }, 2]],
    ['true', true],
  ])('gives a document that is no object as JSON.parse does: %s', (text, value) => {
    expect(parse(text)).toEqual(value)
  })

  it.each([
    ['arrays', '[', ']'],
    ['objects', '{"a":', '}'],
  ])('takes %s nested as deep as allowed and not one level deeper', (_, open, close) => {
    const nested = (levels: number): string =>
      open.repeat(levels) + (open === '[' ? '' : '1') + close.repeat(levels)
    expect(() => parse(nested(DEEP))).not.toThrow()
    expect(inputOf(`{"input":${nested(DEEP - 1)}}`)).toBe(nested(DEEP - 1))
    const problem = problemOf(`{"input":${nested(DEEP)}}`)
    expect(problem.kind).toBe('depth')
    expect(problem.message).toBe('it is nested 1001 levels deep, at most 1000 are taken')
  })

  it('counts levels that are open at once, not brackets, and none inside strings', () => {
    expect(parse('{"a":[[]],"b":[[]]}', [], 3)).toEqual({ a: [[]], b: [[]] })
    expect(parse(`{"a":"${'['.repeat(50)}"}`, [], 1)).toEqual({ a: '['.repeat(50) })
    expect(problemOf('{"a":[[]]}', 2).kind).toBe('depth')
  })

  it('refuses a document far too deep without running out of stack', () => {
    expect(problemOf('['.repeat(5_000_000)).kind).toBe('depth')
  })

  it.each([
    ['a stray byte', [0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]],
    ['an overlong form', [0x22, 0xc0, 0xaf, 0x22]],
    ['an encoded surrogate', [0x22, 0xed, 0xa0, 0x80, 0x22]],
    ['a character cut short', [0x22, 0xf0, 0x9f, 0x98, 0x22]],
    ['UTF-16', [...Buffer.from('{}', 'utf16le'), 0xff, 0xfe]],
  ])('refuses bytes that are not UTF-8: %s', (_, bytes) => {
    expect(problemOf(Uint8Array.from(bytes)).kind).toBe('encoding')
  })

  it.each([
    '',
    ' \n',
    '{',
    '{"a":1',
    '{"a":}',
    '{"a" 1}',
    '{"a":1,}',
    '[1,]',
    '{"a":1}}',
    '{} {}',
    "{'a':1}",
    '{a:1}',
    '"open',
    '"ends with a backslash\\',
    '{"input":{"a":1}',
    '{"input":01}',
    '{"input":NaN}',
    'undefined',
    '}{',
    ']',
    '{"a":"\n"}',
    '// comment',
    '\u{feff}{}',
  ])('refuses what is not JSON: %j', (text) => {
    expect(problemOf(text).kind).toBe('syntax')
  })

  it('says where the syntax breaks, and quotes nothing of the text', () => {
    expect(problemOf('{"a":1 "secret":2}').message).toMatch(/^it breaks off at \w+ 7 or so$/)
    expect(problemOf('').message).toContain('empty')
    expect(problemOf('{"a":1').message).toMatch(/ends too early|breaks off at \w+ 6/)
    expect(problemOf('{"token":"secret"').message).not.toContain('secret')
    expect(problemOf('{"token": secret}').message).not.toContain('secret')
  })

  // Seen: `{"a":}` was called "empty or ends too early", since the engine names no position in short texts.
  it('calls a text neither empty nor cut off when a token is in the wrong place', () => {
    expect(problemOf('{"a":}').message).not.toContain('ends too early')
    expect(problemOf('{"token": secret}').message).not.toContain('ends too early')
  })

  it('gives the input of any document as a verbatim slice that parses to what JSON.parse sees', () => {
    const key = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.constantFrom('input', '__proto__', 'constructor', '"', '\\'),
    )
    const members = fc.array(fc.tuple(key, fc.jsonValue({ maxDepth: 4 }), fc.boolean()), { maxLength: 5 })
    const space = fc.stringMatching(/^[ \n\r\t]{0,3}$/)
    fc.assert(
      fc.property(members, fc.jsonValue({ maxDepth: 4 }), fc.nat(), space, (others, input, place, gap) => {
        const all = others.toSpliced(place % (others.length + 1), 0, ['input', input, false])
        const written = all.map(([name, value, isEscaped]) => {
          return `${gap}${isEscaped ? escaped(name) : JSON.stringify(name)}${gap}:${gap}${JSON.stringify(value, null, gap)}`
        })
        const text = `${gap}{${written.join(`${gap},`)}${gap}}${gap}`
        const bytes = Buffer.from(text)
        const raw = (parse(bytes) as { input: RawJson }).input
        expect(raw.parse()).toEqual((JSON.parse(text) as { input: unknown }).input)
        expect(raw.bytes.buffer).toBe(bytes.buffer)
        const start = raw.bytes.byteOffset - bytes.byteOffset
        expect(Buffer.compare(raw.bytes, bytes.subarray(start, start + raw.bytes.byteLength))).toBe(0)
      }),
      { numRuns: 150 },
    )
  })

  it('sees the other members of any document as JSON.parse does', () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 5 }), (text) => {
        expect(parse(text, [])).toEqual(JSON.parse(text))
      }),
    )
  })

  it('refuses exactly what JSON.parse refuses', () => {
    const soup = fc.stringMatching(/^[[\]{}",:\\ a1-]{0,12}$/)
    fc.assert(
      fc.property(soup, (text) => {
        expect(isTaken(() => parse(text))).toBe(isTaken(() => JSON.parse(text)))
      }),
      { numRuns: 500 },
    )
  })
})

function escaped(name: string): string {
  const units = Array.from({ length: name.length }, (_, at) => name.charCodeAt(at))
  return `"${units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('')}"`
}

function isTaken(read: () => unknown): boolean {
  try {
    read()
    return true
  } catch {
    return false
  }
}

describe('RawJson', () => {
  it('holds a value as JSON text', () => {
    const raw = RawJson.from({ a: [1, 'ö'] })
    expect(String(raw)).toBe('{"a":[1,"ö"]}')
    expect(raw.parse()).toEqual({ a: [1, 'ö'] })
  })

  it('tells an object from every other value', () => {
    const answers = [{}, [], 'x', 1, null].map((value) => RawJson.from(value).isObject)
    expect(answers).toEqual([true, false, false, false, false])
  })
})

describe('jsonWithRaw', () => {
  it('puts members that are JSON text already beside fields that are not', () => {
    const body = jsonWithRaw(
      { id: 'a', at: 1 },
      { output: Buffer.from('{"n":1.0}'), 'odd"name': Buffer.from('2') },
    )
    expect(body.toString()).toBe('{"id":"a","at":1,"output":{"n":1.0},"odd\\"name":2}')
  })

  it('leaves undefined fields and members out', () => {
    expect(jsonWithRaw({ a: undefined }, { b: undefined }).toString()).toBe('{}')
    expect(jsonWithRaw({ a: 1, b: undefined }, { c: undefined }).toString()).toBe('{"a":1}')
    expect(jsonWithRaw({}, { a: undefined, b: Buffer.from('1'), c: Buffer.from('2') }).toString()).toBe(
      '{"b":1,"c":2}',
    )
  })

  it('gives a document that parses to the fields and the members together', () => {
    const names = fc.dictionary(fc.stringMatching(/^[a-m]{1,3}$/), fc.jsonValue())
    const others = fc.dictionary(fc.stringMatching(/^[n-z]{1,3}$/), fc.jsonValue())
    fc.assert(
      fc.property(names, others, (fields, members) => {
        const raw = Object.entries(members).map(([name, value]) => [name, RawJson.from(value).bytes])
        const body = jsonWithRaw(fields, Object.fromEntries(raw))
        expect(JSON.parse(body.toString())).toEqual(JSON.parse(JSON.stringify({ ...fields, ...members })))
      }),
    )
  })
})

describe('jsonArrayOfRaw', () => {
  it('joins elements that are JSON text already', () => {
    expect(jsonArrayOfRaw([]).toString()).toBe('[]')
    expect(jsonArrayOfRaw([Buffer.from('1')]).toString()).toBe('[1]')
    expect(jsonArrayOfRaw([Buffer.from('{"a":1}'), Buffer.from('"x,"'), Buffer.from('[]')]).toString()).toBe(
      '[{"a":1},"x,",[]]',
    )
  })
})
