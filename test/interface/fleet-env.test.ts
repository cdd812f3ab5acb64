// The environment that a template and what is made from it have together.

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { fleetLimits } from '../../src/resource/fleet-limits.ts'
import { FakePlace } from '../support/fake-place.ts'
import { openRig, type Json, type Rig } from '../support/interface-rig.ts'

let rig: Rig
beforeAll(async () => {
  rig = await openRig({ fleet: { place: new FakePlace() } })
})
afterAll(() => rig.service.close())

const many = (letter: string, count = fleetLimits.envVariables): Json =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [`${letter}${n}`, 'x']))
const long = (name: string): Json => ({ [name]: 'x'.repeat(fleetLimits.envBytes / 2) })

let count = 0
const template = async (env: Json): Promise<string> =>
  (await rig.resource('POST', '/templates', { name: `t${(count += 1)}`, imageName: 'image:1', env })).id

async function expectRefused(method: 'POST' | 'PATCH', path: string, body: Json): Promise<void> {
  const reply = await rig.rest(method, path, body)
  expect([path, reply.statusCode, reply.json()]).toEqual([
    path,
    400,
    {
      code: 'FIELD_INVALID',
      error: expect.stringMatching(/^env must have at most .* together with that of the /),
    },
  ])
}

describe('an environment', () => {
  it.each(['{"__proto__":"x"}', '{"A":"x","__proto__":{"B":"x"}}'])(
    '[FLT-4] is refused a name that would be dropped, by that name: %s',
    async (env) => {
      const { id } = await rig.resource('POST', '/templates', {
        name: `t${(count += 1)}`,
        imageName: 'image:1',
      })
      for (const [path, field] of [
        ['/pods', `"imageName":"image:1"`],
        ['/templates', `"name":"new","imageName":"image:1"`],
        ['/endpoints', `"templateId":"${id}"`],
        [`/templates/${id}/update`, '"readme":""'],
      ] as const) {
        const reply = await rig.rest('POST', path, `{${field},"env":${env}}`)
        const error = 'env.__proto__ is a name that no variable can have here.'
        expect([path, reply.statusCode, reply.json()]).toEqual([path, 400, { code: 'FIELD_INVALID', error }])
      }
    },
  )

  it.each([
    ['variables', many('A'), many('B')],
    ['bytes', long('A'), long('B')],
  ])('[FLT-8] is refused with too many %s together with the template', async (_, ofTemplate, own) => {
    const templateId = await template(ofTemplate)
    await expectRefused('POST', '/pods', { templateId, env: own })
    await expectRefused('POST', '/endpoints', { templateId, env: own })
    const endpoint = await rig.resource('POST', '/endpoints', { templateId })
    await expectRefused('POST', `/endpoints/${endpoint.id}/update`, { env: own })
    await expectRefused('PATCH', `/endpoints/${endpoint.id}`, { env: own })
    const bare = await rig.resource('POST', '/endpoints', { templateId: await template({}), env: own })
    await expectRefused('PATCH', `/endpoints/${bare.id}`, { templateId })
    for (const { id } of [endpoint, bare])
      expect(await rig.resource('GET', `/endpoints/${id}`)).toMatchObject({ version: 1 })
    for (const path of ['/pods', '/endpoints', '/templates'])
      expect((await rig.rest('GET', path)).statusCode).toBe(200)
  })

  it('[FLT-8] of a template is refused an update that does not fit with an endpoint, and then nothing was changed', async () => {
    const templateId = await template({ B0: 'old' })
    const { id } = await rig.resource('POST', '/endpoints', { templateId, env: many('B') })
    const path = `/templates/${templateId}`
    await expectRefused('POST', `${path}/update`, { env: { A: 'new' } })
    await expectRefused('PATCH', path, { env: many('A') })
    expect(await rig.resource('GET', path)).toMatchObject({ env: { B0: 'old' } })
    await rig.resource('PATCH', path, { env: many('B') })
    expect(await rig.resource('GET', `/endpoints/${id}`)).toMatchObject({ version: 2 })
  })
})
