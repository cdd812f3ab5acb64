// What importing the package loads: a handler that moves no files must not pay for what moves them.

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'

const run = promisify(execFile)
const index = new URL('../../src/index.ts', import.meta.url).href
const HEAVY = new Set(['@aws-sdk', '@smithy', 'mime', 'undici', 'yauzl'])

describe('importing the package', () => {
  it('loads nothing of what the helpers in it move files with', async () => {
    const loaded = await loadedBy(`await import('${index}')`)
    // Else an empty list would prove nothing.
    expect(loaded).toContain(new URL('../../src/s3/s3-from.ts', import.meta.url).href)
    expect(packagesIn(loaded).filter((name) => HEAVY.has(name))).toEqual([])
  })

  it('loads nothing of it when helpers are made either', async () => {
    const loaded = await loadedBy(`
      const { s3From } = await import('${index}')
      const config = { accessId: 'a', accessSecret: 'b', bucketName: 'c', endpointUrl: 'http://127.0.0.1:1' }
      await s3From(config).close()`)
    expect(packagesIn(loaded).filter((name) => HEAVY.has(name))).toEqual([])
  })

  it('loads the SDK when a bucket is first used', async () => {
    const loaded = await loadedBy(`
      const { s3From } = await import('${index}')
      const config = { accessId: 'a', accessSecret: 'b', bucketName: 'c', endpointUrl: 'http://127.0.0.1:1' }
      await s3From(config).urlOf('key')`)
    expect(packagesIn(loaded)).toEqual(expect.arrayContaining(['@aws-sdk', '@smithy', 'mime']))
  })
})

/** Addresses of all modules that a process loads for these lines, CommonJS among them. */
async function loadedBy(lines: string): Promise<string[]> {
  const program = `
    import { registerHooks } from 'node:module'
    const loaded = []
    registerHooks({
      load(url, context, nextLoad) {
        loaded.push(url)
        return nextLoad(url, context)
      },
    })
    ${lines}
    process.stdout.write(JSON.stringify(loaded))`
  const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', program])
  return JSON.parse(stdout) as string[]
}

/** Names of the packages, or of their scopes. */
function packagesIn(urls: readonly string[]): string[] {
  return [...new Set(urls.flatMap((url) => /.*\/node_modules\/([^/]+)\//.exec(url)?.[1] ?? []))].toSorted()
}
