import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { versionOf } from '../../src/worker/file-version.ts'
import type { UnreadyError } from '../../src/worker/handler-process.ts'
import { isRunning } from '../support/children.ts'
import { temporaryDir } from '../support/processes.ts'
import { startExecutor, type TestExecutor } from '../support/test-executor.ts'

const answers = (
  text: string,
  top = '',
): string => `import { setTimeout as sleep } from 'node:timers/promises'
${top}
export default async ({ input }, { signal }) => {
  if (input.ms) await sleep(input.ms, undefined, { signal })
  return { text: ${JSON.stringify(text)}, pid: process.pid }
}
`

interface Answer {
  text: string
  pid: number
}

interface Edited extends TestExecutor {
  file: string
  dir: string
  save(source: string): void
  answer(input?: object): Promise<Answer>
}

async function startEdited(source: string, settings: object = {}): Promise<Edited> {
  const dir = temporaryDir()
  const file = join(dir, 'handler.mjs')
  writeFileSync(file, source)
  const executor = await startExecutor(file, { settings: { isInDevelopment: true, ...settings } })
  return {
    ...executor,
    file,
    dir,
    save: (text) => writeFileSync(file, text),
    answer: async (input = {}) => (await executor.outputOf(input)) as Answer,
  }
}

describe('a reload', () => {
  it('gives jobs to a fresh process with the file as it is now, and ends the one before', async () => {
    const edited = await startEdited(answers('old'))
    const before = await edited.answer()
    edited.save(answers('new'))
    edited.executor.reload()
    await edited.loaded.first(() => edited.loaded.all.length === 2)
    const after = await edited.answer()
    expect([before.text, after.text]).toEqual(['old', 'new'])
    expect(after.pid).not.toBe(before.pid)
    await vi.waitUntil(() => !isRunning(before.pid), { timeout: 5_000 })
  })

  it('lets a running job end in the process that it is in, and counts it apart', async () => {
    const edited = await startEdited(answers('old'))
    const long = edited.run({ ms: 800 })
    edited.save(answers('new'))
    edited.executor.reload()
    await edited.loaded.first(() => edited.loaded.all.length === 2)
    expect(edited.executor.outdatedRuns).toBe(1)
    expect((await edited.answer()).text).toBe('new')
    const outcome = await long.outcome
    expect(outcome).toMatchObject({ kind: 'completed' })
    expect(JSON.parse(Buffer.from((outcome as { output: Uint8Array }).output).toString())).toMatchObject({
      text: 'old',
    })
    expect(edited.executor.outdatedRuns).toBe(0)
  })

  it('leaves the one before where it fails, says which line, and can be tried again', async () => {
    const edited = await startEdited(answers('old'))
    edited.save(`${answers('new')}\nexport const broken = (]\n`)
    edited.executor.reload()
    const { cause } = await edited.unready.first(() => true)
    const { code, place } = cause as UnreadyError
    expect({ code, place }).toEqual({ code: 'HANDLER_IMPORT_FAILED', place: { file: edited.file, line: 8 } })
    expect((await edited.answer()).text).toBe('old')
    edited.save(answers('mended'))
    edited.executor.reload()
    await edited.loaded.first(() => edited.loaded.all.length === 2)
    expect((await edited.answer()).text).toBe('mended')
  })

  it('says the line of a setup that fails', async () => {
    const edited = await startEdited(answers('old'))
    edited.save(
      'export default {\n  setup() {\n    throw new Error("no model")\n  },\n  handler: () => 1,\n}\n',
    )
    edited.executor.reload()
    const { cause } = await edited.unready.first(() => true)
    expect(cause).toMatchObject({ code: 'SETUP_FAILED', place: { file: edited.file, line: 3 } })
    expect((await edited.answer()).text).toBe('old')
  })

  it('counts instead of one that has not ended, also of one that never would', async () => {
    const edited = await startEdited(answers('old'))
    edited.save('for (;;) {}\n')
    edited.executor.reload()
    await edited.files.first(() => edited.files.all.length === 2)
    edited.save(answers('new'))
    edited.executor.reload()
    await edited.loaded.first(() => edited.loaded.all.length === 2)
    expect((await edited.answer()).text).toBe('new')
    expect(edited.unready.all).toEqual([])
  })

  it('replaces each of several processes', async () => {
    const edited = await startEdited(answers('old'), { executors: 2 })
    await vi.waitUntil(() => edited.executor.readyProcesses === 2, { timeout: 10_000 })
    edited.save(answers('new'))
    edited.executor.reload()
    await vi.waitUntil(() => edited.loaded.all.length === 4 && edited.executor.readyProcesses === 2, {
      timeout: 10_000,
    })
    const outputs = await Promise.all([1, 2, 3, 4].map(() => edited.answer({ ms: 50 })))
    expect(new Set(outputs.map(({ text }) => text))).toEqual(new Set(['new']))
  })

  it('does not use a spare that has the old file in it', async () => {
    const edited = await startEdited(answers('old'), { spare: 'warm' })
    await vi.waitUntil(() => edited.executor.hasSpare, { timeout: 10_000 })
    edited.save(answers('new'))
    edited.executor.reload()
    await edited.loaded.first(() => edited.loaded.all.length === 2)
    expect((await edited.answer()).text).toBe('new')
  })

  it('tells what the start took', async () => {
    const edited = await startEdited(
      `import { setTimeout as sleep } from 'node:timers/promises'\nexport default { setup: () => sleep(50), handler: () => 1 }\n`,
    )
    const [start] = edited.loaded.all
    expect(start?.setupMs).toBeGreaterThanOrEqual(45)
    expect(start?.runtimeMs).toBeGreaterThan(1)
    expect(start?.importMs).toBeGreaterThan(0)
    expect(start?.rssBytes).toBeGreaterThan(10_000_000)
  })
})

