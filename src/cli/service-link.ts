// The service that a command asks: its address, the key, and how long ago something was.

import { ResourceClient } from '../client/resource-client.ts'
import type { Configured } from '../config/setting.ts'
import type { Settled } from '../config/settings.ts'
import { CommandError } from './fail.ts'
import { gather, settingsFor, type Flags } from './sources.ts'

export type Asking = Extract<Configured, 'deploy' | 'endpoints' | 'pods' | 'logs'>

export interface ServiceLink {
  client: ResourceClient
  serviceUrl: string
}

/** Runs with a client of the service that the settings name, and closes it. */
export async function withService<T>(
  command: Asking,
  flags: Flags,
  act: (link: ServiceLink) => Promise<T>,
): Promise<T> {
  const { serviceUrl, apiKey }: Settled<Asking> = settingsFor(command, await gather(flags))
  if (apiKey === undefined)
    throw new CommandError(
      "No key is given. Set LONGSHORE_API_KEY to the service's owner key, or to one of longshore keys create --allow fleet.",
    )
  const client = new ResourceClient({ serviceUrl, apiKey })
  try {
    return await act({ client, serviceUrl: serviceUrl.replace(/\/$/, '') })
  } finally {
    await client.close()
  }
}

/** `3 min`, `2 h`, for lists. */
export function since(then: string | undefined, now: number): string {
  if (then === undefined) return '-'
  const seconds = Math.max(0, Math.round((now - Date.parse(then)) / 1000))
  if (seconds < 120) return `${seconds} s`
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`
  return seconds < 172_800 ? `${Math.round(seconds / 3_600)} h` : `${Math.round(seconds / 86_400)} d`
}

/** Of the terminal; undefined where there is none, and everything is written out. */
export function terminalWidth(): number | undefined {
  return process.stdout.isTTY ? process.stdout.columns : undefined
}

export function writeJson(document: unknown): void {
  process.stdout.write(`${JSON.stringify(document, null, 2)}\n`)
}
