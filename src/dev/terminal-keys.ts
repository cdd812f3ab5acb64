// Single keys of a terminal, without Enter behind them; the keys that send signals go on doing so.

import { readFileSync } from 'node:fs'
import type { ReadStream } from 'node:tty'

export interface TerminalKeysOptions {
  stdin: ReadStream
  /** By the character that a key sends; Enter sends '\r'. */
  keys: Record<string, () => void>
  /** The program was put aside and is back: the terminal has changed since. */
  onResumed: () => void
}

const SIGNALS: Record<string, NodeJS.Signals> = {
  '\u0003': 'SIGINT',
  // The end of the input, where there is nothing left to read.
  '\u0004': 'SIGINT',
  '\u001a': 'SIGTSTP',
  '\u001c': 'SIGQUIT',
}

/** Reads them until the answered function is called. Nothing where the terminal is somebody else's at the moment. */
export function readTerminalKeys({ stdin, keys, onResumed }: TerminalKeysOptions): () => void {
  if (!stdin.isTTY || !isInForeground()) return () => undefined
  const resume = (): void => {
    if (!isInForeground()) return
    stdin.setRawMode(true)
    onResumed()
  }
  const take = (characters: string): void => {
    for (const character of characters) {
      const signal = SIGNALS[character]
      if (signal) {
        // Whoever has the terminal next expects it as it was.
        if (signal !== 'SIGINT') stdin.setRawMode(false)
        process.kill(process.pid, signal)
        // Where nobody could wake it, the system does not let it be put aside.
        if (signal === 'SIGTSTP') resume()
      } else if (Object.hasOwn(keys, character)) keys[character]?.()
    }
  }
  stdin.setRawMode(true).setEncoding('utf8').on('data', take).resume()
  process.on('SIGCONT', resume)
  return () => {
    process.off('SIGCONT', resume)
    stdin.off('data', take).setRawMode(false).pause()
  }
}

/** A job in the background that touches the terminal is stopped by the system. Where that cannot be told, it is not one. */
function isInForeground(): boolean {
  try {
    const stat = readFileSync('/proc/self/stat', 'utf8')
    // Behind the name, which may have anything in it: state, parent, group, session, terminal, group of the terminal.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields[2] === fields[5]
  } catch {
    // Not Linux.
    return true
  }
}
