import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { hashKey } from '../../src/resource/key-text.ts'
import { FakePlace, workerRecord } from '../support/fake-place.ts'
import { openRig, startRig, turns, type Json, type Reply, type Rig } from '../support/interface-rig.ts'
import { KEY } from '../support/service.ts'

const place = new FakePlace()
let rig: Rig
beforeAll(async () => {
  rig = await openRig({ fleet: { place, wake: place.wake } })
})
afterAll(() => rig.service.close())

type Resource = Json & { id: string }

let count = 0
const unique = (): string => `n${(count += 1)}`

const template = (more: Json = {}): Promise<Resource> =>
  rig.resource('POST', '/templates', { name: unique(), imageName: 'image:1', ...more })

const endpoint = async (more: Json = {}): Promise<Resource> =>
  rig.resource('POST', '/endpoints', { templateId: (await template()).id, ...more })

const releases = async (id: string): Promise<Json[]> =>
  (await rig.rest('GET', `/endpoints/${id}/releases`)).json()

async function refusal(...asked: Parameters<Rig['rest']>): Promise<[number, string, string]> {
  const reply = await rig.rest(...asked)
  const { code, error } = reply.json<{ code: string; error: string }>()
  return [reply.statusCode, code, error]
}

const idsOf = async (path: string): Promise<string[]> =>
  (await rig.rest('GET', path)).json<Resource[]>().map(({ id }) => id)

const run = async (id: string): Promise<number> =>
  (
    await rig.service.http.inject({
      method: 'POST',
      url: `/v2/${id}/run`,
      headers: { authorization: KEY },
      payload: '{"input":{}}',
    })
  ).statusCode

