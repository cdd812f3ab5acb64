// Reading what the hosted platform hands out: one job or an array of them, each input kept as the bytes that came.

import { z } from 'zod'
import { policySchema, s3ConfigSchema, type Policy } from '../job/job.ts'
import { limits } from '../job/limits.ts'
import { JsonTextError, parseKeepingRaw, RawJson, sliceElements } from '../lib/raw-json.ts'
import type { LeaseHead } from '../protocol/exchange.ts'

/** A job as it was taken; the platform has no lease tokens, so it has none yet. */
export interface TakenJob {
  head: Omit<LeaseHead, 'lease'>
  input: Uint8Array
}

export interface TakenJobs {
  jobs: TakenJob[]
  /** What could not be taken, and why. */
  problems: string[]
}

/** Jobs of the body of a take. What is no job is told and left out; nothing is thrown. */
export function readTakenJobs(body: Uint8Array): TakenJobs {
  let document: unknown
  try {
    document = parseKeepingRaw(body, RAW_MEMBERS, Number.POSITIVE_INFINITY)
  } catch (cause) {
    if (!(cause instanceof JsonTextError)) throw cause
    return { jobs: [], problems: [`it is not JSON: ${cause.message}`] }
  }
  const elements = Array.isArray(document)
    ? sliceElements(body).map((bytes) => parseKeepingRaw(bytes, RAW_MEMBERS, Number.POSITIVE_INFINITY))
    : document === null
      ? []
      : [document]
  const taken: TakenJobs = { jobs: [], problems: [] }
  for (const element of elements) {
    const job = readJob(element, taken.problems)
    if (job) taken.jobs.push(job)
  }
  return taken
}

const RAW_MEMBERS = ['input']
const NO_INPUT = Buffer.from('{}')

/** It stands in URLs and, between commas, in pings. */
const idSchema = z.string().regex(/^(?!\.+$)[A-Za-z0-9._:~@+=-]{1,256}$/)

/** The longest delay of a timer; a limit beyond it is none. */
const LONGEST_MS = 2 ** 31 - 1
const executionTimeoutSchema = z.int().min(1).max(LONGEST_MS)

function readJob(element: unknown, problems: string[]): TakenJob | undefined {
  if (typeof element !== 'object' || element === null || Array.isArray(element)) {
    problems.push('a job is no object')
    return undefined
  }
  const job: Record<string, unknown> = { ...element }
  const id = idSchema.safeParse(job['id'])
  if (!id.success) {
    problems.push(job['id'] === undefined ? 'a job has no id' : 'the id of a job is no text for a URL')
    return undefined
  }
  const input = job['input'] instanceof RawJson ? job['input'].bytes : NO_INPUT
  const policy = readPolicy(job['policy'])
  const head: TakenJob['head'] = {
    id: id.data,
    attempt: z.int().min(1).catch(1).parse(job['attempt']),
    policy,
    bytes: input.byteLength,
  }
  if (policy.executionTimeout !== undefined) head.executionTimeoutMs = policy.executionTimeout
  const s3Config = s3ConfigSchema.nullish().safeParse(job['s3Config'])
  if (!s3Config.success) problems.push(`the s3Config of job ${id.data} is incomplete and left out`)
  else if (s3Config.data) head.s3Config = s3Config.data
  return { head, input }
}

/** The platform may send a policy, part of one, or none; bounds are its own affair. */
function readPolicy(given: unknown): Policy {
  const fields: Record<string, unknown> = typeof given === 'object' && given !== null ? { ...given } : {}
  const policy: Policy = {
    lowPriority: fields['lowPriority'] === true,
    ttl: policySchema.shape.ttl.catch(limits.ttlMs.default).parse(fields['ttl']),
  }
  const executionTimeout = executionTimeoutSchema.safeParse(fields['executionTimeout'])
  return executionTimeout.success ? { ...policy, executionTimeout: executionTimeout.data } : policy
}
