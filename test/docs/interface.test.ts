// docs/interface.md against the titles of test/interface: every statement has a test, and every test a statement.

import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { gpuSchema, machineSchema } from '../../src/resource/machine.ts'
import { podSchema } from '../../src/resource/pod.ts'
import { templateSchema, templateUpdateSchema } from '../../src/resource/template.ts'
import { podQuerySchema } from '../../src/protocol/resource-api.ts'
import { readPage, tableUnder } from './markdown.ts'

const page = readPage('docs/interface.md')
const ID = /[A-Z][A-Z0-9]{2,3}-\d+/
const statements = statementsOf(page.text)
const ids = statements.map(({ id }) => id)
const untested = new Map(tableUnder(page, 'Not tested').map(([id = '', why = '']) => [id, why]))
const titles = titlesIn(new URL('../interface/', import.meta.url))
const tested = new Set(titles.flatMap((title) => title.ids))

describe('docs/interface.md', () => {
  it('gives each of its statements an id of its own', () => {
    expect(ids.length).toBeGreaterThan(200)
    expect(ids.filter((id, at) => ids.indexOf(id) !== at)).toEqual([])
    expect(statements.filter(({ id }) => !ID.test(id))).toEqual([])
  })

  it('numbers the statements of each kind from 1 without a gap', () => {
    const numbers = Map.groupBy(ids, (id) => id.split('-')[0] ?? '')
    for (const [kind, all] of numbers) expect(all).toEqual(all.map((_, at) => `${kind}-${at + 1}`))
  })

  it('has a test for each statement, or a reason why there is none', () => {
    expect(ids.filter((id) => !tested.has(id) && !untested.has(id))).toEqual([])
  })

  it('calls nothing untested that has a test, or that it does not state', () => {
    expect([...untested.keys()].filter((id) => tested.has(id) || !ids.includes(id))).toEqual([])
    expect([...untested].filter(([, why]) => why.length < 10)).toEqual([])
  })
})

describe('the fields of the fleet in docs/interface.md', () => {
  const { cpuType, ...machine } = machineSchema.shape
  const { template: _, ...pod } = podSchema.shape
  it.each([
    ['The pod', Object.keys(pod)],
    ['The accelerator', Object.keys(gpuSchema.shape)],
    [
      'The machine',
      [...Object.keys(machine), ...Object.keys(cpuType.shape).map((name) => `cpuType.${name}`)],
    ],
    ['The template', Object.keys(templateSchema.shape)],
    ['GET /v1/pods/{podId}', Object.keys(podQuerySchema.shape)],
    ['POST /v1/templates/{templateId}/update', Object.keys(templateUpdateSchema.shape)],
  ])('are those of the schema, and no others: %s', (section, fields) => {
    const rows = tableUnder(page, section).map(([, field]) => field)
    expect(rows).toHaveLength(fields.length)
    expect(new Set(rows)).toEqual(new Set(fields))
  })
})

describe('test/interface', () => {
  it('has no test whose title names no statement', () => {
    expect(titles.filter((title) => title.ids.length === 0)).toEqual([])
  })

  it('names no statement that the document does not have', () => {
    const known = new Set(ids)
    expect(titles.flatMap((title) => title.ids.filter((id) => !known.has(id)))).toEqual([])
  })
})

/** List items and table rows above the last section: all of them are statements. */
function statementsOf(text: string): { id: string; line: string }[] {
  const [stated = ''] = text.split('\n## Not tested\n')
  const lines = stated.split('\n')
  return lines.flatMap((line, at) => {
    const isRow = line.startsWith('|') && !/^\|[ -]+\|/.test(line) && !/^\|[ -]+\|/.test(lines[at + 1] ?? '')
    const found = isRow
      ? /^\| (\S+)(?: own)? +\|/.exec(line)
      : line.startsWith('- ') && (/^- \[(\S+?)(?: own)?\] \S/.exec(line) ?? ['', ''])
    return found ? [{ id: found[1] ?? '', line }] : isRow ? [{ id: '', line }] : []
  })
}

/** The titles of all tests, each with the ids in the brackets that it begins with. */
function titlesIn(folder: URL): { file: string; title: string; ids: string[] }[] {
  const files = readdirSync(folder).filter((name) => name.endsWith('.test.ts'))
  return files.flatMap((file) => {
    const text = readFileSync(new URL(file, folder), 'utf8')
    const calls = text.matchAll(
      /\bit(?:\.each\((?:[^()]|\([^()]*\))*\))?\(\s*(['"`])((?:\\.|(?!\1)[^\\])*)\1/g,
    )
    const found = [...calls].map(([, , title = '']) => {
      const bracket = /^\[([^\]]*)\]/.exec(title)?.[1] ?? ''
      return { file, title, ids: bracket.split(', ').filter((id) => ID.test(id)) }
    })
    const count = [...text.matchAll(/^ *it\b/gm)].length
    if (found.length !== count)
      throw new Error(`${file} has ${count} tests, of which ${found.length} can be read.`)
    return found
  })
}
