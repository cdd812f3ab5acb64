// From what a schema found wrong to the words of an answer: which field, what it must be, what it was.

import type { z } from 'zod'

export interface FieldProblem {
  field: string
  problem: string
}

/** The first problem of a document. The value is quoted only where it cannot be a secret or a job's input. */
export function fieldProblem(
  issues: readonly z.core.$ZodIssue[],
  document: unknown,
  place: string,
): FieldProblem {
  const issue = issues[0]
  if (!issue) return { field: place, problem: 'does not fit' }
  const path = issue.path.map(String)
  return {
    field: path.length > 0 ? path.join('.') : place,
    problem: `${wording(issue)}${got(issue, document)}`,
  }
}

function wording(issue: z.core.$ZodIssue): string {
  if (issue.code === 'unrecognized_keys')
    return `has the unknown key '${(issue.keys[0] ?? '').slice(0, QUOTED_CHARS)}'`
  if (isMissing(issue)) return 'is required'
  if (issue.code === 'invalid_value' && issue.message.startsWith('Invalid'))
    return `must be ${issue.values.length > 1 ? 'one of ' : ''}${issue.values.join(', ')}`
  if (issue.code === 'invalid_type' && issue.message.startsWith('Invalid'))
    return `must be ${articleFor(issue.expected)}`
  if (issue.code === 'invalid_format' && issue.format === 'url') return 'must be an http or https URL'
  if (issue.code === 'too_big' && issue.origin === 'string')
    return `must be at most ${issue.maximum} characters long`
  if (issue.code === 'too_small' && issue.origin === 'string')
    return `must be at least ${issue.minimum} character long`
  if (issue.message.startsWith('Too ')) return bound(issue)
  // What is wrong with the name of an entry, which is the last part of the path.
  const [ofKey] = issue.code === 'invalid_key' ? issue.issues : []
  if (ofKey) return wording(ofKey)
  if (issue.message.startsWith('Invalid')) return 'has characters or a form that are not allowed'
  return issue.message
}

function bound(issue: z.core.$ZodIssue): string {
  if (issue.code === 'too_big')
    return issue.origin === 'array'
      ? `must have at most ${issue.maximum} entries`
      : `must be at most ${issue.maximum}`
  if (issue.code === 'too_small') return `must be at least ${issue.minimum}`
  return issue.message
}

/** A field that may be left out elsewhere, and not here. */
function isMissing(issue: z.core.$ZodIssue): boolean {
  return issue.code === 'invalid_type' && issue.expected === 'nonoptional'
}

function articleFor(type: string): string {
  return /^[aeiou]/.test(type) ? `an ${type}` : `a ${type}`
}

const QUOTED_CHARS = 64
/** A job's input, and what may be a secret. */
const UNQUOTED = new Set([
  'input',
  's3Config',
  'webhook',
  'env',
  'username',
  'password',
  'dockerStartCmd',
  'dockerEntrypoint',
])

function got(issue: z.core.$ZodIssue, document: unknown): string {
  if (issue.path.some((step) => UNQUOTED.has(String(step)))) return ''
  if (isMissing(issue)) return ''
  let value = document
  for (const step of issue.path) {
    value = typeof value === 'object' && value !== null ? Reflect.get(value, step) : undefined
  }
  if (issue.path.length === 0 || issue.code === 'unrecognized_keys') return ''
  if (value === undefined) return ', got nothing'
  if (typeof value === 'number' || typeof value === 'boolean' || value === null)
    return `, got ${String(value)}`
  if (typeof value !== 'string') return Array.isArray(value) ? ', got an array' : `, got an ${typeof value}`
  return value.length <= QUOTED_CHARS ? `, got '${value}'` : `, got ${value.length} characters`
}
