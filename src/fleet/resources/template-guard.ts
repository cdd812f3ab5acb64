// Keeps a template from being deleted while an endpoint is bound to it, also where different servers do the two.

import type { Clock } from '../../lib/clock.ts'
import { Refusal } from '../../protocol/errors.ts'
import type { FleetStore } from '../../store/fleet-store.ts'
import { newResourceId } from './resource-id.ts'

/** Who dies in the middle of a delete holds up the others for so long. */
const DELETE_MS = 10_000

/**
 * Whoever deletes says so before looking who uses the template, and whoever binds an endpoint to it looks after having written
 * that: one of the two sees the other.
 */
export class TemplateGuard {
  readonly #store: FleetStore
  readonly #clock: Clock

  constructor(store: FleetStore, clock: Clock) {
    this.#store = store
    this.#clock = clock
  }

  /** Throws the Refusal RESOURCE_IN_USE while another request does the same. */
  async whileDeleted(id: string, work: () => Promise<void>): Promise<void> {
    const holder = newResourceId()
    if (!(await this.#hold(id, holder, DELETE_MS)))
      throw new Refusal('RESOURCE_IN_USE', { kind: 'template', id, users: 'a request that deletes it' })
    try {
      await work()
    } finally {
      await this.#store.letGo(dutyOf(id), holder)
    }
  }

  /** Whether it is there and nobody is deleting it. */
  async isKept(id: string): Promise<boolean> {
    const holder = newResourceId()
    // Over before it began, by any clock: this keeps nobody from anything.
    if (!(await this.#hold(id, holder, -DELETE_MS))) return false
    await this.#store.letGo(dutyOf(id), holder)
    return (await this.#store.templates.find(id)) !== undefined
  }

  #hold(id: string, holder: string, forMs: number): Promise<boolean> {
    return this.#store.hold(dutyOf(id), { holder, forMs, now: this.#clock.now() })
  }
}

function dutyOf(id: string): string {
  return `delete-template:${id}`
}
