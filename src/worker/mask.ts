// Secrets of a job, kept out of whatever is said about it.

import type { S3Config } from '../job/job.ts'

/** Shorter ones would mask parts of ordinary words. */
const SHORTEST = 4

/** A function that replaces the job's secrets in a text. */
export function maskerOf(s3Config: S3Config | undefined): (text: string) => string {
  const secrets = [s3Config?.accessSecret, s3Config?.accessId].filter(
    (secret): secret is string => secret !== undefined && secret.length >= SHORTEST,
  )
  if (secrets.length === 0) return (text) => text
  return (text) => secrets.reduce((masked, secret) => masked.replaceAll(secret, '[masked]'), text)
}
