import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { brokenJson } from '../../src/worker/json-place.ts'
import { temporaryDir } from '../support/processes.ts'

describe('the place where a JSON file breaks off', () => {
  it.each([
    ['{\n  "a": 1,\n  bad\n}\n', 3],
    ['{\n  "a": [1, 2, 3],\n  "b": yes,\n  "c": 3\n}\n', 3],
    ['{\n  "a": 1,\n\n', 2],
    ['', 1],
    ['{\n"a": nope }', 2],
    ['{"a":1,\n "b": }', 2],
    ['[true,\n1,\n,2]', 3],
    ['nope', 1],
    ['\uFEFF{"a":1,\n "b": }', 2],
  ])('%j', (text, line) => {
    const file = join(temporaryDir(), 'x.json')
    writeFileSync(file, text)
    const { message, place } = brokenJson(errorOf(text, file)) ?? {}
    expect(message).not.toContain(file)
    expect(place?.line).toBe(line)
  })

  it('is none of an error that running code threw', () => {
    expect(brokenJson(new SyntaxError('Unexpected end of JSON input'))).toBeUndefined()
    expect(brokenJson(new Error('/x.json: gone'))).toBeUndefined()
  })
})

/** As Node words it for a file that is imported. */
function errorOf(text: string, file: string): unknown {
  try {
    return JSON.parse(text.replace(/^\uFEFF/, ''))
  } catch (cause) {
    if (cause instanceof SyntaxError) cause.message = `${file}: ${cause.message}`
    return cause
  }
}
