// Whatever the order in which things are said, lost and said again: the record is the same in the end.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as fc from 'fast-check'
import { expect, it } from 'vitest'
import {
  decodeExchange,
  encodeExchange,
  exchangeAnswerSchema,
  type ExchangeAnswer,
  type ExchangeRequest,
} from '../../src/protocol/exchange.ts'
import { Outbox, type Composed, type OutboxEntry } from '../../src/worker/outbox.ts'
import { startTestService, type TestService } from '../support/service.ts'

const steps = [
  'chunk',
  'progress',
  'send',
  'lose the request',
  'lose the answer',
  'send twice',
  'restart',
] as const
type Step = (typeof steps)[number]

class Scene {
  readonly #file: string
  readonly #outbox = new Outbox({ graceMs: 0 })
  #service: TestService
  #entry!: OutboxEntry
  #seq = 0
  #failed: number[] = []
  chunks = 0
  id = ''

  private constructor(file: string, service: TestService) {
    this.#file = file
    this.#service = service
  }

  static async open(file: string): Promise<Scene> {
    const scene = new Scene(file, await startTestService({ file }))
    scene.id = (await scene.#service.ask('POST', '/run', { input: {} })).json<{ id: string }>().id
    const answer = await scene.#exchange({ want: 1, reports: scene.#outbox.compose(0) })
    const [lease] = answer.leases
    if (!lease) throw new Error('no lease')
    scene.#entry = scene.#outbox.hold({ id: lease.id, lease: lease.lease })
    scene.#outbox.started(scene.#entry, 0)
    return scene
  }

  async play(step: Step): Promise<void> {
    switch (step) {
      case 'chunk':
        this.chunks += 1
        return this.#outbox.addChunk(this.#entry, { output: Buffer.from(String(this.chunks)) })
      case 'progress':
        return this.#outbox.setProgress(this.#entry, Buffer.from(`{"at":${this.chunks}}`))
      case 'restart':
        await this.#service.close()
        this.#service = await startTestService({ file: this.#file })
        return
      default:
        return this.#say(step)
    }
  }

  /** Ends the job and says so until it is acknowledged. */
  async finish(): Promise<void> {
    const output = Buffer.from('"the end"')
    this.#outbox.end(
      this.#entry,
      { ...this.#entry.ref, outcome: 'completed', executionMs: 5, bytes: output.byteLength },
      output,
    )
    for (let tries = 0; this.#outbox.size > 0; tries += 1) {
      expect(tries).toBeLessThan(5)
      await this.#say('send')
    }
  }

  async record(): Promise<unknown> {
    return (await this.#service.ask('GET', `/status/${this.id}`)).json()
  }

  async stream(): Promise<unknown> {
    return (await this.#service.ask('GET', `/stream/${this.id}?after=0`)).json()
  }

  close(): Promise<void> {
    return this.#service.close()
  }

  async #say(step: 'send' | 'lose the request' | 'lose the answer' | 'send twice'): Promise<void> {
    // A request with nothing to settle would be held.
    if (this.#outbox.pending === 0) return
    const reports = this.#outbox.compose(0)
    if (step === 'lose the request') {
      this.#failed.push((this.#seq += 1))
      return this.#outbox.failed(reports)
    }
    const answer = await this.#exchange({ want: 0, reports })
    if (step === 'lose the answer') {
      this.#failed.push(this.#seq)
      return this.#outbox.failed(reports)
    }
    if (step === 'send twice') await this.#exchange({ want: 0, reports })
    for (const ack of answer.acks) this.#outbox.acknowledge(ack)
    this.#outbox.answered(reports)
  }

  async #exchange({ want, reports }: { want: number; reports: Composed }): Promise<ExchangeAnswer> {
    const failed = this.#failed.splice(0)
    const head: ExchangeRequest = { session: 's', seq: (this.#seq += 1), want, ...reports.reports }
    const body = encodeExchange(failed.length > 0 ? { ...head, failed } : head, reports.payloads)
    return decoded(await this.#service.ask('POST', '/exchange/w', body))
  }
}

function decoded(answer: { statusCode: number; rawPayload: Buffer }): ExchangeAnswer {
  expect(answer.statusCode).toBe(200)
  return decodeExchange(answer.rawPayload, exchangeAnswerSchema).head
}

it(
  'any interleaving of chunks, progress, losses and restarts ends with the same record',
  { timeout: 120_000 },
  async () => {
    const dir = mkdtempSync(join(tmpdir(), 'longshore-test-'))
    let scenes = 0
    try {
      await fc.assert(
        fc.asyncProperty(fc.array(fc.constantFrom(...steps), { maxLength: 25 }), async (script) => {
          const scene = await Scene.open(join(dir, `${(scenes += 1)}.db`))
          try {
            for (const step of script) await scene.play(step)
            await scene.finish()
            expect(await scene.record()).toMatchObject({
              status: 'COMPLETED',
              output: 'the end',
              executionTime: 5,
              attempt: 1,
            })
            expect(await scene.record()).not.toHaveProperty('progress')
            expect(await scene.stream()).toMatchObject(
              Array.from({ length: scene.chunks }, (_, at) => ({ index: at + 1, output: at + 1 })),
            )
          } finally {
            await scene.close()
          }
        }),
        { numRuns: 60 },
      )
    } finally {
      rmSync(dir, { recursive: true, force: true })
    }
  },
)
