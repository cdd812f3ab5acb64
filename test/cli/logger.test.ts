import { pino } from 'pino'
import { expect, it } from 'vitest'
import { redact } from '../../src/cli/logger.ts'

it.each([
  ['at the top', (secrets: object) => secrets],
  ['one level down', (secrets: object) => ({ job: secrets })],
  ['two levels down', (secrets: object) => ({ request: { headers: secrets } })],
])('masks keys and secrets among the fields of a line: %s', (_, place) => {
  const lines: string[] = []
  const logger = pino({ redact }, { write: (line: string) => void lines.push(line) })
  const s3Config = { accessId: 'hush', accessSecret: 'hush' }
  const secrets = { s3Config, ...s3Config, authorization: 'hush', apiKey: 'hush', token: 'hush', id: 'seen' }
  logger.info(place(secrets), 'said')
  expect(lines.join()).toContain('seen')
  expect(lines.join()).not.toContain('hush')
})
