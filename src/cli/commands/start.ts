// The options of longshore start.

import { Option, type Command } from 'commander'
import { addSettings, flagsOf } from './setting-options.ts'

export function addStart(program: Command): void {
  const command = program.command('start').description('run a worker: lease jobs and run the handler')
  addSettings(command, 'start')
    .option('--test_input <json>', 'run this one job instead, as JSON or @file.json, and exit')
    .addOption(new Option('--test-input <json>').hideHelp())
    .addHelpText(
      'after',
      '\nExample:\n  LONGSHORE_ENDPOINT_URL=http://127.0.0.1:8000/v2/default LONGSHORE_WORKER_TOKEN=… longshore start handler.ts',
    )
    .action(async () => {
      const { start } = await import('../start.ts')
      const { test_input, testInput = test_input } = command.opts<{
        test_input?: string
        testInput?: string
      }>()
      await start(flagsOf(command, 'start'), testInput)
    })
}
