import { mkdirSync, renameSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { WatchedFiles } from '../../src/dev/watched-files.ts'
import { systemClock, type Clock, type Timer } from '../../src/lib/clock.ts'
import { versionOf } from '../../src/worker/file-version.ts'
import { Facts } from '../support/facts.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { temporaryDir } from '../support/processes.ts'

/** What is told, of folders with a stroke at the end, when these files of a folder have been loaded. */
function watched(...names: string[]): Watched {
  return watchedBy(systemClock, names)
}

interface Watched {
  files: WatchedFiles
  told: Facts<string[]>
  dir: string
  at: At
}

function watchedBy(clock: Clock, names: string[]): Watched {
  const dir = temporaryDir()
  const at: At = (name) => join(dir, name)
  const told = new Facts<string[]>()
  const files = new WatchedFiles({
    clock,
    onChange: (paths, folders) => told.add([...paths, ...folders.map((folder) => `${folder}/`)]),
  })
  onTestFinished(() => files.close())
  for (const name of names) {
    writeFileSync(at(name), name)
    files.note({ path: at(name), version: versionOf(at(name)) })
  }
  return { files, told, dir, at }
}

type At = (name: string) => string

/** Stands still, however slow this machine is, until a change has been seen and the time is moved on. */
class SteppedClock extends FakeClock {
  readonly #waits = new Facts<number>()

  override after(ms: number, callback: () => void): Timer {
    this.#waits.add(ms)
    return super.after(ms, callback)
  }

  /** Does this, and once the system has told of it, lets so much time pass. */
  async step(ms: number, change: () => void): Promise<void> {
    const seen = this.#waits.all.length
    change()
    await this.#waits.first(() => this.#waits.all.length > seen)
    this.advance(ms)
  }
}

/** Two changes, each told once: whatever came in between would have been told before the second. */
async function onlyTells(told: Facts<string[]>, path: string): Promise<void> {
  writeFileSync(path, 'the last change')
  await told.first((paths) => paths.includes(path))
}

describe('a watched file', () => {
  it('is told when it is written, once', async () => {
    const { told, at } = watched('a.ts', 'b.ts', 'end.ts')
    writeFileSync(at('a.ts'), 'something longer')
    await told.first(() => true)
    await onlyTells(told, at('end.ts'))
    expect(told.all).toEqual([[at('a.ts')], [at('end.ts')]])
  })

  it('is told when another is put in its place, again and again', async () => {
    const { told, at } = watched('a.ts')
    for (const round of [1, 2, 3]) {
      writeFileSync(at('a.ts.tmp'), `round ${round}`)
      renameSync(at('a.ts.tmp'), at('a.ts'))
      await told.first(() => told.all.length === round)
    }
    expect(told.all).toEqual([[at('a.ts')], [at('a.ts')], [at('a.ts')]])
  })

  it('is told once when an editor puts it aside, writes a new one, and removes the old one', async () => {
    const clock = new SteppedClock()
    const { told, at } = watchedBy(clock, ['a.ts', 'end.ts'])
    await clock.step(100, () => renameSync(at('a.ts'), at('a.ts~')))
    expect(told.all).toEqual([])
    await clock.step(100, () => writeFileSync(at('a.ts'), 'new'))
    unlinkSync(at('a.ts~'))
    await clock.step(100, () => writeFileSync(at('end.ts'), 'the last change'))
    expect(told.all).toEqual([[at('a.ts')], [at('end.ts')]])
  })

  it('is told once for a burst of saves of several files', async () => {
    const clock = new SteppedClock()
    const { told, at } = watchedBy(clock, ['a.ts', 'b.ts', 'end.ts'])
    for (const n of [1, 2, 3, 4, 5]) {
      await clock.step(10, () => {
        writeFileSync(at('a.ts'), `save ${n}`)
        writeFileSync(at('b.ts'), `save ${n}`)
      })
    }
    expect(told.all).toEqual([])
    clock.advance(100)
    await clock.step(100, () => writeFileSync(at('end.ts'), 'the last change'))
    expect(told.all).toEqual([[at('a.ts'), at('b.ts')], [at('end.ts')]])
  })

  it('is told when it goes, and when it comes back', async () => {
    const { told, at } = watched('a.ts')
    rmSync(at('a.ts'))
    await told.first(() => told.all.length === 1)
    writeFileSync(at('a.ts'), 'back')
    await told.first(() => told.all.length === 2)
  })

  it('is told when it was saved between being read and being noted', async () => {
    const { files, told, at } = watched()
    writeFileSync(at('a.ts'), 'as it was read')
    const version = versionOf(at('a.ts'))
    writeFileSync(at('a.ts'), 'as it is, and longer')
    files.note({ path: at('a.ts'), version })
    expect(await told.first(() => true)).toEqual([at('a.ts')])
  })

  it('is told when it is a link that now means another file', async () => {
    const { files, told, at } = watched()
    writeFileSync(at('one.ts'), 'one')
    writeFileSync(at('two.ts'), 'two')
    symlinkSync(at('one.ts'), at('link.ts'))
    files.note({ path: at('link.ts'), version: versionOf(at('link.ts')) })
    symlinkSync(at('two.ts'), at('new'))
    renameSync(at('new'), at('link.ts'))
    expect(await told.first(() => true)).toEqual([at('link.ts')])
  })

  it('is told though its folder was made anew, of which the system tells nothing', async () => {
    const { files, told, at } = watched()
    mkdirSync(at('parts'))
    writeFileSync(at('parts/a.ts'), 'a')
    files.note({ path: at('parts/a.ts'), version: versionOf(at('parts/a.ts')) })
    renameSync(at('parts'), at('old'))
    mkdirSync(at('parts'))
    writeFileSync(at('parts/a.ts'), 'another')
    await told.first(() => true)
    writeFileSync(at('parts/a.ts'), 'and another one')
    await told.first(() => told.all.length === 2)
  })
})

describe('other files', () => {
  it('are not told, also beside watched ones', async () => {
    const { told, at } = watched('a.ts', 'end.ts')
    writeFileSync(at('notes.txt'), 'x')
    await onlyTells(told, at('end.ts'))
    expect(told.all).toEqual([[at('end.ts')]])
  })

  it('are told no more once a load has done without them, and still are after one that failed', async () => {
    const { files, told, at } = watched('a.ts', 'b.ts', 'end.ts')
    files.begin()
    // This load fails before it comes to b.ts.
    files.note({ path: at('a.ts'), version: versionOf(at('a.ts')) })
    writeFileSync(at('b.ts'), 'changed')
    await told.first(() => true)
    files.note({ path: at('a.ts'), version: versionOf(at('a.ts')) })
    files.note({ path: at('end.ts'), version: versionOf(at('end.ts')) })
    files.succeed()
    writeFileSync(at('b.ts'), 'changed again')
    await onlyTells(told, at('end.ts'))
    expect(told.all).toEqual([[at('b.ts')], [at('end.ts')]])
  })
})

describe('a folder in which an import looked in vain', () => {
  it('is told when something appears in it, until a load succeeds', async () => {
    const { files, told, dir, at } = watched('end.ts')
    files.note({ path: dir, version: versionOf(dir), isSearched: true })
    writeFileSync(at('missing.ts'), 'there')
    expect(await told.first(() => true)).toEqual([`${dir}/`])
    files.note({ path: at('end.ts'), version: versionOf(at('end.ts')) })
    files.note({ path: dir, version: versionOf(dir), isSearched: true })
    files.succeed()
    writeFileSync(at('more.ts'), 'there')
    await onlyTells(told, at('end.ts'))
    expect(told.all).toEqual([[`${dir}/`], [at('end.ts')]])
  })
})
