// Chunks are whole and in order, for whoever reads them and whenever.

import { isDeepStrictEqual } from 'node:util'
import { isSameResult, knownEnd, leasesOf, livesOf, type Life } from './life.ts'
import { all, hadBy, text, type Event, type SeenChunk } from './told.ts'

/** What the stream of a lease has to be when the job has ended under it: no less than was stored, no more than was made. */
interface Made {
  attempt: number | undefined
  outputs: readonly unknown[]
  least: number
}

export function brokenStream(events: readonly Event[]): string[] {
  return livesOf(events).flatMap((life) => {
    const end = knownEnd(life)
    const leases = leasesOf(life)
    const last = leases.at(-1)
    const reads = all(life, 'read')
    const findings = [...changedChunks(life), ...endsWithoutChunks(life)]
    for (const read of reads) {
      const made = leases.map((lease) => madeUnder(life, lease, read.at))
      const isAfter = end !== undefined && end.at < read.asked
      // Who reads when all is over is shown nothing of the leases before.
      if (isAfter) made.splice(0, Math.max(0, made.length - 1))
      findings.push(...misread(read, made))
    }
    const stream = last && madeUnder(life, last, Number.POSITIVE_INFINITY)
    const mayGo = hadBy(events, 'mayGo', Number.POSITIVE_INFINITY)
    if (end && stream && stream.least > 0 && reads.length === 0 && !mayGo)
      findings.push(`its worker made ${text(stream.outputs)}, and nobody read them.`)
    return findings
  })
}

/** What was sent under a lease by then, in order up to the first that is missing. */
function madeUnder(life: Life, { lease, attempt }: Event<'leased'>, by: number): Made {
  const byOrdinal = new Map(
    all(life, 'made').flatMap((made) =>
      made.lease === lease && made.at < by ? [[made.ordinal, made.output]] : [],
    ),
  )
  const outputs: unknown[] = []
  while (byOrdinal.has(outputs.length + 1)) outputs.push(byOrdinal.get(outputs.length + 1))
  const stored = all(life, 'streamed').flatMap((streamed) =>
    streamed.lease === lease && streamed.at < by ? [streamed.stored] : [],
  )
  const end = knownEnd(life)?.result
  // A result is not taken before all that its lease has made is stored.
  const said = all(life, 'reported').flatMap((report) =>
    report.lease === lease && report.at < by && end && isSameResult(report, end) ? [report.chunks ?? 0] : [],
  )
  // A job that waits again has no chunks any more, and may be cancelled then.
  const least = end?.status === 'CANCELLED' ? 0 : Math.max(0, ...stored, ...said)
  return { attempt, outputs, least }
}

function changedChunks(life: Life): string[] {
  const known = new Map<string, unknown>()
  return all(life, 'made').flatMap(({ lease, ordinal, output }) => {
    const key = `${ordinal} of ${lease}`
    if (!known.has(key)) known.set(key, output)
    const first = known.get(key)
    return isDeepStrictEqual(first, output)
      ? []
      : [`chunk ${key} was ${text(first)} at first, and ${text(output)} when it was sent again.`]
  })
}

/** The acknowledgement of the chunks comes no later than that of the end. */
function endsWithoutChunks(life: Life): string[] {
  return all(life, 'settled').flatMap(({ answer, lease, at }) => {
    const report = all(life, 'reported').findLast((one) => one.lease === lease && one.at < at)
    const made = report?.chunks ?? 0
    const stored = all(life, 'streamed').findLast((one) => one.lease === lease && one.at < at)?.stored ?? 0
    return answer === 'accepted' && stored < made
      ? [`its end was accepted when ${stored} of its ${made} chunks were stored.`]
      : []
  })
}

function misread({ chunks, isPart }: Event<'read'>, made: readonly Made[]): string[] {
  if (isFit(chunks, made, isPart === true)) return []
  const have = text(chunks.map(({ output }) => output))
  const gap = chunks.find(({ index }, at) => index !== (chunks[0]?.index ?? 0) + at)
  if (gap && made.length < 2)
    return [`chunk ${gap.index} is not in its place among ${chunks.map(({ index }) => index).join(', ')}.`]
  const mixed = chunks.find(({ attempt }) => attempt !== chunks[0]?.attempt)
  if (mixed && made.length < 2)
    return [`chunks of attempts ${chunks[0]?.attempt} and ${mixed.attempt} are in one stream.`]
  const outputs = made.map((one) => text(one.outputs)).join(', then ')
  return [`its worker made ${outputs || 'nothing'}, and a reader has ${have}.`]
}

/**
 * A reader that came early has the beginning of what each lease made, one after the other, and all of the last. Every
 * way to part the chunks between the leases is tried: equal values may be of either.
 */
function isFit(chunks: readonly SeenChunk[], made: readonly Made[], isPart: boolean): boolean {
  const [first, ...later] = made
  if (!first) return chunks.length === 0
  const longest = commonStart(chunks, first)
  if (later.length === 0) return longest === chunks.length && (isPart || longest >= first.least)
  for (let taken = longest; taken >= 0; taken -= 1) {
    const [before, after] = [chunks[taken - 1], chunks[taken]]
    if (before && after && after.index <= before.index) continue
    if (isFit(chunks.slice(taken), later, isPart)) return true
  }
  return false
}

/** How many of the chunks are the first of this lease, without a gap and of one attempt. */
function commonStart(chunks: readonly SeenChunk[], { attempt, outputs }: Made): number {
  const [first] = chunks
  const other = chunks.findIndex(
    (chunk, at) =>
      at >= outputs.length ||
      chunk.index !== (first?.index ?? 0) + at ||
      chunk.attempt !== (attempt ?? first?.attempt) ||
      !isDeepStrictEqual(chunk.output, outputs[at]),
  )
  return other < 0 ? chunks.length : other
}
