// The name that was probably meant. The one door to the measure of likeness.

import { closestMatch } from 'leven'

const MOST_EDITS = 3

/** ` Did you mean port?`, or nothing when no name is near. */
export function didYouMean(given: string, known: readonly string[]): string {
  const bare = bareOf(given)
  const names = known.map(bareOf)
  // Of a short name three edits leave nothing.
  const maxDistance = Math.min(MOST_EDITS, Math.floor(bare.length / 2))
  const near = closestMatch(bare, names, { maxDistance })
  const meant = near ?? begunWith(bare, names)
  return meant === undefined ? '' : ` Did you mean ${known[names.indexOf(meant)]}?`
}

/** The shortest name of which the given one is the beginning, up to a whole word. */
function begunWith(given: string, names: readonly string[]): string | undefined {
  return names
    .filter((name) => given !== '' && /^[-_A-Z]/.test(name.slice(given.length)) && name.startsWith(given))
    .toSorted((one, other) => one.length - other.length)[0]
}

/** What all of them have in common says nothing. */
function bareOf(name: string): string {
  return name.replace(/^(?:--|LONGSHORE_)/, '')
}
