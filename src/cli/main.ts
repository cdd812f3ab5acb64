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
  void import('./program.ts').then(({ runProgram }) => runProgram(process.argv))
}
