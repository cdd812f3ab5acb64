// Waiting until replicas have what was written: once for all that was written since the last time.

/** How long replicas may take, ms. Nothing else is answered on the connection meanwhile. */
const WAIT_MS = 1_000

export interface ReplicaWaitOptions {
  /** How many replicas are to have it. */
  replicas: number
  /** Which connection it is by now: WAIT on another one knows nothing of what was written on this. */
  life: () => number
  /** Sends a WAIT. */
  send: (replicas: number, ms: number) => Promise<unknown>
}

export class ReplicaWait {
  readonly #options: ReplicaWaitOptions
  #underWay: Promise<void> | undefined
  #next: Promise<void> | undefined

  constructor(options: ReplicaWaitOptions) {
    this.#options = options
  }

  /** Resolves once replicas have what was written and answered by now, on the connection `life`; else throws. */
  async acknowledged(life: number): Promise<void> {
    const ask = async (): Promise<void> => {
      if (life !== this.#options.life())
        throw new Error('the connection broke before a replica had what was written')
      await this.#group()
    }
    await ask()
    // It broke meanwhile: the group may have asked another server.
    if (life !== this.#options.life())
      throw new Error('the connection broke before a replica had what was written')
  }

  /** What comes while a WAIT is under way waits for the next one, all of it for the same. */
  #group(): Promise<void> {
    this.#next ??= this.#afterThis()
    return this.#next
  }

  async #afterThis(): Promise<void> {
    await this.#underWay?.catch(() => undefined)
    // Whoever was answered in this turn comes along.
    await new Promise((resolve) => setImmediate(resolve))
    this.#underWay = this.#next
    this.#next = undefined
    const { replicas, send } = this.#options
    const have = Number(await send(replicas, WAIT_MS))
    if (have >= replicas) return
    throw new Error(
      `${have} of ${replicas} replicas have what was written, which may be lost if this server is`,
    )
  }
}
