// longshore doctor --live: asks the worker beside it whether its loop turns. Loads nothing else: it runs every few seconds.

import { once } from 'node:events'
import { connect } from 'node:net'
import type { ConfigFile, Stranger } from '../config/resolve.ts'
import { CommandError } from './fail.ts'

const LIVE_SOCKET = 'LONGSHORE_LIVE_SOCKET'

/** A worker that lives answers within a few ms. */
const PATIENCE_MS = 2_000

/** What was typed. */
export interface LiveFlags {
  liveSocket?: string
  /** The config file. */
  config?: string
}

interface Named {
  path: string
  /** The place where it was said. */
  origin: string
}

/** Silent when the worker is well, and while it starts or leaves; else one line on stdout and exit code 1. */
export async function doctorLive(flags: LiveFlags, strangers: Record<string, Stranger> = {}): Promise<void> {
  for (const [flag, { command, known }] of Object.entries(strangers)) {
    const { didYouMean } = await import('../config/did-you-mean.ts')
    const mend = didYouMean(flag, known) || ' See those of longshore doctor --help.'
    throw new CommandError(`${flag} is no flag of ${command}.${mend}`)
  }
  const problem = await problemAt(await namedSocket(flags))
  if (problem === undefined) return
  process.stdout.write(`${problem}\n`)
  process.exitCode = 1
}

async function namedSocket({ liveSocket, config }: LiveFlags): Promise<Named> {
  if (liveSocket) return { path: liveSocket, origin: '--live-socket' }
  const fromEnv = process.env[LIVE_SOCKET]
  if (fromEnv) return { path: fromEnv, origin: LIVE_SOCKET }
  // Only where nothing before it counts is the file read, and without the schema of all settings: that takes longer than the asking.
  const { readConfigFile } = await import('./config-file.ts')
  const file = await readConfigFile(config)
  const path = file?.values['liveSocket']
  if (file !== undefined && path === undefined) await checkNames(file)
  if (file === undefined || path === undefined) {
    throw new CommandError(
      `${LIVE_SOCKET} is not set. Set it to the path of a socket, for the worker and for this command, or liveSocket in the config file of both.`,
    )
  }
  const origin = `liveSocket in ${file.name}`
  if (typeof path !== 'string' || path === '')
    throw new CommandError(`${origin} must be a text that is not empty. Set it to the path of a socket.`)
  return { path, origin }
}

/** Throws a CommandError for a name that was probably meant for it. */
async function checkNames({ name, values }: ConfigFile): Promise<void> {
  const { didYouMean } = await import('../config/did-you-mean.ts')
  for (const key of Object.keys(values)) {
    // It is there, and has no value.
    if (key === 'liveSocket') continue
    const mend = didYouMean(key, ['liveSocket'])
    if (mend !== '') throw new CommandError(`${key} in ${name} is no setting.${mend}`)
  }
}

async function problemAt({ path, origin }: Named): Promise<string | undefined> {
  let status: string
  try {
    status = await ask(path)
  } catch (cause) {
    if (cause instanceof Error && cause.name === 'AbortError')
      return `The worker does not answer at ${path} within ${PATIENCE_MS} ms: its process is stopped, or too busy to turn. Start it again.`
    const why = (cause as NodeJS.ErrnoException).code ?? String(cause)
    return `No worker answers at ${path} (${why}). Start one with this ${origin}, and look at its log if it was started.`
  }
  if (status === 'stuck')
    return `The worker at ${path} is stuck: it has not spoken to its queue for longer than it should. Start it again.`
  if (['ok', 'starting', 'refused', 'leaving'].includes(status)) return undefined
  return `What answers at ${path} is no worker: it said '${status.slice(0, 80)}'. Set ${origin} to the socket of one.`
}

async function ask(path: string): Promise<string> {
  const signal = AbortSignal.timeout(PATIENCE_MS)
  const socket = connect(path).setEncoding('utf8')
  let said = ''
  socket.on('data', (text: string) => (said += text))
  try {
    await once(socket, 'end', { signal })
    return said.trim()
  } finally {
    socket.destroy()
  }
}
