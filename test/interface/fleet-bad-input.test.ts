// What does not fit of templates, endpoints, pods and registry auths, generated: every field in every wrong way.

import * as fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { limits } from '../../src/job/limits.ts'
import { endpointUpdateSchema, newEndpointSchema } from '../../src/resource/endpoint.ts'
import { fleetLimits } from '../../src/resource/fleet-limits.ts'
import { newPodSchema, podUpdateSchema } from '../../src/resource/pod.ts'
import { newRegistryAuthSchema } from '../../src/resource/registry-auth.ts'
import { newTemplateSchema, templateUpdateSchema } from '../../src/resource/template.ts'
import { FakePlace } from '../support/fake-place.ts'
import { openRig, type Json, type Rig } from '../support/interface-rig.ts'

const place = new FakePlace()
/** Ids of what is there, by the words that stand for them below. */
const there = new Map<string, string>()
let rig: Rig
beforeAll(async () => {
  rig = await openRig({ fleet: { place } })
  there.set('TEMPLATE', (await rig.resource('POST', '/templates', { name: unique(), imageName: 'x' })).id)
  const { id: templateId } = await rig.resource('POST', '/templates', { name: unique(), imageName: 'x' })
  const { id: endpointId } = await rig.resource('POST', '/endpoints', { templateId })
  there.set('ENDPOINT', endpointId)
  there.set('POD', (await rig.resource('POST', '/pods', { imageName: 'x' })).id)
})
afterAll(() => rig.service.close())

/** Values that a field must refuse, and some that it must take. */
interface Kind {
  bad: unknown[]
  good: unknown[]
}

