import { describe, expect, it } from 'vitest'
import { fleetRules } from '../../src/fleet/rules/fleet-rules.ts'
import { readPage, tableUnder } from './markdown.ts'

describe('docs/fleet.md', () => {
  it('lists every constant of the code with its value and a reason, and no other', () => {
    const rows = tableUnder(readPage('docs/fleet.md'), 'The constants')
    const listed = rows.map(([name, value]) => [name, Number(value?.replaceAll(',', ''))])
    expect(Object.fromEntries(listed)).toEqual(fleetRules)
    expect(rows.filter(([, , reason = '']) => reason.length < 20)).toEqual([])
  })
})
