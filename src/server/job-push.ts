// A job's news pushed to its reader: as server-sent events, or as lines of JSON.

import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { jsonWithRaw } from '../lib/raw-json.ts'
import { Refusal } from '../protocol/errors.ts'
import type { JobNews } from '../queue/job-follow.ts'
import { recordBody } from '../queue/record-body.ts'
import { chunkBody } from './replies.ts'

export type PushForm = 'text/event-stream' | 'application/x-ndjson'

/** The form that a reader asks for by its Accept header; nothing for one that wants an array. */
export function pushFormOf(accept: string | undefined): PushForm | undefined {
  const forms: readonly PushForm[] = ['text/event-stream', 'application/x-ndjson']
  return forms.find((form) => accept?.toLowerCase().includes(form))
}

/** The index in a Last-Event-ID header. Throws a Refusal for anything but an index. */
export function lastEventId(header: unknown): number | undefined {
  if (header === undefined || header === '') return undefined
  const index = Number(header)
  if (typeof header === 'string' && /^\d{1,16}$/.test(header) && Number.isSafeInteger(index)) return index
  throw new Refusal('FIELD_INVALID', { field: 'Last-Event-ID', problem: 'must be the index of a chunk' })
}

/** Sends news as it comes; the reader's pace is kept. */
export function pushNews(reply: FastifyReply, form: PushForm, news: AsyncGenerator<JobNews>): FastifyReply {
  const encode = form === 'text/event-stream' ? asEvent : asLine
  const pieces = async function* (): AsyncGenerator<Buffer> {
    // The reader is to know at once that it is connected, however long the first news takes.
    reply.raw.flushHeaders()
    if (form === 'text/event-stream') yield Buffer.from(`retry: ${RECONNECT_MS}\n\n`)
    for await (const one of news) {
      const piece = encode(one)
      if (piece.byteLength > 0) yield piece
    }
  }
  return reply
    .header('content-type', form === 'text/event-stream' ? 'text/event-stream; charset=utf-8' : form)
    .header('cache-control', 'no-cache')
    .header('x-accel-buffering', 'no')
    .send(Readable.from(pieces(), { objectMode: false }))
}

/** When a reader whose connection broke should come back, ms. */
const RECONNECT_MS = 1_000

function asEvent(news: JobNews): Buffer {
  switch (news.kind) {
    case 'chunk':
      return event('chunk', chunkBody(news.chunk), `id: ${news.chunk.index}\n`)
    case 'progress':
      return event('progress', news.progress)
    case 'restart':
      return event('restart', Buffer.from(JSON.stringify({ attempt: news.attempt, after: news.after })))
    case 'end':
      return event('end', recordBody(news.record))
    case 'deleted':
      return event('deleted', Buffer.from(JSON.stringify(refusalOf(news))))
    case 'idle':
      return Buffer.from(':\n\n')
    default:
      return news satisfies never
  }
}

function refusalOf({ endpoint, id }: { endpoint: string; id: string }): { error: string; code: string } {
  const { message: error, code } = new Refusal('JOB_NOT_FOUND', { endpoint, id })
  return { error, code }
}

function event(name: string, data: Uint8Array, id = ''): Buffer {
  return Buffer.concat([Buffer.from(`event: ${name}\n${id}data: `), onOneLine(data), Buffer.from('\n\n')])
}

/** A chunk is a line as the array has it; other news is an object with `event`. */
function asLine(news: JobNews): Buffer {
  switch (news.kind) {
    case 'chunk':
      return line(chunkBody(news.chunk))
    case 'progress':
      return line(jsonWithRaw({ event: 'progress' }, { progress: news.progress }))
    case 'restart':
      return line(Buffer.from(JSON.stringify({ event: 'restart', attempt: news.attempt, after: news.after })))
    case 'end':
      return line(jsonWithRaw({ event: 'end' }, { job: recordBody(news.record) }))
    case 'deleted':
      return line(Buffer.from(JSON.stringify({ event: 'deleted', ...refusalOf(news) })))
    case 'idle':
      return Buffer.alloc(0)
    default:
      return news satisfies never
  }
}

function line(json: Uint8Array): Buffer {
  return Buffer.concat([onOneLine(json), Buffer.from('\n')])
}

/** In JSON a line break can only stand between tokens, where a space means the same. */
function onOneLine(json: Uint8Array): Uint8Array {
  if (!json.includes(LF) && !json.includes(CR)) return json
  return json.map((byte) => (byte === LF || byte === CR ? SPACE : byte))
}

const LF = 0x0a
const CR = 0x0d
const SPACE = 0x20
