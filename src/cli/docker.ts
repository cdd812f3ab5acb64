// The docker command, run with its words one by one: no shell reads them.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { CommandError } from './fail.ts'
import { stopSignal } from './stop-signal.ts'

/** Runs it to its end, and gives the exit code. What it says goes where our own words go, unless it is not to be heard. */
export async function docker(
  words: readonly string[],
  stdio: 'inherit' | 'ignore' = 'inherit',
): Promise<number> {
  const child = spawn('docker', words, { stdio: ['ignore', stdio, stdio] })
  const stop = stopSignal()
  stop.onSignal((signal) => child.kill(signal))
  try {
    const [code] = (await once(child, 'close')) as [number | null]
    return code ?? 1
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ENOENT') throw cause
    throw new CommandError(
      'There is no docker command to build the image with. Install Docker, or write what it would build with --out <dir> and build that elsewhere.',
    )
  } finally {
    stop.release()
  }
}
