// An API key as it is kept: what it may do and where. Its text is known to whoever holds it, and to nobody else.

import { z } from 'zod'
import { endpointIdSchema } from '../job/job.ts'

/** `read` looks at jobs, `write` makes and changes them, `worker` takes and reports them, `fleet` is the resource interface. */
export const permissions = ['read', 'write', 'worker', 'fleet'] as const
export type Permission = (typeof permissions)[number]

export const keySchema = z.object({
  /** What lists and revocations call it; no secret. */
  id: z.string(),
  /** Shown on terminals as it is. */
  name: z
    .string()
    .min(1)
    .max(128)
    .regex(/^[^\p{C}\p{Zl}\p{Zp}]*$/u),
  permissions: z.array(z.enum(permissions)).min(1),
  /** The endpoints it works on; all of them when left out. */
  endpoints: z.array(endpointIdSchema).min(1).optional(),
  createdAt: z.int(),
})
export type Key = z.output<typeof keySchema>

export function mayUse(key: Pick<Key, 'endpoints'>, endpoint: string): boolean {
  return key.endpoints === undefined || key.endpoints.includes(endpoint)
}
