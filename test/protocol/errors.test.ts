import { describe, expect, it } from 'vitest'
import {
  jobFailures,
  Refusal,
  refusals,
  startFailures,
  type RefusalCode,
  type RefusalParams,
} from '../../src/protocol/errors.ts'

/** What each refusal is given where it is made. */
const samples: Record<RefusalCode, RefusalParams> = {
  FIELD_INVALID: {
    field: 'policy.ttl',
    problem: 'must be a whole number from 10000 to 604800000 ms, got 500',
  },
  BODY_NOT_JSON: { problem: 'it breaks off at byte 7 or so' },
  UNAUTHORIZED: { problem: 'The request has no key.' },
  ROUTE_NOT_FOUND: { method: 'GET', path: '/v2/default/runs' },
  ENDPOINT_NOT_FOUND: { endpoint: 'images' },
  JOB_NOT_FOUND: { endpoint: 'images', id: '7f3a' },
  WRONG_STATUS: { id: '7f3a', status: 'COMPLETED' },
  TTL_PASSED: { id: '7f3a' },
  IDEMPOTENCY_CONFLICT: { key: 'order-12', id: '7f3a' },
  TOO_MANY_REQUESTS: { operation: '/run', limit: 1000, per: 'in 10 s', retryAfter: 3 },
  BODY_TOO_LARGE: { bytes: 10_485_761, limit: 10_485_760, operation: '/v2/:endpointId/run' },
  REQUEST_INVALID: { problem: 'Content-Length does not match the body' },
  EXCHANGE_INVALID: { problem: 'its head is not JSON' },
  STORE_FULL: {},
  STORE_UNAVAILABLE: {},
  SECRET_KEY_MISSING: { field: 's3Config' },
  NO_POD_HOST: {},
  POD_IS_WORKER: { id: 'p1', endpoint: 'ep1' },
  POD_LOCKED: { id: 'p1' },
  POD_TERMINATED: { id: 'p1' },
  ENDPOINT_HALF_DELETED: { id: 'ep1' },
  POD_ELSEWHERE: { id: 'p1', host: 'h2' },
  RESOURCE_NOT_FOUND: { kind: 'template', id: 't1', path: 'templates' },
  NAME_TAKEN: { kind: 'template', name: 'one' },
  RESOURCE_IN_USE: { kind: 'template', id: 't1', users: "endpoint 'ep1'" },
  PODS_UNREACHABLE: { problem: 'The Docker engine does not answer. Start it.' },
  INTERNAL: { requestId: 'req-7' },
}

const codes = Object.keys(refusals) as RefusalCode[]

function expectGoodWords(text: string): void {
  expect(text).toMatch(/^\S.*[^.\s]\.$/s)
  expect(text).not.toMatch(/undefined|\[object|NaN|please|sorry|oops/i)
  expect(text).not.toMatch(/\binvalid\b/i)
  expect(text).not.toMatch(/ {2}|\n|\.\./)
}

describe('refusals', () => {
  it('have a sample here, each of them', () => {
    expect(Object.keys(samples).toSorted()).toEqual(codes.toSorted())
  })

  it.each(codes)('%s says what happened and ends with a full stop', (code) => {
    expectGoodWords(new Refusal(code, samples[code]).message)
  })

  it.each(codes)('%s shows every value that it is given', (code) => {
    const { message } = new Refusal(code, samples[code])
    for (const value of Object.values(samples[code])) expect(message).toContain(String(value))
  })

  it.each(codes)('%s tells the documents when it is answered', (code) => {
    expect(refusals[code].when).toMatch(/^[A-Z].*\.$/)
  })

  it.each(codes)('%s carries its code and its status', (code) => {
    const refusal = new Refusal(code, samples[code])
    expect(refusal).toBeInstanceOf(Error)
    expect(refusal).toMatchObject({ name: 'Refusal', code, status: refusals[code].status })
  })

  it('blame the caller with 4xx and the service with 5xx', () => {
    const statuses = Object.fromEntries(codes.map((code) => [code, refusals[code].status]))
    expect(statuses).toEqual({
      FIELD_INVALID: 400,
      BODY_NOT_JSON: 400,
      REQUEST_INVALID: 400,
      EXCHANGE_INVALID: 400,
      UNAUTHORIZED: 401,
      ROUTE_NOT_FOUND: 404,
      ENDPOINT_NOT_FOUND: 404,
      JOB_NOT_FOUND: 404,
      RESOURCE_NOT_FOUND: 404,
      NAME_TAKEN: 400,
      RESOURCE_IN_USE: 409,
      WRONG_STATUS: 409,
      TTL_PASSED: 409,
      IDEMPOTENCY_CONFLICT: 409,
      TOO_MANY_REQUESTS: 429,
      BODY_TOO_LARGE: 413,
      INTERNAL: 500,
      STORE_FULL: 503,
      STORE_UNAVAILABLE: 503,
      SECRET_KEY_MISSING: 503,
      PODS_UNREACHABLE: 503,
      NO_POD_HOST: 503,
      POD_IS_WORKER: 409,
      POD_LOCKED: 409,
      POD_TERMINATED: 409,
      ENDPOINT_HALF_DELETED: 409,
      POD_ELSEWHERE: 409,
    })
  })
})

describe('the codes of failed jobs and of workers that do not start', () => {
  it.each(Object.entries({ ...jobFailures, ...startFailures }))(
    '%s has a meaning in words',
    (code, meaning) => {
      expect(code).toMatch(/^[A-Z]+(_[A-Z]+)*$/)
      expect(meaning).toMatch(/^[A-Z]/)
      expectGoodWords(meaning)
    },
  )

  it('have no code in common with each other or with refusals', () => {
    const all = [...codes, ...Object.keys(jobFailures), ...Object.keys(startFailures)]
    expect(new Set(all).size).toBe(all.length)
  })
})
