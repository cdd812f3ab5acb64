// The options of longshore deploy.

import { Option, type Command } from 'commander'
import type { ScalerType } from '../../resource/endpoint.ts'
import type { DeployOptions } from '../deploy.ts'
import { addSettings, flagsOf } from './setting-options.ts'
import { wholeNumber } from './whole-number.ts'

// Written again here: the schema that has them would be loaded by every command, also by those that have to be quick.
const scalerTypes: readonly ScalerType[] = ['QUEUE_DELAY', 'REQUEST_COUNT']

export function addDeploy(program: Command): void {
  const command = program
    .command('deploy')
    .description('make a handler or an image an endpoint of a service, or its next version')
    .argument('[handler]', 'the handler file')
    .option('--name <text>', 'the name of the endpoint and its template (default: that of the file or image)')
    .option('--image <image>', 'an image in place of a handler file')
    .option('--min <workers>', 'workers that are there without any job', wholeNumber)
    .option('--max <workers>', 'the most workers', wholeNumber)
    .option('--idle-timeout <seconds>', 'how long a worker without use stays', wholeNumber)
    .addOption(new Option('--scaler <type>', 'what decides how many there are').choices(scalerTypes))
    .option('--scaler-value <number>', 'seconds in line, or jobs per worker', wholeNumber)
    .option('--execution-timeout <ms>', 'how long a job may run', wholeNumber)
    .option(
      '--env <pairs...>',
      'NAME=value for workers, or NAME with the value that it has here; replaces all',
    )
    .option('--no-wait', 'do not wait for the end of the release')
    .option('--json', 'print the endpoint as JSON')
  addSettings(command, 'deploy')
    .addHelpText('after', '\nExample:\n  longshore deploy handler.ts --name hello --min 0 --max 3')
    .action(async (handler: string | undefined, options: DeployOptions) => {
      const { deploy } = await import('../deploy.ts')
      await deploy(flagsOf(command, 'deploy'), handler, options)
    })
}