describe('a template', () => {
  it('[SVC-6, FLT-2, TPL-1, TPL-2, TPL-3, TPL-4, TPL-5, TPL-7, TPL-8, TPL-9, TPL-10, TPL-11, TPL-12, TPL-13, TPL-14, TPL-15, TPL-16, TPL-17, TPL-18, TPL-19, TPL-20] that was made with a name and an image alone has each of its fields, and no other', async () => {
    const name = unique()
    const reply = await rig.rest('POST', '/templates', { name, imageName: 'image:1' })
    expect([reply.statusCode, reply.json()]).toEqual([
      201,
      {
        id: expect.stringMatching(/^[a-z][0-9a-z]{13}$/),
        name,
        imageName: 'image:1',
        category: 'CPU',
        containerDiskInGb: 50,
        dockerEntrypoint: [],
        dockerStartCmd: [],
        earned: 0,
        env: {},
        isPublic: false,
        isVendor: false,
        isServerless: false,
        ports: [],
        readme: '',
        runtimeInMin: 0,
        volumeInGb: 20,
        volumeMountPath: '/workspace',
      },
    ])
    expect(await rig.resource('GET', `/templates/${reply.json().id}`)).toEqual(reply.json())
  })

  it('[TPL-4, TPL-5, TPL-6, TPL-7, TPL-8, TPL-10, TPL-11, TPL-13, TPL-14, TPL-15, TPL-17, TPL-18] has what it was given', async () => {
    const auth = await rig.resource('POST', '/containerregistryauth', {
      name: unique(),
      username: 'u',
      password: 'p',
    })
    for (const category of ['NVIDIA', 'AMD', 'CPU']) {
      const given = {
        category,
        containerDiskInGb: 3,
        containerRegistryAuthId: auth.id,
        dockerEntrypoint: ['/bin/sh', '-c'],
        dockerStartCmd: ['echo', ''],
        env: { A: '', _b1: 'ü' },
        isPublic: true,
        isServerless: true,
        ports: ['1/tcp', '65535/http'],
        readme: '# Read me\n',
        volumeInGb: 0,
        volumeMountPath: '/data',
      }
      expect(await template(given)).toMatchObject(given)
    }
  })

  it('[TPL-2, FLT-6, ERR-1] has a name that no other has, also after an update', async () => {
    const [first, second] = [await template(), await template()]
    const name = first['name']
    for (const [method, path, body] of [
      ['POST', '/templates', { name, imageName: 'x' }],
      ['POST', `/templates/${second.id}/update`, { name }],
    ] as const) {
      const [status, code, error] = await refusal(method, path, body)
      expect([status, code, error.split(' ', 1)[0]]).toEqual([400, 'NAME_TAKEN', 'name'])
    }
    expect(await rig.resource('PATCH', `/templates/${first.id}`, { name })).toEqual(first)
  })

  it('[FLT-5, ERR-20] that an endpoint uses is not deleted, and the answer names the endpoint', async () => {
    const used = await template()
    const { id } = await endpoint({ templateId: used.id })
    const [status, code, error] = await refusal('DELETE', `/templates/${used.id}`)
    expect([status, code]).toEqual([409, 'RESOURCE_IN_USE'])
    expect(error).toContain(`endpoint '${id}'`)
    await rig.rest('DELETE', `/endpoints/${id}`)
    expect((await rig.rest('DELETE', `/templates/${used.id}`)).statusCode).toBe(204)
  })

  it('[FLT-5] is either deleted or used, whoever asks for both at once', async () => {
    const { fleet } = rig.service.store
    const bound = await endpoint()
    const askers = [
      (templateId: string) => rig.rest('POST', '/endpoints', { templateId }),
      (templateId: string) => rig.rest('PATCH', `/endpoints/${bound.id}`, { templateId, idleTimeout: 7 }),
    ]
    for (let n = 0; n < 40; n += 1) {
      const { id } = await template()
      const before = (await fleet.endpoints.find(bound.id))?.value
      const ask = (): Promise<Reply> => askers[n % 2]!(id)
      const remove = async (): Promise<Reply> => {
        await turns(n % 5)
        return rig.rest('DELETE', `/templates/${id}`)
      }
      const [made, removed] = await Promise.all([ask(), remove()])
      expect([200, 201, 400]).toContain(made.statusCode)
      expect([204, 409]).toContain(removed.statusCode)
      expect(removed.statusCode === 204 && made.statusCode < 300).toBe(false)
      const after = (await fleet.endpoints.find(bound.id))?.value
      if (made.statusCode === 400) expect(after).toEqual(before)
      const used = (await fleet.endpoints.list()).map(({ value }) => value.templateId)
      expect(used.includes(id)).toBe(made.statusCode < 300)
      expect((await fleet.templates.find(id)) !== undefined).toBe(removed.statusCode === 409)
    }
  })

  it('[FLT-5] can be deleted again once whoever deleted it before has died', async () => {
    const { id } = await template()
    const { fleet } = rig.service.store
    const now = rig.clock.now()
    await fleet.hold(`delete-template:${id}`, { holder: 'dead', forMs: 10_000, now })
    expect((await refusal('DELETE', `/templates/${id}`)).slice(0, 2)).toEqual([409, 'RESOURCE_IN_USE'])
    await fleet.hold(`delete-template:${id}`, { holder: 'dead', forMs: 0, now })
    expect((await rig.rest('DELETE', `/templates/${id}`)).statusCode).toBe(204)
  })

  it.each([null, ''])('[UPT-23] has its registry auth taken off by %j', async (none) => {
    const body = { name: unique(), username: 'u', password: 'p' }
    const auth = (await rig.resource('POST', '/containerregistryauth', body)).id
    const { id } = await template({ containerRegistryAuthId: auth })
    const bound = await endpoint({ templateId: id })
    const path = `/templates/${id}`
    expect(await rig.resource('PATCH', path, { readme: 'x' })).toMatchObject({
      containerRegistryAuthId: auth,
    })
    const updated = await rig.resource('POST', `${path}/update`, { containerRegistryAuthId: none })
    expect(updated).not.toHaveProperty('containerRegistryAuthId')
    expect(await rig.resource('GET', path)).toEqual(updated)
    expect((await releases(bound.id))[0]).toMatchObject({ version: 3, state: 'ROLLING', template: updated })
  })

  it('[FLT-1, FLT-7, TPL-21] is listed whatever it is marked as; those of endpoints can be left out', async () => {
    const free = await template({ isPublic: true, isServerless: true })
    const bound = await template()
    await endpoint({ templateId: bound.id })
    const flags = ['includePublicTemplates', 'includeVendorTemplates', 'includeEndpointBoundTemplates']
    for (const query of ['', ...flags.map((flag) => `?${flag}=true`), `?${flags[0]}=false`]) {
      const listed = await idsOf(`/templates${query}`)
      expect(listed).toEqual(expect.arrayContaining([free.id, bound.id]))
      expect(listed).toEqual(listed.toSorted())
    }
    const unbound = await idsOf('/templates?includeEndpointBoundTemplates=false')
    expect([unbound.includes(free.id), unbound.includes(bound.id)]).toEqual([true, false])
    for (const flag of flags) {
      const [status, , error] = await refusal('GET', `/templates?${flag}=no`)
      expect([status, error.split(' ', 1)[0]]).toEqual([400, flag])
    }
    expect(await rig.resource('POST', '/pods', { templateId: free.id })).toMatchObject({
      templateId: free.id,
    })
  })
})

