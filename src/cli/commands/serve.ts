// The options of longshore serve.

import type { Command } from 'commander'
import { addSettings, flagsOf } from './setting-options.ts'

export function addServe(program: Command): void {
  const command = program.command('serve').description('run the queue service')
  addSettings(command, 'serve')
    .addHelpText('after', '\nExample:\n  longshore serve --store sqlite:queue.db --port 8000 --endpoint ocr')
    .action(async () => {
      const { serve } = await import('../serve.ts')
      await serve(flagsOf(command, 'serve'))
    })
}
