import { describe, expect, it } from 'vitest'
import { describeDeath, type Death, type LastLine } from '../../src/worker/death.ts'
import { LastLines } from '../../src/worker/last-lines.ts'

const RUN = { number: 2, startedAt: 1_000 }
const HEAP = 'FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory'

function death(lastLines: LastLine[], more: Partial<Death> = {}): Death {
  return { exitCode: null, signal: 'SIGSEGV', wasKilled: false, isOverMemory: false, lastLines, ...more }
}

/** A process that printed these before it died. */
function printing(lines: LastLine[]): Death {
  const last = new LastLines()
  for (const line of lines) last.add(line)
  return death([...last.all], last.fatal && { fatal: last.fatal })
}

describe('what is said of a death', () => {
  it('has the signal or the exit code', () => {
    expect(describeDeath(death([]), RUN)).toEqual({
      type: 'ProcessError',
      message: "The handler's process was ended by SIGSEGV while the job ran.",
      code: 'CRASHED',
    })
    expect(describeDeath(death([], { signal: null, exitCode: 3 }), RUN)).toMatchObject({
      message: expect.stringContaining('exited with code 3'),
      code: 'EXITED',
    })
  })

  it('has the lines of this run, and those of nobody since it began', () => {
    const lines: LastLine[] = [
      { line: "another's", run: 1, at: 1_100 },
      { line: 'before it', at: 900 },
      { line: 'its own', run: 2, at: 1_100 },
      { line: "nobody's", at: 1_200 },
    ]
    expect(describeDeath(death(lines), RUN).message).toMatch(/Its last lines: its own \| nobody's$/)
  })

  it('calls it out of memory by the words of the engine or the count of the kernel, not by those of a handler', () => {
    expect(describeDeath(printing([{ line: HEAP, at: 1_100 }]), RUN).code).toBe('OUT_OF_MEMORY')
    expect(describeDeath(death([], { signal: 'SIGKILL', isOverMemory: true }), RUN).code).toBe(
      'OUT_OF_MEMORY',
    )
    expect(describeDeath(printing([{ line: HEAP, run: 2, at: 1_100 }]), RUN).code).toBe('CRASHED')
    expect(describeDeath(printing([{ line: HEAP, run: 1, at: 900 }]), RUN).code).toBe('CRASHED')
  })

  // Seen: the words stood before a native stack of a hundred lines and more, and only the last twenty were looked at.
  it('finds the words of the engine however much follows, and shows none of its native stack', () => {
    const at = 1_100
    const frames = Array.from({ length: 118 }, (_, n) => ({ line: `${n}: 0xd39abf v8::Internal [node]`, at }))
    const stack = [{ line: '----- Native stack trace -----', at }, ...frames]
    const own = { line: 'its own', run: 2, at }
    const said = describeDeath(printing([own, { line: HEAP, at }, { line: '', at }, ...stack]), RUN)
    expect(said.code).toBe('OUT_OF_MEMORY')
    expect(said.message).toContain(`its own | ${HEAP}`)
    expect(said.message).not.toContain('0xd39abf')
    const later = Array.from({ length: 50 }, (_, n) => ({ line: `line ${n}`, run: 2, at }))
    expect(describeDeath(printing([{ line: HEAP, at }, ...later]), RUN).code).toBe('OUT_OF_MEMORY')
  })

  it('is the accident that the process spoke of, when it did', () => {
    const accident = { type: 'TypeError', message: 'x is not a function', stack: 'at y', code: 'UNCAUGHT' }
    expect(describeDeath(death([], { accident }), RUN)).toEqual(accident)
  })
})
