// The files that a handler was loaded from: tells when one of them is another than the one that was loaded.

import { watch, type FSWatcher } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Clock, Timer } from '../lib/clock.ts'
import { versionOf } from '../worker/file-version.ts'
import type { ImportedFile } from '../worker/messages.ts'

export interface WatchedFilesOptions {
  clock: Clock
  /**
   * Once for all that changed together: files, and folders in which an import had looked for what was not there. What they
   * are now counts as known from here on.
   */
  onChange: (files: string[], folders: string[]) => void
}

/** Saves that follow each other faster than this are one change, ms; so are an editor's steps of a save. */
const QUIET_MS = 40
/** However many follow each other. */
const LONGEST_MS = 400
/** A file that is gone has probably been put aside by an editor, for so long, ms. */
const GONE_MS = 300
/** Where the system tells of no changes, as on a network drive, they are seen by looking so often, ms. */
const LOOK_EVERY_MS = 1_000

/** Versions decide, and events of the file system only say when to look: some are lost, and many mean nothing. */
export class WatchedFiles {
  readonly #options: WatchedFilesOptions
  readonly #versions = new Map<string, string>()
  /** Of those, folders that matter only as long as an import looks for something in them. */
  readonly #searched = new Set<string>()
  /** What the load that is under way, or was last, has told of. */
  #fresh = new Set<string>()
  readonly #folders = new Map<string, FSWatcher>()
  #patrol: Timer | undefined
  #look: Timer | undefined
  #hintedAt: number | undefined
  #isClosed = false

  constructor(options: WatchedFilesOptions) {
    this.#options = options
    this.#goOnPatrol()
  }

  /** A load that has begun has read this version of it. */
  note({ path, version, isSearched = false }: ImportedFile): void {
    if (this.#isClosed) return
    this.#versions.set(path, version)
    this.#fresh.add(path)
    if (isSearched) this.#searched.add(path)
    else this.#searched.delete(path)
    this.#watchFolder(isSearched ? path : dirname(path))
    // It may have been saved since.
    if (version !== versionOf(path)) this.#hint()
  }

  /** A load begins: what there is now is what it will read, if not something newer. */
  begin(): void {
    for (const path of this.#versions.keys()) this.#versions.set(path, versionOf(path))
    this.#fresh = new Set()
  }

  /** The load has all that it needs: what it did not ask for is watched no more. After one that fails, all of it is. */
  succeed(): void {
    for (const path of this.#versions.keys()) {
      if (this.#fresh.has(path) && !this.#searched.has(path)) continue
      this.#versions.delete(path)
      this.#searched.delete(path)
    }
    const needed = new Set([...this.#versions.keys()].map((path) => dirname(path)))
    for (const folder of this.#folders.keys()) if (!needed.has(folder)) this.#unwatch(folder)
  }

  close(): void {
    this.#isClosed = true
    this.#patrol?.clear()
    this.#look?.clear()
    for (const folder of this.#folders.keys()) this.#unwatch(folder)
  }

  /** The folder and not the file: a file that is put in its place would be seen no more. */
  #watchFolder(folder: string): void {
    if (this.#folders.has(folder)) return
    try {
      const watcher = watch(folder, (_event, name) => {
        const isOurs = name === null || this.#versions.has(join(folder, name)) || this.#searched.has(folder)
        if (isOurs) this.#hint()
      })
      // The folder is gone, or the system has no more to give: looking has to do.
      watcher.on('error', () => this.#unwatch(folder))
      this.#folders.set(folder, watcher)
    } catch {
      // The same, said at once.
    }
  }

  #unwatch(folder: string): void {
    this.#folders.get(folder)?.close()
    this.#folders.delete(folder)
  }

  #goOnPatrol(): void {
    this.#patrol = this.#options.clock.after(LOOK_EVERY_MS, () => {
      if (!this.#look && this.#changed.length > 0) this.#hint()
      this.#goOnPatrol()
    })
  }

  #hint(): void {
    const { clock } = this.#options
    const now = clock.monotonic()
    this.#hintedAt ??= now
    if (this.#look && now - this.#hintedAt > LONGEST_MS) return
    this.#look?.clear()
    this.#look = clock.after(QUIET_MS, () => this.#tell())
  }

  #tell(): void {
    const { clock, onChange } = this.#options
    const changed = this.#changed
    const isGone = changed.some(
      (path) => this.#versions.get(path) !== 'ENOENT' && versionOf(path) === 'ENOENT',
    )
    const patienceMs = this.#hintedAt === undefined ? 0 : this.#hintedAt + GONE_MS - clock.monotonic()
    if (isGone && patienceMs > 0) {
      this.#look = clock.after(Math.min(QUIET_MS, patienceMs), () => this.#tell())
      return
    }
    this.#look = undefined
    this.#hintedAt = undefined
    if (changed.length === 0) return
    this.begin()
    const folders = changed.filter((path) => this.#searched.has(path))
    const files = changed.filter((path) => !this.#searched.has(path))
    onChange(files, folders)
  }

  get #changed(): string[] {
    return [...this.#versions].filter(([path, version]) => versionOf(path) !== version).map(([path]) => path)
  }
}
