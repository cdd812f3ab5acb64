import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { hashKey } from '../../src/resource/key-text.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { KEY, startTestService, type TestService } from '../support/service.ts'

let service: TestService
let clock: FakeClock
beforeEach(async () => {
  clock = new FakeClock()
  service = await startTestService({ clock })
})
afterEach(async () => {
  const closing = service.close()
  clock.advance(10_000)
  await closing
})

const scrape = (authorization = KEY): Promise<{ statusCode: number; body: string }> =>
  service.http.inject({ url: '/metrics', headers: { authorization } })

describe('/metrics', () => {
  it('tells jobs by state, waits, runs, the age of the queue, workers and requests', async () => {
    const submit = async (): Promise<string> =>
      (await service.ask('POST', '/run', { input: {} })).json<{ id: string }>().id
    const id = await submit()
    clock.advance(3_000)
    await service.ask('GET', '/job-take/w1?x=1')
    clock.advance(1_500)
    await service.ask('POST', `/job-done/w1/${id}`, '{"output":1}')
    await submit()
    clock.advance(7_000)
    const { statusCode, body } = await scrape()
    expect(statusCode).toBe(200)
    for (const line of [
      'longshore_jobs{endpoint="default",state="in_queue"} 1',
      'longshore_jobs{endpoint="default",state="in_progress"} 0',
      '# TYPE longshore_jobs_completed_total counter',
      'longshore_jobs_completed_total{endpoint="default"} 1',
      'longshore_jobs_failed_total{endpoint="default"} 0',
      'longshore_queue_age_seconds{endpoint="default"} 7',
      'longshore_lease_wait_seconds_sum{endpoint="default"} 3',
      'longshore_run_seconds_sum{endpoint="default",outcome="completed"} 1.5',
      'longshore_workers{endpoint="default",state="idle"} 1',
      'longshore_http_request_seconds_count{method="POST",route="/v2/:endpointId/run",status="200"} 2',
    ]) {
      expect(body).toContain(line)
    }
  })

  it('needs a key that may read every endpoint', async () => {
    const key = (name: string, more: object): Promise<void> =>
      service.store.keys.addKey({
        hash: hashKey(name),
        id: `key_${name}`,
        name,
        permissions: ['read'],
        createdAt: 1,
        ...more,
      })
    await key('reads', {})
    await key('narrow', { endpoints: ['default'] })
    await key('writes', { permissions: ['write'] })
    expect((await scrape('reads')).statusCode).toBe(200)
    for (const name of ['narrow', 'writes', 'nobody']) expect((await scrape(name)).statusCode).toBe(401)
    expect((await service.http.inject({ url: '/metrics' })).statusCode).toBe(401)
  })
})
