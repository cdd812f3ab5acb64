// The one strict schema of the settings, made from their table. What it says of a wrong value goes on after the name.

import { isIP } from 'node:net'
import { z } from 'zod'
import { endpointIdSchema } from '../job/job.ts'
import { workerIdSchema } from '../protocol/exchange.ts'
import type { Format, Setting } from './setting.ts'
import { settingKeys, settings, type SettingKey } from './settings.ts'

const text = z.string('must be a text')
// What else it must be says nothing of one that is empty.
const notEmpty = text.min(1, { error: 'must not be empty', abort: true })

const formats: Record<Format, z.ZodType<string, string>> = {
  endpointUrl: text.refine(
    isEndpointUrl,
    'must be an http or https URL that ends with /v2/{endpointId}, as in http://127.0.0.1:8000/v2/default',
  ),
  endpointName: text.refine((name) => endpointIdSchema.safeParse(name).success, {
    error: ({ input }) =>
      `must be letters, digits, "-" and "_", at most 64 of them, starting with a letter or digit, got '${String(input)}'`,
  }),
  header: notEmpty.regex(/^[\x21-\x7e]*$/, 'must be printable ASCII without spaces: it goes into a header'),
  headerOfRequests: notEmpty.regex(
    /^[\x21-\x7e]+$/,
    'must be printable ASCII without spaces: no request could carry it in a header otherwise',
  ),
  socketPath: notEmpty.refine(
    (path) => Buffer.byteLength(path) <= 107,
    'must be 107 bytes at most: sockets have no longer paths',
  ),
  ipAddress: notEmpty.refine(isIpAddress, 'must be an IP address, as 127.0.0.1 or 0.0.0.0'),
  httpUrl: notEmpty.refine(isHttpUrl, 'must be an http or https URL'),
  serviceUrl: notEmpty.refine(
    isServiceUrl,
    'must be an http or https URL without the /v1 or /v2 of its routes, as in http://127.0.0.1:8000',
  ),
  // Whether it can be opened is the matter of its engine. Never quoted: there may be a password in it.
  storeUrl: notEmpty.regex(
    /^(?:sqlite:.|rediss?(?:\+(?:cluster|sentinel))?:\/\/)/,
    'must be sqlite:<file> or redis://<host>:<port>, as in sqlite:queue.db',
  ),
  workerId: text.refine(
    (id) => workerIdSchema.safeParse(id).success,
    'must be from 1 to 128 letters, digits, ".", "_", ":" and "-"',
  ),
}

/** Over a value as a config file has it. */
function schemaOf(setting: Setting): z.ZodType {
  switch (setting.kind) {
    case 'number': {
      const { error, min, max } = setting
      return z.number({ error }).int({ error }).min(min, { error }).max(max, { error })
    }
    case 'text':
    case 'file':
      return setting.format ? formats[setting.format] : notEmpty
    case 'choice':
      return z.enum(setting.choices, { error: ({ input }) => `${setting.error}, got '${String(input)}'` })
    case 'switch':
      return z.boolean('must be true or false')
    case 'list':
      return z.array(itemOf(formats[setting.format]), 'must be a list of texts')
    default:
      return setting satisfies never
  }
}

function itemOf(format: z.ZodType<string, string>): z.ZodType {
  const error: z.core.$ZodErrorMap = ({ input }) =>
    `must be a list of texts, and ${String(input)} in it is none`
  return z.string({ error }).pipe(format)
}

export const schemas = Object.fromEntries(settingKeys.map((key) => [key, schemaOf(settings[key])])) as Record<
  SettingKey,
  z.ZodType
>

/** A config file, whole. */
export const configFileSchema = z.strictObject(
  Object.fromEntries(settingKeys.map((key) => [key, schemas[key].optional()])),
)

function isEndpointUrl(given: string): boolean {
  return isHttpUrl(given) && /\/v2\/[^/]+\/?$/.test(URL.parse(given)?.pathname ?? '')
}

function isServiceUrl(given: string): boolean {
  const { search = '', hash = '', pathname = '' } = URL.parse(given) ?? {}
  return isHttpUrl(given) && search + hash === '' && !/\/v[12](\/|$)/.test(pathname)
}

function isIpAddress(address: string): boolean {
  return isIP(address) !== 0
}

function isHttpUrl(given: string): boolean {
  return /^https?:$/.test(URL.parse(given)?.protocol ?? '')
}
