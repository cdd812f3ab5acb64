// The settings of a worker: those of the table, and the variables that the hosted platform sets.

import { z } from 'zod'
import { ConfigError, resolve, type Sources } from '../config/resolve.ts'
import { variableOf, type Setting } from '../config/setting.ts'
import { settingKeys, settings, type SettingKey, type Settled } from '../config/settings.ts'
import { workerIdSchema } from '../protocol/exchange.ts'
import { LOCAL_BUCKET } from '../s3/config.ts'

/** A worker of a queue of ours. */
export type OwnConfig = Settled<'start'> & { endpointUrl: string; workerToken: string }

/** What there has to be for one, beyond what the table says. */
const REQUIRED = {
  endpointUrl:
    'LONGSHORE_ENDPOINT_URL must be set to the URL of an endpoint, as in http://127.0.0.1:8000/v2/default.',
  workerToken: 'LONGSHORE_WORKER_TOKEN must be set to a worker token or an API key of the queue.',
} as const

const A_WEEK_MS = 604_800_000
const NO_INTERVAL = `must be a whole number of ms from 0 to ${A_WEEK_MS}`

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
  RUNPOD_PING_INTERVAL: z.coerce
    .number(NO_INTERVAL)
    .int(NO_INTERVAL)
    .min(0, NO_INTERVAL)
    .max(A_WEEK_MS, NO_INTERVAL)
    .default(10_000)
    .transform((interval) => Math.max(100, interval)),
  RUNPOD_AI_API_KEY: z
    .string()
    .regex(
      /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/,
      'must be printable ASCII: it goes into a header as it is',
    )
    .optional(),
  RUNPOD_POD_ID: z
    .string()
    .refine(
      (id) => workerIdSchema.safeParse(id).success,
      'must be from 1 to 128 letters, digits, ".", "_", ":" and "-"',
    )
    .optional(),
  RUNPOD_POD_HOSTNAME: z.string().default('unknown'),
})
export type HostedConfig = Settled<'start'> & z.output<typeof hostedConfigSchema>

export type WorkerConfig = OwnConfig | HostedConfig

export function isHosted(config: WorkerConfig): config is HostedConfig {
  return 'RUNPOD_WEBHOOK_GET_JOB' in config
}

/** Whether a queue is named at all, ours or the hosted platform's. */
export function namesQueue(sources: Sources): boolean {
  return namesOwnQueue(sources) || meansHosted(sources)
}

function namesOwnQueue({ flags, env, file }: Sources): boolean {
  const said = (from: Record<string, unknown>, names: readonly string[]): boolean =>
    names.some((name) => from[name] !== undefined)
  const keys = ['endpointUrl', 'workerToken']
  return (
    said(flags, keys) ||
    said(env, ['LONGSHORE_ENDPOINT_URL', 'LONGSHORE_WORKER_TOKEN']) ||
    said(file?.values ?? {}, keys)
  )
}

/** The hosted platform's variables count only where none of our settings says otherwise. */
export function meansHosted(sources: Sources): boolean {
  return !namesOwnQueue(sources) && Boolean(sources.env['RUNPOD_WEBHOOK_GET_JOB'])
}

function isHttpUrl(text: string): boolean {
  return /^https?:$/.test(URL.parse(text)?.protocol ?? '')
}

/** Throws a ConfigError with every problem at once. Values are not quoted: one is a secret. */
export function loadWorkerConfig(sources: Sources): { config: WorkerConfig; warnings: string[] } {
  const { values, problems, warnings } = resolve(sources, 'start')
  if (meansHosted(sources)) {
    const hosted = readHosted(sources.env)
    const all = [...hosted.problems, ...problems]
    if (all.length > 0) throw new ConfigError(all.join('\n'))
    return { config: { ...values, ...hosted.values } as HostedConfig, warnings }
  }
  const all = [...missingOf(sources), ...problems]
  if (all.length > 0) throw new ConfigError(all.join('\n'))
  return { config: values as OwnConfig, warnings }
}

/** A sentence for each setting without which there is no queue of ours. */
export function missingOf({ flags, env, file }: Sources): string[] {
  return Object.entries(REQUIRED)
    .filter(([key, sentence]) => {
      const variable = env[sentence.split(' ', 1)[0] ?? '']
      return (flags[key] ?? variable ?? file?.values[key]) === undefined
    })
    .map(([, sentence]) => sentence)
}

/** The platform's variables are left empty where they have no value. */
export function readHosted(env: NodeJS.ProcessEnv): {
  values?: z.output<typeof hostedConfigSchema>
  problems: string[]
} {
  const names = Object.keys(hostedConfigSchema.shape)
  const result = hostedConfigSchema.safeParse(
    Object.fromEntries(names.map((name) => [name, env[name] || undefined])),
  )
  if (result.success) return { values: result.data, problems: [] }
  return {
    problems: result.error.issues.map(({ path, message }) => `${path.map(String).join('.')} ${message}.`),
  }
}

/**
 * What the author's code may see: everything but the keys of the queue. Settings of the bucket that were not said by a
 * variable become one, which is where handlers look for them.
 */
export function handlerEnv(
  env: NodeJS.ProcessEnv,
  values: Partial<Settled<'start' | 'run'>> = {},
): NodeJS.ProcessEnv {
  const hidden = new Set([
    ...settingKeys.filter((key) => isSecretOfQueue(key)).map((key) => variableOf(key, settings[key])),
    'RUNPOD_AI_API_KEY',
    'RUNPOD_API_KEY',
    // A worker without a bucket has to fail rather than write where nobody looks.
    LOCAL_BUCKET,
  ])
  const seen = Object.fromEntries(Object.entries(env).filter(([name]) => !hidden.has(name)))
  for (const key of FOR_HANDLERS) {
    const value = values[key]
    if (value !== undefined && value !== false) seen[variableOf(key, settings[key])] = String(value)
    else if (value === false) delete seen[variableOf(key, settings[key])]
  }
  return seen
}

const FOR_HANDLERS = [
  'bucketEndpointUrl',
  'bucketAccessKeyId',
  'bucketSecretAccessKey',
  'bucketName',
  'bucketRegion',
  'allowPrivateDownloads',
] as const satisfies SettingKey[]

function isSecretOfQueue(key: SettingKey): boolean {
  const setting: Setting = settings[key]
  return setting.isSecret === true && !(FOR_HANDLERS as readonly string[]).includes(key)
}
