// longshore deploy: a handler file or an image becomes an endpoint with workers, or the next version of one.

import { statSync } from 'node:fs'
import { basename, extname, resolve } from 'node:path'
import type { ResourceClient, ShownEndpoint } from '../client/resource-client.ts'
import { QueueRefusedError } from '../client/http.ts'
import { pause, systemClock as clock } from '../lib/clock.ts'
import { fieldProblem } from '../protocol/field-problem.ts'
import { endpointUpdateSchema, type EndpointUpdate, type ScalerType } from '../resource/endpoint.ts'
import { isFileImage } from '../resource/image-name.ts'
import type { Template } from '../resource/template.ts'
import { firstReady, released } from './deployed.ts'
import { CommandError } from './fail.ts'
import { withService, writeJson } from './service-link.ts'
import type { Flags } from './sources.ts'

export interface DeployOptions {
  name?: string
  image?: string
  min?: number
  max?: number
  idleTimeout?: number
  scaler?: ScalerType
  scalerValue?: number
  executionTimeout?: number
  /** `NAME=value`, or `NAME` for the value that it has here. */
  env?: string[]
  /** Whether to wait for the end of the release. */
  wait: boolean
  json?: boolean
}

const HALF_MADE_MS = 1_000
const LOOK_EVERY_MS = 100

export async function deploy(
  flags: Flags,
  handler: string | undefined,
  options: DeployOptions,
): Promise<void> {
  const imageName = imageOf(handler, options)
  const name = options.name ?? basename(handler ?? imageName, handler === undefined ? '' : extname(handler))
  const env = options.env && envOf(options.env)
  checkBounds(options)
  await withService('deploy', flags, async ({ client, serviceUrl }) => {
    const { endpoint, isNew } = await put(client, { name, imageName, ...(env && { env }) }, options)
    const release = options.wait ? await released(client, endpoint.id) : undefined
    const url = `${serviceUrl}/v2/${endpoint.id}`
    if (options.json) writeJson({ ...endpoint, ...(release && { release }), url })
    else process.stdout.write(wordsOf(endpoint, url))
    if (release?.state === 'STOPPED')
      throw new CommandError(`Version ${release.version} was not taken: ${release.reason}.`)
    // Without any worker that has to be there the first job starts one.
    if (isNew && options.wait && endpoint.workersMin > 0) await firstReady(client, endpoint.id)
  })
}

function checkBounds({ min, max }: DeployOptions): void {
  if (min === undefined || max === undefined || min <= max) return
  throw new CommandError(`--min is ${min} and --max is ${max}: it must not be more.`)
}

function imageOf(handler: string | undefined, { image }: DeployOptions): string {
  if (handler !== undefined && image !== undefined)
    throw new CommandError('Give a handler file or --image, not both.')
  if (image !== undefined) return image
  if (handler === undefined)
    throw new CommandError(
      'Nothing is named to deploy. Give a handler file, as in longshore deploy handler.ts, or --image.',
    )
  return fileImage(resolve(handler))
}

function fileImage(path: string): string {
  const found = statSync(path, { throwIfNoEntry: false })
  if (!found) throw new CommandError(`There is no file ${path}.`)
  if (!found.isFile()) throw new CommandError(`${path} is a folder, or else no file. Give a handler file.`)
  const image = `file:${path}`
  if (isFileImage(image)) return image
  throw new CommandError(
    `The path ${JSON.stringify(path)} has a space or a control character, with which no handler can be deployed. Move or rename it.`,
  )
}

function envOf(pairs: readonly string[]): Record<string, string> {
  const entries = pairs.map((pair): [string, string] => {
    const at = pair.indexOf('=')
    if (at >= 0) return [pair.slice(0, at), pair.slice(at + 1)]
    const value = process.env[pair]
    if (value !== undefined) return [pair, value]
    throw new CommandError(
      `--env ${pair} names a variable that is not set here. Set it, or give ${pair}=value.`,
    )
  })
  return Object.fromEntries(entries)
}

type Made = Pick<Template, 'name' | 'imageName'> & { env?: Record<string, string> }
type Settings = Omit<EndpointUpdate, 'name' | 'templateId'>
interface Put {
  endpoint: ShownEndpoint
  isNew: boolean
}

