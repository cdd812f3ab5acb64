import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { fleetLimits } from '../../src/resource/fleet-limits.ts'
import { NO_GPU } from '../../src/resource/machine.ts'
import { podSchema } from '../../src/resource/pod.ts'
import { FakePlace, workerRecord } from '../support/fake-place.ts'
import { openRig, startRig, type Json, type Rig } from '../support/interface-rig.ts'

const place = new FakePlace()
let rig: Rig
beforeAll(async () => {
  rig = await openRig({ fleet: { place, wake: place.wake } })
})
afterAll(() => rig.service.close())

let count = 0
const unique = (): string => `n${(count += 1)}`

const create = (more: Json = {}): Promise<Json & { id: string }> =>
  rig.resource('POST', '/pods', { imageName: 'image:1', ...more })

async function template(more: Json = {}): Promise<Json & { id: string }> {
  return rig.resource('POST', '/templates', { name: unique(), imageName: 'image:t', ...more })
}

async function worker(more: Parameters<typeof workerRecord>[2] = {}): Promise<string> {
  const id = unique()
  await rig.service.store.fleet.pods.add(workerRecord(id, 'ep1', more))
  return id
}

/** As the service does that runs it, once it is gone. */
async function gone(id: string): Promise<void> {
  const { pods, endedPods } = rig.service.store.fleet
  const found = await pods.find(id)
  if (!found) throw new Error(`There is no pod '${id}'.`)
  await endedPods.add({ ...found.value, endedAt: rig.clock.now() })
  await pods.remove(id)
}

async function refusal(...asked: Parameters<Rig['rest']>): Promise<[number, string, string]> {
  const reply = await rig.rest(...asked)
  const { code, error } = reply.json<{ code: string; error: string }>()
  return [reply.statusCode, code, error]
}

const ids = async (query: string): Promise<string[]> =>
  (await rig.rest('GET', `/pods${query}`)).json<{ id: string }[]>().map(({ id }) => id)

const OF_POD = {
  id: expect.stringMatching(/^[a-z][0-9a-z]{13}$/),
  name: 'my pod',
  adjustedCostPerHr: 0,
  costPerHr: 0,
  consumerUserId: 'owner',
  containerDiskInGb: 50,
  cpuFlavorId: '',
  desiredStatus: 'RUNNING',
  dockerEntrypoint: [],
  dockerStartCmd: [],
  env: {},
  gpu: NO_GPU,
  image: 'image:1',
  interruptible: false,
  lastStatusChange: 'created',
  locked: false,
  machineId: 'machine-1',
  memoryInGb: 16,
  portMappings: {},
  ports: [],
  publicIp: null,
  vcpuCount: 8,
  volumeEncrypted: false,
  volumeInGb: 20,
  volumeMountPath: '/workspace',
}

