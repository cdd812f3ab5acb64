import { describe, expect, it } from 'vitest'
import { transitions } from '../../src/job/lifecycle.ts'
import { readPage, tableUnder } from './markdown.ts'

describe('docs/job-lifecycle.md', () => {
  it('has the transitions of the code row for row, and no other', () => {
    const rows = Object.entries(transitions).map(([event, transition]) => [
      event,
      transition.from.join(', '),
      transition.to,
      'fenced' in transition ? 'yes' : 'no',
      'reason' in transition ? transition.reason : '–',
    ])
    expect(tableUnder(readPage('docs/job-lifecycle.md'), "A job's life")).toEqual(rows)
  })
})
