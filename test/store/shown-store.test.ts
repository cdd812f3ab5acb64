import { expect, it } from 'vitest'
import { shownStore } from '../../src/store/shown-store.ts'

it.each([
  ['redis://127.0.0.1:6379', 'redis://127.0.0.1:6379'],
  ['redis://:hunter2@host:6379/5', 'redis://host:6379/5'],
  ['rediss+cluster://user:hunter2@a:1,b:2', 'rediss+cluster://a:1,b:2'],
  ['redis://:hunt@er2@host', 'redis://host'],
  ['redis://:hunt/er2@host', 'redis://host'],
  ['redis://host?password=hunter2', 'redis://host'],
  ['redis://host?password=hunt@er2', 'redis://…'],
  ['redis://:hunter2?x@host', 'redis://…'],
  ['redis::hunter2@host', 'redis:host'],
  ['redis+sentinel:hunter2@host', 'redis+sentinel:host'],
  ['REDIS:hunter2', 'REDIS:…'],
  ['redis://:hunter2', 'redis://…'],
  ['redis://:hunter2:6379/0', 'redis://…'],
  ['redis://user:hunter2', 'redis://…'],
  ['redis://:12345', 'redis://…'],
  ['redis+cluster://a:1,:hunter2', 'redis+cluster://…'],
  ['redis://[::1]:6379/0', 'redis://[::1]:6379/0'],
  ['sqlite:queue?@.db', 'sqlite:queue?@.db'],
  ['queue.db', 'queue.db'],
  ['postgres://x', 'postgres://x'],
])('%s is shown as %s', (url, shown) => {
  expect(shownStore(url)).toBe(shown)
})
