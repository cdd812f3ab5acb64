// The one table of settings: what each may be, where it is given, and which commands have it.

import { limits } from '../job/limits.ts'
import { choice, file, list, milliseconds, onOff, port, text, wholeNumber } from './setting.ts'
import type { Configured, Setting, ValueOfKind } from './setting.ts'

export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const

/** They ask a running service. */
const asking = ['deploy', 'endpoints', 'pods', 'logs'] as const
const bucket = ['dev', 'start', 'run', 'doctor'] as const

/** Keys are those of a config file. Flags and variables are made from them where nothing else is said. */
export const settings = {
  handler: {
    ...file(),
    isArgument: true,
    commands: ['dev', 'start', 'run', 'doctor'],
    description: 'the handler file',
  },
  store: {
    ...text('url', 'storeUrl'),
    commands: ['serve', 'keys', 'doctor'],
    default: 'sqlite:queue.db',
    description: 'where jobs live: `sqlite:<file>` or `redis://<host>:<port>`',
  },
  devStore: {
    ...text('url', 'storeUrl'),
    // Not the store of `serve`: jobs that wait there are not for a handler that is being written.
    flag: '--store',
    commands: ['dev'],
    default: 'sqlite::memory:',
    description: 'where the jobs of `longshore dev` live, as for `--store`',
  },
  port: {
    ...port,
    commands: ['dev', 'serve', 'doctor'],
    default: 8000,
    description: 'port to listen on, 0 to 65535; 0 takes a free one',
  },
  host: {
    ...text('address'),
    commands: ['dev', 'serve', 'doctor'],
    default: '127.0.0.1',
    description: 'address to listen on',
  },
  endpoints: {
    ...list('names', 'endpointName'),
    flag: '--endpoint',
    commands: ['serve'],
    default: [] as string[],
    defaultWords: 'those of the store, else `default`',
    description: 'endpoints to make',
  },
  rateLimits: {
    ...onOff(),
    commands: ['serve'],
    default: true,
    description: 'whether a key may ask only so often; off for a service of your own',
  },
  requestsPerWorker: {
    ...wholeNumber(limits.requestsPerWorker),
    commands: ['serve'],
    default: limits.requestsPerWorker.default,
    description: 'what each running worker adds to a rate, 0 to 1,000,000',
  },
  redisWait: {
    ...wholeNumber({ min: 0, max: 999 }),
    commands: ['serve', 'keys', 'doctor'],
    default: 0,
    description: 'replicas of Redis that have every write before it is answered, 0 to 999',
  },
  allowPrivateWebhooks: {
    ...onOff(),
    commands: ['serve'],
    default: false,
    description: 'call webhooks of this machine and of private networks too',
  },
  provider: {
    ...choice('kind', ['process', 'docker'], 'process or docker'),
    commands: ['serve'],
    default: 'process' as const,
    description: 'what pods are: `process`es of this machine, or containers of `docker`',
  },
  fleetDir: {
    ...text('folder'),
    commands: ['serve'],
    defaultWords: '`<store file>.fleet`, else `longshore.fleet`',
    description: 'where pods have their volumes and logs',
  },
  podUrl: {
    ...text('url', 'serviceUrl'),
    commands: ['serve'],
    defaultWords: 'the address it listens on',
    description: 'where pods reach this service, where that is another address',
  },
  dockerNetwork: {
    ...text('name'),
    commands: ['serve'],
    default: 'bridge',
    description: 'the network of containers, as of `docker run --network`',
  },
  publishAddress: {
    ...text('address', 'ipAddress'),
    commands: ['serve'],
    default: '127.0.0.1',
    description: 'the IP address of this machine that ports of containers are published on',
  },
  allowFileImages: {
    ...onOff(),
    commands: ['serve'],
    default: false,
    description: 'run `file:` images also where others than this machine can ask for them',
  },
  keepPods: {
    ...onOff(),
    commands: ['serve'],
    default: false,
    description: 'leave pods running when the service stops',
  },
  serviceUrl: {
    ...text('url', 'serviceUrl'),
    commands: asking,
    default: 'http://127.0.0.1:8000',
    description: 'the service to ask, `http(s)://host:port`',
  },
  apiKey: {
    ...text('file', 'headerOfRequests'),
    isSecret: true,
    commands: ['dev', 'serve', ...asking],
    description: 'the owner key of a service while it runs, never stored there; the key that is shown to one',
  },
  secretKey: {
    ...text('file'),
    isSecret: true,
    commands: ['dev', 'serve', 'doctor'],
    defaultWords: 'the file `<store file>.key`',
    description:
      'what `s3Config` is sealed with: 16 random characters or more; fewer are taken with a warning',
  },
  webhookSecret: {
    ...text('file'),
    isSecret: true,
    commands: ['dev', 'serve'],
    description: 'what webhook calls are signed with',
  },
  endpointUrl: {
    ...text('url', 'endpointUrl'),
    refusesEmpty: true,
    commands: ['start', 'doctor'],
    description: 'the endpoint to work for, `http(s)://host:port/v2/{endpointId}`',
  },
  workerToken: {
    ...text('file', 'header'),
    isSecret: true,
    refusesEmpty: true,
    commands: ['start', 'doctor'],
    description: 'a key of the queue with the permission `worker`',
  },
  workerId: {
    ...text('id', 'workerId'),
    refusesEmpty: true,
    commands: ['start'],
    defaultWords: 'random',
    description: '1 to 128 letters, digits, `.`, `_`, `:`, `-`; shown as `workerId` in records',
  },
  concurrency: {
    ...wholeNumber({ min: 1, max: limits.concurrency }),
    commands: ['start'],
    defaultWords: "the definition's, else `1`",
    description: 'jobs at the same time, 1 to 1000',
  },
  executors: {
    ...wholeNumber({ min: 1, max: 256 }),
    commands: ['start'],
    default: 1,
    description: 'handler processes that share the jobs, 1 to 256',
  },
  spare: {
    ...choice('kind', ['none', 'bare', 'warm'], 'none, bare or warm'),
    commands: ['start'],
    default: 'bare' as const,
    description: 'what stands ready to replace a process: `none`, `bare` or `warm`',
  },
  maxJobsPerExecutor: {
    ...wholeNumber({ min: 1, max: Number.MAX_SAFE_INTEGER }, 'must be a whole number of jobs from 1'),
    commands: ['start'],
    description: 'replace a process after so many jobs',
  },
  maxMemoryMb: {
    ...wholeNumber({ min: 1, max: 1_000_000_000 }, 'must be a whole number of MB from 1', 'MB'),
    commands: ['start'],
    description: 'replace a process that has more memory after a job',
  },
  importTimeoutMs: {
    ...milliseconds,
    commands: ['dev', 'start', 'doctor'],
    default: 60_000,
    description: 'how long importing the handler file may take',
  },
  setupTimeoutMs: {
    ...milliseconds,
    commands: ['dev', 'start', 'doctor'],
    default: 600_000,
    description: 'how long its `setup()` may take',
  },
  healthPort: {
    ...port,
    commands: ['start', 'doctor'],
    description: 'answer `/health` and `/metrics` on this port, 0 to 65535; 0 takes a free one',
  },
  healthHost: {
    ...text('address'),
    commands: ['start', 'doctor'],
    default: '127.0.0.1',
    description: 'the address for it; `0.0.0.0` in a container that is watched from outside',
  },
  liveSocket: {
    ...text('path', 'socketPath'),
    commands: ['start', 'doctor'],
    description:
      'a local socket of the worker alone, on which `longshore doctor --live` asks whether it lives',
  },
  drainMs: {
    ...milliseconds,
    commands: ['start'],
    default: 30_000,
    description: 'how long running jobs get to end on SIGTERM or SIGINT',
  },
  killGraceMs: {
    ...milliseconds,
    commands: ['dev', 'start'],
    default: 5_000,
    description: "from the abort of a job's signal to the end of its process",
  },
  logLevel: {
    ...choice('level', logLevels, `one of ${logLevels.join(', ')}`),
    commands: ['dev', 'serve', 'start'],
    default: 'info' as const,
    description: '`trace`, `debug`, `info`, `warn`, `error`, `fatal` or `silent`',
  },
  bucketEndpointUrl: {
    ...text('url', 'httpUrl'),
    variable: 'BUCKET_ENDPOINT_URL',
    commands: bucket,
    description: 'the address of the store of files, with or without the bucket',
  },
  bucketAccessKeyId: {
    ...text('file'),
    isSecret: true,
    variable: 'BUCKET_ACCESS_KEY_ID',
    commands: bucket,
    description: 'the access key',
  },
  bucketSecretAccessKey: {
    ...text('file'),
    isSecret: true,
    variable: 'BUCKET_SECRET_ACCESS_KEY',
    commands: bucket,
    description: 'the secret of that access key',
  },
  bucketName: {
    ...text('name'),
    variable: 'BUCKET_NAME',
    commands: bucket,
    defaultWords: 'what the address says',
    description: 'the bucket',
  },
  bucketRegion: {
    ...text('region'),
    variable: 'BUCKET_REGION',
    commands: bucket,
    defaultWords: 'what the address says, else `us-east-1`',
    description: 'the region that requests are signed for',
  },
  allowPrivateDownloads: {
    ...onOff(),
    commands: ['dev', 'start', 'run'],
    default: false,
    description: 'allow handlers downloads from private addresses, and by http',
  },
} as const satisfies Record<string, Setting>

export type SettingKey = keyof typeof settings

/** What the program takes for a setting. */
export type ValueOf<K extends SettingKey> = ValueOfKind<(typeof settings)[K]>

/** What a config file may say. */
export type Values = { [K in SettingKey]?: ValueOf<K> | undefined }

/** What a command goes by: those that have a default are there. */
export type Settled<C extends Configured = Configured> = { [K in KeysOf<C> & Defaulted]: ValueOf<K> } & {
  [K in Exclude<KeysOf<C>, Defaulted>]?: ValueOf<K>
}
type KeysOf<C extends Configured> = {
  [K in SettingKey]: C extends (typeof settings)[K]['commands'][number] ? K : never
}[SettingKey]
type Defaulted = {
  [K in SettingKey]: (typeof settings)[K] extends { default: unknown } ? K : never
}[SettingKey]

export const settingKeys = Object.keys(settings) as SettingKey[]

/** The keys of a command's settings, or all, in the order of the table. */
export function keysOf(command?: Configured): SettingKey[] {
  if (command === undefined) return settingKeys
  return settingKeys.filter((key) => (settings[key].commands as readonly string[]).includes(command))
}