describe('POST /v1/templates/{templateId}/update', () => {
  it('[UPT-1, UPT-2, UPT-4, UPT-5, UPT-6, UPT-7, UPT-8, UPT-9, UPT-10, UPT-11, UPT-12, UPT-13, UPT-14, UPT-15, UPT-16, UPT-17, SVC-8] changes each field that is given, leaves the others, and answers the template', async () => {
    const auth = await rig.resource('POST', '/containerregistryauth', {
      name: unique(),
      username: 'u',
      password: 'p',
    })
    const fields: Json = {
      containerDiskInGb: 5,
      containerRegistryAuthId: auth.id,
      dockerEntrypoint: ['a'],
      dockerStartCmd: ['b'],
      env: { A: '1' },
      imageName: 'image:2',
      isPublic: true,
      name: unique(),
      ports: ['80/http'],
      readme: 'text',
      volumeInGb: 1,
      volumeMountPath: '/v',
    }
    let before: Json = await template()
    const path = `/templates/${String(before['id'])}`
    for (const [field, value] of Object.entries(fields)) {
      const reply = await rig.rest('POST', `${path}/update`, { [field]: value })
      expect([field, reply.statusCode, reply.json()]).toEqual([field, 200, { ...before, [field]: value }])
      before = reply.json()
    }
    const emptied = { dockerEntrypoint: [], dockerStartCmd: [], env: {}, ports: [], readme: '' }
    expect(await rig.resource('PATCH', path, emptied)).toEqual({ ...before, ...emptied })
    expect(await rig.resource('POST', `${path}/update`, {})).toEqual({ ...before, ...emptied })
    expect(await rig.resource('GET', path)).toEqual({ ...before, ...emptied })
  })

  it('[UPT-18] replaces the environment whole', async () => {
    const { id } = await template({ env: { A: '1', B: '2' } })
    expect(await rig.resource('POST', `/templates/${id}/update`, { env: { C: '3' } })).toMatchObject({
      env: { C: '3' },
    })
    expect((await rig.resource('GET', `/templates/${id}`))['env']).toEqual({ C: '3' })
  })

  it('[UPT-3, UPT-19, UPT-21, SVC-8, EPT-5] releases it to every endpoint that uses it, and tells whoever rolls it out', async () => {
    const { id: templateId } = await template()
    const [one, two, other] = [
      await endpoint({ templateId }),
      await endpoint({ templateId }),
      await endpoint(),
    ]
    place.woken.length = 0
    await rig.resource('POST', `/templates/${templateId}/update`, { imageName: 'image:2' })
    expect(new Set(place.woken)).toEqual(new Set([one.id, two.id]))
    await rig.resource('POST', `/templates/${templateId}/update`, { imageName: 'image:3' })
    for (const { id } of [one, two]) {
      expect(await rig.resource('GET', `/endpoints/${id}`)).toMatchObject({ version: 3 })
      expect(await releases(id)).toMatchObject([
        { version: 3, state: 'ROLLING', template: { imageName: 'image:3' } },
        { version: 2, state: 'SUPERSEDED', template: { imageName: 'image:2' } },
        { version: 1, state: 'COMPLETED', template: { imageName: 'image:1' } },
      ])
    }
    expect(await rig.resource('GET', `/endpoints/${other.id}`)).toMatchObject({ version: 1 })
  })

  it('[UPT-19, UPT-20] is a release that is over at once where nothing changes that workers run with', async () => {
    const { id: templateId } = await template()
    const { id } = await endpoint({ templateId })
    for (const update of [{ name: unique() }, { readme: 'new' }, { isPublic: true }, {}])
      await rig.resource('POST', `/templates/${templateId}/update`, update)
    expect((await releases(id)).map(({ version, state }) => [version, state])).toEqual([
      [5, 'COMPLETED'],
      [4, 'COMPLETED'],
      [3, 'COMPLETED'],
      [2, 'COMPLETED'],
      [1, 'COMPLETED'],
    ])
  })

  it('[UPT-22, ERR-1] refuses a field that cannot be updated, and one that there is not', async () => {
    const { id } = await template()
    for (const field of ['category', 'isServerless', 'id', 'isVendor', 'earned', 'imagename']) {
      const [status, code, error] = await refusal('POST', `/templates/${id}/update`, { [field]: 'CPU' })
      expect([field, status, code]).toEqual([field, 400, 'FIELD_INVALID'])
      expect(error).toContain(`'${field}'`)
    }
  })
})

