// What a program said before it ended, for whoever reads why its pod is gone.

import { stripVTControlCharacters } from 'node:util'
import type { Provider } from '../providers/provider.ts'

const MOST_SIGNS = 300
/** A stack or the names of modules may stand behind the sentence. */
const LINES = 30

/**
 * The line of the pod's log that tells most likely why it ended: the last one that is neither of a stack nor a record for
 * machines. Undefined where it printed none.
 */
export async function lastWords(provider: Provider, podId: string): Promise<string | undefined> {
  const lines: string[] = []
  for await (const line of provider.logs(podId, { tail: LINES })) lines.push(plain(line))
  const said = lines.filter((line) => line.trim() !== '')
  const line = said.findLast((text) => !isBeside(text)) ?? said.at(-1)
  return line?.trim().slice(0, MOST_SIGNS)
}

function plain(line: string): string {
  return stripVTControlCharacters(line).replaceAll(/\p{Cc}/gu, ' ')
}

/** A frame of a stack, what Node puts behind it, or a line of a log in JSON. */
function isBeside(line: string): boolean {
  return /^\s+at |^Node\.js v\d|^[{}\]]/.test(line)
}
