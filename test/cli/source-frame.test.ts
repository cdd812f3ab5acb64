import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { codeFrame, sourceFrame } from '../../src/cli/source-frame.ts'
import { temporaryDir } from '../support/processes.ts'

const WRITTEN = '// by the author\nthrow 1\n'
const MADE = '// made of it\nthrow 1 // made'

/** What is shown of line 2 of a handler.js with this at its end, and with this map beside it. */
function shownOf(end: string, map?: object): string {
  const file = join(temporaryDir(), 'handler.js')
  writeFileSync(file, `${MADE}\n${end}`)
  if (map) writeFileSync(`${file}.map`, JSON.stringify(map))
  const text = sourceFrame(`Error: no\n    at handler (${file}:2:1)\n`) ?? ''
  expect(text).toMatch(/^ {2}at \S*handler\.js:2:1/)
  const line = text.split('\n')[1]?.trim()
  const frame = codeFrame({ file, line: 2 })
  expect(frame?.includes('throw 1')).toBe(line === undefined ? undefined : true)
  expect(frame?.includes('// made') ?? false).toBe(line?.includes('// made') ?? false)
  return line ?? 'nothing'
}

describe('the line of a place', () => {
  const link = '//# sourceMappingURL=handler.js.map\n'
  const map = { version: 3, sources: ['part.js', 'handler.js'], names: [], mappings: '' }
  const made = '2 | throw 1 // made'

  it('is that of the file', () => {
    expect(shownOf('')).toBe(made)
  })

  // Seen: a line of the bundle, which was called handler.js as the author's file was, under the author's line number.
  it('is not that of a bundle with the name of the file it was made from', () => {
    expect(shownOf(link, map)).toBe('nothing')
    expect(shownOf(link, { ...map, sourcesContent: ['', null] })).toBe('nothing')
  })

  it("is the author's where the map of such a bundle holds it", () => {
    const whole = { ...map, sourcesContent: ['', WRITTEN] }
    expect(shownOf(link, whole)).toBe('2 | throw 1')
    const base64 = Buffer.from(JSON.stringify(whole)).toString('base64')
    expect(shownOf(`//# sourceMappingURL=data:application/json;base64,${base64}`)).toBe('2 | throw 1')
  })

  it('is that of the file where its map is of others, is none, or is not there', () => {
    expect(shownOf(link, { ...map, sources: ['handler.ts'] })).toBe(made)
    expect(shownOf(link, {})).toBe(made)
    expect(shownOf(link)).toBe(made)
    expect(shownOf(`${link}more()\n`, { ...map, sourcesContent: ['', WRITTEN] })).toBe(made)
  })
})
