// The commands; what each does is loaded only when it is called.

import { Command, CommanderError } from 'commander'
import { addBuild } from './commands/build.ts'
import { addCompletion } from './commands/completion.ts'
import { addConfig } from './commands/config.ts'
import { addDeploy } from './commands/deploy.ts'
import { addDev } from './commands/dev.ts'
import { addDoctor } from './commands/doctor.ts'
import { addEndpoints } from './commands/endpoints.ts'
import { addInit } from './commands/init.ts'
import { addKeys } from './commands/keys.ts'
import { addLogs } from './commands/logs.ts'
import { addMigrate } from './commands/migrate.ts'
import { addPods } from './commands/pods.ts'
import { addRun } from './commands/run.ts'
import { addServe } from './commands/serve.ts'
import { addStart } from './commands/start.ts'
import { fail } from './fail.ts'
import { print } from './print.ts'
import { version } from './version.ts'

/** Parses the arguments and runs the command. Sets the exit code; never throws. */
export async function runProgram(argv: readonly string[]): Promise<void> {
  try {
    await buildProgram().parseAsync([...argv])
  } catch (cause) {
    if (cause instanceof CommanderError) process.exitCode = cause.exitCode === 0 ? 0 : 1
    else fail(cause)
  }
}

function buildProgram(): Command {
  const program = new Command('longshore')
    .description('A worker runtime for serverless job queues, and the queue service itself.')
    .version(version(), '--version')
    .exitOverride()
    .configureOutput({ writeOut: print })
    .showSuggestionAfterError()
    .showHelpAfterError('(add --help for the options)')
    .enablePositionalOptions()
    .addHelpText(
      'after',
      '\nExample:\n  longshore init hello && cd hello && npm install && npx longshore dev handler.ts',
    )

  addServe(program)
  addStart(program)
  addDev(program)
  addRun(program)
  addInit(program)
  addBuild(program)
  addDeploy(program)
  addEndpoints(program)
  addPods(program)
  addLogs(program)
  addKeys(program)
  addConfig(program)
  addCompletion(program)
  addDoctor(program)
  addMigrate(program)
  return program
}
