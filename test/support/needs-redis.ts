// For a project whose tests run on Redis throughout: skipped where there is none, except in CI.

import { beforeEach } from 'vitest'
import { isRedisMissing } from './redis.ts'

beforeEach(({ skip }) => {
  if (isRedisMissing) skip('there is no redis-server: install the Debian package of that name')
})