describe('a pod', () => {
  it('[POD-1, POD-3, POD-4, POD-8, POD-9, POD-11, POD-12, POD-13, POD-14, POD-15, POD-16, POD-17, POD-18, POD-20, POD-23, POD-24, POD-26, POD-27, POD-28, POD-31, POD-32, POD-33, POD-34, POD-35, POD-36, POD-38, PST-2, FLT-2] that was made with an image alone has each of its fields, and no other', async () => {
    expect(await create()).toEqual(OF_POD)
  })

  it('[POD-2] has any name, also that of another, up to 191 characters', async () => {
    const name = 'ä'.repeat(191)
    expect(await create({ name })).toMatchObject({ name })
    expect(await create({ name })).toMatchObject({ name })
    for (const bad of [`${name}x`, '', 'a\nb', 7]) {
      const [status, , error] = await refusal('POST', '/pods', { imageName: 'x', name: bad })
      expect([status, error.split(' ', 1)[0]]).toEqual([400, 'name'])
    }
  })

  it('[POD-5, POD-6, POD-7, POD-15, POD-37, VER-5] that is a worker says of which endpoint and version, and nothing that the service alone has to know', async () => {
    const id = await worker({
      drain: 'SECRET-INSIDE',
      failure: 'SECRET-INSIDE',
      startedAt: 1,
      readyAt: 2,
      isRestartAsked: true,
      env: { MINE: 'shown' },
    })
    const pod = await rig.resource('GET', `/pods/${id}`)
    expect(pod).toMatchObject({ aiApiId: 'ep1', endpointId: 'ep1', slsVersion: 3, env: { MINE: 'shown' } })
    expect(Object.keys(pod).filter((name) => !Object.hasOwn(podSchema.shape, name))).toEqual([])
    expect(JSON.stringify(pod)).not.toContain('SECRET')
    const list = await rig.rest('GET', '/pods?includeWorkers=true')
    expect(list.body).not.toContain('SECRET')
  })

  it('[POD-10, POD-30] that was made with a registry auth or a template has its id, and others have none', async () => {
    const auth = await rig.resource('POST', '/containerregistryauth', {
      name: unique(),
      username: 'u',
      password: 'p',
    })
    const { id: templateId } = await template({ containerRegistryAuthId: auth.id })
    expect(await create({ templateId })).toMatchObject({ templateId, containerRegistryAuthId: auth.id })
    expect(await create()).not.toHaveProperty('templateId')
    expect(await create()).not.toHaveProperty('containerRegistryAuthId')
  })

  it('[POD-18, POD-19, POD-20, POD-26] shows what the service that runs it has written', async () => {
    const lastStartedAt = '2026-07-01T00:00:00.000Z'
    const facts = { lastStartedAt, lastStatusChange: 'started', portMappings: { '8080': 31_000 } }
    const id = await worker({ ...facts, interruptible: true })
    expect(await rig.resource('GET', `/pods/${id}`)).toMatchObject({ ...facts, interruptible: true })
  })

  it('[PDO-1, POD-15, POD-27] has what is given over its template, and that over the defaults; variables name by name', async () => {
    const { id: templateId } = await template({
      env: { A: 't', B: 't' },
      dockerStartCmd: ['serve'],
      volumeInGb: 7,
      ports: ['80/http'],
    })
    const made = await create({
      imageName: undefined,
      templateId,
      env: { B: 'own' },
      ports: ['8080/http', '22/tcp'],
    })
    expect(made).toMatchObject({
      image: 'image:t',
      env: { A: 't', B: 'own' },
      dockerStartCmd: ['serve'],
      volumeInGb: 7,
      containerDiskInGb: 50,
      ports: ['8080/http', '22/tcp'],
    })
  })

  it.each([
    ['where others can ask for them', { allowsFileImages: false }],
    ['in Docker', { kind: 'docker' } as const],
  ])('[PDO-11] is refused an image that is a file where the service runs none: %s', async (_, settings) => {
    const imageName = 'file:./handler.ts'
    expect(await create({ imageName })).toMatchObject({ image: imageName })
    const { id: fileTemplate } = await template({ imageName })
    const { id } = await template()
    Object.assign(place, settings)
    try {
      for (const [method, path, body] of [
        ['POST', '/pods', { imageName }],
        ['POST', '/pods', { templateId: fileTemplate }],
        ['POST', '/templates', { name: unique(), imageName }],
        ['POST', `/templates/${id}/update`, { imageName }],
        ['PATCH', `/templates/${id}`, { imageName }],
      ] as const) {
        const [status, code, error] = await refusal(method, path, body)
        expect([path, status, code]).toEqual([path, 400, 'FIELD_INVALID'])
        expect(error).toMatch(/^imageName /)
      }
      expect(await rig.resource('GET', `/templates/${id}`)).toMatchObject({
        imageName: 'image:t',
        readme: '',
      })
    } finally {
      Object.assign(place, { allowsFileImages: true, kind: 'process' })
    }
  })

  it('[PDO-12, POD-38] is refused more of the machine than there is', async () => {
    expect(await create({ vcpuCount: 8, memoryInGb: 0.5 })).toMatchObject({ vcpuCount: 8, memoryInGb: 0.5 })
    for (const [field, value] of [
      ['vcpuCount', 8.5],
      ['memoryInGb', 17],
    ] as const) {
      const [status, code, error] = await refusal('POST', '/pods', { imageName: 'x', [field]: value })
      expect([status, code, error.split(' ', 1)[0]]).toEqual([400, 'FIELD_INVALID', field])
    }
  })

  it('[PDO-10, ERR-21] is not made by a service that runs none, which still reads and changes those of others', async () => {
    const other = await startRig()
    const reply = await other.rest('POST', '/pods', { imageName: 'x' })
    expect([reply.statusCode, reply.json().code]).toEqual([503, 'NO_POD_HOST'])
    await other.service.store.fleet.pods.add(workerRecord('p1', 'ep1', { endpointId: undefined }))
    expect(await other.resource('POST', '/pods/p1/stop')).toMatchObject({ desiredStatus: 'EXITED' })
    expect(await other.resource('GET', '/pods/p1?includeMachine=true')).not.toHaveProperty('machine')
  })
})

