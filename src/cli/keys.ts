// longshore keys: makes, lists and revokes the keys of a store, also beside a running service.

import { z } from 'zod'
import type { Settled } from '../config/settings.ts'
import { systemClock } from '../lib/clock.ts'
import { keySchema, permissions, type Key } from '../resource/key.ts'
import { hashKey, newKey } from '../resource/key-text.ts'
import { newKeyId } from '../server/auth.ts'
import { openKeys } from '../store/open-store.ts'
import { shownStore } from '../store/shown-store.ts'
import type { KeyStore } from '../store/key-store.ts'
import { CommandError } from './fail.ts'
import { gather, settingsFor, type Flags } from './sources.ts'

export interface NewKeyOptions {
  name: string
  endpoints?: string[]
  permissions: string[]
}

/** Prints the key's text, which is shown only this once, on stdout and what it is on stderr. */
export async function createKey(flags: Flags, options: NewKeyOptions): Promise<void> {
  const key = keyFrom(options)
  const text = newKey()
  await withKeys(await settingsOf(flags), (keys) => keys.addKey({ ...key, hash: hashKey(text) }))
  process.stderr.write(`Key ${key.id}: ${describe(key)}. Its text is shown only now:\n`)
  process.stdout.write(`${text}\n`)
}

export async function listKeys(flags: Flags): Promise<void> {
  const keys = await withKeys(await settingsOf(flags), (kept) => kept.listKeys())
  for (const key of keys) {
    process.stdout.write(`${key.id}  ${new Date(key.createdAt).toISOString()}  ${describe(key)}\n`)
  }
}

export async function revokeKey(flags: Flags, id: string): Promise<void> {
  const settings = await settingsOf(flags)
  if (await withKeys(settings, (keys) => keys.revokeKey(id))) return
  const store = shownStore(settings.store)
  throw new CommandError(`There is no key '${id}' in ${store}. See its keys with longshore keys list.`)
}

function keyFrom({ name, endpoints, permissions: wanted }: NewKeyOptions): Key {
  const parsed = keySchema.safeParse({
    id: newKeyId(),
    name,
    permissions: [...new Set(wanted)],
    ...(endpoints && { endpoints: [...new Set(endpoints)] }),
    createdAt: systemClock.now(),
  })
  if (parsed.success) return parsed.data
  throw new CommandError(problemOf(parsed.error, endpoints))
}

function problemOf(error: z.ZodError, endpoints: readonly string[] = []): string {
  const [field, at] = error.issues[0]?.path ?? []
  if (field === 'permissions') return `--allow takes ${permissions.join(', ')}.`
  if (field === 'endpoints') return `--endpoint '${endpoints[Number(at)]}' is no name of an endpoint.`
  return '--name must be from 1 to 128 characters long, all of them printable.'
}

function describe({ name, permissions: allowed, endpoints }: Key): string {
  const where = endpoints ? `endpoint ${endpoints.join(', ')}` : 'every endpoint'
  return `'${name}', ${allowed.join(', ')} on ${where}`
}

async function settingsOf(flags: Flags): Promise<Settled<'keys'>> {
  return settingsFor('keys', await gather(flags))
}

async function withKeys<T>(
  { store, redisWait }: Settled<'keys'>,
  act: (keys: KeyStore) => Promise<T>,
): Promise<T> {
  const opened = await openKeys(store, { replicas: redisWait })
  try {
    return await act(opened.keys)
  } finally {
    await opened.close()
  }
}
