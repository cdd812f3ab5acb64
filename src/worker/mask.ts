// Secrets of jobs, kept out of whatever their process says, also when it says it late.

import type { S3Config } from '../job/job.ts'

/** Shorter ones would mask parts of ordinary words. */
const SHORTEST = 4
/** How many are remembered, the latest; a job that has ended may still print. */
const REMEMBERED = 128

export class Masker {
  readonly #secrets = new Set<string>()

  learn(s3Config: S3Config | undefined): void {
    for (const secret of [s3Config?.accessSecret, s3Config?.accessId]) {
      if (secret === undefined || secret.length < SHORTEST) continue
      // Within JSON some characters are escaped.
      for (const form of [secret, JSON.stringify(secret).slice(1, -1)]) {
        this.#secrets.delete(form)
        this.#secrets.add(form)
      }
    }
    for (const oldest of this.#secrets) {
      if (this.#secrets.size <= REMEMBERED) break
      this.#secrets.delete(oldest)
    }
  }

  /** The text with every known secret replaced. */
  readonly mask = (text: string): string => {
    let masked = text
    for (const secret of this.#secrets) masked = masked.replaceAll(secret, '[masked]')
    return masked
  }
}
