import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { KEY, startTestService, type TestService } from '../support/service.ts'

let service: TestService
beforeEach(async () => {
  service = await startTestService()
})
afterEach(() => service.close())

interface Answer {
  status: number
  body: Record<string, unknown> & unknown[]
}

async function ask(
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE',
  path: string,
  body?: unknown,
): Promise<Answer> {
  const answer = await service.http.inject({
    method,
    url: `/v1${path}`,
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    ...(body !== undefined && { payload: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  return { status: answer.statusCode, body: answer.body === '' ? {} : answer.json() } as Answer
}

async function make(more: Record<string, unknown> = {}): Promise<string> {
  const { status, body } = await ask('POST', '/templates', { name: 'one', imageName: 'image:1', ...more })
  expect(status).toBe(201)
  return String(body['id'])
}

describe('a template', () => {
  it('is made with the defaults of what is left out, read, listed and deleted', async () => {
    const id = await make()
    const read = await ask('GET', `/templates/${id}`)
    expect(read).toEqual({
      status: 200,
      body: {
        id,
        name: 'one',
        imageName: 'image:1',
        category: 'CPU',
        containerDiskInGb: 50,
        dockerEntrypoint: [],
        dockerStartCmd: [],
        earned: 0,
        env: {},
        isPublic: false,
        isServerless: false,
        isVendor: false,
        ports: [],
        readme: '',
        runtimeInMin: 0,
        volumeInGb: 20,
        volumeMountPath: '/workspace',
      },
    })
    expect((await ask('GET', '/templates')).body).toEqual([read.body])
    expect(await ask('DELETE', `/templates/${id}`)).toEqual({ status: 204, body: {} })
    expect(await ask('GET', `/templates/${id}`)).toMatchObject({
      status: 404,
      body: { code: 'RESOURCE_NOT_FOUND' },
    })
  })

  it('keeps what an update leaves out, and has its env replaced whole', async () => {
    const id = await make({ env: { A: '1', B: '2' }, readme: 'of old' })
    const { status, body } = await ask('POST', `/templates/${id}/update`, { env: { C: '3' }, volumeInGb: 5 })
    expect(status).toBe(200)
    expect(body).toMatchObject({ name: 'one', readme: 'of old', env: { C: '3' }, volumeInGb: 5 })
    expect((await ask('PATCH', `/templates/${id}`, { name: 'two' })).body).toMatchObject({ name: 'two' })
  })

  it('has a name of its own', async () => {
    await make()
    const other = await make({ name: 'two' })
    const taken = { status: 400, body: { code: 'NAME_TAKEN' } }
    expect(await ask('POST', '/templates', { name: 'one', imageName: 'x' })).toMatchObject(taken)
    expect(await ask('PATCH', `/templates/${other}`, { name: 'one' })).toMatchObject(taken)
  })

  it.each([
    [{ imageName: 'x' }, 'name'],
    [{ name: 'x' }, 'imageName'],
    [{ name: 'x', imageName: 'a b' }, 'imageName'],
    [{ name: 'x', imageName: 'x', ports: ['70000/http'] }, 'ports.0'],
    [{ name: 'x', imageName: 'x', ports: ['80/udp'] }, 'ports.0'],
    [{ name: 'x', imageName: 'x', env: { '1A': 'x' } }, 'env.1A'],
    [{ name: 'x', imageName: 'x', volumeInGb: -1 }, 'volumeInGb'],
    [{ name: 'x', imageName: 'x', volumeMountPath: 'work' }, 'volumeMountPath'],
    [{ name: 'x', imageName: 'x', containerRegistryAuthId: 'nobody' }, 'containerRegistryAuthId'],
    [{ name: 'x', imageName: 'x', imagename: 'x' }, 'imagename'],
    ['{"name":', ''],
    [undefined, ''],
  ])('of %j is refused with the field', async (body, field) => {
    const { status, body: answer } = await ask('POST', '/templates', body)
    expect(status).toBe(400)
    expect(String(answer['error'])).toContain(field)
  })

  it('says nothing of a value of its env that does not fit', async () => {
    const answer = await ask('POST', '/templates', { name: 'x', imageName: 'x', env: { TOKEN: 'hunter2\0' } })
    expect(answer.status).toBe(400)
    expect(JSON.stringify(answer.body)).not.toContain('hunter2')
    expect(service.logged.join('')).not.toContain('hunter2')
  })

  it('that an endpoint uses is not deleted, and the answer says which', async () => {
    const id = await make()
    const { body } = await ask('POST', '/endpoints', { templateId: id })
    const { status, body: answer } = await ask('DELETE', `/templates/${id}`)
    expect(status).toBe(409)
    expect(answer['error']).toContain(`endpoint '${String(body['id'])}'`)
  })
})

describe('an endpoint', () => {
  it('is made with the defaults, with a queue that takes jobs', async () => {
    const templateId = await make()
    const { status, body } = await ask('POST', '/endpoints', { name: 'mine', templateId, workersMax: 2 })
    expect(status).toBe(201)
    expect(body).toMatchObject({
      name: 'mine',
      templateId,
      workersMin: 0,
      workersMax: 2,
      idleTimeout: 5,
      scalerType: 'QUEUE_DELAY',
      scalerValue: 4,
      executionTimeoutMs: 600_000,
      env: {},
      version: 1,
    })
    const run = await service.http.inject({
      method: 'POST',
      url: `/v2/${String(body['id'])}/run`,
      headers: { authorization: KEY },
      payload: '{"input":{}}',
    })
    expect(run.json()).toMatchObject({ status: 'IN_QUEUE' })
    const path = `/endpoints/${String(body['id'])}`
    expect((await ask('GET', `${path}?includeTemplate=true`)).body).toMatchObject({
      template: { id: templateId },
    })
    expect((await ask('GET', path)).body).not.toHaveProperty('template')
  })

  it('gets a release for each update of its template, over at once where its workers are not touched', async () => {
    const templateId = await make()
    const { body } = await ask('POST', '/endpoints', { templateId })
    const path = `/endpoints/${String(body['id'])}`
    await ask('POST', `/templates/${templateId}/update`, { readme: 'new' })
    await ask('POST', `/templates/${templateId}/update`, { imageName: 'image:2' })
    await ask('POST', `/templates/${templateId}/update`, { env: { A: '1' } })
    expect((await ask('GET', path)).body).toMatchObject({ version: 4 })
    const releases = (await ask('GET', `${path}/releases`)).body
    expect(releases.map((release) => release)).toMatchObject([
      { version: 4, state: 'ROLLING', template: { imageName: 'image:2', env: { A: '1' } } },
      { version: 3, state: 'SUPERSEDED', template: { imageName: 'image:2', env: {} } },
      { version: 2, state: 'COMPLETED', template: { readme: 'new' } },
      { version: 1, state: 'COMPLETED' },
    ])
  })

  it('gets one for a change of its own env or of its template, and none for another scale', async () => {
    const [first, second] = [await make(), await make({ name: 'two' })]
    const { body } = await ask('POST', '/endpoints', { templateId: first })
    const path = `/endpoints/${String(body['id'])}`
    expect((await ask('PATCH', path, { workersMin: 1, workersMax: 4 })).body).toMatchObject({ version: 1 })
    expect((await ask('PATCH', path, { env: { A: '1' } })).body).toMatchObject({ version: 2 })
    expect((await ask('POST', `${path}/update`, { templateId: second })).body).toMatchObject({ version: 3 })
  })

  it.each([
    [{ workersMin: 3, workersMax: 2 }, 'workersMin'],
    [{ workersMax: -1 }, 'workersMax'],
    [{ idleTimeout: 0 }, 'idleTimeout'],
    [{ scalerType: 'ELSE' }, 'scalerType'],
    [{ templateId: 'nobody' }, 'templateId'],
  ])('of %j is refused with the field', async (more, field) => {
    const templateId = await make()
    const { status, body } = await ask('POST', '/endpoints', { templateId, ...more })
    expect(status).toBe(400)
    expect(String(body['error'])).toMatch(new RegExp(`^${field} `))
  })
})

describe('the resource interface', () => {
  it('takes a bearer with the scope fleet, and nothing else', async () => {
    const status = async (authorization?: string): Promise<number> =>
      (await service.http.inject({ url: '/v1/templates', headers: authorization ? { authorization } : {} }))
        .statusCode
    expect(await status()).toBe(401)
    expect(await status(KEY)).toBe(401)
    expect(await status('Bearer other')).toBe(401)
    expect(await status(`bearer ${KEY}`)).toBe(200)
  })
})
