// One run of a pod as a process: looked after until it is gone, with all that it started.

import type { ChildProcess } from 'node:child_process'
import { pause, type Clock } from '../../lib/clock.ts'
import type { MemoryGroup } from './memory-group.ts'
import { codeOfSignal, exitFrom } from './pod-exit.ts'
import type { PodFolder } from './pod-folder.ts'
import { isAlive, sessionMembers, type ProcessIdentity } from './process-identity.ts'
import { ProviderError, type EndedPod, type RunningPod } from './provider.ts'

/** How long a process may take to be gone after SIGKILL. */
const GONE_MS = 10_000
const POLL_MS = 20

export interface PodRunOptions {
  facts: RunningPod
  /** Undefined for one that ended before it said which process it is. */
  identity: ProcessIdentity | undefined
  folder: PodFolder
  group: MemoryGroup | undefined
  clock: Clock
  /** For one that this service started itself. */
  child?: ChildProcess
  /** Its end came and cannot be seen to, which is tried again at the next look; or was not written down, which is not. */
  onTrouble: (error: unknown) => void
}

export class PodRun {
  readonly facts: RunningPod
  /** Resolves when all of its processes are gone and its end is written down. */
  readonly ended: Promise<EndedPod>
  readonly #options: PodRunOptions
  readonly #end = Promise.withResolvers<EndedPod>()
  #exit: { code: number | null } | undefined
  #burial: Promise<void> | undefined
  #wasStopped: boolean
  #isOverMemory = false
  #isReleased = false

  constructor(options: PodRunOptions) {
    this.#options = options
    this.facts = options.facts
    this.ended = this.#end.promise
    this.#wasStopped = options.folder.isStopping
    options.child?.once('exit', (code, signal) => {
      this.#exit = { code: signal ? codeOfSignal(signal) : code }
      void this.look()
    })
  }

  /** Sees to it no more: it is another service's from now on. */
  release(): void {
    this.#isReleased = true
  }

  get isStopping(): boolean {
    return this.#wasStopped
  }

  /** Sees to its end if it has come. Resolves when that is done, or was tried in vain. */
  async look(): Promise<void> {
    const { child, identity } = this.#options
    if (this.#isReleased) return
    if (!child && !(identity && isAlive(identity))) this.#exit ??= { code: null }
    if (!this.#exit) return
    this.#burial ??= this.#bury(this.#exit.code).then(this.#end.resolve, (error: unknown) => {
      this.#burial = undefined
      this.#options.onTrouble(error)
    })
    await this.#burial
  }

  async stop(graceMs: number): Promise<void> {
    const { folder } = this.#options
    if (!this.#wasStopped) {
      this.#wasStopped = true
      this.#note(() => folder.markStopping())
      if (graceMs > 0) this.#ask()
    }
    const done = new AbortController()
    void this.ended.then(() => done.abort())
    await this.#lookFor(graceMs, done.signal)
    if (!done.signal.aborted) this.#kill()
    await this.#lookFor(GONE_MS, done.signal)
    if (!done.signal.aborted) throw this.#notGone()
  }

  /** Until it has ended, or this long. */
  async #lookFor(ms: number, done: AbortSignal): Promise<void> {
    const { clock, child } = this.#options
    const until = clock.monotonic() + ms
    for (;;) {
      void this.look()
      const left = until - clock.monotonic()
      if (done.aborted || left <= 0) return
      // One's own child tells its end by itself.
      await pause(clock, child ? left : Math.min(left, POLL_MS), done)
    }
  }

  #ask(): void {
    const { identity } = this.#options
    if (identity && isAlive(identity)) send(-identity.pid, 'SIGTERM')
  }

  #kill(): void {
    for (const pid of this.#members()) send(pid, 'SIGKILL')
  }

  /** All that is left of it, in its session or in its control group. */
  #members(): number[] {
    const { identity, group } = this.#options
    return [...new Set([...(identity ? sessionMembers(identity) : []), ...(group?.members ?? [])])]
  }

  async #bury(code: number | null): Promise<EndedPod> {
    const { clock, folder, group, facts } = this.#options
    const until = clock.monotonic() + GONE_MS
    this.#isOverMemory ||= (group?.kills ?? 0) > 0
    while (this.#members().length > 0 || group?.remove() === false) {
      if (clock.monotonic() > until) throw this.#notGone()
      this.#kill()
      await pause(clock, POLL_MS)
    }
    const end = {
      endedAt: clock.now(),
      exit: exitFrom(code, { isOverMemory: this.#isOverMemory, wasStopped: this.#wasStopped }),
    }
    this.#note(() => folder.writeEnd(end))
    return { state: 'ended', podId: facts.podId, startedAt: facts.startedAt, ...end }
  }

  /**
   * For the next service. It may not be kept, as where this very pod has filled the disk or somebody has removed its folder; the
   * pod is ended and removed all the same, and the next service finds an end that nobody has seen.
   */
  #note(write: () => void): void {
    try {
      write()
    } catch (error) {
      this.#options.onTrouble(error)
    }
  }

  #notGone(): ProviderError {
    const left = this.#members().join(', ') || 'none that can be named'
    return new ProviderError(
      'POD_NOT_GONE',
      `Pod ${this.facts.podId} was killed, and ${GONE_MS} ms later these of its processes are still there: ${left}. They wait for a disk or a device; end that wait, and stop the pod again.`,
    )
  }
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (cause) {
    // Gone by itself.
    if ((cause as NodeJS.ErrnoException).code !== 'ESRCH') throw cause
  }
}
