// The settings of a worker: one strict schema over flags and environment.

import { z } from 'zod'
import { workerIdSchema } from '../protocol/exchange.ts'

const ms = z.coerce
  .number('must be a number of ms')
  .int('must be a whole number of ms')
  .min(0, 'must not be negative')

export const workerConfigSchema = z.strictObject({
  LONGSHORE_ENDPOINT_URL: z
    .url({
      protocol: /^https?$/,
      error: 'must be the http or https URL of an endpoint, as in http://127.0.0.1:8000/v2/default',
    })
    .refine((url) => /\/v2\/[^/]+\/?$/.test(new URL(url).pathname), 'must end with /v2/{endpointId}'),
  LONGSHORE_WORKER_TOKEN: z
    .string('must be set to a worker token or an API key of the queue')
    .min(1, 'must not be empty'),
  LONGSHORE_WORKER_ID: workerIdSchema.optional(),
  concurrency: z.coerce
    .number()
    .int('must be a whole number')
    .min(1, 'must be from 1 to 1000')
    .max(1000, 'must be from 1 to 1000')
    .default(1),
  drainMs: ms.default(30_000),
  killGraceMs: ms.default(5_000),
})
export type WorkerConfig = z.output<typeof workerConfigSchema>

export class ConfigError extends Error {}

/** Reads the settings or throws a ConfigError with every problem at once. Values are not quoted: one is a secret. */
export function loadWorkerConfig(env: NodeJS.ProcessEnv, flags: Record<string, unknown>): WorkerConfig {
  const { LONGSHORE_ENDPOINT_URL, LONGSHORE_WORKER_TOKEN, LONGSHORE_WORKER_ID } = env
  const given = { LONGSHORE_ENDPOINT_URL, LONGSHORE_WORKER_TOKEN, LONGSHORE_WORKER_ID, ...flags }
  const result = workerConfigSchema.safeParse(given)
  if (result.success) return result.data
  const problems = result.error.issues.map(
    ({ path, message }) => `${shown(path.map(String).join('.'))} ${message}.`,
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
