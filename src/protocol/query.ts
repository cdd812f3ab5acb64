// Values out of a query string.

import { z } from 'zod'

/** `true` or `false`, as clients write them. */
export const queryBoolean = z
  .enum(['true', 'false'], 'must be true or false')
  .transform((text) => text === 'true')
  .meta({ override: { type: 'boolean' } })

/** A whole number from a query: digits only, so that '', '1e3' and ' 5' are refused rather than guessed at. */
export function queryInt({ min, max }: { min: number; max: number }): z.ZodType<number, string> {
  const error = `must be a whole number from ${min} to ${max}`
  return z
    .string({ error })
    .regex(/^-?\d{1,16}$/, { error })
    .transform(Number)
    .pipe(z.int({ error }).min(min, { error }).max(max, { error }))
    .meta({ override: { type: 'integer', minimum: min, maximum: max } })
}
