// Outputs that are too large to be kept: into the job's bucket, where the author wants that.

import { limits } from '../job/limits.ts'
import type { S3Helpers } from '../s3/s3-helpers.ts'
import type { SpillOptions } from './define-handler.ts'
import { RunFailure } from './thrown.ts'

/** How an output that was spilled is told in the job's record. */
export interface SpilledOutput {
  url: string
  key: string
  bytes: number
  contentType: string
}

const NAME = 'output.json'
const CONTENT_TYPE = 'application/json'

/** Whether this may stand for `spill` in a definition, beside true and false. */
export function isSpillOptions(value: unknown): value is SpillOptions {
  if (typeof value !== 'object' || value === null) return false
  const overBytes: unknown = Reflect.get(value, 'overBytes')
  if (overBytes === undefined) return true
  return typeof overBytes === 'number' && overBytes >= 0 && overBytes <= limits.outputBytes
}

/**
 * The output itself, or undefined and then what stands in its place. Throws OUTPUT_TOO_LARGE when it can go nowhere, and
 * S3Error when the bucket does not take it. `s3` is undefined where there is no bucket.
 */
export async function spillIfLarge(
  output: Uint8Array,
  wish: boolean | SpillOptions,
  s3: S3Helpers | undefined,
): Promise<SpilledOutput | undefined> {
  const { overBytes = limits.outputBytes } = typeof wish === 'boolean' ? {} : wish
  const isWanted = wish !== false && output.byteLength > overBytes
  if (isWanted && s3) {
    const { url, key, bytes } = await s3.upload(output, {
      // The handler may have uploaded a file by that name.
      name: s3.freeName(NAME),
      contentType: CONTENT_TYPE,
    })
    return { url, key, bytes, contentType: CONTENT_TYPE }
  }
  // What fits the record may stay in it where there is no bucket.
  if (output.byteLength <= limits.outputBytes) return undefined
  const advice =
    wish === false
      ? "Yield it in pieces, upload it with context.s3 and return its URL, or set 'spill: true' in the handler's definition, which does that by itself"
      : "Its definition has 'spill', but the job has no s3Config and the worker no BUCKET_ variables: submit the job with one"
  throw new RunFailure(
    'OUTPUT_TOO_LARGE',
    'OutputError',
    `The output is ${output.byteLength} bytes of JSON, more than the ${limits.outputBytes} that are kept. ${advice}.`,
  )
}
