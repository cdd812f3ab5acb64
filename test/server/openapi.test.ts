import { Validator } from '@seriousme/openapi-schema-validator'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { limits } from '../../src/job/limits.ts'
import { Contract } from '../support/contract.ts'
import { startTestService, type TestService } from '../support/service.ts'

interface Parameter {
  name: string
  in: string
  schema: object
}

interface Document {
  openapi: string
  info: { version: string }
  paths: Record<string, Record<string, { summary: string; tags: string[]; parameters?: Parameter[] }>>
}

let service: TestService
let document: Document
beforeAll(async () => {
  service = await startTestService()
  document = (await service.http.inject({ url: '/openapi.json' })).json()
})
afterAll(() => service.close())

describe('/openapi.json', () => {
  it('is a valid document of OpenAPI 3.1, and needs no key', async () => {
    expect(document.openapi).toBe('3.1.0')
    expect(await new Validator().validate({ ...structuredClone(document) })).toEqual({ valid: true })
  })

  it('has every operation with a summary and a tag', () => {
    const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({ name: `${method} ${path}`, ...operation })),
    )
    expect(operations.filter(({ summary, tags }) => !summary || tags.length !== 1)).toEqual([])
    expect(operations.map(({ name }) => name)).toEqual(
      expect.arrayContaining([
        'post /v2/{endpointId}/run',
        'get /v2/{endpointId}/openai/{path}',
        'post /compat/v2/{endpointId}/status-sync/{id}',
        'post /v2/{endpointId}/exchange/{workerId}',
        'get /healthz',
      ]),
    )
  })

  it('has every operation of the hosted dialect in a part of its own', () => {
    const tagged = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.values(methods).map(({ tags }) => [path.startsWith('/compat/'), tags[0] === 'Compatible']),
    )
    expect(tagged.filter(([isThere, isTagged]) => isThere !== isTagged)).toEqual([])
  })

  it('tells the bounds that are enforced', () => {
    const { min: minimum, max: maximum } = limits.waitMs
    const wait = document.paths['/v2/{endpointId}/runsync']?.['post']?.parameters?.find(
      ({ name }) => name === 'wait',
    )
    expect(wait?.schema).toEqual({ type: 'integer', minimum, maximum })
  })

  it('judges replies: what it does not allow fails a test', () => {
    const contract = new Contract(document)
    const judge = (status: number, body: unknown, type = 'application/json'): string | undefined =>
      contract.problemOf({
        method: 'POST',
        url: '/v2/default/run?x=1',
        status,
        type,
        body: JSON.stringify(body),
      })
    expect(judge(200, { id: 'a', status: 'IN_QUEUE' })).toBeUndefined()
    expect(judge(400, { error: 'No.', code: 'X' })).toBeUndefined()
    expect(judge(200, { id: 'a' })).toMatch(/forbids/)
    expect(judge(200, { id: 'a', status: 'ODD' })).toMatch(/forbids/)
    expect(judge(200, { id: 'a', status: 'IN_QUEUE', more: 1 })).toMatch(/forbids/)
    expect(judge(400, { message: 'No.' })).toMatch(/forbids/)
    expect(judge(201, { id: 'a', status: 'IN_QUEUE' })).toMatch(/may not answer 201/)
    expect(judge(200, {}, 'text/html')).toMatch(/as 'text\/html'/)
  })
})

describe('/docs', () => {
  it('is a page that loads nothing from elsewhere, and needs no key', async () => {
    const page = await service.http.inject({ url: '/docs/' })
    expect(page.statusCode).toBe(200)
    const sources = [...page.body.matchAll(/(?:src|href)="([^"]+)"/g)].map((match) => match[1] ?? '')
    expect(sources.length).toBeGreaterThan(3)
    for (const source of sources) {
      expect(source).not.toMatch(/^(https?:)?\/\//)
      const { pathname } = new URL(source, 'http://here/docs/')
      expect([source, (await service.http.inject({ url: pathname })).statusCode]).toEqual([source, 200])
    }
    expect(page.headers['content-security-policy']).not.toMatch(/https:|upgrade-insecure/)
  })
})
