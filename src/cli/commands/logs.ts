// The options of longshore logs.

import type { Command } from 'commander'
import type { LogsOptions } from '../logs.ts'
import { addSettings, flagsOf } from './setting-options.ts'
import { wholeNumber } from './whole-number.ts'

export function addLogs(program: Command): void {
  const command = program
    .command('logs')
    .description('print what a pod printed')
    .argument('<pod>', 'the id that longshore pods shows')
    .option('-f, --follow', 'go on until the pod ends')
    .option('--tail <lines>', 'only so many of the last lines', wholeNumber)
  addSettings(command, 'logs')
    .addHelpText('after', '\nExample:\n  longshore logs 9c2f4a -f')
    .action(async (pod: string, options: LogsOptions) => {
      const { printLogs } = await import('../logs.ts')
      await printLogs(flagsOf(command, 'logs'), pod, options)
    })
}
