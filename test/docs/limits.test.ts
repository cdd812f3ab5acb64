import { describe, expect, it } from 'vitest'
import { limits, rateLimits } from '../../src/job/limits.ts'
import { readPage, tableUnder } from './markdown.ts'

describe('docs/http-api.md', () => {
  it('lists every limit of the code with its value, and no other', () => {
    const listed = tableUnder(readPage('docs/http-api.md'), 'Limits').map(([name, value]) => [
      name,
      Number(value?.replaceAll(',', '')),
    ])
    expect(Object.fromEntries(listed)).toEqual(flatten(limits))
  })

  it('lists every rate of the code, and no other', () => {
    const number = (text = ''): number | undefined =>
      text === '' ? undefined : Number(text.replaceAll(',', ''))
    const listed = tableUnder(readPage('docs/http-api.md'), 'Rates').map(
      ([operation, requests, concurrent]) => [
        operation,
        { requests: number(requests), concurrent: number(concurrent) },
      ],
    )
    expect(Object.fromEntries(listed)).toEqual(rateLimits)
  })
})

/** `{ ttlMs: { min: 1 } }` as `{ 'ttlMs.min': 1 }`. */
function flatten(values: object): Record<string, unknown> {
  const entries = Object.entries(values).flatMap(([name, value]: [string, unknown]) =>
    typeof value === 'object' && value !== null
      ? Object.entries(value).map(([inner, bound]): [string, unknown] => [`${name}.${inner}`, bound])
      : [[name, value] satisfies [string, unknown]],
  )
  return Object.fromEntries(entries)
}
