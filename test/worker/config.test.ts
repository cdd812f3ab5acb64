import { describe, expect, it } from 'vitest'
import { ConfigError } from '../../src/config/resolve.ts'
import {
  handlerEnv,
  isHosted,
  loadWorkerConfig,
  namesQueue,
  type WorkerConfig,
} from '../../src/worker/config.ts'

const env = {
  LONGSHORE_ENDPOINT_URL: 'http://127.0.0.1:8000/v2/default',
  LONGSHORE_WORKER_TOKEN: 't0p-s3cret',
}

const own = { endpointUrl: env.LONGSHORE_ENDPOINT_URL, workerToken: env.LONGSHORE_WORKER_TOKEN }

function load(given: NodeJS.ProcessEnv, flags: Record<string, unknown> = {}): WorkerConfig {
  return loadWorkerConfig({ env: given, flags }).config
}

const defaults = {
  executors: 1,
  spare: 'bare',
  importTimeoutMs: 60_000,
  setupTimeoutMs: 600_000,
  drainMs: 30_000,
  killGraceMs: 5_000,
  healthHost: '127.0.0.1',
  logLevel: 'info',
  allowPrivateDownloads: false,
}

function problemsOf(given: NodeJS.ProcessEnv, flags: Record<string, unknown> = {}): string[] {
  try {
    load(given, flags)
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError)
    return (error as ConfigError).message.split('\n')
  }
  throw new Error('The settings were taken.')
}

describe('loadWorkerConfig', () => {
  it('needs no more than an endpoint and a token', () => {
    expect(load(env, {})).toEqual({ ...own, ...defaults })
  })

  it('reads flags as numbers, and the id of the worker', () => {
    const flags = { concurrency: '10', drainMs: '0', killGraceMs: '250' }
    expect(load({ ...env, LONGSHORE_WORKER_ID: 'pod-1' }, flags)).toEqual({
      ...own,
      ...defaults,
      workerId: 'pod-1',
      concurrency: 10,
      drainMs: 0,
      killGraceMs: 250,
    })
  })

  it('takes a flag that was not given for its default', () => {
    expect(load(env, { concurrency: undefined, drainMs: undefined }).drainMs).toBe(30_000)
  })

  it('refuses a token that no header can carry, without showing it', () => {
    const [problem] = problemsOf({ ...env, LONGSHORE_WORKER_TOKEN: 'hush\n' })
    expect(problem).toMatch(/LONGSHORE_WORKER_TOKEN must be printable ASCII/)
    expect(problem).not.toContain('hush')
  })

  it('ignores the rest of the environment', () => {
    expect(load({ ...env, PATH: '/bin', LONGSHORE_LOG_LEVEL: 'debug' }, {})).not.toHaveProperty('PATH')
  })

  it.each(['https://queue.example.com/v2/a', 'http://h:1/v2/a/', 'http://h/behind/a/proxy/v2/a_b-c'])(
    'takes the endpoint %s',
    (url) => {
      const given = { ...env, LONGSHORE_ENDPOINT_URL: url }
      expect(load(given, {})).toMatchObject({ endpointUrl: url })
    },
  )

  it.each([
    undefined,
    '',
    'ftp://h/v2/a',
    '127.0.0.1:8000/v2/default',
    'nonsense',
    'http://',
    'http://h',
    'http://h/v2',
    'http://h/v2/a/run',
    'http://h/v1/a',
    'http://h/?x=/v2/a',
  ])('refuses the endpoint %j and shows what one looks like', (url) => {
    const problems = problemsOf({ ...env, LONGSHORE_ENDPOINT_URL: url })
    expect(problems).toHaveLength(1)
    expect(problems[0]).toMatch(/^LONGSHORE_ENDPOINT_URL must .*http:\/\/127\.0\.0\.1:8000\/v2\/default\.$/)
  })

  it('refuses a token that is missing or empty', () => {
    expect(problemsOf({ ...env, LONGSHORE_WORKER_TOKEN: undefined })).toEqual([
      'LONGSHORE_WORKER_TOKEN must be set to a worker token or an API key of the queue.',
    ])
    expect(problemsOf({ ...env, LONGSHORE_WORKER_TOKEN: '' })).toEqual([
      'LONGSHORE_WORKER_TOKEN must not be empty.',
    ])
  })

  it('tells every problem at once, each in a line', () => {
    const problems = problemsOf({}, { concurrency: '0', drainMs: '-1', killGraceMs: 'soon' })
    expect(problems.map((line) => line.split(' ', 1)[0])).toEqual([
      'LONGSHORE_ENDPOINT_URL',
      'LONGSHORE_WORKER_TOKEN',
      '--concurrency',
      '--drain-ms',
      '--kill-grace-ms',
    ])
  })

  it.each([
    ['concurrency', ['0', '1001', '1.5', 'many', ''], /^--concurrency must be .*1 to 1000\.$/],
    ['drainMs', ['-1', '1.5', 'soon'], /^--drain-ms must be a whole number of ms/],
    ['killGraceMs', ['-1', '1.5', 'soon'], /^--kill-grace-ms must be a whole number of ms/],
  ])('names the bounds of %s, whatever is wrong with it', (name, values, words) => {
    for (const value of values) {
      const problems = problemsOf(env, { [name]: value })
      expect(problems).toHaveLength(1)
      expect(problems[0]).toMatch(words)
    }
  })

  // Seen: where a rule had no words of its own, those of the schema library were shown ("Invalid input: …").
  it('has words of its own for every problem', () => {
    const shown = [
      ...problemsOf(env, { concurrency: 'many' }),
      ...problemsOf({ ...env, LONGSHORE_WORKER_ID: 'a b' }),
      ...problemsOf(env, { conncurrency: '2' }),
    ]
    for (const line of shown) {
      expect(line).toMatch(/^\S.*[^.][.?]$/)
      expect(line).not.toMatch(/Invalid|Unrecognized/)
    }
  })

  it('names an unknown setting', () => {
    expect(problemsOf(env, { conncurrency: '2' }).join()).toContain('conncurrency')
  })

  it('quotes no value, since one is a secret', () => {
    const given = {
      ...env,
      LONGSHORE_ENDPOINT_URL: 'http://user:t0p-s3cret@h/',
      LONGSHORE_WORKER_ID: 't0p s3cret',
    }
    expect(problemsOf(given, { concurrency: 't0p-s3cret' }).join()).not.toMatch(/t0p|s3cret/)
  })
})

