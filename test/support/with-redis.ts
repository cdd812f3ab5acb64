// Suites that need a real Redis: skipped where there is none, except in CI.

import { describe } from 'vitest'
import { isInstalled } from './daemons.ts'

const PROGRAMS = ['redis-server', 'redis-cli']

/** A suite that needs a real Redis. */
export function describeWithRedis(name: string, suite: () => void): void {
  const missing = PROGRAMS.filter((program) => !isInstalled(program))
  const why = `It needs ${missing.join(' and ')}: install the Debian package redis-server.`
  if (missing.length > 0 && process.env['CI'] === 'true') throw new Error(`${name}: ${why}`)
  describe.skipIf(missing.length > 0)(missing.length > 0 ? `${name}. ${why}` : name, suite)
}
