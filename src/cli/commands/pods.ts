// The options of longshore pods.

import type { Command } from 'commander'
import type { PodOrder } from '../../client/resource-client.ts'
import type { ListPodsOptions } from '../pods.ts'
import { refuseStrangeCommands } from './default-command.ts'
import { addSettings, flagsOf } from './setting-options.ts'

export function addPods(program: Command): void {
  const pods = program.command('pods').description('what runs at a service')
  pods.addHelpText('after', '\nExample:\n  longshore pods')
  refuseStrangeCommands(pods)
  addList(pods.command('list', { isDefault: true }))
  addOrder(pods.command('start').description('start one that was stopped'), 'start')
  addOrder(pods.command('stop').description('stop one; its volume is kept'), 'stop')
  addOrder(pods.command('restart').description('end one and start it again'), 'restart')
  addDelete(pods.command('delete'))
}

function addList(command: Command): void {
  command
    .description('list them')
    .option('--endpoint <id>', 'only the workers of this endpoint')
    .option('--all', 'those too that are gone')
    .option('--json', 'print JSON')
  addSettings(command, 'pods')
    .addHelpText('after', '\nExample:\n  longshore pods list --endpoint 4f9a2c --all')
    .action(async (options: ListPodsOptions) => {
      const { listPods } = await import('../pods.ts')
      await listPods(flagsOf(command, 'pods'), options)
    })
}

function addOrder(command: Command, order: PodOrder): void {
  addSettings(command, 'pods')
    .argument('<id>', 'the id that the list shows')
    .addHelpText('after', `\nExample:\n  longshore pods ${order} 9c2f4a`)
    .action(async (id: string) => {
      const { orderPod } = await import('../pods.ts')
      await orderPod(flagsOf(command, 'pods'), id, order)
    })
}

function addDelete(command: Command): void {
  addSettings(command.description('end one and remove what it has'), 'pods')
    .argument('<id>', 'the id that the list shows')
    .addHelpText('after', '\nExample:\n  longshore pods delete 9c2f4a')
    .action(async (id: string) => {
      const { deletePod } = await import('../pods.ts')
      await deletePod(flagsOf(command, 'pods'), id)
    })
}