describe('loadWorkerConfig with the variables of the hosted platform', () => {
  const hosted = {
    RUNPOD_WEBHOOK_GET_JOB: 'https://host/v2/ep/job-take/$ID?gpu=A',
    RUNPOD_WEBHOOK_POST_OUTPUT: 'https://host/v2/ep/job-done/$RUNPOD_POD_ID/$ID?gpu=A',
    RUNPOD_WEBHOOK_POST_STREAM: 'https://host/v2/ep/job-stream/$RUNPOD_POD_ID/$ID?gpu=A',
  }
  const more = {
    RUNPOD_WEBHOOK_PING: 'https://host/v2/ep/ping/$RUNPOD_POD_ID?gpu=A',
    RUNPOD_AI_API_KEY: 'rp-k3y',
    RUNPOD_POD_ID: 'pod-1',
    RUNPOD_POD_HOSTNAME: 'pod-1-host',
  }

  it('takes them where none of ours is set', () => {
    const config = load({ ...hosted, ...more, RUNPOD_PING_INTERVAL: '4000' }, { concurrency: '2' })
    expect(config).toEqual({
      ...hosted,
      ...more,
      ...defaults,
      RUNPOD_PING_INTERVAL: 4_000,
      concurrency: 2,
    })
    expect(isHosted(config)).toBe(true)
  })

  it('needs no more than three addresses', () => {
    const expected = { ...hosted, ...defaults, RUNPOD_PING_INTERVAL: 10_000, RUNPOD_POD_HOSTNAME: 'unknown' }
    expect(load(hosted, {})).toEqual(expected)
    const empty = {
      RUNPOD_WEBHOOK_PING: '',
      RUNPOD_AI_API_KEY: '',
      RUNPOD_POD_ID: '',
      RUNPOD_PING_INTERVAL: '',
    }
    expect(load({ ...hosted, ...empty }, {})).toEqual(expected)
  })

  it('leaves them alone where one of ours is set', () => {
    expect(isHosted(load({ ...env, ...hosted }, {}))).toBe(false)
    expect(problemsOf({ ...hosted, LONGSHORE_WORKER_TOKEN: 'x' })[0]).toMatch(
      /^LONGSHORE_ENDPOINT_URL must be set/,
    )
  })

  it.each([
    ['1000', 1_000],
    ['999', 999],
    ['1', 100],
    ['0', 100],
  ])('takes a ping interval of %s as %i ms', (given, interval) => {
    expect(load({ ...hosted, RUNPOD_PING_INTERVAL: given }, {})).toMatchObject({
      RUNPOD_PING_INTERVAL: interval,
    })
  })

  it('names each variable that is missing or wrong, and what belongs there, and quotes no value', () => {
    const problems = problemsOf({
      RUNPOD_WEBHOOK_GET_JOB: 'JOB_TAKE_URL',
      RUNPOD_WEBHOOK_POST_STREAM: 'https://host/v2/ep/job-stream',
      RUNPOD_WEBHOOK_PING: 'PING_NOT_SET',
      RUNPOD_PING_INTERVAL: 'soon',
      RUNPOD_AI_API_KEY: 't0p s3cret\n',
      RUNPOD_POD_ID: 'a/b',
    })
    expect(problems).toEqual([
      'RUNPOD_WEBHOOK_GET_JOB must be an http or https URL, as in https://host/v2/{endpointId}/job-take/$ID.',
      'RUNPOD_WEBHOOK_POST_OUTPUT must be set beside RUNPOD_WEBHOOK_GET_JOB, as in https://host/v2/{endpointId}/job-done/$RUNPOD_POD_ID/$ID.',
      'RUNPOD_WEBHOOK_POST_STREAM must have $ID in it, which stands for the id of a job.',
      'RUNPOD_WEBHOOK_PING must be an http or https URL, as in https://host/v2/{endpointId}/ping/$RUNPOD_POD_ID.',
      'RUNPOD_PING_INTERVAL must be a whole number of ms from 0 to 604800000.',
      'RUNPOD_AI_API_KEY must be printable ASCII: it goes into a header as it is.',
      'RUNPOD_POD_ID must be from 1 to 128 letters, digits, ".", "_", ":" and "-".',
    ])
  })

  it('knows whether a queue is named at all', () => {
    expect(
      [{}, { RUNPOD_WEBHOOK_GET_JOB: '' }, env, hosted].map((one) => namesQueue({ env: one, flags: {} })),
    ).toEqual([false, false, true, true])
  })
})

describe('handlerEnv', () => {
  it('hides the keys of the queue from the handler and nothing else', () => {
    const seen = handlerEnv({
      PATH: '/bin',
      MODEL: 'base',
      LONGSHORE_ENDPOINT_URL: 'http://h/v2/a',
      LONGSHORE_WORKER_TOKEN: 'x',
      LONGSHORE_API_KEY: 'x',
      LONGSHORE_SECRET_KEY: 'x',
      LONGSHORE_WEBHOOK_SECRET: 'x',
      RUNPOD_AI_API_KEY: 'x',
      RUNPOD_API_KEY: 'x',
    })
    expect(seen).toEqual({ PATH: '/bin', MODEL: 'base', LONGSHORE_ENDPOINT_URL: 'http://h/v2/a' })
  })

  it('leaves the environment that it was given alone', () => {
    const given = { LONGSHORE_WORKER_TOKEN: 'x' }
    handlerEnv(given)
    expect(given).toEqual({ LONGSHORE_WORKER_TOKEN: 'x' })
  })
})
