// Answers whose payloads are JSON text already, and whether an answer reached its reader.

import type { FastifyReply } from 'fastify'
import type { JobStatus } from '../job/lifecycle.ts'
import { jsonArrayOfRaw, jsonWithRaw } from '../lib/raw-json.ts'
import type { StoredChunk } from '../store/job-store.ts'

/** Chunks as `streamAnswerSchema` has them. */
export function chunksBody(chunks: readonly StoredChunk[]): Buffer {
  return jsonArrayOfRaw(chunks.map(chunkBody))
}

export function chunkBody({ index, attempt, output, metrics, part }: StoredChunk): Buffer {
  return jsonWithRaw({ index, attempt, part }, { output, metrics: Buffer.from(metrics ?? '{}') })
}

/** Chunks as `hostedStreamSchema` has them, with their indexes when `isPlaced`. */
export function hostedStreamBody(
  status: JobStatus,
  chunks: readonly StoredChunk[],
  isPlaced: boolean,
): Buffer {
  const stream = jsonArrayOfRaw(
    chunks.map(({ output, metrics, part, index, attempt }) =>
      jsonWithRaw(
        { ...(isPlaced && { index, attempt }), part },
        { output, metrics: metrics === undefined ? undefined : Buffer.from(metrics) },
      ),
    ),
  )
  return jsonWithRaw({ status }, { stream })
}

export function sendJson(reply: FastifyReply, body: Buffer): FastifyReply {
  return reply.header('content-type', 'application/json; charset=utf-8').send(body)
}

export interface Delivery {
  /** Aborts when the other side goes before its answer is written. */
  gone: AbortSignal
  /** Calls one or the other once the answer is written, or once it is clear that it never will be. */
  onEnd(written: () => void, lost: () => void): void
}

export function delivery(reply: FastifyReply): Delivery {
  const controller = new AbortController()
  const waiting: { written: () => void; lost: () => void }[] = []
  let isWritten = false
  reply.raw.once('finish', () => {
    isWritten = true
    for (const { written } of waiting) written()
  })
  reply.raw.once('close', () => {
    if (isWritten) return
    controller.abort()
    for (const { lost } of waiting) lost()
  })
  return {
    gone: controller.signal,
    onEnd(written, lost) {
      if (reply.raw.closed) lost()
      else waiting.push({ written, lost })
    },
  }
}
