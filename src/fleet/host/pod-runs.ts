// What really runs on this host, as its provider tells.

import type { HostSettings } from '../service/host-settings.ts'
import type { PodRun } from './pod-duty.ts'
import type { EndedPod, Provider, RunningPod } from '../providers/provider.ts'

const NONE: PodRun = { state: 'none' }

export class PodRuns {
  readonly #openProvider: HostSettings['openProvider']
  readonly #onChange: () => void
  readonly #runs = new Map<string, PodRun>()
  #provider: Promise<Provider> | undefined

  constructor({
    openProvider,
    onChange,
  }: {
    openProvider: HostSettings['openProvider']
    onChange: () => void
  }) {
    this.#openProvider = openProvider
    this.#onChange = onChange
  }

  /** The provider, with all that it runs known. Rejects where it cannot be had; the next call tries again. */
  open(): Promise<Provider> {
    this.#provider ??= this.#open().catch((cause: unknown) => {
      this.#provider = undefined
      throw cause
    })
    return this.#provider
  }

  get isOpen(): boolean {
    return this.#provider !== undefined
  }

  of(podId: string): PodRun {
    return this.#runs.get(podId) ?? NONE
  }

  get ids(): string[] {
    return [...this.#runs.keys()]
  }

  /** That of before is forgotten first, so that an end which comes while it is started is this one's. */
  async start(podId: string, start: () => Promise<RunningPod>): Promise<RunningPod> {
    this.forget(podId)
    const facts = await start()
    if (this.of(podId).state === 'none') this.#runs.set(podId, { state: 'running', facts, isOfBefore: false })
    return facts
  }

  forget(podId: string): void {
    this.#runs.delete(podId)
  }

  async close(): Promise<void> {
    const provider = await this.#provider?.catch(() => undefined)
    await provider?.close()
  }

  async #open(): Promise<Provider> {
    const provider = await this.#openProvider()
    try {
      // Before the list is read: what ends meanwhile is told.
      provider.onExit((end) => this.#ended(end))
      provider.onRestart((facts) => this.#restarted(facts))
      for (const pod of await provider.list()) {
        if (this.#runs.has(pod.podId)) continue
        this.#runs.set(
          pod.podId,
          pod.state === 'running'
            ? { state: 'running', facts: pod, isOfBefore: true }
            : { state: 'ended', end: pod, isOfBefore: true },
        )
      }
      return provider
    } catch (cause) {
      this.#runs.clear()
      await provider.close()
      throw cause
    }
  }

  #ended(end: EndedPod): void {
    this.#runs.set(end.podId, { state: 'ended', end, isOfBefore: false })
    this.#onChange()
  }
  #restarted(facts: RunningPod): void {
    this.#runs.set(facts.podId, { state: 'running', facts, isOfBefore: false })
    this.#onChange()
  }
}
