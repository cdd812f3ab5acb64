import { Validator } from '@seriousme/openapi-schema-validator'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { limits } from '../../src/job/limits.ts'
import { Contract } from '../support/contract.ts'
import { FakePlace } from '../support/fake-place.ts'
import { KEY, startTestService, type TestService } from '../support/service.ts'

interface Parameter {
  name: string
  in: string
  schema: object
}

interface Schema {
  type?: string
  anyOf?: Schema[]
  items?: Schema
  enum?: string[]
  const?: unknown
  default?: unknown
  description?: string
  pattern?: string
  maxLength?: number
  minimum?: number
  maximum?: number
  maxItems?: number
  maxProperties?: number
  propertyNames?: Schema
  properties?: Record<string, Schema>
}

interface Operation {
  summary: string
  tags: string[]
  parameters?: Parameter[]
  requestBody?: { content: Record<string, { schema: Schema }> }
}

interface Document {
  openapi: string
  info: { version: string }
  paths: Record<string, Record<string, Operation>>
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

  it('is the same whatever the service is told to be', async () => {
    const other = await startTestService({
      hasRateLimits: true,
      secret: null,
      requestsPerWorker: 7,
      leaseMs: 9_000,
    })
    onTestFinished(() => other.close())
    expect((await other.http.inject({ url: '/openapi.json' })).json()).toEqual(document)
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

describe('/openapi.json of the fleet', () => {
  /** What there is to send under /v1, by its route. */
  const bodies = (): [route: string, properties: Record<string, Schema>][] =>
    Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).flatMap(([method, { requestBody }]): [string, Record<string, Schema>][] => {
        const properties = requestBody?.content['application/json']?.schema.properties
        return path.startsWith('/v1/') && properties ? [[`${method} ${path}`, properties]] : []
      }),
    )
  const bodyOf = (route: string): Record<string, Schema> => new Map(bodies()).get(route) ?? {}

  it('tells a bound of every field', () => {
    const isBound = (schema: Schema): boolean => {
      const { type, anyOf, items } = schema
      if (anyOf) return anyOf.every(isBound)
      if (schema.enum ?? schema.const !== undefined) return true
      if (type === 'string') return schema.pattern !== undefined || schema.maxLength !== undefined
      if (type === 'integer' || type === 'number')
        return schema.minimum !== undefined && schema.maximum !== undefined
      if (type === 'array') return schema.maxItems !== undefined && items !== undefined && isBound(items)
      if (type === 'object') return schema.maxProperties !== undefined && schema.propertyNames !== undefined
      return type === 'boolean' || type === 'null'
    }
    const fields = bodies().flatMap(([route, properties]) =>
      Object.entries(properties).map(([field, schema]) => ({ name: `${route} ${field}`, schema })),
    )
    expect(fields.length).toBeGreaterThan(70)
    expect(fields.filter(({ schema }) => !isBound(schema))).toEqual([])
  })

  it('tells the default of every field that has one, as a record has it', async () => {
    const other = await startTestService({ fleet: { place: new FakePlace() } })
    onTestFinished(() => other.close())
    const make = async (path: string, payload: object): Promise<Record<string, unknown>> => {
      const headers = { authorization: `Bearer ${KEY}` }
      const reply = await other.http.inject({ method: 'POST', url: path, headers, payload })
      expect(reply.statusCode).toBe(201)
      return reply.json()
    }
    const template = await make('/v1/templates', { name: 'a', imageName: 'image:1' })
    const made: [path: string, record: Record<string, unknown>, without: string[]][] = [
      ['/v1/templates', template, ['containerRegistryAuthId', 'imageName', 'name']],
      ['/v1/endpoints', await make('/v1/endpoints', { templateId: template['id'] }), ['name', 'templateId']],
      [
        '/v1/pods',
        await make('/v1/pods', { imageName: 'image:1' }),
        ['containerRegistryAuthId', 'imageName', 'memoryInGb', 'templateId', 'vcpuCount'],
      ],
    ]
    for (const [path, record, without] of made) {
      const properties = Object.entries(bodyOf(`post ${path}`))
      const told = properties.filter(([, schema]) => schema.default !== undefined)
      expect(told).toEqual(
        told.map(([field]) => [field, expect.objectContaining({ default: record[field] })]),
      )
      const others = properties.filter(([, schema]) => schema.default === undefined)
      expect(others.map(([field]) => field).toSorted()).toEqual(without)
    }
  })

  it('tells no default of an update, which leaves as it is what is not given', () => {
    const updates = bodies().filter(([route]) => route.endsWith('/update') || route.startsWith('patch'))
    expect(updates.length).toBe(6)
    const told = updates.flatMap(([, properties]) =>
      Object.entries(properties).filter(([, schema]) => schema.default !== undefined),
    )
    expect(told).toEqual([])
  })

  it('tells what a switch in a query means that is not there', () => {
    const switches = Object.entries(document.paths).flatMap(([path, { get }]) =>
      (path.startsWith('/v1/') ? (get?.parameters ?? []) : [])
        .filter(({ schema }) => (schema as Schema).type === 'boolean')
        .map(({ name, schema }) => [name, (schema as Schema).default]),
    )
    expect(switches.length).toBeGreaterThan(15)
    const meant = new Map(switches.map(([name, value]) => [name, value]))
    expect(switches.filter(([, value]) => value !== false)).toEqual([['includeEndpointBoundTemplates', true]])
    expect(meant.get('follow')).toBe(false)
  })

  it.each([
    ['ports', ['1/http', '9999/tcp', '65535/http'], ['0/http', '65536/tcp', '080/http', '80/udp', '80']],
    [
      'imageName',
      ['a:1', 'ghcr.io/a/b:1', 'file:/a/ü.ts'],
      ['', 'A', 'a:1?x', 'file:', 'file:/a b', 'file:/a\n'],
    ],
    ['env', ['A', '_a1'], ['', '1A', 'A-B']],
  ])('has a pattern for %s that takes what is taken', (field, good, bad) => {
    const schema = bodyOf('post /v1/pods')[field]
    const { pattern = '^$a' } = schema?.items ?? schema?.propertyNames ?? schema ?? {}
    const isTaken = (text: string): boolean => new RegExp(pattern, 'u').test(text)
    expect(good.filter((text) => !isTaken(text))).toEqual([])
    expect(bad.filter(isTaken)).toEqual([])
  })

  it('says in words what a schema cannot', () => {
    const { env, ports, imageName, volumeMountPath } = bodyOf('post /v1/templates')
    expect(env?.description).toContain('128000 bytes')
    expect(ports?.description).toContain('Each port once')
    expect(imageName?.description).toContain('255 characters')
    expect(volumeMountPath?.description).toContain('not the root')
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
