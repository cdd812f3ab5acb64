// What a worker posts to the hosted platform, in its shapes. Payloads are put in as the bytes they are.

import { jsonWithRaw } from '../lib/raw-json.ts'
import type { ChunkReport, Ended } from '../protocol/exchange.ts'

/** Who speaks, for the reports of errors. */
export interface HostedSpeaker {
  workerId: string
  hostname: string
  version: string
}

export interface HostedError {
  type: string
  message: string
  stack?: string | undefined
}

const NULL = 'null'
const EMPTY_LIST = Buffer.from('[]')

/** An end that is told; a released job has none on this wire. */
export type ToldEnd = Exclude<Ended, { outcome: 'released' }>

export function isStream(ended: ToldEnd): boolean {
  return ended.chunks !== undefined
}

/** `{ output }`, `{ error }`, or `{}` when there was no output; with `stopPod` when this worker wants to be recycled. */
export function resultBody(ended: ToldEnd, output: Uint8Array | undefined, speaker: HostedSpeaker): Buffer {
  const rest = ended.refresh ? { stopPod: true } : {}
  if (ended.outcome !== 'completed')
    return jsonWithRaw({ error: errorText(ended.error, speaker), ...rest }, {})
  return jsonWithRaw(rest, { output: isStream(ended) && isNull(output) ? EMPTY_LIST : output })
}

/** The platform's error is a text, which holds this JSON. */
export function errorText({ type, message, stack }: HostedError, speaker: HostedSpeaker): string {
  return JSON.stringify({
    error_type: type,
    error_message: message,
    error_traceback: stack ?? '',
    hostname: speaker.hostname,
    worker_id: speaker.workerId,
    runpod_version: speaker.version,
  })
}

/** `part`, where a value was too large for one chunk, is what joinChunks needs; `back` is for a service of our own. */
export function chunkBody({ ordinal, metrics, part }: ChunkReport, output: Uint8Array): Buffer {
  const place = part && { as: part.as, first: ordinal - part.back, back: part.back, last: part.last }
  return jsonWithRaw(place ? { part: place } : {}, {
    output,
    metrics: metrics === undefined ? undefined : Buffer.from(metrics),
  })
}

export function progressBody(progress: Uint8Array): Buffer {
  return jsonWithRaw({ status: 'IN_PROGRESS' }, { output: progress })
}

/** A generator that returns nothing has an output of null. */
function isNull(output: Uint8Array | undefined): boolean {
  return output?.byteLength === NULL.length && Buffer.from(output).toString('utf8') === NULL
}
