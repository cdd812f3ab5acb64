// The credentials for a registry of private images. The password goes to the registry and to nobody else.

import { z } from 'zod'
import { resourceIdSchema, resourceNameSchema } from './container.ts'

export const newRegistryAuthSchema = z.strictObject({
  name: resourceNameSchema,
  username: z.string().min(1).max(256),
  password: z.string().min(1).max(4_096),
})
export type NewRegistryAuth = z.output<typeof newRegistryAuthSchema>

/** As it is shown. */
export const registryAuthSchema = z.object({ id: resourceIdSchema, name: resourceNameSchema })
export type RegistryAuth = z.output<typeof registryAuthSchema>

/** As it is kept: the password is sealed. */
export const storedRegistryAuthSchema = registryAuthSchema.extend({
  username: z.string(),
  sealedPassword: z.string(),
})
export type StoredRegistryAuth = z.output<typeof storedRegistryAuthSchema>
