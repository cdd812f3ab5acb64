// The command that a command of commands means when none is named.

import type { Command } from 'commander'

/** Has the word that is no command told as such: else the default one would take it for an argument too many. */
export function refuseStrangeCommands(group: Command): void {
  group.hook('preSubcommand', async () => {
    const word = group.args[0]
    const names = group.commands.map((command) => command.name())
    if (word === undefined || word.startsWith('-') || names.includes(word)) return
    const { didYouMean } = await import('../../config/did-you-mean.ts')
    const mend = didYouMean(word, names) || ` Choose one of ${names.join(', ')}.`
    group.error(`error: '${word}' is no command of longshore ${group.name()}.${mend}`)
  })
}
