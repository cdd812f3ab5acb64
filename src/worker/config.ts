// The settings of a worker: one strict schema over flags and environment.

import { z } from 'zod'
import { limits } from '../job/limits.ts'
import { workerIdSchema } from '../protocol/exchange.ts'

function wholeNumber(error: string, bounds: { min: number; max: number }): z.ZodType<number> {
  return z.coerce.number({ error }).int({ error }).min(bounds.min, { error }).max(bounds.max, { error })
}

const A_WEEK_MS = 604_800_000
const ms = wholeNumber(`must be a whole number of ms from 0 to ${A_WEEK_MS}`, { min: 0, max: A_WEEK_MS })

const count = wholeNumber(`must be a whole number from 1 to ${limits.concurrency}`, {
  min: 1,
  max: limits.concurrency,
})

export const workerConfigSchema = z.strictObject({
  LONGSHORE_ENDPOINT_URL: z
    .string('must be set to the URL of an endpoint, as in http://127.0.0.1:8000/v2/default')
    .refine(
      isEndpointUrl,
      'must be an http or https URL that ends with /v2/{endpointId}, as in http://127.0.0.1:8000/v2/default',
    ),
  LONGSHORE_WORKER_TOKEN: z
    .string('must be set to a worker token or an API key of the queue')
    .min(1, 'must not be empty')
    .regex(/^[\x21-\x7e]*$/, 'must be printable ASCII without spaces: it goes into a header'),
  LONGSHORE_WORKER_ID: z
    .string()
    .refine(
      (id) => workerIdSchema.safeParse(id).success,
      'must be from 1 to 128 letters, digits, ".", "_", ":" and "-"',
    )
    .optional(),
  /** Without it the handler's definition says, and else it is 1. */
  concurrency: count.optional(),
  executors: wholeNumber('must be a whole number from 1 to 256', { min: 1, max: 256 }).default(1),
  spare: z.enum(['none', 'bare', 'warm'], 'must be none, bare or warm').default('bare'),
  maxJobsPerExecutor: wholeNumber('must be a whole number of jobs from 1', {
    min: 1,
    max: Number.MAX_SAFE_INTEGER,
  }).optional(),
  maxMemoryMb: wholeNumber('must be a whole number of MB from 1', { min: 1, max: 1_000_000_000 }).optional(),
  importTimeoutMs: ms.default(60_000),
  setupTimeoutMs: ms.default(600_000),
  drainMs: ms.default(30_000),
  killGraceMs: ms.default(5_000),
  healthPort: wholeNumber('must be a port from 0 to 65535', { min: 0, max: 65_535 }).optional(),
  healthHost: z.string().min(1, 'must not be empty').default('127.0.0.1'),
})
export type WorkerConfig = z.output<typeof workerConfigSchema>

function isEndpointUrl(text: string): boolean {
  const url = URL.parse(text)
  return url !== null && /^https?:$/.test(url.protocol) && /\/v2\/[^/]+\/?$/.test(url.pathname)
}

export class ConfigError extends Error {}

/** Reads the settings or throws a ConfigError with every problem at once. Values are not quoted: one is a secret. */
export function loadWorkerConfig(env: NodeJS.ProcessEnv, flags: Record<string, unknown>): WorkerConfig {
  const { LONGSHORE_ENDPOINT_URL, LONGSHORE_WORKER_TOKEN, LONGSHORE_WORKER_ID } = env
  const given = { LONGSHORE_ENDPOINT_URL, LONGSHORE_WORKER_TOKEN, LONGSHORE_WORKER_ID, ...flags }
  const result = workerConfigSchema.safeParse(given)
  if (result.success) return result.data
  const problems = result.error.issues.flatMap((issue) =>
    issue.code === 'unrecognized_keys'
      ? issue.keys.map((key) => `${shown(key)} is no setting of a worker.`)
      : [`${shown(issue.path.map(String).join('.'))} ${issue.message}.`],
  )
  throw new ConfigError(problems.join('\n'))
}

function shown(name: string): string {
  return name === name.toUpperCase()
    ? name
    : `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
}

/** What the author's code may see: everything but the keys of the queue. */
export function handlerEnv(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const hidden = new Set([
    'LONGSHORE_WORKER_TOKEN',
    'LONGSHORE_API_KEY',
    'LONGSHORE_SECRET_KEY',
    'RUNPOD_AI_API_KEY',
    'RUNPOD_API_KEY',
  ])
  return Object.fromEntries(Object.entries(env).filter(([name]) => !hidden.has(name)))
}
