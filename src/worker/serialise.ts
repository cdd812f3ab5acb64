// From what a handler made to JSON text, or to the path of what JSON cannot say.

export class NotJsonError extends Error {
  readonly code = 'OUTPUT_NOT_JSON'
}

export class TooLargeError extends Error {
  readonly code = 'OUTPUT_TOO_LARGE'
}

/**
 * The value as JSON text. `undefined` is null at the top and left out of objects; what JSON would silently drop or
 * change (functions, symbols, BigInt, NaN, Infinity, Map, Set, bytes, undefined in arrays, cycles) throws
 * NotJsonError with its path, as in `output.items[3].run`.
 */
export function toJson(value: unknown, name: string): string {
  if (value === undefined) return 'null'
  check(value, name, [])
  try {
    return JSON.stringify(value) ?? 'null'
  } catch (cause) {
    // V8 has no text of more than half a gigabyte.
    if (cause instanceof RangeError && cause.message.includes('string length'))
      throw new TooLargeError(
        `${name} is more JSON than a text can hold. Yield it in pieces, or upload it and return its URL.`,
      )
    throw new NotJsonError(
      `${name} cannot be written as JSON: ${cause instanceof Error ? cause.message : String(cause)}.`,
    )
  }
}

const DEEPEST = 1000

function check(value: unknown, path: string, above: object[]): void {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return
    case 'number':
      if (!Number.isFinite(value)) refuse(path, String(value), 'Return null or a string instead.')
      return
    case 'bigint':
      return refuse(path, 'a BigInt', 'Return a string or a number instead.')
    case 'function':
      return refuse(path, 'a function', 'Return data only.')
    case 'symbol':
      return refuse(path, 'a symbol', 'Return a string instead.')
    case 'object':
      if (value !== null) checkObject(value, path, above)
      return
    default:
  }
}

function checkObject(value: object, path: string, above: object[]): void {
  if (above.includes(value))
    return refuse(path, 'a reference to an object it is part of', 'Return a copy without the cycle.')
  if (above.length >= DEEPEST)
    return refuse(path, `nested more than ${DEEPEST} levels deep`, 'Return a flatter value.')
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) {
    return refuse(path, 'bytes', 'Yield a Buffer to stream it, or upload it and return its URL.')
  }
  if (value instanceof Map) return refuse(path, 'a Map', 'Return Object.fromEntries(map) instead.')
  if (value instanceof Promise) return refuse(path, 'a promise', 'Await it first.')
  if (value instanceof Set) return refuse(path, 'a Set', 'Return [...set] instead.')
  if ('toJSON' in value && typeof value.toJSON === 'function') {
    const replacement: unknown = value.toJSON()
    if (replacement !== value) return check(replacement, path, [...above, value])
  }
  above.push(value)
  if (Array.isArray(value)) {
    for (const [at, item] of value.entries()) {
      if (item === undefined) refuse(`${path}[${at}]`, 'undefined', 'Use null in arrays.')
      check(item, `${path}[${at}]`, above)
    }
  } else {
    for (const key of Object.keys(value)) {
      const member: unknown = Reflect.get(value, key)
      if (member !== undefined)
        check(
          member,
          /^[A-Za-z_$][\w$]*$/.test(key) ? `${path}.${key}` : `${path}[${JSON.stringify(key)}]`,
          above,
        )
    }
  }
  above.pop()
}

function refuse(path: string, what: string, mend: string): never {
  throw new NotJsonError(`${path} is ${what}, which JSON cannot say. ${mend}`)
}
