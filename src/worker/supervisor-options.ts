// What a supervisor is given, and whom it tells what its processes say.

import type { Clock } from '../lib/clock.ts'
import type { Death } from './death.ts'
import type { WorkerEvents } from './events.ts'
import type { ProcessMessage } from './handler-process.ts'
import type { Stall } from './messages.ts'
import type { OutputLine } from './output-lines.ts'
import type { Seat } from './seat.ts'
import type { SpareKind } from './spare.ts'

export interface SupervisorOptions {
  handlerPath: string
  env: NodeJS.ProcessEnv
  clock: Clock
  events: WorkerEvents
  output: 'lines' | 'stderr'
  /** How many processes share the jobs. */
  executors: number
  spare: SpareKind
  importTimeoutMs: number
  setupTimeoutMs: number
  /** After so many jobs a process is replaced. */
  maxJobsPerExecutor?: number
  /** A process that has more resident memory after a job is replaced, MB. */
  maxMemoryMb?: number
  /**
   * The handler is being worked on: its processes tell which files they import, and after a load that failed there is no
   * other before `reload()`.
   */
  isInDevelopment?: boolean
  /** Replaces secrets in what processes print. */
  mask: (text: string) => string
  listener: SupervisorListener
}

export interface SupervisorListener {
  /** A process has become ready. */
  onReady(): void
  onMessage(seat: Seat, message: ProcessMessage, payload: Uint8Array): void
  onLine(seat: Seat, stream: 'stdout' | 'stderr', line: OutputLine): void
  onStall(seat: Seat, stall: Stall): void
  onDeath(seat: Seat, death: Death): void
}
