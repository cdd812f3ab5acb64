import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const bench = fileURLToPath(new URL('../../bench/engines.ts', import.meta.url))

it.each(['abc', '0', '-5', '1.5', ''])('refuses to measure %j jobs', (jobs) => {
  const words = ['--disable-warning=ExperimentalWarning', bench, jobs]
  const { status, stdout, stderr } = spawnSync(process.execPath, words, { encoding: 'utf8', timeout: 20_000 })
  expect([status, stdout, stderr]).toEqual([
    1,
    '',
    `The number of jobs must be a whole number from 1, got '${jobs}'.\n`,
  ])
})
