// The fleet from the command line: deployed, looked at, broken, mended, deleted.

import { copyFileSync, mkdtempSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { Client } from '../../src/client/client.ts'
import type { Pod } from '../../src/resource/pod.ts'
import { endPodsWithTest, resourcesOf, runningPods } from '../support/fleet-service.ts'
import { freePort } from '../support/free-port.ts'
import { fixture, KEY, longshore, serve, temporaryDir } from '../support/processes.ts'

const LONG = { timeout: 60_000, interval: 50 }

it(
  'makes a handler an endpoint, shows what runs, and keeps the version before where a new one fails',
  { timeout: 180_000 },
  async () => {
    const dir = temporaryDir()
    const port = await freePort()
    const file = join(dir, 'queue.db')
    endPodsWithTest(`${file}.fleet`)
    const server = await serve({ file, args: ['--port', String(port)] })
    const env = { LONGSHORE_SERVICE_URL: `http://127.0.0.1:${port}`, FROM_HERE: 'seven' }
    const run = async (...args: string[]) => {
      const command = longshore(args, { env, cwd: dir })
      return { exit: await command.exit, stdout: command.stdout, stderr: command.stderr }
    }
    const listed = async (...args: string[]): Promise<Pod[]> =>
      JSON.parse((await run('pods', ...args, '--json')).stdout) as Pod[]
    const handler = join(dir, 'handler.ts')
    copyFileSync(fixture('says-its-version.ts'), handler)

    const deployed = await run(
      'deploy',
      'handler.ts',
      '--name',
      'shown',
      '--max',
      '1',
      '--idle-timeout',
      '60',
      '--env',
      'VERSION=one',
      'FROM_HERE',
    )
    expect(deployed).toMatchObject({ exit: 0, stderr: '' })
    const [, id = ''] = /^Endpoint (\w+) 'shown', version 1, 0 to 1 workers: http/.exec(deployed.stdout) ?? []
    const client = new Client({ endpointUrl: `http://127.0.0.1:${port}/v2/${id}`, apiKey: KEY })
    const said = async () => (await client.runsync({ input: { ms: 1 } }, { waitMs: 60_000 })).output
    expect(await said()).toMatchObject({ version: 'one' })

    const [pod] = await listed('--endpoint', id)
    expect(pod).toMatchObject({ endpointId: id, desiredStatus: 'RUNNING', env: { FROM_HERE: 'seven' } })
    expect((await run('pods')).stdout).toMatch(new RegExp(`^ID .*\\n${pod?.id} +shown +${id} +1 +RUNNING`))
    expect((await run('endpoints')).stdout).toMatch(
      new RegExp(`^ID .*\\n${id} +shown +1 +1 (idle|running) +0-1 `),
    )
    const follower = longshore(['logs', pod?.id ?? '', '-f'], { env })
    await follower.says(/(ready after)/)

    writeFileSync(handler, "if (Date.now() > 0) throw new Error('not this one')\nexport default () => 1\n")
    const broken = await run('deploy', 'handler.ts', '--name', 'shown', '--env', 'VERSION=two')
    expect(broken.exit).toBe(1)
    expect(broken.stderr).toMatch(/Version 2 was not taken: 3 workers of version 2 failed in a row/)
    expect(await said()).toMatchObject({ version: 'one' })
    const gone = (await listed('--all')).filter((one) => one.desiredStatus === 'TERMINATED')
    expect(gone[0]).toMatchObject({
      slsVersion: 2,
      lastStatusChange: expect.stringMatching(/^Exited with code 1. It said: .*not this one/),
    })
    expect((await run('logs', gone[0]?.id ?? '')).stdout).toContain('not this one')

    copyFileSync(fixture('says-its-version.ts'), handler)
    const told = "--min is 5, and the endpoint 'shown' has a workersMax of 1"
    const refused = await run('deploy', 'handler.ts', '--name', 'shown', '--min', '5', '--env', 'VERSION=no')
    expect(refused).toMatchObject({ exit: 1, stderr: expect.stringContaining(told) })
    const mended = await run('deploy', 'handler.ts', '--name', 'shown', '--env', 'VERSION=three')
    expect(mended.exit).toBe(0)
    expect(await said()).toMatchObject({ version: 'three' })
    // It ended with its pod.
    expect(await follower.exit).toBe(0)
    // What was refused has released nothing.
    expect((await run('endpoints', 'show', id)).stdout).toMatch(
      /3 +COMPLETED .*\n2 +STOPPED .*\n1 +COMPLETED /,
    )

    expect(await run('endpoints', 'delete', id)).toMatchObject({ exit: 0, stdout: '' })
    await expect.poll(() => runningPods(`${file}.fleet`), LONG).toEqual([])
    expect(await run('endpoints', 'show', id)).toMatchObject({
      exit: 1,
      stderr: expect.stringContaining(`There is no endpoint '${id}'`),
    })
    await client.close()
    expect(await server.kill('SIGTERM')).toBe(0)
  },
)

it(
  'says what is missing or wrong before it asks, and what the service refuses',
  { timeout: 90_000 },
  async () => {
    const server = await serve()
    endPodsWithTest(`${server.file}.fleet`)
    const serviceUrl = new URL(server.endpointUrl).origin
    const run = async (args: string[], env: Record<string, string> = {}) => {
      const command = longshore(args, {
        env: { LONGSHORE_SERVICE_URL: serviceUrl, ...env },
        cwd: temporaryDir(),
      })
      return [await command.exit, command.stderr.trim()]
    }
    const image = ['deploy', '--image', 'a:1']
    const spaced = join(mkdtempSync(join(temporaryDir(), 'a folder ')), 'handler.ts')
    copyFileSync(fixture('says-its-version.ts'), spaced)
    const broken = fixture('fails-to-load.ts')
    const wrong: [args: string[], says: string, env?: Record<string, string>][] = [
      [['deploy'], 'Nothing is named to deploy'],
      [['deploy', 'no.ts'], 'There is no file '],
      [['deploy', '.', '--name', 'folder'], 'is a folder, or else no file'],
      [['deploy', spaced], `The path "${spaced}" has a space`],
      [[...image, '--env', 'NOT_SET_ANYWHERE'], 'NOT_SET_ANYWHERE'],
      [[...image, '--min', '3', '--max', '1'], '--min is 3 and --max is 1'],
      [[...image, '--name', 'over', '--max', '100000'], 'workersMax must be'],
      [
        ['deploy', broken, '--name', 'broken', '--min', '1'],
        'The first 3 workers have died: Exited with code 1.',
      ],
      [['pods'], 'No key is given', { LONGSHORE_API_KEY: '' }],
      [['pods'], '[UNAUTHORIZED]', { LONGSHORE_API_KEY: 'wrong' }],
      [['logs', 'nobody'], "There is no pod 'nobody'"],
      [['pods'], 'http://127.0.0.1:1 cannot be reached', { LONGSHORE_SERVICE_URL: 'http://127.0.0.1:1' }],
    ]
    const answers = await Promise.all(wrong.map(([args, , env]) => run(args, env)))
    expect(answers).toEqual(wrong.map(([, says]) => [1, expect.stringContaining(says)]))
    // What was refused has left nothing behind.
    const names = (await resourcesOf(Number(new URL(serviceUrl).port)).templates()).map(({ name }) => name)
    expect(names).toEqual(['broken'])
    expect(await server.kill('SIGTERM')).toBe(0)
  },
)

it('makes one endpoint where several are deployed by one name at once', { timeout: 60_000 }, async () => {
  const server = await serve()
  const { origin, port } = new URL(server.endpointUrl)
  const env = { LONGSHORE_SERVICE_URL: origin }
  const deploys = [1, 2, 3, 4].map(async () => {
    const command = longshore(['deploy', '--image', 'a:1', '--name', 'once', '--no-wait'], { env })
    return [await command.exit, command.stderr]
  })
  expect(await Promise.all(deploys)).toEqual(deploys.map(() => [0, '']))
  const resources = resourcesOf(Number(port))
  expect((await resources.templates()).map(({ name }) => name)).toEqual(['once'])
  expect((await resources.endpoints()).map(({ name }) => name)).toEqual(['once'])
  expect(await server.kill('SIGTERM')).toBe(0)
})
