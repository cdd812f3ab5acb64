import { expect, it, onTestFinished } from 'vitest'
import { failingLink, type Fault } from '../support/failing-link.ts'
import { History } from '../support/history.ts'
import { fixture, serve, startWorker } from '../support/processes.ts'
import { recordedLink } from '../support/recorded-link.ts'
import { RecordingClient } from '../support/recording-client.ts'

const JOBS = 200

/** The same throws in every run. */
function dice(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
    return state / 2_147_483_648
  }
}

it(
  'a worker finishes 200 jobs through a link that resets, delays, swallows and half-closes, each result accepted once',
  { timeout: 120_000 },
  async () => {
    const { endpointUrl } = await serve()
    const history = new History()
    // Beside the service: what fails lies between it and the worker.
    const recorded = await recordedLink(endpointUrl, history)
    onTestFinished(() => recorded.close())
    const client = new RecordingClient(endpointUrl, history)
    onTestFinished(() => client.close())
    const url = new URL(endpointUrl)
    const roll = dice(7)
    let swallowed = 0
    const link = await failingLink(recorded.port, (): Fault => {
      const n = roll()
      if (n < 0.2) return 'reset at once'
      if (n < 0.4) return 'reset on answer'
      if (n < 0.5) return 'delay'
      if (n < 0.6) return 'half-close'
      // Each of these costs a time-out.
      if (n < 0.65 && (swallowed += 1) <= 2) return 'swallow'
      return 'reset later'
    })
    onTestFinished(() => link.close())
    url.port = String(link.port)
    const ids = await Promise.all(
      Array.from({ length: JOBS }, (_, n) => client.submit({ input: { to: n % 5 } })),
    )
    const worker = await startWorker(url.href, fixture('counts-slowly.ts'), ['--concurrency', '4'])
    await expect.poll(() => client.completed(), { timeout: 100_000, interval: 250 }).toBe(JOBS)
    await client.count()
    for (const id of ids) {
      await client.look(id)
      await client.read(id)
    }
    expect(history.count('settled')).toBeGreaterThanOrEqual(JOBS)
    history.check()
    for (const fault of ['reset at once', 'reset on answer', 'delay', 'half-close'] as const) {
      expect(link.faults.get(fault) ?? 0, fault).toBeGreaterThan(0)
    }
    expect(await worker.kill('SIGTERM')).toBe(0)
  },
)
