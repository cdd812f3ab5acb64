// What is being done about pods: one thing at a time for each, none of them waiting for another.

import { within, type Clock } from '../../lib/clock.ts'
import type { FleetLog } from '../service/host-settings.ts'
import { Waits } from './waits.ts'

export interface PodTasksOptions {
  clock: Clock
  log: FleetLog
  /** Something was done. */
  onDone: () => void
}

export class PodTasks {
  readonly #options: PodTasksOptions
  readonly #troubles: Waits
  readonly #underWay = new Map<string, Promise<void>>()
  #isOver = false

  constructor(options: PodTasksOptions) {
    this.#options = options
    this.#troubles = new Waits(options.clock)
  }

  /** Not begun where something is done about this pod already, or was in vain a moment ago. */
  begin(podId: string, run: () => Promise<unknown>): void {
    if (this.#isOver || this.#underWay.has(podId) || this.#troubles.isOn(podId)) return
    this.#underWay.set(podId, this.#run(podId, run))
  }

  /** It is tried again, less and less often. */
  failed(podId: string, error: unknown): void {
    const wait = Math.round(this.#troubles.after(podId))
    const message = `Pod ${podId} could not be made what its record says; that is tried again in ${wait} ms.`
    this.#options.log.error({ err: error, pod: podId }, message)
  }

  /** Begins nothing more. */
  end(): void {
    this.#isOver = true
  }

  /** Until all that was begun is done, or this long. */
  async done(mostMs: number): Promise<void> {
    await within(this.#options.clock, mostMs, Promise.all(this.#underWay.values()))
  }

  /** The pods that something is done about. */
  get ids(): string[] {
    return [...this.#underWay.keys()]
  }

  /** What is done about this one: resolves when it is over, well or not. */
  of(podId: string): Promise<void> | undefined {
    return this.#underWay.get(podId)
  }

  async #run(podId: string, run: () => Promise<unknown>): Promise<void> {
    try {
      await run()
      this.#troubles.clear(podId)
    } catch (error) {
      this.failed(podId, error)
    }
    this.#underWay.delete(podId)
    this.#options.onDone()
  }
}
