// The options of longshore dev.

import type { Command } from 'commander'
import { addSettings, flagsOf } from './setting-options.ts'

export function addDev(program: Command): void {
  const command = program
    .command('dev')
    .description('serve and run a handler while it is written: every save takes effect')
  addSettings(command, 'dev')
    .addHelpText('after', '\nExample:\n  longshore dev handler.ts')
    .action(async () => {
      const { devCommand } = await import('../dev.ts')
      await devCommand(flagsOf(command, 'dev'))
    })
}
