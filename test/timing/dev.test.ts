// What an author waits for: the start of the command, and a save to take effect. The bounds are loose, for a busy machine.

import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { startDev } from '../support/dev.ts'

const source = (round: number): string => `export default () => ${round}\n`

/** Resident memory of a process, MB. */
function memoryOf(pid: number | undefined): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) / 1_000
}

describe('longshore dev', () => {
  it('has its first job done in little more than a second from the command', async () => {
    const taken: number[] = []
    for (let round = 0; round < 3; round += 1) {
      const from = performance.now()
      const dev = await startDev({ 'handler.ts': source(round) }, { says: /Serving/ })
      const served = performance.now() - from
      expect(await dev.answer()).toBe(round)
      taken.push(performance.now() - from)
      console.log(
        `address after ${served.toFixed(0)} ms, first job done after ${taken.at(-1)?.toFixed(0)} ms`,
      )
      expect(await dev.kill('SIGINT')).toBe(0)
    }
    // From sources, whose types are taken off first: what is built takes about half of it.
    expect(Math.min(...taken)).toBeLessThan(3_000)
  })

  it('runs a saved version soon after, and is no larger after twenty of them', async () => {
    const dev = await startDev({ 'handler.ts': source(0) })
    const taken: number[] = []
    let before = 0
    for (let round = 1; round <= 25; round += 1) {
      const from = performance.now()
      dev.save('handler.ts', source(round))
      await dev.reloaded(round)
      taken.push(performance.now() - from)
      expect(await dev.answer()).toBe(round)
      // What is made once is made by then.
      if (round === 5) before = memoryOf(dev.child.pid)
    }
    const median = taken.toSorted((a, b) => a - b)[12] ?? Number.NaN
    const growth = memoryOf(dev.child.pid) - before
    console.log(`ready ${median.toFixed(0)} ms after a save, ${growth.toFixed(1)} MB more after 20 reloads`)
    expect(median).toBeLessThan(1_500)
    expect(growth).toBeLessThan(30)
  })
})
