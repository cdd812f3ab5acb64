// The source map that made code names at its end: the way back to what its author wrote.

import { readFileSync } from 'node:fs'
import type { SourceMapPayload } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'

/** Throws where there is none at `url`, which is as the code has it. */
export function readSourceMap(file: string, url: string): SourceMapPayload {
  const inline = /^data:application\/json[^,]*?(;base64)?,/.exec(url)
  const text = inline
    ? Buffer.from(url.slice(inline[0].length), inline[1] ? 'base64' : 'utf8').toString('utf8')
    : readFileSync(fileURLToPath(new URL(url, pathToFileURL(file))), 'utf8')
  return JSON.parse(text) as SourceMapPayload
}