const noText = [null, 0, true, [], {}, ['x']]
const text = (max: number, { min = 1 } = {}): Kind => ({
  bad: [...noText, ...(min > 0 ? [''] : []), 'x'.repeat(max + 1)],
  good: ['x'.repeat(min), 'x'.repeat(max)],
})
const shownText = (max: number): Kind => ({
  bad: [...text(max).bad, 'a\u0000', 'a\nb', '\u001b[31m', '\u2028'],
  good: text(max).good,
})
const id: Kind = { bad: [...noText, '', 'a b', 'x'.repeat(65), '../x', 'nobody'], good: [] }
const boolean: Kind = { bad: [null, 0, 1, '', 'true', [], {}], good: [true, false] }
const wholeNumber = ({ min, max }: { min: number; max: number }): Kind => ({
  bad: [null, true, '', String(min), [], {}, [min], min - 1, max + 1, min + 0.5, 1e300, -1e300],
  good: [min, max],
})
const share = (min: number, max: number): Kind => ({
  bad: [null, true, '', '1', [], {}, 0, -1, min / 2, max + 1, 1e300],
  good: [min, 0.5, max],
})
const words: Kind = {
  bad: [
    null,
    'sh -c',
    {},
    [1],
    [null],
    [['x']],
    ['a\u0000'],
    ['x'.repeat(fleetLimits.wordChars + 1)],
    Array.from({ length: fleetLimits.words + 1 }, () => 'x'),
  ],
  good: [[], ['', ' ', '$HOME', '; rm'], Array.from({ length: fleetLimits.words }, () => 'x')],
}
const env: Kind = {
  bad: [
    null,
    'A=1',
    [],
    ['A=1'],
    { '': 'x' },
    { '1A': 'x' },
    { 'A B': 'x' },
    { 'A=': 'x' },
    { 'A-B': 'x' },
    { A: 1 },
    { A: null },
    { A: ['x'] },
    { A: 'a\u0000' },
    Object.fromEntries(Array.from({ length: fleetLimits.envVariables + 1 }, (_, n) => [`A${n}`, ''])),
    { A: 'x'.repeat(fleetLimits.envBytes) },
  ],
  good: [{}, { A: '', _a1: '=ü\n' }, { A: 'x'.repeat(fleetLimits.envBytes - 2) }],
}
const ports: Kind = {
  bad: [
    null,
    '80/http',
    {},
    [80],
    ['80'],
    ['80/'],
    ['/http'],
    ['80/udp'],
    ['80/HTTP'],
    ['080/http'],
    ['00001/tcp'],
    ['0/http'],
    ['65536/tcp'],
    ['-1/tcp'],
    ['1e3/tcp'],
    [' 80/tcp'],
    ['80/tcp '],
    ['80-90/tcp'],
    ['80/tcp', '80/http'],
    Array.from({ length: fleetLimits.ports + 1 }, (_, n) => `${n + 1}/tcp`),
  ],
  good: [[], ['1/tcp', '65535/http'], Array.from({ length: fleetLimits.ports }, (_, n) => `${n + 1}/tcp`)],
}
const mountPath: Kind = {
  bad: [
    ...noText,
    '',
    'work',
    './work',
    '/a/../b',
    '/..',
    '/a:b',
    '/',
    '//',
    '/./',
    '/a\nb',
    '/a\u001b',
    '/a\u0000',
    `/${'x'.repeat(fleetLimits.wordChars)}`,
  ],
  good: ['/a', '/work space', '/a/..b'],
}
const image: Kind = {
  bad: [
    ...noText,
    '',
    'a b',
    'a\n',
    ' a',
    'a\u0000',
    'x'.repeat(fleetLimits.wordChars + 1),
    '../../containers/json',
    '../../127.0.0.1:18599/secret',
    'a/../b',
    '/a',
    'a/',
    'a//b',
    'a?b',
    'a#b',
    'a%2fb',
    'UPPER/case',
    'UPPER',
    'upper/Case',
    'a:::x',
    'a:',
    'a@sha256:1',
    'http://a/b',
    'FILE:/a.ts',
    'File:a.ts',
    'file:',
    'file:a b',
    'a\u001b[31m',
    'file:/a\u001b[31m',
    'file:/a\u0000',
    'a'.repeat(256),
    '-a',
    'a.',
    'host:x/a',
    '[::1/a',
  ],
  good: [
    'image',
    'localhost:5000/a/b:1',
    'file:./handler.ts',
    'Registry.example.com/a_b/c__d-e:V1.0_x-',
    'h:1/a',
    '[::1]:5000/a',
    `ghcr.io/owner/image@sha256:${'0a'.repeat(32)}`,
    `a:1@sha256:${'0a'.repeat(32)}`,
    'a'.repeat(255),
    'file:///a/b.ts',
  ],
}
const choice = (...good: string[]): Kind => ({ bad: [...noText, '', 'else', good[0]?.toLowerCase()], good })

const container: Record<string, Kind> = {
  containerDiskInGb: wholeNumber(fleetLimits.gigabytes),
  containerRegistryAuthId: id,
  dockerEntrypoint: words,
  dockerStartCmd: words,
  env,
  ports,
  volumeInGb: wholeNumber(fleetLimits.gigabytes),
  volumeMountPath: mountPath,
}
const template: Record<string, Kind> = {
  ...container,
  imageName: image,
  // Whatever is taken is taken once: names are unique.
  name: { ...shownText(fleetLimits.nameChars), good: [] },
  isPublic: boolean,
  readme: text(fleetLimits.readmeChars, { min: 0 }),
}
const templateUpdate: Record<string, Kind> = {
  ...template,
  containerRegistryAuthId: { ...id, bad: id.bad.filter((value) => value !== null && value !== '') },
}
const endpoint: Record<string, Kind> = {
  name: shownText(fleetLimits.nameChars),
  templateId: id,
  // Each beside the default of the other.
  workersMin: { ...wholeNumber(fleetLimits.workers), good: [3, 0] },
  workersMax: wholeNumber(fleetLimits.workers),
  idleTimeout: wholeNumber(fleetLimits.idleTimeoutSeconds),
  scalerType: choice('QUEUE_DELAY', 'REQUEST_COUNT'),
  scalerValue: wholeNumber(fleetLimits.scalerValue),
  executionTimeoutMs: wholeNumber(limits.executionTimeoutMs),
  env,
}