describe('GET /v1/pods/{podId}', () => {
  it('[RPD-1, RPD-2, RPD-8, RPD-9, RPD-10, SVC-6, SVC-7, VER-4] answers the pod of this id, a worker too', async () => {
    const made = await create()
    expect(await rig.resource('GET', `/pods/${made.id}`)).toEqual(made)
    const id = await worker()
    for (const query of ['', '?includeWorkers=true', '?includeWorkers=false']) {
      expect(await rig.resource('GET', `/pods/${id}${query}`)).toMatchObject({ id })
    }
    const elsewhere = await rig.service.http.inject({
      url: `/pods/${made.id}`,
      headers: { authorization: 'Bearer test-key' },
    })
    expect(elsewhere.statusCode).toBe(404)
  })

  it('[RPD-3, POD-22, MAC-1, MAC-2, MAC-3, MAC-4, MAC-5, MAC-6, MAC-7, MAC-8, MAC-9, MAC-10, MAC-11, MAC-12, MAC-13, MAC-14, MAC-15, MAC-16, MAC-17, MAC-18, MAC-19, MAC-20, MAC-21, MAC-22, MAC-23, MAC-24, MAC-25, MAC-26] has the machine where it is asked for, with each of its fields', async () => {
    const { id } = await create()
    expect((await rig.resource('GET', `/pods/${id}?includeMachine=true`))['machine']).toEqual({
      minPodGpuCount: 0,
      gpuTypeId: '',
      gpuType: NO_GPU,
      cpuCount: 8,
      cpuTypeId: 'Model T',
      cpuType: {
        id: 'Model T',
        displayName: 'Model T',
        cores: 4,
        threadsPerCore: 2,
        groupId: process.arch,
      },
      location: '',
      dataCenterId: '',
      diskThroughputMBps: 0,
      maxDownloadSpeedMbps: 0,
      maxUploadSpeedMbps: 0,
      supportPublicIp: false,
      secureCloud: false,
      maintenanceStart: '',
      maintenanceEnd: '',
      maintenanceNote: '',
      note: '16 GB of memory, a disk of 250 GB',
      costPerHr: 0,
      currentPricePerGpu: 0,
      gpuAvailable: 0,
      gpuDisplayName: '',
    })
    for (const query of ['', '?includeMachine=false'])
      expect(await rig.resource('GET', `/pods/${id}${query}`)).not.toHaveProperty('machine')
    const away = await worker({ hostId: 'elsewhere' })
    expect(await rig.resource('GET', `/pods/${away}?includeMachine=true`)).not.toHaveProperty('machine')
  })

  it('[GPU-1, GPU-2, GPU-3, GPU-4, GPU-5, GPU-6, GPU-7, GPU-8, GPU-9, GPU-10, GPU-11, GPU-12] has an accelerator of which there is none', async () => {
    expect((await create())['gpu']).toEqual({
      id: '',
      count: 0,
      displayName: '',
      securePrice: 0,
      communityPrice: 0,
      oneMonthPrice: 0,
      threeMonthPrice: 0,
      sixMonthPrice: 0,
      oneWeekPrice: 0,
      communitySpotPrice: 0,
      secureSpotPrice: 0,
    })
  })

  it('[RPD-4, RPD-11, POD-25] has the network volume where it is asked for and there is one', async () => {
    const networkVolume = { id: 'v1', name: 'shared', size: 10, dataCenterId: '' }
    const id = await worker({ networkVolume })
    expect(await rig.resource('GET', `/pods/${id}`)).not.toHaveProperty('networkVolume')
    expect(await rig.resource('GET', `/pods/${id}?includeNetworkVolume=true`)).toMatchObject({
      networkVolume,
    })
    const without = await create()
    expect(await rig.resource('GET', `/pods/${without.id}?includeNetworkVolume=true`)).toEqual(without)
  })

  it('[RPD-5, RPD-11, POD-29] has its savings plans where they are asked for: an empty list', async () => {
    const made = await create()
    const path = `/pods/${made.id}?includeSavingsPlans=`
    expect(await rig.resource('GET', `${path}true`)).toEqual({ ...made, savingsPlans: [] })
    expect(await rig.resource('GET', `${path}false`)).toEqual(made)
    const plan = { costPerHr: 0, endTime: '', gpuTypeId: '', id: '', podId: '', startTime: '' }
    expect(podSchema.shape.savingsPlans.unwrap().element.strict().parse(plan)).toEqual(plan)
  })

  it('[RPD-6, RPD-11] has its template where it is asked for and there is one', async () => {
    const used = await template()
    const made = await create({ templateId: used.id })
    const read = await rig.resource('GET', `/pods/${made.id}?includeTemplate=true`)
    expect(read).toEqual({ ...made, template: used })
    await rig.rest('DELETE', `/templates/${used.id}`)
    expect(await rig.resource('GET', `/pods/${made.id}?includeTemplate=true`)).toEqual(made)
  })

  it.each([
    'includeMachine',
    'includeNetworkVolume',
    'includeSavingsPlans',
    'includeTemplate',
    'includeWorkers',
  ])(
    '[RPD-7, ERR-1] takes true and false for what to include, and refuses else what is named: %s',
    async (name) => {
      const { id } = await create()
      for (const value of ['', '1', 'yes', 'TRUE', 'null']) {
        for (const path of ['/pods', `/pods/${id}`]) {
          const [status, code, error] = await refusal('GET', `${path}?${name}=${value}`)
          expect([path, status, code, error.split(' ', 1)[0]]).toEqual([path, 400, 'FIELD_INVALID', name])
        }
      }
    },
  )
})

