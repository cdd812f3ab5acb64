// From what a handler made to JSON text, or to the path of what JSON cannot say.

import { Stream } from 'node:stream'
import { types } from 'node:util'
import { stringifyJson } from '../lib/intrinsics.ts'

export class NotJsonError extends Error {
  readonly code = 'OUTPUT_NOT_JSON'
}

export class TooLargeError extends Error {
  readonly code = 'OUTPUT_TOO_LARGE'
}

/**
 * The value as JSON text. `undefined` is null at the top and left out of objects; what JSON would silently drop or
 * change (functions, symbols, BigInt, NaN, Infinity, undefined in arrays, cycles, and what the language or the platform
 * has that is no plain data, as Map, bytes, Error or Response) throws NotJsonError with its path, as in
 * `output.items[3].run`. Objects of an author's own classes are told by their own fields.
 */
export function toJson(value: unknown, name: string): string {
  // The text is made of a copy: a getter or a toJSON may give something else each time that it is asked.
  const data = dataOf(asked(value, ''), name, [])
  try {
    return stringifyJson(data) ?? 'null'
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
const NAME = /^[A-Za-z_$][\w$]*$/

/** What the value's own toJSON, if it has one, wants to be told in its place; bytes and dates are looked at first. */
function asked(value: unknown, key: string): unknown {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return value
  if (types.isDate(value) && Number.isNaN(timeOf(value))) return value
  if (!('toJSON' in value) || typeof value.toJSON !== 'function') return value
  const told: unknown = value.toJSON(key)
  return types.isDate(told) && !Number.isNaN(timeOf(told)) ? new Date(timeOf(told)).toISOString() : told
}

/** Also of a date of another realm, whatever an author has put in the place of its methods. */
function timeOf(date: Date): number {
  return Date.prototype.getTime.call(date)
}

/** The value as data that JSON says as it is. */
function dataOf(value: unknown, path: string, above: object[]): unknown {
  switch (typeof value) {
    case 'number':
      return Number.isFinite(value) ? value : refuse(path, String(value), 'Return null or a string instead.')
    case 'bigint':
      return refuse(path, 'a BigInt', 'Return a string or a number instead.')
    case 'function':
      return refuse(path, 'a function', 'Return data only.')
    case 'symbol':
      return refuse(path, 'a symbol', 'Return a string instead.')
    case 'object':
      return value === null ? null : dataOfObject(value, path, above)
    default:
      return value
  }
}

function dataOfObject(value: object, path: string, above: object[]): unknown {
  if (above.includes(value))
    return refuse(path, 'a reference to an object it is part of', 'Return a copy without the cycle.')
  if (above.length >= DEEPEST)
    return refuse(path, `nested more than ${DEEPEST} levels deep`, 'Return a flatter value.')
  above.push(value)
  const data = Array.isArray(value) ? dataOfArray(value, path, above) : dataOfFields(value, path, above)
  above.pop()
  return data
}

function dataOfArray(value: readonly unknown[], path: string, above: object[]): unknown[] {
  const data: unknown[] = []
  for (let at = 0; at < value.length; at += 1) {
    const item = asked(value[at], String(at))
    if (item === undefined) refuse(`${path}[${at}]`, 'undefined', 'Use null in arrays.')
    data[at] = dataOf(item, `${path}[${at}]`, above)
  }
  return data
}

function dataOfFields(value: object, path: string, above: object[]): unknown {
  if (!isPlain(value)) {
    if (types.isNumberObject(value) || types.isStringObject(value) || types.isBooleanObject(value))
      return dataOf(value.valueOf(), path, above)
    refuseBuiltIn(value, path)
  }
  const data: Record<string, unknown> = {}
  for (const key of Object.keys(value)) {
    const member = asked(Reflect.get(value, key), key)
    if (member === undefined) continue
    const told = dataOf(member, NAME.test(key) ? `${path}.${key}` : `${path}[${stringifyJson(key)}]`, above)
    // Assigned, this one would become the prototype.
    if (key === '__proto__') Object.defineProperty(data, key, { value: told, enumerable: true })
    else data[key] = told
  }
  return data
}

/** What to do about those that come up most. */
const HINTS: Record<string, string> = {
  ArrayBuffer: 'Yield a Buffer to stream it, or upload it and return its URL.',
  Date: 'Check the date; it is no moment in time.',
  Map: 'Return Object.fromEntries(map) instead.',
  Promise: 'Await it first.',
  Set: 'Return [...set] instead.',
  RegExp: 'Return its source instead.',
  Response: 'Await its json() or text() and return that.',
  ReadableStream: 'Yield its values, or read it to its end and return them.',
  URLSearchParams: 'Return Object.fromEntries(params) instead.',
  Headers: 'Return Object.fromEntries(headers) instead.',
  FormData: 'Return Object.fromEntries(form) instead.',
}

/** What the platform has beside plain data shows nothing of itself to JSON, or only by chance. */
function refuseBuiltIn(value: object, path: string): void {
  if (ArrayBuffer.isView(value)) return refuse(path, 'bytes', HINTS['ArrayBuffer'] ?? '')
  if (value instanceof Error || types.isNativeError(value))
    return refuse(path, `an error (${value.name})`, 'Throw it to fail the job, or return its message.')
  if (types.isDate(value)) return refuse(path, 'an invalid Date', HINTS['Date'] ?? '')
  if ('next' in value && (Symbol.iterator in value || Symbol.asyncIterator in value))
    return refuse(path, 'an iterator', 'Return [...iterator], or yield its values.')
  const name = builtInOf(value)
  if (value instanceof Stream || types.isKeyObject(value))
    return refuse(path, `an object of Node (${value.constructor.name})`, 'Return plain data instead.')
  if (name === undefined) return
  if (name.endsWith('ArrayBuffer')) return refuse(path, 'bytes', HINTS['ArrayBuffer'] ?? '')
  const what = `${/^[AEIOU]/.test(name) ? 'an' : 'a'} ${name}`
  refuse(path, name === 'Promise' ? 'a promise' : what, HINTS[name] ?? 'Return plain data instead.')
}

/** The name of the platform's class that it is of; none for a class of the author's own. */
function builtInOf(value: object): string | undefined {
  for (
    let prototype: unknown = Object.getPrototypeOf(value);
    typeof prototype === 'object' && prototype !== null && Object.getPrototypeOf(prototype) !== null;
    prototype = Object.getPrototypeOf(prototype)
  ) {
    const made = Object.getOwnPropertyDescriptor(prototype, 'constructor')?.value as unknown
    if (typeof made !== 'function') continue
    // What the language itself has is told by its code, whatever realm it is of and whether or not it is a global.
    if (isNative(made)) return tagOf(prototype) ?? made.name
    // By its name first: some of these are loaded only when they are looked at.
    if (GLOBALS.has(made.name) && Reflect.get(globalThis, made.name) === made) return made.name
  }
  return undefined
}

/** Whether it is an object as `{}` makes it, here or in another realm: what has no class. */
export function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype === Object.prototype || prototype === null) return true
  if (typeof prototype !== 'object' || Object.getPrototypeOf(prototype) !== null) return false
  const made = Object.getOwnPropertyDescriptor(prototype, 'constructor')?.value as unknown
  return typeof made === 'function' && made.name === 'Object' && isNative(made)
}

function isNative(made: object): boolean {
  return Function.prototype.toString.call(made).endsWith('{ [native code] }')
}

/** As `Intl.NumberFormat`, which says more than the name of its constructor. */
function tagOf(prototype: object): string | undefined {
  const tag = Object.getOwnPropertyDescriptor(prototype, Symbol.toStringTag)?.value as unknown
  return typeof tag === 'string' ? tag : undefined
}

/** What there was before an author could add to it. */
const GLOBALS = new Set(Object.getOwnPropertyNames(globalThis))

function refuse(path: string, what: string, mend: string): never {
  throw new NotJsonError(`${path} is ${what}, which JSON cannot say. ${mend}`)
}
