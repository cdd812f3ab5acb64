import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { flagOf, variableOf, type Setting } from '../../src/config/setting.ts'
import { settingKeys, settings } from '../../src/config/settings.ts'
import { temporaryDir } from '../support/processes.ts'
import { readPage, tableUnder } from './markdown.ts'

const page = readPage('docs/configuration.md')

it('lists every setting as the table of settings has it, and no other', () => {
  const listed = ['The service', 'A worker', 'A bucket'].flatMap((heading) => tableUnder(page, heading))
  const expected = settingKeys.map((key) => rowOf(key, settings[key]))
  const byKey = (rows: string[][]): string[][] => rows.toSorted((a, b) => (a[2]! < b[2]! ? -1 : 1))
  expect(byKey(listed)).toEqual(byKey(expected))
})

it('shows a config file whose types are right, and would not be with a typo', { timeout: 60_000 }, () => {
  const example = /```ts\n(\/\/ longshore\.config\.ts\n[\s\S]*?)```/.exec(page.text)?.[1] ?? ''
  const problems = typeProblems({
    'right.ts': example,
    'typo.ts': example.replace('drainMs', 'drainMS'),
    'text.ts': example.replace('port: 8000', "port: '8000'"),
  })
  expect(problems).toEqual([
    expect.stringMatching(/text\.ts.*Type 'string' is not assignable to type 'number'/),
    expect.stringMatching(/typo\.ts.*'drainMS' does not exist/),
  ])
})

function rowOf(key: string, setting: Setting): string[] {
  const { description, commands, default: value, defaultWords } = setting
  const words = defaultWords ?? (value === undefined ? '' : String(value))
  const cells = [
    shownFlag(key, setting),
    variableOf(key, setting),
    key,
    commands.join(', '),
    words,
    description,
  ]
  return cells.map((cell) => cell.replaceAll('`', ''))
}

function shownFlag(key: string, setting: Setting): string {
  const flag = flagOf(key, setting)
  if (setting.isArgument) return flag
  if (setting.kind === 'switch') return setting.default === true ? flag.replace('--', '--no-') : flag
  const name = setting.isSecret ? 'file' : setting.valueName
  return `${flag} <${name}${setting.kind === 'list' ? '...' : ''}>`
}

/** What the compiler says of files beside which longshore is installed. */
function typeProblems(sources: Record<string, string>): string[] {
  const dir = temporaryDir()
  const root = fileURLToPath(new URL('../..', import.meta.url))
  for (const [name, source] of Object.entries(sources)) writeFileSync(join(dir, name), source)
  writeFileSync(join(dir, 'package.json'), '{ "type": "module" }')
  const compilerOptions = {
    paths: { longshore: [join(root, 'src/index.ts')] },
    typeRoots: [join(root, 'node_modules/@types')],
    types: ['node'],
  }
  const project = { extends: join(root, 'tsconfig.json'), compilerOptions, include: ['*.ts'] }
  writeFileSync(join(dir, 'tsconfig.json'), JSON.stringify(project))
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  const { stdout, status } = spawnSync(process.execPath, [tsc, '-p', dir], { encoding: 'utf8' })
  expect(status).toBe(2)
  return stdout
    .split('\n')
    .filter((line) => line.includes('error TS'))
    .toSorted()
}
