import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { template } from '../support/processes.ts'

const names = readdirSync(template('.'))

describe.each(names)('the Dockerfile of templates/%s', (name) => {
  const lines = readFileSync(join(template(name), 'Dockerfile'), 'utf8')
    .trimEnd()
    .split('\n')

  it('is FROM the base, COPY and CMD, and what cannot come from the base is installed', () => {
    const words = lines.map((line) => line.split(' ', 1)[0])
    expect(words.filter((word) => word !== 'RUN')).toEqual(['ARG', 'FROM', 'COPY', 'CMD'])
    expect(lines.slice(0, 2)).toEqual(['ARG BASE=longshore-base', 'FROM $BASE'])
  })

  it('installs the versions of package.json', () => {
    const manifest = JSON.parse(readFileSync(join(template(name), 'package.json'), 'utf8')) as {
      dependencies: Record<string, string>
    }
    const { longshore: _, zod: __, ...others } = manifest.dependencies
    const installed =
      lines
        .find((line) => line.startsWith('RUN npm install '))
        ?.replace(/ --cache \/tmp\/npm && rm -r \/tmp\/npm$/, '')
        .split(' ')
        .slice(3) ?? []
    expect(installed).toEqual(Object.entries(others).map(([dependency, range]) => `${dependency}@${range}`))
  })
})
