// The options of longshore endpoints.

import type { Command } from 'commander'
import type { ShowOptions } from '../endpoints.ts'
import { refuseStrangeCommands } from './default-command.ts'
import { addSettings, flagsOf } from './setting-options.ts'

export function addEndpoints(program: Command): void {
  const endpoints = program.command('endpoints').description('the endpoints of a service and their workers')
  endpoints.addHelpText('after', '\nExample:\n  longshore endpoints')
  refuseStrangeCommands(endpoints)
  addList(endpoints.command('list', { isDefault: true }))
  addShow(endpoints.command('show'))
  addDelete(endpoints.command('delete'))
}

function addList(command: Command): void {
  addSettings(command.description('list them').option('--json', 'print JSON'), 'endpoints')
    .addHelpText('after', '\nExample:\n  longshore endpoints list --json')
    .action(async (options: ShowOptions) => {
      const { listEndpoints } = await import('../endpoints.ts')
      await listEndpoints(flagsOf(command, 'endpoints'), options)
    })
}

function addShow(command: Command): void {
  addSettings(
    command.description('show one, with its workers and releases').option('--json', 'print JSON'),
    'endpoints',
  )
    .argument('<id>', 'the id that the list shows')
    .addHelpText('after', '\nExample:\n  longshore endpoints show 4f9a2c')
    .action(async (id: string, options: ShowOptions) => {
      const { showEndpoint } = await import('../endpoints.ts')
      await showEndpoint(flagsOf(command, 'endpoints'), id, options)
    })
}

function addDelete(command: Command): void {
  addSettings(command.description('delete one with its queue, and stop its workers'), 'endpoints')
    .argument('<id>', 'the id that the list shows')
    .addHelpText('after', '\nExample:\n  longshore endpoints delete 4f9a2c')
    .action(async (id: string) => {
      const { deleteEndpoint } = await import('../endpoints.ts')
      await deleteEndpoint(flagsOf(command, 'endpoints'), id)
    })
}