describe('GET /v1/pods', () => {
  it('[FLT-1, PDO-2] is an array of pods in order of their ids, without workers unless they are asked for', async () => {
    const own = (await create()).id
    const id = await worker({ endpointId: 'ep-of-list' })
    const listed = await ids('')
    expect(listed).toContain(own)
    expect(listed).not.toContain(id)
    expect(listed).toEqual(listed.toSorted())
    const all = await ids('?includeWorkers=true')
    expect(all).toEqual(expect.arrayContaining([own, id]))
    expect(await ids('?endpointId=ep-of-list')).toEqual([id])
    expect(await ids('?endpointId=ep-of-list&includeWorkers=false')).toEqual([])
  })

  it('[PDO-3] has those that fit every filter exactly', async () => {
    const { id: templateId } = await template()
    const name = unique()
    const first = await create({ name, imageName: 'image:filtered' })
    const second = await create({ name: `${name} `, templateId })
    expect(await ids(`?name=${name}`)).toEqual([first.id])
    expect(await ids('?imageName=image:filtered')).toEqual([first.id])
    expect(await ids(`?templateId=${templateId}`)).toEqual([second.id])
    expect(await ids(`?id=${second.id}`)).toEqual([second.id])
    expect(await ids(`?id=${second.id}&name=${name}`)).toEqual([])
    await rig.rest('POST', `/pods/${first.id}/stop`)
    expect(await ids(`?id=${first.id}&desiredStatus=EXITED`)).toEqual([first.id])
    expect(await ids(`?id=${first.id}&desiredStatus=RUNNING`)).toEqual([])
    await rig.rest('DELETE', `/pods/${first.id}`)
    expect(await ids(`?id=${first.id}`)).toEqual([])
    for (const step of [async () => undefined, gone]) {
      await step(first.id)
      expect(await ids(`?id=${first.id}&desiredStatus=TERMINATED`)).toEqual([first.id])
    }
  })

  it('[PDO-4, ERR-1] refuses a filter that there is not, and one that nothing can fit', async () => {
    expect((await refusal('GET', '/pods?gpuTypeId=x'))[2]).toContain("the unknown key 'gpuTypeId'")
    for (const [name, value] of [
      ['desiredStatus', 'running'],
      ['id', 'a b'],
      ['endpointId', '-'],
      ['templateId', ''],
    ] as const) {
      const [status, , error] = await refusal('GET', `/pods?${name}=${value}`)
      expect([status, error.split(' ', 1)[0]]).toEqual([400, name])
    }
  })
})

