// The duty to scale one endpoint: of several servers on one store one has it at a time.

import type { Clock } from '../../lib/clock.ts'
import type { FleetStore } from '../../store/fleet-store.ts'

/** Whoever dies with the duty holds up the others for so long. */
const HOLD_MS = 5_000

/** Another server has it now: whatever was decided here is not to be carried out any more. */
export class DutyLostError extends Error {}

export class ScalingDuty {
  readonly #options: { store: FleetStore; clock: Clock; endpointId: string; hostId: string }
  #heldAt = 0
  #isHeld = false

  constructor(options: { store: FleetStore; clock: Clock; endpointId: string; hostId: string }) {
    this.#options = options
  }

  /** Whether it is this server's, for the next few seconds. */
  async hold(): Promise<boolean> {
    const { store, clock, hostId } = this.#options
    const now = clock.now()
    this.#isHeld = await store.hold(this.#name, { holder: hostId, forMs: HOLD_MS, now })
    this.#heldAt = now
    return this.#isHeld
  }

  /** Before each write: asks again where half of the time has gone. Throws DutyLostError. */
  async check(): Promise<void> {
    const age = this.#options.clock.now() - this.#heldAt
    if (age >= 0 && age < HOLD_MS / 2) return
    if (!(await this.hold()))
      throw new DutyLostError(`Another server scales endpoint '${this.#options.endpointId}' now.`)
  }

  async letGo(): Promise<void> {
    if (!this.#isHeld) return
    this.#isHeld = false
    await this.#options.store.letGo(this.#name, this.#options.hostId)
  }

  get #name(): string {
    return `scale:${this.#options.endpointId}`
  }
}