describe('an endpoint', () => {
  it('[EPT-1, EPT-7, FLT-2] is made of a template with the defaults of the rest, and a queue', async () => {
    const { id: templateId } = await template()
    const reply = await rig.rest('POST', '/endpoints', { templateId })
    const { id } = reply.json<Resource>()
    expect([reply.statusCode, reply.json()]).toEqual([
      201,
      {
        id: expect.stringMatching(/^[a-z][0-9a-z]{13}$/),
        name: id,
        templateId,
        workersMin: 0,
        workersMax: 3,
        idleTimeout: 5,
        scalerType: 'QUEUE_DELAY',
        scalerValue: 4,
        executionTimeoutMs: 600_000,
        env: {},
        version: 1,
        createdAt: expect.stringMatching(/^\d{4}-.*Z$/),
      },
    ])
    expect(await rig.resource('GET', `/endpoints/${id}`)).toEqual(reply.json())
    expect(await run(id)).toBe(200)
    expect(await idsOf('/endpoints')).toContain(id)
  })

  it('[EPT-2, ERR-1] has no more workers at least than at most, whichever is changed', async () => {
    const { id } = await endpoint({ workersMin: 2, workersMax: 3 })
    for (const [method, path, body] of [
      ['PATCH', `/endpoints/${id}`, { workersMax: 1 }],
      ['POST', `/endpoints/${id}/update`, { workersMin: 4 }],
      ['POST', '/endpoints', { templateId: (await template()).id, workersMin: 2, workersMax: 1 }],
    ] as const) {
      const [status, code, error] = await refusal(method, path, body)
      expect([status, code, error.split(' ', 1)[0]]).toEqual([400, 'FIELD_INVALID', 'workersMin'])
    }
    expect(await rig.resource('GET', `/endpoints/${id}`)).toMatchObject({ workersMin: 2, workersMax: 3 })
  })

  it('[EPT-3] is shown with its template and its workers where they are asked for', async () => {
    const { id, templateId, ...made } = await endpoint()
    const { pods } = rig.service.store.fleet
    const name = unique()
    await pods.add(workerRecord(name, id, { drain: 'SECRET' }))
    await pods.add(workerRecord(unique(), id, { desiredStatus: 'TERMINATED' }))
    await pods.add(workerRecord(unique(), 'another'))
    expect(await rig.resource('GET', `/endpoints/${id}`)).toEqual({ id, templateId, ...made })
    const shown = await rig.resource('GET', `/endpoints/${id}?includeTemplate=true&includeWorkers=true`)
    expect(shown).toMatchObject({ template: { id: templateId }, workers: [{ id: name, slsVersion: 3 }] })
    expect(shown['workers']).toHaveLength(1)
    expect(JSON.stringify(shown)).not.toContain('SECRET')
    const list = (await rig.rest('GET', '/endpoints?includeWorkers=true')).json<Resource[]>()
    expect(list.find((one) => one.id === id)).toMatchObject({ workers: [{ id: name }] })
    const [status, , error] = await refusal('GET', `/endpoints/${id}?includeWorkers=1`)
    expect([status, error.split(' ', 1)[0]]).toEqual([400, 'includeWorkers'])
  })

  it('[EPT-4] says what was decided last about its workers, and why', async () => {
    const { id } = await endpoint()
    expect(await rig.resource('GET', `/endpoints/${id}`)).not.toHaveProperty('scaling')
    const at = '2026-07-01T00:00:00.000Z'
    const counts = { wanted: 2, starting: 1, idle: 0, running: 1, draining: 0 }
    const scaling = { ...counts, at, reason: '2 jobs wait', recent: [{ at, reason: '2 jobs wait' }] }
    await rig.service.store.fleet.scalings.add({ ...scaling, id })
    expect((await rig.resource('GET', `/endpoints/${id}`))['scaling']).toEqual(scaling)
    const list = (await rig.rest('GET', '/endpoints')).json<Resource[]>()
    expect(list.find((one) => one.id === id)).toMatchObject({ scaling })
  })

  it('[EPT-5] is released by another template or environment, and by no other scale', async () => {
    const { id } = await endpoint()
    const path = `/endpoints/${id}`
    expect(await rig.resource('PATCH', path, { workersMin: 1, workersMax: 4 })).toMatchObject({ version: 1 })
    expect(await rig.resource('PATCH', path, { env: { A: '1' } })).toMatchObject({ version: 2 })
    const templateId = (await template()).id
    expect(await rig.resource('POST', `${path}/update`, { templateId })).toMatchObject({ version: 3 })
    // One that is gone all the same, as by a store of old: the last release has it.
    await rig.service.store.fleet.templates.remove(templateId)
    expect(await rig.resource('PATCH', path, { env: { A: '2' } })).toMatchObject({ version: 4 })
    expect((await releases(id))[0]).toMatchObject({ env: { A: '2' }, template: { id: templateId } })
  })

  it('[EPT-6] goes with its workers, its releases and what was decided about it, and tells whoever runs them', async () => {
    const { id } = await endpoint({ workersMin: 1 })
    const { pods, scalings } = rig.service.store.fleet
    const [own, other] = [unique(), unique()]
    await pods.add(workerRecord(own, id, { locked: true }))
    await pods.add(workerRecord(other, 'another'))
    const counts = { wanted: 1, starting: 0, idle: 1, running: 0, draining: 0 }
    await scalings.add({ id, ...counts, at: '', reason: '', recent: [] })
    place.woken.length = 0
    const reply = await rig.rest('DELETE', `/endpoints/${id}`)
    expect([reply.statusCode, reply.body]).toEqual([204, ''])
    expect(place.woken).toContain(id)
    expect(await rig.resource('GET', `/pods/${own}`)).toMatchObject({
      desiredStatus: 'TERMINATED',
      lastStatusChange: 'its endpoint was deleted',
    })
    expect(await rig.resource('GET', `/pods/${other}`)).toMatchObject({ desiredStatus: 'RUNNING' })
    expect(await scalings.find(id)).toBeUndefined()
    const released = await rig.service.store.fleet.releases.list()
    expect(released.filter(({ value }) => value.endpointId === id)).toEqual([])
    for (const path of ['', '/releases']) {
      const [status, code] = await refusal('GET', `/endpoints/${id}${path}`)
      expect([path, status, code]).toEqual([path, 404, 'RESOURCE_NOT_FOUND'])
    }
    expect((await refusal('DELETE', `/endpoints/${id}`))[0]).toBe(404)
  })

  it('[EPT-8] whose delete broke off wants no workers, and is gone after another', async () => {
    const { id } = await endpoint({ workersMin: 1 })
    const { releases: records } = rig.service.store.fleet
    const remove = records.remove.bind(records)
    records.remove = () => Promise.reject(new Error('The store is away.'))
    expect((await rig.rest('DELETE', `/endpoints/${id}`)).statusCode).toBe(500)
    records.remove = remove
    const [status, code] = await refusal('PATCH', `/endpoints/${id}`, { workersMax: 1 })
    expect([status, code]).toEqual([409, 'ENDPOINT_HALF_DELETED'])
    expect(await rig.resource('GET', `/endpoints/${id}`)).toMatchObject({ workersMin: 0, workersMax: 0 })
    expect((await rig.rest('DELETE', `/endpoints/${id}`)).statusCode).toBe(204)
    expect((await rig.rest('GET', `/endpoints/${id}`)).statusCode).toBe(404)
  })
})