describe('a verb of a pod', () => {
  it('[PST-1, PST-3, PST-4, PST-5, PST-6, PST-7, PDO-7] changes what is wanted of it, tells who runs it, and answers the pod', async () => {
    const { id } = await create()
    const { pods } = rig.service.store.fleet
    for (const [verb, desiredStatus, isRestartAsked] of [
      ['restart', 'RUNNING', true],
      ['reset', 'RUNNING', true],
      ['stop', 'EXITED', false],
      ['start', 'RUNNING', false],
      ['stop', 'EXITED', false],
      ['restart', 'RUNNING', false],
      ['stop', 'EXITED', false],
      ['reset', 'RUNNING', false],
    ] as const) {
      place.woken.length = 0
      const pod = await rig.resource('POST', `/pods/${id}/${verb}`)
      expect([verb, pod]).toEqual([verb, { ...OF_POD, desiredStatus, lastStatusChange: expect.any(String) }])
      expect((await pods.find(id))?.value.isRestartAsked ?? false).toBe(isRestartAsked)
      expect(place.woken).toEqual([undefined])
    }
    expect((await rig.rest('DELETE', `/pods/${id}`)).statusCode).toBe(204)
    expect(await rig.resource('GET', `/pods/${id}`)).toMatchObject({ desiredStatus: 'TERMINATED' })
  })

  it('[PDO-6, FLT-2] that asks for what is so already is no error, and changes nothing', async () => {
    const { id } = await create()
    const { pods } = rig.service.store.fleet
    expect(await rig.resource('POST', `/pods/${id}/start`)).toMatchObject({ lastStatusChange: 'created' })
    await rig.rest('POST', `/pods/${id}/stop`)
    const { revision } = (await pods.find(id)) ?? {}
    expect((await rig.rest('POST', `/pods/${id}/stop`, '{"broken')).statusCode).toBe(200)
    expect((await pods.find(id))?.revision).toBe(revision)
    for (let n = 0; n < 2; n += 1) {
      const reply = await rig.rest('DELETE', `/pods/${id}`)
      expect([reply.statusCode, reply.body]).toEqual([204, ''])
    }
    await gone(id)
    expect((await rig.rest('DELETE', `/pods/${id}`)).statusCode).toBe(204)
  })

  it('[PST-8, PST-9, ERR-20] finds one that is TERMINATED gone, which can be read for 24 hours', async () => {
    const { id } = await create()
    await rig.rest('DELETE', `/pods/${id}`)
    for (const step of [async () => undefined, gone]) {
      await step(id)
      for (const verb of ['start', 'stop', 'restart', 'reset', 'update']) {
        const [status, code] = await refusal('POST', `/pods/${id}/${verb}`, {})
        expect([verb, status, code]).toEqual([verb, 409, 'POD_TERMINATED'])
      }
    }
    rig.clock.advance(fleetLimits.terminatedMs - 1)
    expect(await rig.resource('GET', `/pods/${id}`)).toMatchObject({ desiredStatus: 'TERMINATED' })
    rig.clock.advance(1)
    const [status, code] = await refusal('GET', `/pods/${id}`)
    expect([status, code]).toEqual([404, 'RESOURCE_NOT_FOUND'])
    expect(await ids(`?id=${id}&desiredStatus=TERMINATED`)).toEqual([])
  })

  it('[POD-21, PDO-8, ERR-20] leaves a locked pod as it is until it is unlocked', async () => {
    const { id } = await create({ locked: true })
    for (const [method, path] of [
      ['POST', `/pods/${id}/stop`],
      ['POST', `/pods/${id}/restart`],
      ['POST', `/pods/${id}/reset`],
      ['DELETE', `/pods/${id}`],
    ] as const) {
      const [status, code] = await refusal(method, path)
      expect([path, status, code]).toEqual([path, 409, 'POD_LOCKED'])
    }
    expect(await rig.resource('GET', `/pods/${id}`)).toMatchObject({ desiredStatus: 'RUNNING', locked: true })
    expect(await rig.resource('PATCH', `/pods/${id}`, { locked: false })).toMatchObject({ locked: false })
    expect((await rig.rest('DELETE', `/pods/${id}`)).statusCode).toBe(204)
  })

  it('[PDO-9, ERR-20] leaves start, stop and lock of a worker to its endpoint; it can be named, restarted and deleted', async () => {
    const id = await worker()
    for (const [path, body] of [
      ['start', undefined],
      ['stop', undefined],
      ['update', { locked: true }],
    ] as const) {
      const [status, code, error] = await refusal('POST', `/pods/${id}/${path}`, body)
      expect([path, status, code]).toEqual([path, 409, 'POD_IS_WORKER'])
      expect(error).toContain("'ep1'")
    }
    expect(await rig.resource('PATCH', `/pods/${id}`, { name: 'the one' })).toMatchObject({ name: 'the one' })
    place.woken.length = 0
    expect((await rig.rest('POST', `/pods/${id}/restart`)).statusCode).toBe(200)
    expect((await rig.rest('DELETE', `/pods/${id}`)).statusCode).toBe(204)
    expect(place.woken).toEqual(['ep1', 'ep1'])
  })

  it('[PDO-5, ERR-1] changes its name and its lock by PATCH or update, and says of every other field why not', async () => {
    const made = await create({ env: { A: '1' } })
    expect(await rig.resource('PATCH', `/pods/${made.id}`, { name: 'two' })).toEqual({ ...made, name: 'two' })
    const renamed = await rig.resource('POST', `/pods/${made.id}/update`, { name: 'three', locked: true })
    expect(renamed).toEqual({ ...made, name: 'three', locked: true })
    for (const field of ['env', 'imageName', 'ports', 'volumeInGb', 'dockerStartCmd', 'templateId']) {
      for (const [method, path] of [
        ['PATCH', ''],
        ['POST', '/update'],
      ] as const) {
        const [status, code, error] = await refusal(method, `/pods/${made.id}${path}`, { [field]: 'x' })
        expect([field, status, code]).toEqual([field, 400, 'FIELD_INVALID'])
        expect(error).toMatch(new RegExp(`^${field} cannot be changed .* make another pod\\.$`))
      }
    }
    expect((await refusal('PATCH', `/pods/${made.id}`, { nmae: 'x' }))[2]).toContain("unknown key 'nmae'")
    expect(await rig.resource('GET', `/pods/${made.id}`)).toEqual(renamed)
  })

  it('[FLT-3, ERR-19] is 404 for a pod that there is not, or cannot be', async () => {
    for (const id of ['nobody', '__proto__', 'a%20b', 'x'.repeat(65), '%F0%9F%98%80']) {
      for (const [method, path] of [
        ['GET', ''],
        ['PATCH', ''],
        ['DELETE', ''],
        ['POST', '/update'],
        ['POST', '/start'],
        ['POST', '/stop'],
        ['POST', '/restart'],
        ['POST', '/reset'],
        ['GET', '/logs'],
      ] as const) {
        const body = method === 'PATCH' || path === '/update' ? {} : undefined
        const [status, code, error] = await refusal(method, `/pods/${id}${path}`, body)
        expect([method, path, status, code]).toEqual([method, path, 404, 'RESOURCE_NOT_FOUND'])
        expect(error).toContain('There is no pod')
      }
    }
  })
})

describe('the document of a pod', () => {
  it('[POD-12, PST-1] says which states there are', () => {
    expect(z.toJSONSchema(podSchema).properties?.['desiredStatus']).toMatchObject({
      enum: ['RUNNING', 'EXITED', 'TERMINATED'],
    })
  })
})
