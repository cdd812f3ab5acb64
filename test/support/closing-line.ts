// The last line of a test run: how many passed, failed and were skipped.

import type { Reporter, TestModule } from 'vitest/node'

export default class ClosingLine implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly unknown[]): void {
    const counts = { passed: 0, failed: unhandled.length, skipped: 0, pending: 0 }
    for (const module of modules) {
      for (const test of module.children.allTests()) counts[test.result().state] += 1
      // A file that cannot be loaded has no tests to count, and has failed all the same.
      counts.failed += module.errors().length
    }
    const skipped = counts.skipped + counts.pending
    process.on('exit', (code) => {
      // What goes wrong before the tests or after them, such as a global setup, is no test's, and not told here.
      if (code !== 0 && counts.failed === 0) counts.failed = 1
      process.stdout.write(`\n${counts.passed} passed, ${counts.failed} failed, ${skipped} skipped\n`)
    })
  }
}
