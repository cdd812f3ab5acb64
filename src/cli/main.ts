#!/usr/bin/env node
// The longshore command: checks that this Node can run it before anything else is loaded.

const NEEDED_NODE = 24

const major = Number(process.versions.node.split('.', 1)[0])
if (major < NEEDED_NODE) {
  process.stderr.write(
    `longshore needs Node ${NEEDED_NODE} or newer, and this is Node ${process.versions.node}; install a newer one from nodejs.org or with "npm install node@${NEEDED_NODE}".\n`,
  )
  process.exitCode = 1
} else {
  if (process.argv[2] === 'dev') endWellMeanwhile()
  void import('./program.ts').then(({ runProgram }) => runProgram(process.argv))
}

/** Ctrl-C is how dev is ended, also before it listens for that itself: nothing was started by then. */
function endWellMeanwhile(): void {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      if (process.listenerCount(signal) === 1) process.exit(0)
    })
  }
}
