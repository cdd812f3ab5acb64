// A template: a container's configuration under a name, for endpoints and pods to be made from.

import { isDeepStrictEqual } from 'node:util'
import { z } from 'zod'
import {
  containerDefaults,
  containerFrom,
  containerShape,
  given,
  keptContainerShape,
  resourceIdSchema,
  resourceNameSchema,
} from './container.ts'
import { withDefaults } from './documented.ts'
import { fleetLimits } from './fleet-limits.ts'
import { imageNameSchema } from './image-name.ts'

const readmeSchema = z.string().max(fleetLimits.readmeChars)

const AUTH_WORDS = 'must be the id of a registry auth, or null for none'

/** What an update may change; a field that is left out stays as it is, and `env` is replaced whole. */
export const templateUpdateSchema = z
  .strictObject({
    ...containerShape,
    /** `null`, or the empty text, takes it off. */
    containerRegistryAuthId: z.union([resourceIdSchema, z.literal(''), z.null()], AUTH_WORDS),
    name: resourceNameSchema,
    imageName: imageNameSchema,
    isPublic: z.boolean(),
    readme: readmeSchema,
  })
  .partial()
export type TemplateUpdate = z.output<typeof templateUpdateSchema>

export const templateCategories = ['NVIDIA', 'AMD', 'CPU'] as const

const templateDefaults = { category: 'CPU', isPublic: false, isServerless: false, readme: '' } as const

export const newTemplateSchema = withDefaults(
  templateUpdateSchema.required({ name: true, imageName: true }).extend({
    containerRegistryAuthId: resourceIdSchema.optional(),
    category: z.enum(templateCategories).optional(),
    /** Whether what is made from it are workers of endpoints rather than pods of their own. */
    isServerless: z.boolean().optional(),
  }),
  { ...containerDefaults, ...templateDefaults },
)
export type NewTemplate = z.output<typeof newTemplateSchema>

export const templateSchema = z.object({
  id: resourceIdSchema,
  ...keptContainerShape,
  name: z.string(),
  imageName: z.string(),
  category: z.enum(templateCategories),
  /** Credits of its maker; here there are none. */
  earned: z.number(),
  isPublic: z.boolean(),
  isServerless: z.boolean(),
  /** Whether it comes with the service; here none does. */
  isVendor: z.boolean(),
  readme: z.string(),
  runtimeInMin: z.int(),
})
export type Template = z.output<typeof templateSchema>

/** The record of a new template, its defaults filled in. */
export function templateFrom(made: NewTemplate, id: string): Template {
  return {
    ...containerFrom(made),
    id,
    name: made.name,
    imageName: made.imageName,
    category: made.category ?? templateDefaults.category,
    earned: 0,
    isPublic: made.isPublic ?? templateDefaults.isPublic,
    isServerless: made.isServerless ?? templateDefaults.isServerless,
    isVendor: false,
    readme: made.readme ?? templateDefaults.readme,
    runtimeInMin: 0,
  }
}

/** A field that is left out stays as it is. */
export function updatedTemplate(template: Template, update: TemplateUpdate): Template {
  const { containerRegistryAuthId, ...others } = update
  const updated = { ...template, ...given(others) }
  if (containerRegistryAuthId === undefined) return updated
  if (containerRegistryAuthId) return { ...updated, containerRegistryAuthId }
  const { containerRegistryAuthId: _, ...without } = updated
  return without
}

/** What a worker runs with; an update of anything else replaces nobody. */
const running = [
  'containerDiskInGb',
  'containerRegistryAuthId',
  'dockerEntrypoint',
  'dockerStartCmd',
  'env',
  'imageName',
  'ports',
  'volumeInGb',
  'volumeMountPath',
] as const satisfies readonly (keyof Template)[]

export function runsDifferently(before: Template, after: Template): boolean {
  return running.some((field) => !isDeepStrictEqual(before[field], after[field]))
}
