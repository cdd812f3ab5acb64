import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { resolve, type Sources } from '../../src/config/resolve.ts'
import { flagOf, variableOf, type Setting } from '../../src/config/setting.ts'
import { settingKeys, settings, type SettingKey } from '../../src/config/settings.ts'
import { isRedis, sqlitePath } from '../../src/store/open-store.ts'
import { temporaryDir } from '../support/processes.ts'

const NAME = 'longshore.config.ts'

function sources({
  flags = {},
  env = {},
  file,
}: {
  flags?: Record<string, unknown>
  env?: NodeJS.ProcessEnv
  file?: Record<string, unknown>
}): Sources {
  return { flags, env, ...(file && { file: { name: NAME, values: file } }) }
}

/** Three right values of each setting: for the flag, the variable and the file. */
function examples(key: SettingKey): { flag: unknown; variable: string; file: unknown; expected: unknown[] } {
  const setting: Setting = settings[key]
  switch (setting.kind) {
    case 'number': {
      const [a, b, c] = [setting.min + 1, setting.min + 2, setting.min + 3]
      return { flag: String(a), variable: String(b), file: c, expected: [a, b, c] }
    }
    case 'switch':
      return { flag: true, variable: 'false', file: true, expected: [true, false, true] }
    case 'choice': {
      const [a, b, c = a] = setting.choices
      return { flag: a, variable: b!, file: c, expected: [a, b, c] }
    }
    case 'list':
      return { flag: ['a', 'b'], variable: 'c, d', file: ['e'], expected: [['a', 'b'], ['c', 'd'], ['e']] }
    case 'text':
    case 'file': {
      const formatted = {
        endpointUrl: 'http://x/v2/',
        httpUrl: 'http://',
        ipAddress: '::',
        serviceUrl: 'http://',
        storeUrl: 'sqlite:',
      }
      const of = (name: string): string =>
        `${Reflect.get(formatted, setting.format ?? '') ?? 'value-'}${name}`
      const texts = [of('a'), of('b'), of('c')]
      return {
        flag: setting.isSecret ? fileWith(texts[0]!) : texts[0],
        variable: texts[1]!,
        file: texts[2],
        expected: texts,
      }
    }
    default:
      return setting satisfies never
  }
}

function isTakenBySqlite(url: string): boolean {
  try {
    return sqlitePath(url) !== ''
  } catch {
    return false
  }
}

function fileWith(text: string): string {
  const file = join(temporaryDir(), 'secret')
  writeFileSync(file, `${text}\n`)
  return file
}

describe.each(settingKeys)('%s', (key) => {
  it('is taken from its flag, else its variable, else the file, else it has its default', () => {
    const { flag, variable, file, expected } = examples(key)
    const name = variableOf(key, settings[key])
    const said = [
      { flags: { [key]: flag }, env: { [name]: variable }, file: { [key]: file } },
      { env: { [name]: variable }, file: { [key]: file } },
      { file: { [key]: file } },
      {},
    ].map((one) => resolve(sources(one)))
    expect(said.map(({ problems }) => problems)).toEqual([[], [], [], []])
    const { default: value } = settings[key] as Setting
    expect(said.map(({ values }) => values[key])).toEqual([...expected, value])
    expect(said.map(({ origins }) => origins[key])).toEqual([
      flagOf(key, settings[key]),
      name,
      `${key} in ${NAME}`,
      undefined,
    ])
  })
})

