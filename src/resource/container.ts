// What a container is made from: the fields that templates and pods have in common.

import { z } from 'zod'
import { fleetLimits } from './fleet-limits.ts'

const { nameChars, wordChars, words, envVariables, envBytes, ports, gigabytes } = fleetLimits

/** Shown on terminals as it is. */
export const resourceNameSchema = z
  .string()
  .min(1)
  .max(nameChars)
  .regex(/^[^\p{C}\p{Zl}\p{Zp}]*$/u, 'must have no control characters')

/** Made by the service, or chosen by nobody. */
export const resourceIdSchema = z
  .string()
  .regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be 1 to 64 letters, digits, "-" and "_"')

// oxlint-disable-next-line no-control-regex -- no variable, argument or path can hold one
const NO_NUL = /^[^\u0000]*$/

/** One word of a command line: it goes to the program as it is, through no shell. */
const wordSchema = z.string().max(wordChars).regex(NO_NUL, 'must have no NUL character')

const commandSchema = z.array(wordSchema).max(words)

const PORT = '[1-9]\\d{0,3}|[1-5]\\d{4}|6[0-4]\\d{3}|65[0-4]\\d{2}|655[0-2]\\d|6553[0-5]'

export const portSchema = z
  .string()
  .regex(
    new RegExp(`^(${PORT})/(http|tcp)$`),
    'must be <port>/http or <port>/tcp with a port from 1 to 65535',
  )

const portsSchema = z
  .array(portSchema)
  .max(ports)
  .refine(
    (all) => new Set(all.map((port) => port.split('/')[0])).size === all.length,
    'must have each port once',
  )
  .meta({ uniqueItems: true, description: 'Each port once, over http or tcp.' })

const ENV_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/

const envNameSchema = z
  .string()
  .regex(ENV_NAME, 'must be the name of a variable: letters, digits and "_", with no digit first')

const variablesSchema = z
  .record(envNameSchema, z.string().regex(NO_NUL, 'must have no NUL character'))
  .refine((env) => Object.keys(env).length <= envVariables, `must have at most ${envVariables} variables`)
  .refine(
    (env) =>
      Object.entries(env).reduce((sum, pair) => sum + Buffer.byteLength(pair.join('=')), 0) <= envBytes,
    `must have at most ${envBytes} bytes in all`,
  )

/** A record leaves this name out without a word, as it is no key like others. */
const PROTO = '__proto__'

/** Names to values. What the service adds for its workers is never in it. */
export const envSchema = z
  .unknown()
  .superRefine((env, context) => {
    if (typeof env !== 'object' || env === null || !Object.hasOwn(env, PROTO)) return
    context.addIssue({ code: 'custom', path: [PROTO], message: 'is a name that no variable can have here' })
  })
  .pipe(variablesSchema)
  .meta({
    override: {
      type: 'object',
      propertyNames: { pattern: ENV_NAME.source },
      additionalProperties: { type: 'string', pattern: NO_NUL.source },
      maxProperties: envVariables,
      description: `Names of variables to their values, at most ${envBytes} bytes in all as NAME=value.`,
    },
  })

const gigabytesSchema = z
  .int({ error: `must be a whole number from ${gigabytes.min} to ${gigabytes.max} GB` })
  .min(gigabytes.min)
  .max(gigabytes.max)

/** Text that is a path within the container. */
const mountPathSchema = z
  .string()
  .max(wordChars)
  .regex(/^\/[^\p{C}:]*$/u, 'must be an absolute path without ":" and control characters')
  .refine(
    (path) => path.split('/').some((part) => part !== '' && part !== '.'),
    'must not be the root of the container',
  )
  .refine((path) => path.split('/').every((part) => part !== '..'), 'must have no ".." as a part')
  .meta({ description: 'An absolute path: not the root, and with no ".." as a part.' })

/** As they are given. An empty command is the image's own. */
export const containerShape = {
  /** Wiped at each start. */
  containerDiskInGb: gigabytesSchema,
  containerRegistryAuthId: resourceIdSchema.optional(),
  dockerEntrypoint: commandSchema,
  dockerStartCmd: commandSchema,
  env: envSchema,
  ports: portsSchema,
  /** Kept over restarts. */
  volumeInGb: gigabytesSchema,
  volumeMountPath: mountPathSchema,
}

/** As a record has an environment. */
export const keptEnvSchema = z.record(z.string(), z.string())

/**
 * As a record has them. Bounds are for what is given: they may become narrower, and what was taken under wider ones is to be
 * readable all the same.
 */
export const keptContainerShape = {
  containerDiskInGb: z.int(),
  containerRegistryAuthId: resourceIdSchema.optional(),
  dockerEntrypoint: z.array(z.string()),
  dockerStartCmd: z.array(z.string()),
  env: keptEnvSchema,
  ports: z.array(z.string()),
  volumeInGb: z.int(),
  volumeMountPath: z.string(),
}

const containerSchema = z.object(keptContainerShape)
export type Container = z.output<typeof containerSchema>

export const containerDefaults: Container = {
  containerDiskInGb: 50,
  dockerEntrypoint: [],
  dockerStartCmd: [],
  env: {},
  ports: [],
  volumeInGb: 20,
  volumeMountPath: '/workspace',
}

/** What is given, over what it is made from, over the defaults; what is no field of a container is left out. */
export function containerFrom(made: LeftOut<Container>, base: Container = containerDefaults): Container {
  return containerSchema.parse({ ...base, ...given(made) })
}

/** A document of which fields may be left out, also as `undefined`. */
export type LeftOut<T> = { [K in keyof T]?: T[K] | undefined }

/** Without the fields that are `undefined`. */
export function given<T extends object>(document: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(document).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]: Exclude<T[K], undefined>
  }
}
