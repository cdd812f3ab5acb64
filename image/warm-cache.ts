// Starts a worker once while the image is made, so that what Node compiles for it lies in the compile cache from then on.
// Run in Dockerfile.base as `node image/warm-cache.ts`, by the user and with the variables that workers have later.

import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const PATIENCE_MS = 60_000

/** Its process may be ended by a signal, which writes no cache. */
const HANDLER = `
import { flushCompileCache } from 'node:module'
import { defineHandler } from 'longshore'
import { z } from 'zod'
export default defineHandler({ input: z.object({}), setup: () => flushCompileCache(), handler: () => null })
`

const cache = process.env['NODE_COMPILE_CACHE']
if (cache === undefined) throw new Error('NODE_COMPILE_CACHE is not set, so that there is nothing to warm.')

// It never answers: a worker that has asked for jobs has loaded all it needs.
const queue = createServer().listen(0, '127.0.0.1')
await once(queue, 'listening')
const { port } = queue.address() as AddressInfo

const folder = mkdtempSync(join(tmpdir(), 'warm-'))
writeFileSync(join(folder, 'handler.mjs'), HANDLER)
const worker = spawn('longshore', ['start', join(folder, 'handler.mjs')], {
  stdio: 'inherit',
  env: {
    ...process.env,
    LONGSHORE_ENDPOINT_URL: `http://127.0.0.1:${port}/v2/warm`,
    LONGSHORE_WORKER_TOKEN: 'none',
  },
})
const left = once(worker, 'exit') as Promise<[number | null]>
const patience = AbortSignal.timeout(PATIENCE_MS)
const early = left.then(() => {
  throw new Error('The worker ended before it asked for jobs.')
})
await Promise.race([once(queue, 'request', { signal: patience }), early])
early.catch(() => undefined)
execFileSync('longshore', ['doctor', '--live'], { stdio: 'inherit' })
worker.kill('SIGTERM')
const [code] = await left
if (code !== 0) throw new Error(`The worker ended with exit code ${code}.`)
queue.close()
queue.closeAllConnections()
rmSync(folder, { recursive: true })
process.stdout.write(`${readdirSync(cache, { recursive: true }).length} entries in ${cache}\n`)