describe('what is wrong', () => {
  it('is told at once, each with the place it came from', () => {
    const { problems } = resolve(
      sources({
        flags: { port: '70000' },
        env: { LONGSHORE_REDIS_WAIT: 'many', LONGSHORE_ALLOW_PRIVATE_WEBHOOKS: 'maybe' },
        file: { drainMs: '5', endpoints: ['fine', 'a b'], logLevel: 'loud' },
      }),
      'serve',
    )
    expect(problems.toSorted()).toEqual([
      '--port must be a port from 0 to 65535.',
      'LONGSHORE_ALLOW_PRIVATE_WEBHOOKS must be true or false.',
      'LONGSHORE_REDIS_WAIT must be a whole number from 0 to 999.',
      `drainMs in ${NAME} must be a whole number of ms from 0 to 604800000.`,
      `endpoints in ${NAME} must be letters, digits, "-" and "_", at most 64 of them, starting with a letter or digit, got 'a b'.`,
      `logLevel in ${NAME} must be one of trace, debug, info, warn, error, fatal, silent, got 'loud'.`,
    ])
  })

  it('is told of the file also where a flag is before it', () => {
    const { values, problems } = resolve(sources({ flags: { port: '1' }, file: { port: -1 } }), 'serve')
    expect(values.port).toBe(1)
    expect(problems).toEqual([`port in ${NAME} must be a port from 0 to 65535.`])
  })

  it('is an address of the wrong kind, which is not quoted', () => {
    const file = { store: 'postgres://:hush@h', devStore: 'sqlite:', bucketEndpointUrl: 'hush', port: -1 }
    const wrongStore = 'must be sqlite:<file> or redis://<host>:<port>, as in sqlite:queue.db.'
    expect(resolve(sources({ file })).problems).toEqual([
      `store in ${NAME} ${wrongStore}`,
      `devStore in ${NAME} ${wrongStore}`,
      `port in ${NAME} must be a port from 0 to 65535.`,
      `bucketEndpointUrl in ${NAME} must be an http or https URL.`,
    ])
  })

  it.each([
    'sqlite:q.db',
    'sqlite::memory:',
    'redis://h',
    'rediss+cluster://h,i',
    'redis+sentinel://h/m',
    'foo:x',
    'sqlite:',
  ])('is a store if and only if no engine takes it: %s', (url) => {
    const isTaken = isRedis(url) || isTakenBySqlite(url)
    expect(resolve(sources({ flags: { store: url } })).problems).toHaveLength(isTaken ? 0 : 1)
  })

  it('is no variable that the service gives to its pods', () => {
    expect(resolve(sources({ env: { LONGSHORE_VOLUME: '/pods/w1/volume' } }), 'start').warnings).toEqual([])
  })

  it('is told once, and of a list with what is wrong in it', () => {
    const { problems } = resolve(sources({ file: { apiKey: '', endpoints: ['a', 5] } }), 'serve')
    expect(problems).toEqual([
      `endpoints in ${NAME} must be a list of texts, and 5 in it is none.`,
      `apiKey in ${NAME} must not be empty.`,
    ])
  })

  it('is a typo, with what was probably meant', () => {
    const { problems, warnings } = resolve(
      sources({
        flags: { conncurrency: '2' },
        env: { LONGSHORE_DRAIN_MSS: '1', LONGSHORE_UNLIKE_ANYTHING: '1', OTHER_DRAIN_MSS: '1' },
        file: { healthport: 1, zzz: 1 },
      }),
      'start',
    )
    expect(problems).toEqual([
      '--conncurrency is no setting of a worker. Did you mean --concurrency?',
      `healthport in ${NAME} is no setting. Did you mean healthPort?`,
      `zzz in ${NAME} is no setting.`,
    ])
    expect(warnings).toEqual([
      'LONGSHORE_DRAIN_MSS is no variable of longshore. Did you mean LONGSHORE_DRAIN_MS?',
      'LONGSHORE_UNLIKE_ANYTHING is no variable of longshore.',
    ])
  })

  it('shows nothing of a secret', () => {
    const { problems } = resolve(
      sources({ flags: { apiKey: fileWith('hush hush') }, env: { LONGSHORE_WORKER_TOKEN: 'hush hush' } }),
    )
    expect(problems).toHaveLength(2)
    expect(problems.join()).not.toContain('hush')
  })

  it('is a file for a secret that cannot be read', () => {
    const { problems } = resolve(sources({ flags: { apiKey: '/no/such/file' } }))
    expect(problems).toEqual([
      expect.stringMatching(/^--api-key-file names a file that cannot be read: ENOENT/),
    ])
  })
})

it('takes an empty variable for one that is not set, but where it must not be empty', () => {
  const env = Object.fromEntries(settingKeys.map((key) => [variableOf(key, settings[key]), '']))
  const { origins, problems } = resolve(sources({ env }))
  expect(Object.values(origins)).toEqual([
    'LONGSHORE_ENDPOINT_URL',
    'LONGSHORE_WORKER_TOKEN',
    'LONGSHORE_WORKER_ID',
  ])
  expect(problems).toHaveLength(3)
})

it('leaves alone what Kubernetes sets beside a service called longshore', () => {
  const env = {
    LONGSHORE_PORT: 'tcp://10.0.0.1:8000',
    LONGSHORE_SERVICE_HOST: '10.0.0.1',
    LONGSHORE_SERVICE_PORT_HTTP: '8000',
    LONGSHORE_PORT_8000_TCP_ADDR: '10.0.0.1',
  }
  const { values, problems, warnings } = resolve(sources({ env }), 'serve')
  expect([values.port, problems, warnings]).toEqual([8000, [], []])
})
