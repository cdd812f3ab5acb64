// Keeps what was decided last about an endpoint's workers, for whoever reads the endpoint.

import type { Scaling, StoredScaling } from '../../resource/scaling.ts'
import type { FleetStore } from '../../store/fleet-store.ts'

/** Decisions that are remembered. */
const RECENT = 20

type Standing = Omit<Scaling, 'at' | 'recent'>

export class ScalingRecord {
  readonly #store: FleetStore
  readonly #endpointId: string
  #written: { value: StoredScaling; revision: number } | undefined

  constructor({ store, endpointId }: { store: FleetStore; endpointId: string }) {
    this.#store = store
    this.#endpointId = endpointId
  }

  /** Writes only what has changed. `decisions`: what was started or ended just now, in words. */
  async write(
    standing: Standing,
    { decisions, now }: { decisions: readonly string[]; now: number },
  ): Promise<void> {
    const { scalings } = this.#store
    this.#written ??= await scalings.find(this.#endpointId)
    const before = this.#written?.value
    const at = new Date(now).toISOString()
    const made = decisions.map((reason) => ({ at, reason })).toReversed()
    const next: StoredScaling = {
      id: this.#endpointId,
      ...standing,
      at: before?.reason === standing.reason ? before.at : at,
      recent: [...made, ...(before?.recent ?? [])].slice(0, RECENT),
    }
    if (before && made.length === 0 && isSame(before, standing)) return
    const isWritten = this.#written
      ? (await scalings.replace(next, this.#written.revision)) === 'replaced'
      : await scalings.add(next)
    // Where another server wrote it meanwhile, it is read again at the next decision.
    this.#written = isWritten ? { value: next, revision: (this.#written?.revision ?? 0) + 1 } : undefined
  }
}

function isSame(before: Standing, { wanted, starting, idle, running, draining, reason }: Standing): boolean {
  return (
    before.wanted === wanted &&
    before.starting === starting &&
    before.idle === idle &&
    before.running === running &&
    before.draining === draining &&
    before.reason === reason
  )
}
