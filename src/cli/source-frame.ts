// The line of the author's code that an error came from.

import { readFileSync } from 'node:fs'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Our own code: an author looks for the line of theirs that called it. */
const OWN = fileURLToPath(new URL('..', import.meta.url))

/** `file:line:column` and that line, for the innermost frame of a stack that is in a file of the author's; undefined without one. */
export function sourceFrame(stack: string): string | undefined {
  for (const line of stack.split('\n')) {
    const match = /^at (?:async )?(?:.*? \()?((?:file:\/\/)?\/.*):(\d+):(\d+)\)?$/.exec(line.trim())
    if (!match?.[1] || match[1].includes('/node_modules/')) continue
    const file = match[1].startsWith('file:') ? fileURLToPath(match[1]) : match[1]
    if (file.startsWith(OWN)) continue
    const source = lineOf(file, Number(match[2]))
    const place = `${relative(process.cwd(), file)}:${match[2]}:${match[3]}`
    return source === undefined ? `  at ${place}` : `  at ${place}\n  ${match[2]} | ${source.trimEnd()}`
  }
  return undefined
}

function lineOf(file: string, line: number): string | undefined {
  try {
    return readFileSync(file, 'utf8').split('\n')[line - 1]
  } catch {
    // A file that is gone or was never on disk: the place alone has to do.
    return undefined
  }
}
