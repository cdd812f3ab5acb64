import { spawnSync } from 'node:child_process'
import { expect, it, onTestFinished } from 'vitest'
import { makeMemoryGroup } from '../support/memory-group.ts'
import { fixture, main } from '../support/processes.ts'

const group = makeMemoryGroup(400_000_000)
const isMissing = group === undefined && process.env['CI'] === undefined

it.skipIf(isMissing)(
  'a handler that uses up the memory of its container fails with that, and nothing else is ended',
  () => {
    if (!group) throw new Error('No memory group can be made here; this needs root and a memory controller.')
    onTestFinished(() => group.remove())
    const { status, stderr } = spawnSync(
      'sh',
      [
        '-c',
        group.command,
        'sh',
        process.execPath,
        main,
        'run',
        fixture('takes-all-memory.ts'),
        '--test-input',
        '{"input":{}}',
      ],
      { encoding: 'utf8' },
    )
    expect(status).toBe(1)
    expect(stderr).toContain('went over the memory limit of its container')
    expect(stderr).toContain('[OUT_OF_MEMORY]')
  },
)
