// The contract of the API keys.

import type { Key } from '../resource/key.ts'

/** API keys, by the hash of their text; the text itself is never stored. */
export interface KeyStore {
  addKey(key: Key & { hash: string }): Promise<void>
  /** Adds it only where there is none; false where there is. Of several callers at once one succeeds. */
  addFirstKey(key: Key & { hash: string }): Promise<boolean>
  findKey(hash: string): Promise<Key | undefined>
  /** Oldest first. */
  listKeys(): Promise<Key[]>
  /**
   * False when there is no such key. From its resolution on the key opens nothing; a server that cannot ask the store may
   * still let it in for ten seconds after it last could.
   */
  revokeKey(id: string): Promise<boolean>
}

/** The keys alone, opened beside a running service. */
export interface OpenKeys {
  readonly keys: KeyStore
  close(): Promise<void>
}
