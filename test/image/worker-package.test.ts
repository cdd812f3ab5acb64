import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { findWorkerPackage } from '../../image/worker-package.ts'

const { files, dependencies } = await findWorkerPackage()
const manifest = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  version: string
  dependencies: Record<string, string>
}

it('takes the packages that a worker imports, and none of the service', () => {
  expect(Object.keys(dependencies)).toEqual(
    expect.arrayContaining(['commander', 'pino', 'undici', 'zod', 'tsx']),
  )
  const left = Object.keys(manifest.dependencies).filter((name) => !(name in dependencies))
  expect(left).toEqual(expect.arrayContaining(['fastify', 'ioredis', 'esbuild']))
})

it('takes what a worker is started by, what a handler imports, and no file of the service', () => {
  const needed = [
    'cli/main',
    'cli/start',
    'cli/run',
    'cli/doctor-live',
    'worker/child',
    'worker/watchdog',
    'index',
  ]
  expect(files).toEqual(expect.arrayContaining(needed.map((name) => `src/${name}.ts`)))
  expect(files.filter((file) => /^src\/(server|store|queue)\//.test(file))).toEqual([])
})

it('has the version of the package in its labels', () => {
  const text = readFileSync(new URL('../../Dockerfile.base', import.meta.url), 'utf8')
  expect(text).toContain(`ARG VERSION=${manifest.version}\n`)
})
