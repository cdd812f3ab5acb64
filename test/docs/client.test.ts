import { describe, expect, it } from 'vitest'
import * as entry from '../../src/client/client.ts'
import { readPage, tableUnder } from './markdown.ts'

const page = readPage('docs/client.md')

describe('docs/client.md', () => {
  it('lists every call of the client, and no other', () => {
    const listed = tableUnder(page, 'What it does').map(([call = '']) => call.replace(/\(.*/, ''))
    const methods = Object.getOwnPropertyNames(entry.Client.prototype).filter(
      (name) => !['constructor', 'close'].includes(name),
    )
    expect(listed.toSorted()).toEqual([...methods, 'outputOf'].toSorted())
  })

  it('lists every error that the entry exports, and no other', () => {
    const errors = Object.keys(entry).filter((name) => name.endsWith('Error'))
    const listed = tableUnder(page, 'Errors').map(([name]) => name)
    expect(new Set(listed)).toEqual(new Set(errors))
  })
})