describe('a registry auth', () => {
  const password = 'SECRET-OF-THE-REGISTRY'
  const auth = (more: Json = {}): Promise<Resource> =>
    rig.resource('POST', '/containerregistryauth', { name: unique(), username: 'ROBOT', password, ...more })

  it('[RGA-1, RGA-2, FLT-2] is answered by its id and name alone, and is nowhere else in clear', async () => {
    const name = unique()
    const reply = await rig.rest('POST', '/containerregistryauth', { name, username: 'ROBOT', password })
    const { id } = reply.json<Resource>()
    expect([reply.statusCode, reply.json()]).toEqual([201, { id, name }])
    expect(await rig.resource('GET', `/containerregistryauth/${id}`)).toEqual({ id, name })
    const list = await rig.rest('GET', '/containerregistryauth')
    expect(list.json()).toContainEqual({ id, name })
    expect(list.body).not.toMatch(/ROBOT|SECRET/)
    const kept = JSON.stringify(await rig.service.store.fleet.registryAuths.find(id))
    expect(kept).toContain('ROBOT')
    expect(kept).not.toContain(password)
    expect(rig.service.logged.join('')).not.toMatch(/ROBOT|SECRET-OF/)
  })

  it('[RGA-3, ERR-21] is not taken by a service without a secret', async () => {
    const other = await startRig({ secret: null })
    const body = { name: 'a', username: 'u', password }
    const reply = await other.rest('POST', '/containerregistryauth', body)
    expect([reply.statusCode, reply.json().code]).toEqual([503, 'SECRET_KEY_MISSING'])
    expect(reply.body).not.toContain('SECRET-OF')
    expect((await other.rest('GET', '/containerregistryauth')).json()).toEqual([])
  })

  it('[RGA-4, ERR-20] is not deleted while something may be started with it, and the answer says what', async () => {
    const { id } = await auth()
    const path = `/containerregistryauth/${id}`
    const used = await template({ containerRegistryAuthId: id })
    const pod = await rig.resource('POST', '/pods', { imageName: 'x', containerRegistryAuthId: id })
    const { id: endpointId } = await endpoint({ templateId: used.id })
    const users = async (): Promise<string> => {
      const [status, code, error] = await refusal('DELETE', path)
      expect([status, code]).toEqual([409, 'RESOURCE_IN_USE'])
      return error
    }
    for (const user of [`template '${used.id}'`, `pod '${pod.id}'`, `endpoint '${endpointId}'`])
      expect(await users()).toContain(user)
    await rig.rest('DELETE', `/pods/${pod.id}`)
    await rig.resource('PATCH', `/templates/${used.id}`, { containerRegistryAuthId: (await auth()).id })
    // The version before serves until the new one does.
    expect(await users()).toContain(`in use by endpoint '${endpointId}'.`)
    await rig.rest('DELETE', `/endpoints/${endpointId}`)
    expect((await rig.rest('DELETE', path)).statusCode).toBe(204)
    expect((await refusal('GET', path)).slice(0, 2)).toEqual([404, 'RESOURCE_NOT_FOUND'])
  })

  it('[RGA-5] has a name of its own', async () => {
    const { name } = await auth()
    const [status, code] = await refusal('POST', '/containerregistryauth', { name, username: 'u', password })
    expect([status, code]).toEqual([400, 'NAME_TAKEN'])
  })
})