describe('a handler that is worked on', () => {
  it('is not loaded again and again when its process dies and its file is broken by then', async () => {
    const edited = await startEdited(`${answers('old')}\nexport const dies = 1\n`)
    const { pid } = await edited.answer()
    edited.save('export default (]\n')
    process.kill(pid, 'SIGKILL')
    // An idle death is retried once at least; the file itself is not.
    await edited.unready.first(({ cause }) => (cause as UnreadyError).code === 'HANDLER_IMPORT_FAILED')
    const failed = edited.unready.all.length
    const waiting = edited.run({})
    edited.save(answers('mended'))
    edited.executor.reload()
    expect(await waiting.outcome).toMatchObject({ kind: 'completed' })
    expect(edited.unready.all).toHaveLength(failed)
  })

  it('tells which files it imports, as they were then, and where an import looked in vain', async () => {
    const dir = temporaryDir()
    writeFileSync(join(dir, 'words.mjs'), 'export const word = "a"\n')
    writeFileSync(join(dir, 'numbers.cjs'), 'module.exports = 1\n')
    writeFileSync(join(dir, 'later.mjs'), 'export const late = true\n')
    writeFileSync(
      join(dir, 'handler.mjs'),
      `import { word } from './words.mjs'
import { createRequire } from 'node:module'
import { z } from 'zod'
const one = createRequire(import.meta.url)('./numbers.cjs')
export default async () => {
  await import('./later.mjs')
  await import('./gone/missing.mjs').catch(() => undefined)
  return [word, one, typeof z]
}
`,
    )
    const executor = await startExecutor(join(dir, 'handler.mjs'), { settings: { isInDevelopment: true } })
    expect(await executor.outputOf({})).toEqual(['a', 1, 'object'])
    const names = ['handler.mjs', 'words.mjs', 'numbers.cjs', 'later.mjs']
    const loaded = executor.files.all.filter(({ isSearched }) => !isSearched)
    expect(loaded.map(({ path }) => path).toSorted()).toEqual(names.map((name) => join(dir, name)).toSorted())
    for (const { path, version } of loaded) expect(version).toBe(versionOf(path))
    const searched = executor.files.all.filter(({ isSearched }) => isSearched)
    expect(searched[0]).toEqual({ path: dir, version: versionOf(dir), isSearched: true })
    expect(new Set(searched.map(({ path }) => path))).toEqual(new Set([dir]))
  })

  it('tells the files that need more than the types taken off as well', async () => {
    const executor = await startExecutor('imports-an-enum.ts', { settings: { isInDevelopment: true } })
    const names = executor.files.all.map(({ path }) => path.split('/').at(-1))
    expect(names).toEqual(expect.arrayContaining(['imports-an-enum.ts', 'colours.ts']))
  })

  it('tells nothing where nobody works on it', async () => {
    const executor = await startExecutor('echo.ts')
    await executor.outputOf({})
    expect(executor.files.all).toEqual([])
  })
})