interface Operation {
  method: 'POST' | 'PATCH'
  path: string
  /** What it needs beside the field. */
  base: Json
  fields: Record<string, Kind>
  required: string[]
  schema: { shape: object }
}

const operations: Operation[] = [
  {
    method: 'POST',
    path: '/templates',
    base: { name: 'NAME', imageName: 'image:1' },
    fields: { ...template, category: choice('NVIDIA', 'AMD', 'CPU'), isServerless: boolean },
    required: ['name', 'imageName'],
    schema: newTemplateSchema,
  },
  ...(['POST /templates/TEMPLATE/update', 'PATCH /templates/TEMPLATE'] as const).map((both) =>
    update(both, templateUpdate, templateUpdateSchema),
  ),
  {
    method: 'POST',
    path: '/endpoints',
    base: { templateId: 'TEMPLATE' },
    fields: endpoint,
    required: ['templateId'],
    schema: newEndpointSchema,
  },
  ...(['POST /endpoints/ENDPOINT/update', 'PATCH /endpoints/ENDPOINT'] as const).map((both) =>
    update(both, endpoint, endpointUpdateSchema),
  ),
  {
    method: 'POST',
    path: '/pods',
    base: { imageName: 'image:1' },
    fields: {
      ...container,
      name: shownText(fleetLimits.nameChars),
      imageName: image,
      templateId: id,
      interruptible: boolean,
      locked: boolean,
      vcpuCount: share(0.01, 8),
      memoryInGb: share(0.01, 16),
    },
    required: ['imageName'],
    schema: newPodSchema,
  },
  ...(['POST /pods/POD/update', 'PATCH /pods/POD'] as const).map((both) =>
    update(both, { name: shownText(fleetLimits.nameChars), locked: boolean }, podUpdateSchema),
  ),
  {
    method: 'POST',
    path: '/containerregistryauth',
    base: { name: 'NAME', username: 'u', password: 'p' },
    fields: {
      name: { ...shownText(fleetLimits.nameChars), good: [] },
      username: text(256),
      password: text(4_096),
    },
    required: ['name', 'username', 'password'],
    schema: newRegistryAuthSchema,
  },
]

function update(both: string, fields: Record<string, Kind>, schema: Operation['schema']): Operation {
  const [method = '', path = ''] = both.split(' ')
  return { method: method as 'POST' | 'PATCH', path, base: {}, fields, required: [], schema }
}

let count = 0
const unique = (): string => `n${(count += 1)}`
const filled = (value: string): string =>
  value.replace(/[A-Z]{3,}/, (word) => (word === 'NAME' ? unique() : (there.get(word) ?? word)))

function bodyOf({ base }: Operation, more: Json): Json {
  const own = Object.entries(base).map(([name, value]) => [name, filled(String(value))])
  return { ...Object.fromEntries(own), ...more }
}

const short = (value: unknown): string => JSON.stringify(value)?.slice(0, 60) ?? 'nothing'

