// The options of longshore build.

import type { Command } from 'commander'
import type { BuildOptions } from '../build.ts'

export function addBuild(program: Command): void {
  program
    .command('build')
    .description('make an image with a handler in it')
    .argument('<handler>', 'the handler file')
    .argument('[docker...]', 'what follows -- goes to "docker build" as it is')
    .option('-t, --tag <name>', 'the name of the image')
    .option('--base <image>', 'the image it is built from', 'longshore-base')
    .option('--install <packages...>', 'packages to install in the image instead of bundling them')
    .option('--include <paths...>', "files and folders of the handler's folder that it needs beside it")
    .option('--out <dir>', 'write what the image is built from there, and build nothing')
    .addHelpText('after', '\nExample:\n  longshore build handler.ts -t my-worker')
    .action(async (handler: string, docker: string[], options: BuildOptions) => {
      const { buildImage } = await import('../build.ts')
      await buildImage(handler, docker, options)
    })
}
