// The options of longshore doctor.

import type { Command } from 'commander'
import type { LiveFlags } from '../doctor-live.ts'
import { addSettings, flagsOf, strangersOf } from './setting-options.ts'

export function addDoctor(program: Command): void {
  const command = program
    .command('doctor')
    .description('say what is wrong with a service or a worker; nothing when all is well')
  addSettings(command, 'doctor')
    .option('--fix', 'mend what can be mended without losing anything')
    .option('--live', 'ask only whether the worker at the live socket lives')
    .addHelpText(
      'after',
      '\nExamples:\n  longshore doctor --store sqlite:queue.db\n  longshore doctor handler.ts',
    )
    .action(async () => {
      const { live, ...flags } = command.opts<{ live?: true } & LiveFlags>()
      if (live) {
        const { doctorLive } = await import('../doctor-live.ts')
        return doctorLive(flags, strangersOf(command))
      }
      const { doctor } = await import('../doctor.ts')
      await doctor(flagsOf(command, 'doctor'), { fixes: command.opts<{ fix?: true }>().fix === true })
    })
}
