import { describe, expect, it } from 'vitest'
import { ProviderError } from '../../src/fleet/providers/provider.ts'
import { FakePlace, workerRecord } from '../support/fake-place.ts'
import { startRig } from '../support/interface-rig.ts'

/** As a provider does whose engine is away. */
async function unreached(): Promise<never> {
  throw new ProviderError('ENGINE_FAILED', 'The Docker engine does not answer. Start it, or set DOCKER_HOST.')
}

describe('what runs the pods is away', () => {
  it('is told with a 503 and its own words, by all that cannot be answered without it', async () => {
    const here = new FakePlace()
    const other = await startRig({ fleet: { place: here } })
    const { pods } = other.service.store.fleet
    await pods.add(workerRecord('p1', 'ep1'))
    here.machine = unreached
    // oxlint-disable-next-line require-yield
    here.printed.set('p1', async function* () {
      await unreached()
    })
    const replies = await Promise.all([
      other.rest('POST', '/pods', { imageName: 'image:1' }),
      other.rest('GET', '/pods/p1?includeMachine=true'),
      other.rest('GET', '/pods/p1/logs'),
    ])
    const told = {
      code: 'PODS_UNREACHABLE',
      error: 'The Docker engine does not answer. Start it, or set DOCKER_HOST.',
    }
    expect(replies.map((reply) => [reply.statusCode, reply.headers['retry-after'], reply.json()])).toEqual(
      replies.map(() => [503, '1', told]),
    )
    expect(await pods.list()).toHaveLength(1)
    expect((await other.rest('GET', '/pods/p1')).statusCode).toBe(200)
  })
})
