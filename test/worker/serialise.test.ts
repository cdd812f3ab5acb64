import { createHash, createSecretKey } from 'node:crypto'
import { Readable } from 'node:stream'
import { runInNewContext } from 'node:vm'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { NotJsonError, toJson } from '../../src/worker/serialise.ts'

function refusalOf(value: unknown, name = 'output'): string {
  try {
    toJson(value, name)
  } catch (error) {
    expect(error).toBeInstanceOf(NotJsonError)
    expect((error as NotJsonError).code).toBe('OUTPUT_NOT_JSON')
    return (error as NotJsonError).message
  }
  throw new Error('The value was taken.')
}

function nested(levels: number): unknown {
  let value: unknown = 'core'
  for (let level = 0; level < levels; level += 1) value = level % 2 === 0 ? [value] : { in: value }
  return value
}

describe('toJson', () => {
  it.each([
    [null, 'null'],
    [true, 'true'],
    [-0.5e-7, '-5e-8'],
    ['a "quoted" 😀 \ud800', '"a \\"quoted\\" 😀 \\ud800"'],
    [[], '[]'],
    [{}, '{}'],
    [{ a: [1, { b: null }] }, '{"a":[1,{"b":null}]}'],
    [Object.assign(Object.create(null) as object, { a: 1 }), '{"a":1}'],
  ])('writes %j as JSON', (value, json) => {
    expect(toJson(value, 'output')).toBe(json)
  })

  it('writes any JSON value as JSON.stringify does', () => {
    fc.assert(fc.property(fc.jsonValue(), (value) => toJson(value, 'v') === JSON.stringify(value)))
  })

  it('writes undefined as null at the top and leaves it out of objects', () => {
    expect(toJson(undefined, 'output')).toBe('null')
    expect(toJson({ a: undefined, b: [{ c: undefined }] }, 'output')).toBe('{"b":[{}]}')
  })

  it('writes the members of an instance as those of a plain object', () => {
    class Point {
      x = 1
      y = 2
      length(): number {
        return Math.hypot(this.x, this.y)
      }
    }
    expect(toJson(new Point(), 'output')).toBe('{"x":1,"y":2}')
  })

  it('keeps a key of the name __proto__', () => {
    expect(toJson(JSON.parse('{"__proto__":{"a":1}}'), 'output')).toBe('{"__proto__":{"a":1}}')
  })

  it.each([
    ['a function', () => 1, 'a function', 'Return data only.'],
    [
      'a class',
      class {
        a = 1
      },
      'a function',
      'Return data only.',
    ],
    ['a symbol', Symbol('s'), 'a symbol', 'Return a string instead.'],
    ['a BigInt', 10n, 'a BigInt', 'Return a string or a number instead.'],
    ['NaN', Number.NaN, 'NaN', 'Return null or a string instead.'],
    ['Infinity', Infinity, 'Infinity', 'Return null or a string instead.'],
    ['-Infinity', -Infinity, '-Infinity', 'Return null or a string instead.'],
    ['a Map', new Map([[1, 2]]), 'a Map', 'Return Object.fromEntries(map) instead.'],
    ['a Set', new Set([1]), 'a Set', 'Return [...set] instead.'],
    ['a Buffer', Buffer.from('x'), 'bytes', 'Yield a Buffer to stream it, or upload it and return its URL.'],
    [
      'a typed array',
      new Float32Array(2),
      'bytes',
      'Yield a Buffer to stream it, or upload it and return its URL.',
    ],
    [
      'an ArrayBuffer',
      new ArrayBuffer(2),
      'bytes',
      'Yield a Buffer to stream it, or upload it and return its URL.',
    ],
    [
      'a DataView',
      new DataView(new ArrayBuffer(2)),
      'bytes',
      'Yield a Buffer to stream it, or upload it and return its URL.',
    ],
  ])('refuses %s with its path and the mend', (_, value, what, mend) => {
    for (const [whole, path] of [
      [value, 'output'],
      [{ items: [0, 1, 2, { run: value }] }, 'output.items[3].run'],
      [[[value]], 'output[0][0]'],
      [{ 'a key': { '': value } }, 'output["a key"][""]'],
      [{ $ok_1: { '1st': value } }, 'output.$ok_1["1st"]'],
      [{ 'a"b': value }, 'output["a\\"b"]'],
    ] as const) {
      const refusal = refusalOf(whole)
      expect(refusal).toContain(`${path} is ${what}, which JSON cannot say. ${mend}`)
      expect(refusal).toMatch(/\.$/)
    }
  })

  // Seen: each of these was written as {} or null, and nobody was told.
  it.each([
    [
      'an error',
      new TypeError('t'),
      'an error (TypeError)',
      'Throw it to fail the job, or return its message.',
    ],
    ['a subclass of Error', new (class extends Error {})('t'), 'an error (Error)', 'Throw it'],
    ['a Response', new Response('x'), 'a Response', 'Await its json() or text() and return that.'],
    ['a ReadableStream', new ReadableStream(), 'a ReadableStream', 'Yield its values'],
    [
      'a URLSearchParams',
      new URLSearchParams('a=1'),
      'an URLSearchParams',
      'Return Object.fromEntries(params)',
    ],
    ['Headers', new Headers(), 'a Headers', 'Return Object.fromEntries(headers) instead.'],
    ['a Blob', new Blob(['x']), 'a Blob', 'Return plain data instead.'],
    ['a RegExp', /x/, 'a RegExp', 'Return its source instead.'],
    ['a WeakMap', new WeakMap(), 'a WeakMap', 'Return plain data instead.'],
    ['a subclass of Map', new (class extends Map {})(), 'a Map', 'Return Object.fromEntries(map) instead.'],
    ['an invalid Date', new Date(Number.NaN), 'an invalid Date', 'Check the date; it is no moment in time.'],
    ['a boxed NaN', Object(Number.NaN), 'NaN', 'Return null or a string instead.'],
    ['a boxed BigInt', Object(1n), 'a BigInt', 'Return plain data instead.'],
    ['an iterator', [1].values(), 'an iterator', 'Return [...iterator], or yield its values.'],
    ['a promise', Promise.resolve(1), 'a promise', 'Await it first.'],
    ['a SharedArrayBuffer', new SharedArrayBuffer(1), 'bytes', 'Yield a Buffer'],
  ] as [string, unknown, string, string][])('refuses %s, which is no plain data', (_, value, what, mend) => {
    expect(refusalOf({ a: [value] })).toContain(`output.a[0] is ${what}, which JSON cannot say. ${mend}`)
  })

  // Seen: what is of another realm, or no global, was written as {}.
  it.each([
    ['Map', runInNewContext('new Map([[1, 2]])'), 'a Map'],
    ['Set', runInNewContext('new Set([1])'), 'a Set'],
    ['RegExp', runInNewContext('/x/'), 'a RegExp'],
    ['Error', runInNewContext('new TypeError("t")'), 'an error (TypeError)'],
    ['promise', runInNewContext('Promise.resolve(1)'), 'a promise'],
    ['ArrayBuffer', runInNewContext('new ArrayBuffer(1)'), 'bytes'],
    ['invalid Date', runInNewContext('new Date(NaN)'), 'an invalid Date'],
    ['iterator', runInNewContext('[1].values()'), 'an iterator'],
    ['number format', new Intl.NumberFormat(), 'an Intl.NumberFormat'],
    ['WebAssembly memory', runInNewContext('new WebAssembly.Memory({ initial: 1 })'), 'a WebAssembly.Memory'],
    ['key', createSecretKey(Buffer.from('k')), 'an object of Node (SecretKeyObject)'],
    ['hash', createHash('sha256'), 'an object of Node (Hash)'],
    ['stream of Node', Readable.from([]), 'an object of Node (Readable)'],
  ] as [string, unknown, string][])(
    'refuses what is no plain data wherever it was made: %s',
    (_, value, what) => {
      expect(refusalOf({ a: [value] })).toContain(`output.a[0] is ${what}, which JSON cannot say.`)
    },
  )

  it('takes plain data of another realm, and classes with a tag of their own', () => {
    class Money {
      cents = 250
      get [Symbol.toStringTag](): string {
        return 'Money'
      }
    }
    const value = [runInNewContext('({ a: [1, { b: new Date(0) }] })'), new Money()]
    expect(toJson(value, 'output')).toBe('[{"a":[1,{"b":"1970-01-01T00:00:00.000Z"}]},{"cents":250}]')
  })

  // Seen: it was called an invalid date.
  it('takes a Date that a toJSON gives', () => {
    expect(toJson({ at: { toJSON: () => new Date(0) } }, 'output')).toBe('{"at":"1970-01-01T00:00:00.000Z"}')
    expect(refusalOf({ at: { toJSON: () => new Date(Number.NaN) } })).toContain(
      'output.at is an invalid Date',
    )
  })

  it('takes what has a toJSON, boxed values, and classes of an author that share a name with one of ours', () => {
    class Blob {
      size = 1
    }
    const error = Object.assign(new Error('x'), { toJSON: () => ({ message: 'x' }) })
    expect(toJson([new Blob(), error, Object('s'), Object(1)], 'output')).toBe(
      '[{"size":1},{"message":"x"},"s",1]',
    )
  })

  it('writes what it has looked at: what a getter gives the first time, and no more than that', () => {
    let asked = 0
    const value = {
      get a() {
        asked += 1
        return asked > 1 ? Number.NaN : 1
      },
      b: { toJSON: () => (asked += 1) },
    }
    expect(toJson(value, 'output')).toBe('{"a":1,"b":2}')
  })

  it('refuses a toJSON in an array that gives nothing', () => {
    expect(refusalOf([{ toJSON: () => undefined }])).toContain('output[0] is undefined')
  })

  it('tells toJSON its key, as JSON.stringify does', () => {
    const value = { a: { toJSON: (key: string) => key }, b: [{ toJSON: (key: string) => key }] }
    expect(toJson(value, 'output')).toBe(JSON.stringify(value))
  })

  it('refuses undefined in an array, also where an element is missing', () => {
    expect(refusalOf([1, undefined])).toContain('output[1] is undefined')
    // oxlint-disable-next-line no-sparse-arrays -- the hole is what is refused
    expect(refusalOf({ a: [1, , 3] })).toContain('output.a[1] is undefined')
  })

  it('names what it was given as, as in a chunk or progress', () => {
    expect(refusalOf({ percent: Number.NaN }, 'progress')).toContain('progress.percent is NaN')
  })

  it('names the first culprit', () => {
    expect(refusalOf({ a: 1, b: [Number.NaN], c: 1n })).toContain('output.b[0] is NaN')
  })

  it('refuses a cycle with the path at which it closes', () => {
    const node: Record<string, unknown> = { name: 'loop' }
    node['children'] = [{ parent: node }]
    expect(refusalOf(node)).toContain('output.children[0].parent is a reference to an object it is part of')
    const list: unknown[] = []
    list.push(list)
    expect(refusalOf(list)).toContain('output[0] is a reference to an object it is part of')
  })

  it('writes an object that is used in several places each time', () => {
    const shared = { a: [1] }
    expect(toJson([shared, { x: shared }, shared.a, shared], 'output')).toBe(
      '[{"a":[1]},{"x":{"a":[1]}},[1],{"a":[1]}]',
    )
  })

  it('takes 1000 levels and refuses one more', () => {
    expect(toJson(nested(1000), 'output')).toBe(JSON.stringify(nested(1000)))
    expect(refusalOf(nested(1001))).toContain('nested more than 1000 levels deep')
  })

  it('refuses a value that is far too deep without running out of stack', () => {
    expect(refusalOf(nested(1_000_000))).toContain('nested more than 1000 levels deep')
  })

  describe('with toJSON', () => {
    it('writes what it gives', () => {
      expect(toJson({ at: new Date(0), url: new URL('https://example.com/a') }, 'output')).toBe(
        '{"at":"1970-01-01T00:00:00.000Z","url":"https://example.com/a"}',
      )
      expect(toJson({ toJSON: () => ({ a: [1] }) }, 'output')).toBe('{"a":[1]}')
    })

    it('refuses what it gives when that is refused by itself', () => {
      expect(refusalOf({ total: { toJSON: () => ({ sum: 1n }) } })).toContain('output.total.sum is a BigInt')
    })

    it('leaves out a member of which it gives nothing', () => {
      expect(toJson({ a: { toJSON: () => undefined }, b: 1 }, 'output')).toBe('{"b":1}')
      expect(toJson({ toJSON: () => undefined }, 'output')).toBe('null')
    })

    it('lets an error of its own through', () => {
      const value = {
        toJSON: () => {
          throw new RangeError('not yet')
        },
      }
      expect(() => toJson(value, 'output')).toThrow(RangeError)
    })

    it('is found on a prototype, and not called on a bytes object', () => {
      expect(refusalOf({ image: Buffer.from('x') })).toContain('output.image is bytes')
    })

    // Seen: an object that gives itself was taken for a cycle, which JSON does not find in it.
    it('may give the object itself', () => {
      class Itself {
        a = 1
        toJSON(): this {
          return this
        }
      }
      expect(toJson({ x: new Itself() }, 'output')).toBe('{"x":{"a":1}}')
    })
  })
})
