// The settings of a worker: one strict schema over flags and environment.

import { z } from 'zod'
import { limits } from '../job/limits.ts'
import { workerIdSchema } from '../protocol/exchange.ts'
import { LOCAL_BUCKET } from '../s3/config.ts'

function wholeNumber(error: string, bounds: { min: number; max: number }): z.ZodType<number> {
  return z.coerce.number({ error }).int({ error }).min(bounds.min, { error }).max(bounds.max, { error })
}

const A_WEEK_MS = 604_800_000
const ms = wholeNumber(`must be a whole number of ms from 0 to ${A_WEEK_MS}`, { min: 0, max: A_WEEK_MS })

const count = wholeNumber(`must be a whole number from 1 to ${limits.concurrency}`, {
  min: 1,
  max: limits.concurrency,
})

const workerId = z
  .string()
  .refine(
    (id) => workerIdSchema.safeParse(id).success,
    'must be from 1 to 128 letters, digits, ".", "_", ":" and "-"',
  )

const settings = {
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
}

/** A worker of a queue of ours. */
const ownConfigSchema = z.strictObject({
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
  LONGSHORE_WORKER_ID: workerId.optional(),
  ...settings,
})
export type OwnConfig = z.output<typeof ownConfigSchema>

const hostedUrlExample = 'https://host/v2/{endpointId}'

function template(example: string): z.ZodType<string> {
  const asIn = `as in ${hostedUrlExample}/${example}`
  return z
    .string(`must be set beside RUNPOD_WEBHOOK_GET_JOB, ${asIn}`)
    .refine(isHttpUrl, `must be an http or https URL, ${asIn}`)
}

function templateOfJob(example: string): z.ZodType<string> {
  return template(example).refine(
    (text) => text.includes('$ID'),
    'must have $ID in it, which stands for the id of a job',
  )
}

/** A worker of the hosted platform, by the variables that the platform sets. */
const hostedConfigSchema = z.strictObject({
  RUNPOD_WEBHOOK_GET_JOB: template('job-take/$ID'),
  RUNPOD_WEBHOOK_POST_OUTPUT: templateOfJob('job-done/$RUNPOD_POD_ID/$ID'),
  RUNPOD_WEBHOOK_POST_STREAM: templateOfJob('job-stream/$RUNPOD_POD_ID/$ID'),
  RUNPOD_WEBHOOK_PING: template('ping/$RUNPOD_POD_ID').optional(),
  /** One below 100 would be a flood. */
  RUNPOD_PING_INTERVAL: ms.default(10_000).transform((interval) => Math.max(100, interval)),
  RUNPOD_AI_API_KEY: z
    .string()
    .regex(
      /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/,
      'must be printable ASCII: it goes into a header as it is',
    )
    .optional(),
  RUNPOD_POD_ID: workerId.optional(),
  RUNPOD_POD_HOSTNAME: z.string().default('unknown'),
  ...settings,
})
export type HostedConfig = z.output<typeof hostedConfigSchema>

export type WorkerConfig = OwnConfig | HostedConfig

export function isHosted(config: WorkerConfig): config is HostedConfig {
  return 'RUNPOD_WEBHOOK_GET_JOB' in config
}

/** Whether the environment names a queue, ours or the hosted platform's. */
export function namesQueue(env: NodeJS.ProcessEnv): boolean {
  return namesOwnQueue(env) || meansHosted(env)
}

function namesOwnQueue({ LONGSHORE_ENDPOINT_URL, LONGSHORE_WORKER_TOKEN }: NodeJS.ProcessEnv): boolean {
  return (LONGSHORE_ENDPOINT_URL ?? LONGSHORE_WORKER_TOKEN) !== undefined
}

/** The hosted platform's variables count only where none of ours says otherwise. */
function meansHosted(env: NodeJS.ProcessEnv): boolean {
  return !namesOwnQueue(env) && Boolean(env['RUNPOD_WEBHOOK_GET_JOB'])
}

function isHttpUrl(text: string): boolean {
  return /^https?:$/.test(URL.parse(text)?.protocol ?? '')
}

function isEndpointUrl(text: string): boolean {
  const url = URL.parse(text)
  return url !== null && /^https?:$/.test(url.protocol) && /\/v2\/[^/]+\/?$/.test(url.pathname)
}

export class ConfigError extends Error {}

/** Reads the settings or throws a ConfigError with every problem at once. Values are not quoted: one is a secret. */
export function loadWorkerConfig(env: NodeJS.ProcessEnv, flags: Record<string, unknown>): WorkerConfig {
  const schema = meansHosted(env) ? hostedConfigSchema : ownConfigSchema
  const variables = Object.keys(schema.shape).filter((name) => name === name.toUpperCase())
  // The platform's are left empty where they have no value.
  const valueOf = (name: string): string | undefined =>
    meansHosted(env) ? env[name] || undefined : env[name]
  const given = { ...Object.fromEntries(variables.map((name) => [name, valueOf(name)])), ...flags }
  const result = schema.safeParse(given)
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
    // A worker without a bucket has to fail rather than write where nobody looks.
    LOCAL_BUCKET,
  ])
  return Object.fromEntries(Object.entries(env).filter(([name]) => !hidden.has(name)))
}
