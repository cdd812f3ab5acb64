import stringWidth from 'string-width'
import { expect, it } from 'vitest'
import { table } from '../../src/cli/table.ts'

it('is as wide as what is in it', () => {
  expect(
    table(
      ['ID', 'WHY'],
      [
        ['a', 'because'],
        ['longer', 'so'],
      ],
    ),
  ).toBe('ID      WHY\na       because\nlonger  so\n')
})

it('cuts where the terminal ends, the widest first, and never the name of a row', () => {
  const long = 'one two three four five'
  const [, row = ''] = table(['ID', 'WHY'], [['a', long]], 20).split('\n')
  expect(row).toBe('a   one two three f…')
  const name = 'n'.repeat(191)
  const text = table(['ID', 'NAME', 'STATUS', 'WHY'], [['4f9a2c4f9a2c', name, 'RUNNING', long.repeat(9)]], 80)
  for (const line of text.trimEnd().split('\n')) expect(line.length).toBeLessThanOrEqual(80)
  expect(text).toMatch(/\n4f9a2c4f9a2c  n+…  RUNNING  one two/)
})

it('counts the columns that a sign takes, and cuts none in two', () => {
  const text = table(
    ['ID', 'NAME', 'WHY'],
    [
      ['a', '日本語'.repeat(9), 'because'],
      ['b', '👩‍👩‍👧 e\u0301', 'so'],
    ],
    30,
  )
  for (const line of text.trimEnd().split('\n')) expect(stringWidth(line)).toBeLessThanOrEqual(30)
  const [, first = '', second = ''] = text.split('\n')
  expect(first).toMatch(/^a {3}[日本語]+… +because$/)
  expect(stringWidth(first.slice(0, first.indexOf('because')))).toBe(
    stringWidth(second.slice(0, second.indexOf('so'))),
  )
})

it('leaves the last columns out where the terminal has no room for them', () => {
  const row = ['14-letters-long', 'a name', '12 running', '0-20', 'because']
  const text = table(['ID', 'NAME', 'WORKERS', 'BOUNDS', 'WHY'], [row], 40)
  for (const line of text.trimEnd().split('\n')) expect(line.length).toBeLessThanOrEqual(40)
  expect(text).toMatch(/^ID +NAME +WORK\S+ +BOUN\S*\n/)
})

it('leaves some of each column on the narrowest terminal', () => {
  const [, row = ''] = table(['ID', 'WHY'], [['a'.repeat(30), 'one two three four five']], 10).split('\n')
  expect(row).toMatch(/^a{30} {2}one t…$/)
})

it('stays a table whatever a program has printed', () => {
  const text = table(['ID', 'WHY'], [['a', 'died:\u001B[31m\nline two']])
  expect(text.split('\n')).toHaveLength(3)
  expect(text).not.toContain('\u001B')
})
