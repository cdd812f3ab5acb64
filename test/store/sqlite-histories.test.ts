import { copyFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { describeHistories } from './histories.ts'

// Where the system keeps files in memory nobody waits for a disk: what is tried here is what is in the file.
const PLACE = existsSync('/dev/shm') ? '/dev/shm' : tmpdir()

describeHistories('SQLite', {
  histories: 2_000,
  async open() {
    const dir = mkdtempSync(join(PLACE, 'longshore-histories-'))
    let file = join(dir, 'queue.db')
    let crashes = 0
    const stores = [openSqliteStore({ file })]
    return {
      stores,
      endpoints: ['ep', 'other'],
      async reopen(at, how) {
        const old = stores[at]
        // What a killed process leaves is what is in its files, no page of which a close has tidied.
        if (how === 'crash') {
          const left = join(dir, `left-by-crash-${(crashes += 1)}.db`)
          for (const suffix of ['', '-wal']) copyFileSync(file + suffix, left + suffix)
          file = left
        }
        await old?.close()
        stores[at] = openSqliteStore({ file })
      },
      async dispose() {
        for (const store of stores) await store.close()
        rmSync(dir, { recursive: true, force: true })
      },
    }
  },
})
