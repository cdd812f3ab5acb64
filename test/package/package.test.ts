import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readPage } from '../docs/markdown.ts'
import { install, pack, STALE, type Packed } from '../support/packed.ts'
import { KEY, serve } from '../support/processes.ts'
import { paste } from '../support/shell.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const tsc = `'${process.execPath}' '${join(root, 'node_modules/typescript/bin/tsc')}'`

let dir: string
let packed: Packed

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'longshore-package-'))
  mkdirSync(join(dir, 'package'))
  packed = await pack(join(dir, 'package'))
}, 180_000)
afterAll(() => rmSync(dir, { recursive: true, force: true }))

describe('the package', () => {
  it('holds what runs, the starters, and no more', () => {
    const runs = /^dist\/[\w/-]+\.(js|d\.ts)$/
    const others = packed.files.filter((path) => ![runs, /^templates\//].some((kind) => kind.test(path)))
    expect(others).toEqual(['README.md', 'package.json'])
    expect(packed.files).not.toContain(STALE)
    const starters = packed.files.filter((path) => path.startsWith('templates/'))
    expect(starters.filter((path) => /node_modules|package-lock|\.db|\/dist\//.test(path))).toEqual([])
    expect(starters).toContain('templates/thumbnail/local-bucket/photo.jpg')
    const pointing = packed.files.filter(
      (path) =>
        runs.test(path) && /^\/\/# sourceMappingURL=/m.test(readFileSync(join(dir, 'package', path), 'utf8')),
    )
    expect(pointing).toEqual([])
  })

  it('has a README that says where the files are that it leads to and the package does not hold', () => {
    const { text } = readPage('README.md')
    const links = [...text.matchAll(/\]\(([\w./-]+)/g)].map(([, path = '']) => path)
    expect(links).toContain('docs/http-api.md')
    expect(links.filter((path) => !packed.files.includes(path) && !path.startsWith('docs/'))).toEqual([])
    expect(text).toMatch(/`docs\/` of the repository/)
  })

  it('has nothing that publint would mend', async () => {
    const { messages, pkg } = await publint({ strict: true, pack: tarball() })
    expect(messages.map((message) => formatMessage(message, pkg))).toEqual([])
  })

  it('has types that are right for each entry, wherever modules are ES modules', async () => {
    const { buffer } = readFileSync(packed.tarball)
    const analysis = await checkPackage(createPackageFromTarballData(new Uint8Array(buffer)))
    if (!analysis.types) throw new Error('The package has no types.')
    expect(Object.keys(analysis.entrypoints)).toEqual(['.', './client', './testing', './package.json'])
    // Node 24 takes an ES module by require too; resolutions that know no "exports" are older than it.
    const problems = analysis.problems.filter(
      (problem) =>
        problem.kind !== 'CJSResolvesToESM' &&
        !('resolutionKind' in problem && ['node10', 'node16-cjs'].includes(problem.resolutionKind)),
    )
    expect(problems).toEqual([])
  })
})

function tarball(): { tarball: ArrayBuffer } {
  return { tarball: new Uint8Array(readFileSync(packed.tarball)).buffer }
}

describe('the package in an empty folder', () => {
  let folder: string

  beforeAll(async () => {
    folder = join(dir, 'folder')
    mkdirSync(folder)
    await install(packed, folder)
    const compilerOptions = {
      module: 'nodenext',
      target: 'es2024',
      strict: true,
      noEmit: true,
      types: ['node'],
    }
    writeFileSync(
      join(folder, 'tsconfig.json'),
      JSON.stringify({ compilerOptions: { ...compilerOptions, skipLibCheck: false } }),
    )
    writeFileSync(join(folder, 'handler.ts'), firstExample('README.md'))
  }, 120_000)

  // Seen: it did not, for the "type": "commonjs" that npm writes.
  it("runs the README's handler where npm init has made the package.json", async () => {
    const job = JSON.stringify({ input: { name: 'Ada' } })
    const { code, said } = await paste(`npx longshore run handler.ts --test-input '${job}'`, folder)
    expect(said).toContain('"greeting": "Hello, Ada!"')
    expect(code).toBe(0)
  })

  it("type-checks the README's handler, and the client's page, under strict", async () => {
    // The handler that npm's package.json makes CommonJS for the compiler is checked as well.
    const modules = join(folder, 'modules')
    mkdirSync(modules)
    writeFileSync(join(modules, 'package.json'), JSON.stringify({ type: 'module' }))
    writeFileSync(join(modules, 'handler.ts'), firstExample('README.md'))
    writeFileSync(join(modules, 'client.ts'), firstExample('docs/client.md'))
    const testing = [
      "import { createTestWorker } from 'longshore/testing'",
      "import handler from './handler.js'",
      "export const { status } = await createTestWorker(handler).run({ name: 'Ada' })",
    ]
    writeFileSync(join(modules, 'testing.ts'), testing.join('\n'))
    // One that is wrong beside them, so that it shows that anything is checked.
    const wrong = firstExample('README.md').replace('job.input.name', 'job.input.nmae')
    writeFileSync(join(folder, 'wrong.ts'), wrong)
    const { said } = await paste(tsc, folder)
    expect(said).toMatch(/^wrong\.ts\(\d+,\d+\): error TS\d+: Property 'nmae' does not exist on type .+\n$/)
    rmSync(join(folder, 'wrong.ts'))
  })

  it('gives each entry to import and to require', async () => {
    const names = `const names = (m) => Object.keys(m).filter((n) => n !== '__esModule' && n !== 'module.exports').join()`
    const entries = ['longshore', 'longshore/client', 'longshore/testing']
    const asked = entries.map((entry) => `require('${entry}')`).join(', ')
    writeFileSync(join(folder, 'all.cjs'), `${names}\nconsole.log([${asked}].map(names).join('; '))`)
    const imported = entries.map((entry) => `await import('${entry}')`).join(', ')
    writeFileSync(join(folder, 'all.mjs'), `${names}\nconsole.log([${imported}].map(names).join('; '))`)
    const required = await paste('node all.cjs', folder)
    expect(required).toEqual(await paste('node all.mjs', folder))
    expect(required.said).toMatch(/defineHandler.*; .*Client,.*outputOf.*; .*createTestWorker/)
  })

  it('submits with its client what its command serves', async () => {
    const { endpointUrl } = await serve()
    const script = [
      "import { Client } from 'longshore/client'",
      `const client = new Client({ endpointUrl: '${endpointUrl}', apiKey: '${KEY}' })`,
      "const { id } = await client.run({ input: { name: 'Ada' } })",
      'console.log((await client.status(id)).status)',
      'await client.close()',
    ]
    writeFileSync(join(folder, 'submit.mjs'), script.join('\n'))
    expect(await paste('node submit.mjs', folder)).toEqual({ code: 0, said: 'IN_QUEUE\n' })
  })

  it('writes starters that depend on the archive it came from', async () => {
    expect((await paste('npx longshore init hello starter', folder)).code).toBe(0)
    const manifest = JSON.parse(readFileSync(join(folder, 'starter/package.json'), 'utf8')) as {
      dependencies: Record<string, string>
    }
    expect(manifest.dependencies['longshore']).toBe(`file:${packed.tarball}`)
  })
})

/** The first example in TypeScript on a page. */
function firstExample(path: string): string {
  const source = /```ts\n([^]*?)```/.exec(readPage(path).text)?.[1]
  if (source === undefined) throw new Error(`${path} has no example in TypeScript.`)
  return source
}
