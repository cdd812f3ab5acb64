// A folder in place of a bucket, so that a handler can be tried before there is any.

import { createWriteStream } from 'node:fs'
import { mkdir, open, rename, rm, stat } from 'node:fs/promises'
import { randomBytes } from 'node:crypto'
import { dirname, join, resolve, sep } from 'node:path'
import { Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { pathToFileURL } from 'node:url'
import {
  lengthChanged,
  type Bucket,
  type ObjectRef,
  type OpenedRange,
  type PutRequest,
  type RangeSource,
} from './bucket.ts'
import { codeOf, S3Error, wordsOf } from './s3-error.ts'
import { writeTrouble } from './write-trouble.ts'

/** What a folder says where a store would say that there is no such object. */
const ABSENT = new Set(['ENOENT', 'ENOTDIR', 'EISDIR'])

export class LocalBucket implements Bucket {
  static #isTold = false
  readonly name = 'local-bucket'
  readonly #folder: string

  /** `say` is told once per process that no bucket is used. */
  constructor(folder: string, say: (line: string) => void) {
    this.#folder = resolve(folder)
    if (LocalBucket.#isTold) return
    LocalBucket.#isTold = true
    say(`There is no bucket: objects are kept as files in ${this.#folder}.`)
  }

  async put({ key, body, bytes, signal, onStored }: PutRequest): Promise<{ etag?: string }> {
    const file = this.#fileOf(key)
    const draft = `${file}.${randomBytes(4).toString('hex')}.part`
    let came = 0
    const counted = new Transform({
      transform(chunk: Uint8Array, _encoding, done) {
        came += chunk.byteLength
        onStored(chunk.byteLength)
        done(null, chunk)
      },
    })
    try {
      await mkdir(dirname(file), { recursive: true })
      const from = body instanceof Readable ? body : Readable.from([body], { objectMode: false })
      await pipeline(from, counted, createWriteStream(draft, { flags: 'wx' }), { signal })
      if (bytes !== undefined && came !== bytes) throw lengthChanged(key, bytes, came)
      await rename(draft, file)
      return {}
    } catch (cause) {
      await rm(draft, { force: true })
      if (signal.aborted) throw signal.reason
      if (body instanceof Readable && body.errored === cause) throw cause
      throw writeTrouble(cause, file)
    }
  }

  sign(key: string): Promise<string> {
    return Promise.resolve(pathToFileURL(this.#fileOf(key)).href)
  }

  source({ key }: ObjectRef): RangeSource {
    const file = this.#fileOf(key)
    const judge = (cause: unknown): Error =>
      ABSENT.has(codeOf(cause))
        ? new S3Error(
            'S3_OBJECT_NOT_FOUND',
            `The folder ${this.#folder} has no object '${key}'. Check the key, or put it there.`,
            { cause },
          )
        : new S3Error('S3_FILE_UNREADABLE', `Cannot read ${file}: ${wordsOf(cause)}.`, { cause })
    return { label: key, open: (range) => openFile(file, range), judge, unreachable: judge }
  }

  close(): void {
    // Nothing is held open between two calls.
  }

  #fileOf(key: string): string {
    const file = join(this.#folder, key)
    if (file.startsWith(this.#folder + sep)) return file
    throw new S3Error(
      'S3_OPTION_INVALID',
      `The key '${key}' leads out of ${this.#folder}. Use one without '..'.`,
    )
  }
}

async function openFile(file: string, { from, to }: { from: number; to?: number }): Promise<OpenedRange> {
  const { size, mtimeMs } = await stat(file)
  const handle = await open(file)
  const body = handle.createReadStream({ start: from, ...(to !== undefined && { end: to }) })
  return { from, isPart: true, total: size, version: `${size}-${mtimeMs}`, body }
}
