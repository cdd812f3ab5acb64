// How the tests run: most side by side, those of S3 with real servers, those of images
// with a Docker engine, those with time bounds alone and one after the
// other.

import { defineConfig } from 'vitest/config'

export default defineConfig({
  resolve: {
    alias: {
      'longshore/testing': new URL('./src/testing/test-worker.ts', import.meta.url).pathname,
      'longshore/client': new URL('./src/client/client.ts', import.meta.url).pathname,
      longshore: new URL('./src/index.ts', import.meta.url).pathname,
    },
  },
  test: {
    reporters: ['default', './test/support/closing-line.ts'],
    // Most tests wait for processes and servers: more of them than cores keep a small machine busy.
    maxWorkers: 3,
    globalSetup: './test/support/compile-cache.ts',
    testTimeout: 30_000,
    hookTimeout: 30_000,
    projects: [
      {
        extends: true,
        test: {
          name: 'main',
          include: ['test/**/*.test.ts'],
          exclude: ['test/timing/**', 'test/s3/**', 'test/image/**'],
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: 'objects',
          include: ['test/s3/**/*.test.ts'],
          // Runs only when a file of this project does.
          globalSetup: './test/support/object-stores.ts',
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: 'redis',
          include: ['test/interface/**/*.test.ts'],
          env: { LONGSHORE_TEST_STORE: 'redis' },
          setupFiles: ['./test/support/needs-redis.ts'],
          // Each test has a service of its own; to read the modules anew for each file took a third of the time.
          isolate: false,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: 'image',
          include: ['test/image/**/*.test.ts'],
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: 'timing',
          include: ['test/timing/**/*.test.ts'],
          // What is timed starts as it does for everybody.
          env: { NODE_DISABLE_COMPILE_CACHE: '1' },
          fileParallelism: false,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
})
