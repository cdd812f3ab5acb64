// The line of the author's code that an error came from.

import { readFileSync } from 'node:fs'
import type { SourceMapPayload } from 'node:module'
import { relative } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { readSourceMap } from '../lib/source-map.ts'
import type { SourcePlace } from '../worker/messages.ts'

/** Our own code: an author looks for the line of theirs that called it. */
const OWN = fileURLToPath(new URL('..', import.meta.url))

/** `file:line:column` and that line, for the innermost frame of a stack that is in a file of the author's; undefined without one. */
export function sourceFrame(stack: string): string | undefined {
  for (const line of stack.split('\n')) {
    const match = /^at (?:async )?(?:.*? \()?((?:file:\/\/)?\/.*):(\d+):(\d+)\)?$/.exec(line.trim())
    if (!match?.[1] || match[1].includes('/node_modules/')) continue
    const file = match[1].startsWith('file:') ? fileURLToPath(match[1]) : match[1]
    if (file.startsWith(OWN)) continue
    const source = linesOf(file)[Number(match[2]) - 1]
    const place = `${relative(process.cwd(), file)}:${match[2]}:${match[3]}`
    return source === undefined ? `  at ${place}` : `  at ${place}\n  ${match[2]} | ${source.trimEnd()}`
  }
  return undefined
}

/** Lines before and after the one that is meant. */
const AROUND = 2

/** That line with those around it, numbered, and marked; undefined when it is not there to be read. */
export function codeFrame({ file, line }: SourcePlace): string | undefined {
  const lines = linesOf(file)
  if (lines[line - 1] === undefined) return undefined
  const first = Math.max(1, line - AROUND)
  const shown = lines.slice(first - 1, line + AROUND)
  const chars = String(first + shown.length - 1).length
  return shown
    .map((text, at) => {
      const number = first + at
      const mark = number === line ? '>' : ' '
      return `${mark} ${String(number).padStart(chars)} | ${text}`.trimEnd()
    })
    .join('\n')
}

/** The lines that a place in this file is about; none when they are not there to be read. */
function linesOf(file: string): string[] {
  try {
    const text = writtenAs(file, readFileSync(file, 'utf8'))
    return text?.replace(/\n$/, '').split('\n') ?? []
  } catch {
    // A file that is gone or was never on disk: the place alone has to do.
    return []
  }
}

/**
 * What the author wrote under this name: places in code with a source map are the author's, and a bundle may be called as
 * the file that it was made from. Undefined when the map does not hold that.
 */
function writtenAs(file: string, text: string): string | undefined {
  const map = sourceMapOf(file, text)
  const at = map?.sources?.findIndex((source) => {
    const from = new URL(`${map.sourceRoot ?? ''}${source}`, pathToFileURL(file))
    return from.href === pathToFileURL(file).href
  })
  return at === undefined || at === -1 ? text : (map?.sourcesContent?.[at] ?? undefined)
}

function sourceMapOf(file: string, text: string): Partial<SourceMapPayload> | undefined {
  const url = /^\/\/# sourceMappingURL=(\S+)\s*$/.exec(text.slice(text.lastIndexOf('\n//# ') + 1))?.[1]
  if (url === undefined) return undefined
  try {
    return readSourceMap(file, url)
  } catch {
    // Without it the engine leaves places as they are, too.
    return undefined
  }
}
