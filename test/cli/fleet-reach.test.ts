import { expect, it } from 'vitest'
import { resolve, settled } from '../../src/config/resolve.ts'
import { reachProblems } from '../../src/cli/fleet-host.ts'
import { longshore, temporaryDir } from '../support/processes.ts'

function problems(flags: Record<string, string>): string[] {
  return reachProblems(settled(resolve({ flags: { provider: 'docker', ...flags }, env: {} }, 'serve')))
}

it.each([
  {},
  { host: '0.0.0.0' },
  { host: '::1', dockerNetwork: 'mine' },
  { podUrl: 'http://localhost:8000' },
  { host: '172.17.0.1', podUrl: 'http://[::1]:8000' },
])('tells that containers do not reach a service with %j', (flags) => {
  const network = flags.dockerNetwork ?? 'bridge'
  expect(problems(flags)).toEqual([expect.stringContaining(`on the network '${network}' cannot reach`)])
})

it.each([
  { dockerNetwork: 'host' },
  { host: '172.17.0.1' },
  { podUrl: 'http://192.0.2.1:8000' },
  { provider: 'process' },
])('has nothing to tell of a service with %j', (flags) => {
  expect(problems(flags)).toEqual([])
})

it('warns of it at the start of the service, before any pod and without an engine', async () => {
  const args = ['serve', '--provider', 'docker', '--port', '0', '--store', 'sqlite::memory:']
  const server = longshore(args, { cwd: temporaryDir() })
  await server.says(/network 'bridge' cannot reach this service by --host 127\.0\.0\.1/)
  await server.says(/Serving http/)
  expect(await server.kill('SIGTERM')).toBe(0)
})
