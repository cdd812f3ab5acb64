// The options of longshore migrate.

import type { Command } from 'commander'

export function addMigrate(program: Command): void {
  program
    .command('migrate')
    .description('move a stopped queue from its file to Redis')
    .requiredOption('--from <url>', 'the queue file: sqlite:<file>')
    .requiredOption('--to <url>', 'where it goes: redis://<host>:<port>')
    .addHelpText(
      'after',
      '\nExample:\n  longshore migrate --from sqlite:queue.db --to redis://127.0.0.1:6379',
    )
    .action(async ({ from, to }: { from: string; to: string }) => {
      const { migrate } = await import('../migrate.ts')
      await migrate(from, to)
    })
}
