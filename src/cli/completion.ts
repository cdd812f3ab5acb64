// longshore completion: prints the script of a shell on stdout.

import { print } from './print.ts'
import type { CompletedCommand, Shell } from './completion/completed.ts'

export async function completion(shell: Shell, commands: readonly CompletedCommand[]): Promise<void> {
  print(await scriptFor(shell, commands))
}

async function scriptFor(shell: Shell, commands: readonly CompletedCommand[]): Promise<string> {
  switch (shell) {
    case 'bash':
      return (await import('./completion/bash.ts')).bashScript(commands)
    case 'zsh':
      return (await import('./completion/zsh.ts')).zshScript(commands)
    case 'fish':
      return (await import('./completion/fish.ts')).fishScript(commands)
    default:
      return shell satisfies never
  }
}