for (const operation of operations) {
  const { method, path, fields, required, schema } = operation
  const send = (body: unknown): ReturnType<Rig['rest']> => rig.rest(method, filled(path), body)

  describe(`${method} /v1${path}`, () => {
    it('[ERR-1] has each field of its schema in the table of this test', () => {
      expect(Object.keys(fields).toSorted()).toEqual(Object.keys(schema.shape).toSorted())
    })

    it('[FLT-4, ERR-1, ERR-12] names a field that is missing, of another type or out of its bounds', async () => {
      for (const [field, { bad }] of Object.entries(fields)) {
        for (const value of [...bad, ...(required.includes(field) ? [undefined] : [])]) {
          const reply = await send(bodyOf(operation, { [field]: value }))
          expect([short(value), reply.statusCode, reply.json()]).toEqual([
            short(value),
            400,
            { error: expect.stringMatching(/\.$/s), code: 'FIELD_INVALID' },
          ])
          expect(reply.json().error.split(/[ .]/, 1)[0]).toBe(field)
          expect(reply.body.length).toBeLessThan(600)
        }
      }
    })

    it('[FLT-4, ERR-1] takes each field at both ends of its bounds', async () => {
      for (const [field, { good }] of Object.entries(fields)) {
        for (const value of good) {
          const reply = await send(bodyOf(operation, { [field]: value }))
          expect([field, short(value), reply.statusCode < 300, reply.json()[field] ?? value]).toEqual([
            field,
            short(value),
            true,
            field === 'imageName' || field === 'password' ? expect.anything() : value,
          ])
        }
      }
    })

    it.each(['', 'null', '[]', '1', '"{}"', '{', '{"name":', '{"a":NaN}', '\ufeff{}'])(
      '[FLT-4, ERR-1, ERR-12] refuses a body that is no object: %s',
      async (body) => {
        const reply = await send(body)
        expect([reply.statusCode, ['FIELD_INVALID', 'BODY_NOT_JSON']]).toEqual([
          400,
          expect.arrayContaining([reply.json().code]),
        ])
      },
    )

    it('[FLT-4, ERR-1] refuses a field that there is not, however it is called', async () => {
      for (const name of ['nmae', 'NAME', 'constructor', 'toString', '', 'x'.repeat(10_000)]) {
        const reply = await send(bodyOf(operation, { [name]: 'x' }))
        expect([name, reply.statusCode, reply.json().code]).toEqual([name, 400, 'FIELD_INVALID'])
        expect(reply.json().error).toContain(name.slice(0, 60))
        expect(reply.body.length).toBeLessThan(300)
      }
    })
  })
}

describe('what may be a secret', () => {
  it('[FLT-4] is repeated in no answer and no log, whatever is wrong with it', async () => {
    const secret = 'SECRET-VALUE'
    for (const [path, body] of [
      ['/templates', { name: 'x', imageName: 'x', env: { A: `${secret}\u0000` } }],
      ['/templates', { name: 'x', imageName: 'x', env: { A: [secret] } }],
      ['/templates', { name: 'x', imageName: 'x', env: secret }],
      ['/templates', { name: 'x', imageName: 'x', dockerStartCmd: [`${secret}\u0000`] }],
      ['/pods', { imageName: 'x', dockerEntrypoint: secret }],
      ['/pods', { imageName: 'x', env: { A: `${secret}\u0000` } }],
      ['/containerregistryauth', { name: 'x', username: 'u', password: [secret] }],
      ['/containerregistryauth', { name: 'x', username: secret.padEnd(300), password: 'p' }],
      ['/containerregistryauth', { name: 'x', username: [secret], password: 'p' }],
      ['/containerregistryauth', { name: 'x', username: 'u', password: secret.padEnd(5_000) }],
    ] as const) {
      const reply = await rig.rest('POST', path, body)
      expect([path, reply.statusCode]).toEqual([path, 400])
      expect(reply.body).not.toContain(secret)
    }
    const number = await rig.rest('POST', '/containerregistryauth', {
      name: 'x',
      username: 12_345_678,
      password: 87_654_321,
    })
    expect(number.json()).toEqual({ code: 'FIELD_INVALID', error: 'username must be a string.' })
    expect(rig.service.logged.join('')).not.toMatch(/SECRET-VALUE|12345678|87654321/)
  })
})

describe('bytes at random', () => {
  it('[FLT-4, ERR-1] never make a fault of the service', async () => {
    const resources = ['templates', 'endpoints', 'pods', 'containerregistryauth']
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...resources), fc.json(), async (name, body) => {
        expect((await rig.rest('POST', `/${name}`, body)).statusCode).toBe(400)
      }),
      { numRuns: 60 },
    )
  })
})
