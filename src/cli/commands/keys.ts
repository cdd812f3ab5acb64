// The options of longshore keys.

import type { Command } from 'commander'
import { addSettings, flagsOf } from './setting-options.ts'

export function addKeys(program: Command): void {
  const keys = program.command('keys').description('the API keys of a store, also while it is served')
  keys.addHelpText('after', '\nExample:\n  longshore keys list --store sqlite:queue.db')
  addCreate(keys.command('create'))
  addList(keys.command('list'))
  addRevoke(keys.command('revoke'))
}

function addCreate(command: Command): void {
  addSettings(command.description('make a key and print it, once'), 'keys')
    .option('--name <text>', 'what it is for, in lists', 'key')
    .option('--endpoint <names...>', 'the endpoints it opens; every one by default')
    .option('--allow <permissions...>', 'read, write, worker or fleet', ['read', 'write'])
    .addHelpText(
      'after',
      '\nExamples:\n  longshore keys create --name web --endpoint ocr\n  longshore keys create --name workers --endpoint ocr --allow worker',
    )
    .action(async ({ name, endpoint, allow }: { name: string; endpoint?: string[]; allow: string[] }) => {
      const { createKey } = await import('../keys.ts')
      const key = { name, permissions: allow, ...(endpoint && { endpoints: endpoint }) }
      await createKey(flagsOf(command, 'keys'), key)
    })
}

function addList(command: Command): void {
  addSettings(command.description('show what keys there are; never their text'), 'keys')
    .addHelpText('after', '\nExample:\n  longshore keys list --store sqlite:queue.db')
    .action(async () => {
      const { listKeys } = await import('../keys.ts')
      await listKeys(flagsOf(command, 'keys'))
    })
}

function addRevoke(command: Command): void {
  addSettings(command.description('end a key: it opens nothing from the next request on'), 'keys')
    .argument('<id>', 'the id that the list shows')
    .addHelpText('after', '\nExample:\n  longshore keys revoke key_1a2b3c')
    .action(async (id: string) => {
      const { revokeKey } = await import('../keys.ts')
      await revokeKey(flagsOf(command, 'keys'), id)
    })
}