describe('the resource interface', () => {
  const resources = ['templates', 'endpoints', 'pods', 'containerregistryauth'] as const
  const status = async (path: string, authorization?: string): Promise<number> =>
    (await rig.service.http.inject({ url: path, headers: authorization ? { authorization } : {} })).statusCode

  it.each(resources)(
    '[AUT-12, AUT-13, VER-4] takes a key behind Bearer and in no other way: %s',
    async (name) => {
      for (const scheme of ['Bearer', 'bearer', 'BEARER'])
        expect(await status(`/v1/${name}`, `${scheme} ${KEY}`)).toBe(200)
      for (const wrong of [undefined, '', KEY, `Basic ${KEY}`, 'Bearer', 'Bearer wrong', `Bearer ${KEY}x`])
        expect([wrong, await status(`/v1/${name}`, wrong)]).toEqual([wrong, 401])
      expect(await status(`/v2/${name}`, `Bearer ${KEY}`)).toBe(404)
    },
  )

  it('[AUT-14, ERR-2] opens to a key with the permission fleet that is for every endpoint, before anything else is looked at', async () => {
    const { id } = await endpoint()
    const { keys } = rig.service.store
    for (const [name, permission, endpoints] of [
      ['reader', 'read', undefined],
      ['writer', 'write', undefined],
      ['a-worker', 'worker', undefined],
      ['owner-of-one', 'fleet', [id]],
      ['owner-of-all', 'fleet', undefined],
    ] as const) {
      const key = { id: name, name, hash: hashKey(name), permissions: [permission], createdAt: 1 }
      await keys.addKey({ ...key, ...(endpoints && { endpoints: [...endpoints] }) })
      const expected = name === 'owner-of-all' ? 200 : 401
      for (const path of ['/v1/templates', `/v1/endpoints/${id}`, '/v1/pods'])
        expect([name, path, await status(path, `Bearer ${name}`)]).toEqual([name, path, expected])
      const broken = await rig.rest('POST', '/templates', '{"broken', { authorization: `Bearer ${name}` })
      expect(broken.statusCode).toBe(name === 'owner-of-all' ? 400 : 401)
    }
  })

  it('[RATE-17] has no rate', async () => {
    const other = await startRig({ hasRateLimits: true })
    for (let n = 0; n < 30; n += 1) {
      const reply = await other.rest('GET', '/pods')
      expect([reply.statusCode, reply.headers['ratelimit']]).toEqual([200, undefined])
    }
  })

  it.each(['templates', 'endpoints', 'containerregistryauth'])(
    '[FLT-3, ERR-19] is 404 for an id that there is not, or cannot be: %s',
    async (name) => {
      for (const id of ['nobody', '__proto__', 'a%20b', 'x'.repeat(65), '%F0%9F%98%80', '-']) {
        for (const method of ['GET', 'DELETE'] as const) {
          const [code, reason, error] = await refusal(method, `/${name}/${id}`)
          expect([method, id, code, reason]).toEqual([method, id, 404, 'RESOURCE_NOT_FOUND'])
          expect(error).toContain(`GET /v1/${name}`)
        }
        if (name === 'containerregistryauth') continue
        const [code, reason] = await refusal('POST', `/${name}/${id}/update`, {})
        expect([id, code, reason]).toEqual([id, 404, 'RESOURCE_NOT_FOUND'])
      }
    },
  )
})
