// What a schema takes for a field that is left out, told in the documents that are made from it. The records are filled in by those
// who make them: a default in the schema itself would also hold for updates.

import type { z } from 'zod'

export function withDefaults<T extends z.ZodObject>(
  schema: T,
  defaults: { readonly [F in keyof z.output<T>]?: unknown },
): T {
  const fields = Object.entries(defaults).map(([field, value]) => {
    const known = schema.shape[field] as z.ZodType
    return [field, known.meta({ ...known.meta(), default: value })]
  })
  return schema.extend(Object.fromEntries(fields) as T['shape']) as unknown as T
}
