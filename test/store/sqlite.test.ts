import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { describeStore } from './conformance.ts'

describeStore('SQLite', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'longshore-test-'))
  const file = join(dir, 'queue.db')
  let store = openSqliteStore({ file })
  return {
    store,
    async reopen() {
      await store.close()
      store = openSqliteStore({ file })
      return store
    },
    async dispose() {
      await store.close()
      rmSync(dir, { recursive: true, force: true })
    },
  }
})
