// An end stays as it is, from when on anybody knew of it.

import { isDeepStrictEqual } from 'node:util'
import { isEnded } from '../../../src/job/lifecycle.ts'
import { knownEnd, livesOf, resultText, shownEnds } from './life.ts'
import { all, hadBy, text, type Event } from './told.ts'

export function changedEnds(events: readonly Event[]): string[] {
  return livesOf(events).flatMap((life) => {
    const end = knownEnd(life)
    if (!end) return []
    const { at, result } = end
    const findings: string[] = []
    const [first, ...rest] = shownEnds(life)
    for (const { record } of rest)
      if (!isDeepStrictEqual(record, first?.record))
        findings.push(`it had ended as ${text(first?.record)}, and then was ${text(record)}.`)
    for (const seen of all(life, 'seen').filter(({ asked }) => asked > at)) {
      if (seen.record && !isEnded(seen.record.status))
        findings.push(`it had ended as ${resultText(result)}, and then was ${seen.record.status}.`)
      if (!seen.record && !hadBy(events, 'mayGo', seen.at))
        findings.push(`it had ended as ${resultText(result)}, and then was gone.`)
    }
    for (const leased of all(life, 'leased').filter((one) => one.at > at)) {
      // A cancel may overtake a lease that is on its way to its worker.
      if (result.status === 'CANCELLED' && leased.asked <= at) continue
      findings.push(
        `it had ended as ${resultText(result)}, and then ${leased.lease} was given to ${leased.worker}.`,
      )
    }
    return findings
  })
}
