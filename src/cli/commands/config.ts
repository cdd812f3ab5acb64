// The options of longshore config.

import { Argument, type Command } from 'commander'
import { configured, type Configured } from '../../config/setting.ts'
import { settingKeys } from '../../config/settings.ts'
import { CommandError } from '../fail.ts'
import { addSettings, flagsOf } from './setting-options.ts'

export function addConfig(program: Command): void {
  const command = program.command('config').description('print each setting and where it came from')
  // Judged below: commander would not say which of them was meant.
  const argument = new Argument('[command]', 'only the settings of this command').choices(configured)
  command.addArgument(argument.argParser((given) => given))
  addSettings(command)
    .option('--json', 'print them as JSON')
    .addHelpText('after', '\nExample:\n  longshore config serve --port 9000')
    .action(async (given: string | undefined) => {
      const of = await commandOf(given)
      const { showConfig } = await import('../config.ts')
      await showConfig({
        flags: flagsOf(command, of, settingKeys),
        of,
        asJson: command.opts<{ json?: true }>().json === true,
      })
    })
}

async function commandOf(given: string | undefined): Promise<Configured | undefined> {
  const found = configured.find((one) => one === given)
  if (given === undefined || found !== undefined) return found
  const { didYouMean } = await import('../../config/did-you-mean.ts')
  throw new CommandError(
    `'${given}' is no command with settings. Choose one of ${configured.join(', ')}.${didYouMean(given, configured)}`,
  )
}
