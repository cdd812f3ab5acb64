import { describe, expect, it } from 'vitest'
import { jobFailures, refusals, startFailures } from '../../src/protocol/errors.ts'
import type { StoreError } from '../../src/store/store-error.ts'
import { s3Failures } from '../../src/s3/s3-error.ts'
import { readPage, tableUnder } from './markdown.ts'

const page = readPage('docs/errors.md')

/** Every code of a StoreError, which the compiler checks; `start` tells those that keep the service from starting. */
const storeCodes = {
  STORE_FULL: 'running',
  STORE_UNAVAILABLE: 'running',
  STORE_IN_USE: 'start',
  STORE_TOO_NEW: 'start',
  STORE_UNREADABLE: 'start',
  STORE_MISCONFIGURED: 'start',
} as const satisfies Record<StoreError['code'], 'start' | 'running'>

describe('docs/errors.md', () => {
  it('lists every refusal with its status and when it is answered, and no other', () => {
    const catalogue = Object.entries(refusals).map(([code, { status, when }]) => [code, String(status), when])
    expect(tableUnder(page, 'Refusals')).toEqual(catalogue)
  })

  it('lists every job failure with its meaning, and no other', () => {
    expect(tableUnder(page, 'Job failures')).toEqual(Object.entries(jobFailures))
  })

  it('lists every start failure with its meaning, and no other', () => {
    expect(tableUnder(page, 'Start failures')).toEqual(Object.entries(startFailures))
  })

  it('lists every failure of files and buckets with its meaning, and no other', () => {
    expect(tableUnder(page, 'Files and buckets')).toEqual(Object.entries(s3Failures))
  })

  it('lists every store error that keeps the service from starting, and no other', () => {
    const atStart = Object.entries(storeCodes).filter(([, kind]) => kind === 'start')
    const listed = tableUnder(page, 'Store errors').map(([code]) => code)
    expect(listed).toEqual(atStart.map(([code]) => code))
  })

  it('has a refusal for every store error that a running service can meet', () => {
    const running = Object.entries(storeCodes).filter(([, kind]) => kind === 'running')
    for (const [code] of running) expect(refusals).toHaveProperty(code)
  })
})
