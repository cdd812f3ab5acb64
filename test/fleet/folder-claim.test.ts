import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readlinkSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { claimFolder } from '../../src/fleet/providers/folder-claim.ts'
import { readBootId, readStat } from '../../src/fleet/providers/process-identity.ts'

const source = new URL('../../src/fleet/providers/folder-claim.ts', import.meta.url).href
/** Says whether it got the folder, or who has it, and stays. */
const claims = `const { claimFolder } = await import(${JSON.stringify(source)})
try { claimFolder(process.argv[1]); console.log('mine') } catch ({ message }) { console.log(message) }
setInterval(() => {}, 1e6)`

let dir: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longshore-claim-'))
})
afterEach(() => rmSync(dir, { recursive: true }))

interface Other {
  said: string
  pid: number
}

/** Runs what is given while as many other processes have tried to claim the folder at once. */
async function withOthers<T>(count: number, run: (others: Other[]) => T | Promise<T>): Promise<T> {
  const children = Array.from({ length: count }, () =>
    execFile(process.execPath, ['--input-type=module', '-e', claims, dir], { timeout: 30_000 }),
  )
  const exits = children.map((child) => once(child, 'exit'))
  try {
    const others = children.map(async (child) => {
      let said = ''
      for await (const text of child.stdout ?? []) {
        said += String(text)
        if (said.endsWith('\n')) break
      }
      return { said: said.trimEnd(), pid: child.pid ?? 0 }
    })
    return await run(await Promise.all(others))
  } finally {
    for (const child of children) child.kill('SIGKILL')
    await Promise.all(exits)
  }
}

const withOther = <T>(run: (said: string, pid: number) => T | Promise<T>): Promise<T> =>
  withOthers(1, ([other]) => run(other?.said ?? '', other?.pid ?? 0))

/** Of a process that is no more. */
function leftBy(pid: number, { startTicks = '1', bootId = readBootId().replaceAll('-', '') } = {}): string {
  return [pid, startTicks, bootId].join('.')
}

describe('the folder of a fleet', () => {
  it('is refused to a second service, with the pid of the first', async () => {
    await withOther((said, pid) => {
      expect(said).toBe('mine')
      expect(() => claimFolder(dir)).toThrow(
        expect.objectContaining({ code: 'FOLDER_IN_USE', message: expect.stringContaining(`pid ${pid},`) }),
      )
    })
  })

  it('is free once its holder was killed', async () => {
    await withOther((said) => expect(said).toBe('mine'))
    claimFolder(dir).release()
    expect(readdirSync(dir)).toEqual([])
  })

  it('is free once it was given back, which takes nothing from the next one when it is repeated', async () => {
    const first = claimFolder(dir)
    expect(() => claimFolder(dir)).toThrow(`pid ${process.pid},`)
    first.release()
    await withOther((said) => {
      expect(said).toBe('mine')
      first.release()
      expect(() => claimFolder(dir)).toThrow('is in use')
    })
  })

  it.each([
    ['its number is that of another process now', () => leftBy(process.pid)],
    [
      'the machine was started anew',
      () => leftBy(process.pid, { ...readStat(process.pid), bootId: 'other' }),
    ],
    ['there is no such process', () => leftBy(2 ** 22 + 1)],
  ])('is taken over from a holder that is gone: %s', (_what, text) => {
    symlinkSync(text(), join(dir, 'claim'))
    symlinkSync(text(), join(dir, 'claim.next'))
    const claim = claimFolder(dir)
    expect(readlinkSync(join(dir, 'claim'))).toMatch(new RegExp(`^${process.pid}\\.`))
    claim.release()
    expect(readdirSync(dir)).toEqual([])
  })

  it('is claimed where no byte can be written to the disk', () => {
    // Whatever is written there meets a full disk.
    symlinkSync('/dev/full', join(dir, `claim-${process.pid}.new`))
    symlinkSync('/dev/full', join(dir, 'claim.new'))
    claimFolder(dir).release()
  })

  it('goes to one of several that find it left at once', async () => {
    symlinkSync(leftBy(2 ** 22 + 1), join(dir, 'claim'))
    await withOthers(5, (others) => {
      expect(others.map(({ said }) => said).filter((said) => said === 'mine')).toHaveLength(1)
      expect(others.filter(({ said }) => said.includes('is in use'))).toHaveLength(4)
    })
  })
})
