// The options of longshore run.

import type { Command } from 'commander'
import { addSettings, flagsOf } from './setting-options.ts'

export function addRun(program: Command): void {
  const command = program.command('run').description('run one job without a queue')
  addSettings(command, 'run')
    .option(
      '--test-input <json>',
      'the job as JSON, or @file.json; test_input.json beside the handler by default',
    )
    .addHelpText('after', `\nExample:\n  longshore run handler.ts --test-input '{"input":{"name":"Ada"}}'`)
    .action(async () => {
      const { runCommand } = await import('../run.ts')
      await runCommand(flagsOf(command, 'run'), command.opts<{ testInput?: string }>().testInput)
    })
}
