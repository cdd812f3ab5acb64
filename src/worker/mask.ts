// Secrets of jobs, kept out of whatever their process says, also when it says it late.

import type { S3Config } from '../job/job.ts'
import { stringifyJson } from '../lib/intrinsics.ts'

/** Shorter ones would mask parts of ordinary words. */
const SHORTEST = 4
/** Of how many jobs that have ended they are remembered, the latest: such a job may still print. */
const REMEMBERED = 64

export class Masker {
  readonly #own: readonly string[]
  /** By run, as long as it runs. */
  readonly #running = new Map<number, readonly string[]>()
  /** Of runs that have ended, the latest last. */
  #late: (readonly string[])[] = []
  /** All of them, longer ones first: one may be part of another. */
  #secrets: readonly string[] = []

  /** `own` are credentials of the worker itself: they are always masked. */
  constructor(own?: Partial<S3Config>) {
    this.#own = own ? secretsIn(own) : []
    this.#sort()
  }

  /** Masks the credentials in this from now on, until some time after `forget`. */
  learn(run: number, s3Config: S3Config | undefined): void {
    if (!s3Config) return
    const secrets = secretsIn(s3Config)
    if (secrets.length === 0) return
    this.#running.set(run, secrets)
    this.#sort()
  }

  /** The run has ended. */
  forget(run: number): void {
    const secrets = this.#running.get(run)
    if (!secrets) return
    this.#running.delete(run)
    // Jobs of one client mostly have the same ones: those must not push out the others.
    this.#late = [...this.#late.filter((late) => late.join() !== secrets.join()), secrets].slice(-REMEMBERED)
    this.#sort()
  }

  /** The text with every known secret replaced. */
  readonly mask = (text: string): string => {
    let masked = text
    for (const secret of this.#secrets) masked = masked.replaceAll(secret, '[masked]')
    return masked
  }

  #sort(): void {
    const all = new Set([this.#own, ...this.#running.values(), ...this.#late].flat())
    this.#secrets = [...all].toSorted((a, b) => b.length - a.length)
  }
}

/** What of it is secret, in each form that it may be printed in. The bucket and the address are not. */
function secretsIn({ accessId = '', accessSecret = '', endpointUrl = '' }: Partial<S3Config>): string[] {
  const secrets = [accessSecret, accessId, ...passwordIn(endpointUrl)]
  // Within JSON some characters are escaped, and in a URL others.
  const forms = secrets.flatMap((secret) => [secret, stringifyJson(secret).slice(1, -1), inUrl(secret)])
  return [...new Set(forms)].filter((form) => form.length >= SHORTEST)
}

/** As signed addresses have it. */
function inUrl(secret: string): string {
  return secret.isWellFormed() ? encodeURIComponent(secret) : secret
}

/** Some stores are given as https://user:password@host. */
function passwordIn(url: string): string[] {
  const password = URL.parse(url)?.password ?? ''
  try {
    return [password, decodeURIComponent(password)]
  } catch {
    // A per cent sign that escapes nothing.
    return [password]
  }
}
