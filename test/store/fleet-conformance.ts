// What every engine must do with the fleet's records and duties.

import { beforeEach, describe, expect, it } from 'vitest'
import { endpointFrom } from '../../src/resource/endpoint.ts'
import { podFrom } from '../../src/resource/pod.ts'
import { templateFrom, type Template } from '../../src/resource/template.ts'
import type { FleetStore } from '../../src/store/fleet-store.ts'
import type { Store } from '../../src/store/store.ts'

const T0 = 1_750_000_000_000

const template = (id: string, name = id): Template =>
  templateFrom({ name, imageName: 'image:1', env: { LETTERS: 'ä \u2028 "x"' }, readme: '# 1' }, id)

export function describeFleet(storeOf: () => Store): void {
  describe('records', () => {
    let fleet: FleetStore
    beforeEach(() => {
      fleet = storeOf().fleet
    })

    it('are kept as they are, with a revision that rises', async () => {
      const made = template('tpl_1')
      expect(await fleet.templates.add(made)).toBe(true)
      expect(await fleet.templates.find('tpl_1')).toEqual({ value: made, revision: 1 })
      expect(await fleet.templates.replace({ ...made, readme: '# 2' }, 1)).toBe('replaced')
      expect(await fleet.templates.find('tpl_1')).toEqual({ value: { ...made, readme: '# 2' }, revision: 2 })
      expect(await fleet.templates.find('tpl_2')).toBeUndefined()
    })

    it('are of their kind', async () => {
      await fleet.templates.add(template('same'))
      const endpoint = endpointFrom({ templateId: 'same' }, { id: 'same', createdAt: 'now' })
      const machine = { machineId: 'm', vcpuCount: 2, memoryInGb: 4 }
      const made = podFrom({ image: 'image:1' }, { id: 'same', ...machine, template: template('same') })
      const pod = { ...made, hostId: 'host', createdAt: 1 }
      expect([await fleet.endpoints.add(endpoint), await fleet.pods.add(pod)]).toEqual([true, true])
      expect(await fleet.endpoints.list()).toEqual([{ value: endpoint, revision: 1 }])
      expect(await fleet.pods.list()).toEqual([{ value: pod, revision: 1 }])
      expect(await fleet.releases.list()).toEqual([])
    })

    it('are read whatever bounds there are for what is given by now', async () => {
      const env = Object.fromEntries(Array.from({ length: 1_000 }, (_, n) => [`A-${n}`, 'x'.repeat(1_000)]))
      const old = { env, ports: ['080/udp'], volumeMountPath: 'work', volumeInGb: -1 }
      const wide = { ...template('wide', 'a\n'), ...old, imageName: '../../A B' }
      await fleet.templates.add(wide)
      expect((await fleet.templates.list()).map(({ value }) => value)).toEqual([wide])
      const made = endpointFrom({ templateId: 'wide' }, { id: 'wide', createdAt: 'now' })
      const endpoint = { ...made, env, workersMax: 1e6, idleTimeout: 0, name: '' }
      await fleet.endpoints.add(endpoint)
      expect((await fleet.endpoints.find('wide'))?.value).toEqual(endpoint)
      const size = { machineId: 'm', vcpuCount: 2, memoryInGb: 4 }
      const pod = podFrom({ image: 'a\nb' }, { id: 'wide', ...size, template: wide })
      const kept = { ...pod, hostId: 'host', createdAt: 1 }
      await fleet.pods.add(kept)
      await fleet.endedPods.add(kept)
      const found = [await fleet.pods.find('wide'), await fleet.endedPods.find('wide')]
      expect(found.map((one) => one?.value)).toEqual([kept, kept])
      expect(kept.env).toEqual(env)
    })

    it('are listed in order of their ids', async () => {
      for (const id of ['b', 'c', 'a']) await fleet.templates.add(template(id))
      expect((await fleet.templates.list()).map(({ value }) => value.id)).toEqual(['a', 'b', 'c'])
    })

    it('are not added where the id or a unique name is taken', async () => {
      await fleet.templates.add(template('one', 'name'))
      expect(await fleet.templates.add(template('one', 'other'))).toBe(false)
      expect(await fleet.templates.add(template('two', 'name'))).toBe(false)
      expect(await fleet.templates.list()).toHaveLength(1)
      const endpoint = endpointFrom({ templateId: 'one', name: 'name' }, { id: 'ep_1', createdAt: 'now' })
      await fleet.endpoints.add(endpoint)
      expect(await fleet.endpoints.add({ ...endpoint, id: 'ep_2' })).toBe(true)
    })

    it('of two that replace one, one does', async () => {
      await fleet.templates.add(template('one'))
      const answers = await Promise.all(
        ['a', 'b'].map((readme) => fleet.templates.replace({ ...template('one'), readme }, 1)),
      )
      expect(answers.toSorted()).toEqual(['changed', 'replaced'])
    })

    it('take a new name that is free, and give the old one back', async () => {
      await fleet.templates.add(template('one', 'first'))
      await fleet.templates.add(template('two', 'second'))
      expect(await fleet.templates.replace(template('one', 'second'), 1)).toBe('taken')
      expect(await fleet.templates.replace(template('one', 'third'), 1)).toBe('replaced')
      expect(await fleet.templates.replace(template('two', 'first'), 1)).toBe('replaced')
      expect(await fleet.templates.add(template('three', 'second'))).toBe(true)
    })

    it('are gone once removed, and their name is free', async () => {
      await fleet.templates.add(template('one', 'name'))
      expect([await fleet.templates.remove('one'), await fleet.templates.remove('one')]).toEqual([
        true,
        false,
      ])
      expect(await fleet.templates.replace(template('one', 'name'), 1)).toBe('changed')
      expect(await fleet.templates.find('one')).toBeUndefined()
      expect(await fleet.templates.add(template('two', 'name'))).toBe(true)
    })
  })

  describe('a duty', () => {
    const ask = (holder: string, now = T0): { holder: string; forMs: number; now: number } => ({
      holder,
      forMs: 5_000,
      now,
    })

    it('is held by one at a time, who may hold it on', async () => {
      const { fleet } = storeOf()
      const answers = await Promise.all(['a', 'b', 'c'].map((holder) => fleet.hold('scale', ask(holder))))
      expect(answers.filter(Boolean)).toHaveLength(1)
      const holder = ['a', 'b', 'c'][answers.indexOf(true)]!
      expect(await fleet.hold('scale', ask(holder, T0 + 4_000))).toBe(true)
      expect(await fleet.hold('scale', ask('d', T0 + 6_000))).toBe(false)
      expect(await fleet.hold('other', ask('d'))).toBe(true)
    })

    it('goes to another when its time has passed, or when it is given back', async () => {
      const { fleet } = storeOf()
      await fleet.hold('scale', ask('dead'))
      expect(await fleet.hold('scale', ask('next', T0 + 4_999))).toBe(false)
      expect(await fleet.hold('scale', ask('next', T0 + 5_000))).toBe(true)
      await fleet.letGo('scale', 'dead')
      expect(await fleet.hold('scale', ask('third', T0 + 5_001))).toBe(false)
      await fleet.letGo('scale', 'next')
      expect(await fleet.hold('scale', ask('third', T0 + 5_001))).toBe(true)
    })
  })
}
