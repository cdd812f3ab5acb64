import { Command } from 'commander'
import { describe, expect, it } from 'vitest'
import { addSettings, flagsOf } from '../../src/cli/commands/setting-options.ts'
import { flagOf, type Setting } from '../../src/config/setting.ts'
import { settingKeys, settings } from '../../src/config/settings.ts'

const each = settingKeys.flatMap((key) => settings[key].commands.map((of) => [key, of] as const))

describe('what was typed', () => {
  // "config dev --store" was taken for the store of serve, and refused as no setting of dev.
  it.each(each)('is of the setting %s of %s, also where other settings are beside it', (key, of) => {
    const setting: Setting = settings[key]
    const words = setting.isArgument
      ? ['x']
      : [flagOf(key, setting), ...(setting.kind === 'switch' ? [] : ['x'])]
    for (const [among, keys] of [[of], [undefined, settingKeys]] as const) {
      const command = addSettings(
        new Command().action(() => undefined),
        among,
      )
      command.parse(words, { from: 'user' })
      expect(Object.keys(flagsOf(command, of, keys))).toEqual([key])
    }
  })

  it('is kept where the command has no such setting, for it to be refused', () => {
    const command = addSettings(new Command())
    command.parse(['--concurrency', '4'], { from: 'user' })
    expect(flagsOf(command, 'dev', settingKeys)).toEqual({ concurrency: '4' })
  })
})
