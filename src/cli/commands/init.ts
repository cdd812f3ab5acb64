// The options of longshore init.

import type { Command } from 'commander'

export function addInit(program: Command): void {
  program
    .command('init')
    .description('write a starter')
    .argument(
      '[template]',
      'hello, ocr, openai-proxy, stream-text or thumbnail; asked for on a terminal, else hello',
    )
    .argument('[dir]', 'the folder to write; named like the template by default')
    .addHelpText('after', '\nExample:\n  longshore init stream-text my-worker')
    .action(async (template: string | undefined, dir: string | undefined) => {
      const { init } = await import('../init.ts')
      await init(template, dir)
    })
}
