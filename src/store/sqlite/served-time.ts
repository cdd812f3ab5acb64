// Time in which nobody swept a queue file: leases and deadlines last longer by it.

import { transitions } from '../../job/lifecycle.ts'
import { integer, type Context } from './context.ts'
import { inStatuses } from './schema.ts'

/** To be asked inside a transaction. */
export class ServedTime {
  readonly #context: Context

  constructor(context: Context) {
    this.#context = context
    // Of this process alone; and what a transaction that is undone has made up for is undone with it.
    context.db.exec('create temp table served (swept_at integer not null, served_ms integer not null)')
  }

  /** Before a round: what was leased before this process came has `leaseMs` from now at least. */
  sweep(now: number, { leaseMs, servedMs }: { leaseMs: number; servedMs: number }): void {
    const { statements } = this.#context
    const last = this.#last()
    if (!last) {
      this.#grant({ gap: 0, atLeast: now + leaseMs })
      statements.run('insert into temp.served values ($now, $servedMs)', { now, servedMs })
      return
    }
    if (now - last.sweptAt > servedMs) this.#grant({ gap: now - last.sweptAt, atLeast: 0 })
    statements.run('update temp.served set swept_at = $now, served_ms = $servedMs', { now, servedMs })
  }

  /** Before anything is given a lease or a deadline, which would last too long otherwise. */
  catchUp(now: number): void {
    const last = this.#last()
    if (!last || now - last.sweptAt <= last.servedMs) return
    this.#grant({ gap: now - last.sweptAt, atLeast: 0 })
    this.#context.statements.run('update temp.served set swept_at = $now', { now })
  }

  #last(): { sweptAt: number; servedMs: number } | undefined {
    const row = this.#context.statements.find('select swept_at, served_ms from temp.served', {})
    return row && { sweptAt: integer(row['swept_at']), servedMs: integer(row['served_ms']) }
  }

  #grant(bind: { gap: number; atLeast: number }): void {
    this.#context.statements.run(
      `update jobs set lease_expires_at = max(lease_expires_at + $gap, $atLeast), deadline_at = max(deadline_at + $gap, $atLeast)
       where ${inStatuses(transitions.lapse.from)}`,
      bind,
    )
  }
}
