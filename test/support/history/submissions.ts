// No acknowledged submission is lost, and each of them is one job.

import { isEnded } from '../../../src/job/lifecycle.ts'
import { knownEnd, livesOf } from './life.ts'
import { all, hadBy, type Event } from './told.ts'

export function lostSubmission(events: readonly Event[]): string[] {
  const [submitted] = all(events, 'submitted')
  if (!submitted) return []
  const seen = all(events, 'seen').filter(({ asked }) => asked > submitted.at)
  const last = seen.at(-1)
  if (!last) return ['it was acknowledged, and nobody looked at it.']
  if (last.record && !isEnded(last.record.status))
    return [`it was acknowledged, and is left ${last.record.status}.`]
  const findings: string[] = []
  if (!last.record && !hadBy(events, 'mayGo', last.at))
    findings.push('it was acknowledged, and is gone before its time.')
  const gone = seen.find(({ record }) => !record)
  const back = gone && seen.find(({ record, asked }) => record && asked > gone.at)
  // An end that is not there for a while is another promise's.
  const end = livesOf(events).map(knownEnd).find(Boolean)
  if (back && !(end && end.at < gone.asked))
    findings.push(`it was acknowledged, was not there, and then was ${back.record?.status} again.`)
  return findings
}

/** Of what was leased or shown, what nobody was told to have submitted: at most one for each answer that never came. */
export function ghosts(told: readonly Event[], jobs: ReadonlyMap<string, readonly Event[]>): string[] {
  const ids = [...jobs].flatMap(([id, events]) => (all(events, 'submitted').length === 0 ? [id] : []))
  const allowed = all(told, 'unanswered').length
  const shared = [...jobs].flatMap(([id, events]) => (all(events, 'submitted').length > 1 ? [id] : []))
  const twice = shared.map((id) => `${id} was given to two submissions.`)
  return ids.length > allowed
    ? [
        ...twice,
        `nobody was told of the submission of ${ids.join(', ')}, and ${allowed} were left without an answer.`,
      ]
    : twice
}