async function put(client: ResourceClient, made: Made, options: DeployOptions): Promise<Put> {
  try {
    return await putOnce(client, made, options)
  } catch (cause) {
    if (!(cause instanceof QueueRefusedError) || cause.code !== 'NAME_TAKEN') throw cause
    // Another deploy has made it meanwhile.
    return putOnce(client, made, options)
  }
}

/** What can be refused of the endpoint is looked at first: the update of a template is a release already. */
async function putOnce(
  client: ResourceClient,
  { name, ...made }: Made,
  options: DeployOptions,
): Promise<Put> {
  const settings = settingsOf(options)
  const known = (await client.templates()).find((template) => template.name === name)
  const endpoint = known && (await endpointOf(client, known))
  checkSettings(settings, endpoint)
  if (known) {
    await client.updateTemplate(known.id, made)
    return endpoint
      ? { endpoint: await changed(client, endpoint.id, settings), isNew: false }
      : { endpoint: await client.createEndpoint({ name, templateId: known.id, ...settings }), isNew: true }
  }
  const template = await client.createTemplate({ name, ...made, isServerless: true })
  try {
    const templateId = template.id
    return { endpoint: await client.createEndpoint({ name, templateId, ...settings }), isNew: true }
  } catch (cause) {
    // An endpoint that was refused leaves nothing behind.
    if (cause instanceof QueueRefusedError) await client.deleteTemplate(template.id)
    throw cause
  }
}

/** A template without its endpoint may be that of another deploy, which is just making the endpoint. */
async function endpointOf(
  client: ResourceClient,
  { id, name }: Template,
): Promise<ShownEndpoint | undefined> {
  const until = clock.monotonic() + HALF_MADE_MS
  for (;;) {
    const endpoints = await client.endpoints()
    const found = endpoints.find((endpoint) => endpoint.name === name && endpoint.templateId === id)
    if (found || clock.monotonic() >= until) return found
    await pause(clock, LOOK_EVERY_MS)
  }
}

function changed(client: ResourceClient, id: string, settings: Settings): Promise<ShownEndpoint> {
  const isSame = Object.keys(settings).length === 0
  return isSame ? client.endpoint(id) : client.updateEndpoint(id, settings)
}

function settingsOf(options: DeployOptions): Settings {
  const { min, max, idleTimeout, scaler, scalerValue, executionTimeout } = options
  return {
    ...(min !== undefined && { workersMin: min }),
    ...(max !== undefined && { workersMax: max }),
    ...(idleTimeout !== undefined && { idleTimeout }),
    ...(scaler !== undefined && { scalerType: scaler }),
    ...(scalerValue !== undefined && { scalerValue }),
    ...(executionTimeout !== undefined && { executionTimeoutMs: executionTimeout }),
  }
}

function checkSettings(settings: Settings, endpoint: ShownEndpoint | undefined): void {
  const issues = endpointUpdateSchema.safeParse(settings).error?.issues
  if (issues) {
    const { field, problem } = fieldProblem(issues, settings, 'The endpoint')
    throw new CommandError(`${field} ${problem}.`)
  }
  if (!endpoint) return
  const { workersMin = endpoint.workersMin, workersMax = endpoint.workersMax } = settings
  if (workersMin <= workersMax) return
  const words =
    settings.workersMin === undefined
      ? `--max is ${workersMax}, and the endpoint '${endpoint.name}' has a workersMin of ${workersMin}: it must not be less. Give --min too.`
      : `--min is ${workersMin}, and the endpoint '${endpoint.name}' has a workersMax of ${workersMax}: it must not be more. Give --max too.`
  throw new CommandError(words)
}

function wordsOf({ id, name, version, workersMin, workersMax }: ShownEndpoint, url: string): string {
  return `Endpoint ${id} '${name}', version ${version}, ${workersMin} to ${workersMax} workers: ${url}

Run a job:
  curl -H "Authorization: Bearer $LONGSHORE_API_KEY" -H 'content-type: application/json' -d '{"input":{}}' ${url}/runsync
`
}
