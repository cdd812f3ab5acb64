// Taking a zip archive apart, within limits on what it may become.

import { access, mkdir, open, rm, type FileHandle, realpath } from 'node:fs/promises'
import { basename, dirname, extname, resolve, sep } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { crc32 } from 'node:zlib'
import yauzl, { type Entry, type ZipFile } from 'yauzl'
import { freePath } from './free-path.ts'
import { checkOptions, checkText } from './arguments.ts'
import type { ExtractOptions } from './s3.ts'
import { codeOf, S3Error, wordsOf } from './s3-error.ts'
import { eitherSignal, type Scope } from './scope.ts'
import { writeTrouble } from './write-trouble.ts'

const MAX_FILES = 10_000
const MAX_BYTES = 5_000_000_000
/** The part of an entry's attributes that says of which kind it is, as Unix has it. */
const KIND = 0o170000
const REGULAR = 0o100000
const FOLDER = 0o040000
const NO_KIND = 0

/** Extracts all of the archive or nothing; gives the paths of its files in its own order. */
export async function extractZip(scope: Scope, archive: string, options: ExtractOptions): Promise<string[]> {
  checkText('The path of the archive', archive)
  const { maxFiles = MAX_FILES, maxBytes = MAX_BYTES } = checkOptions(options, ['to'])
  for (const [name, limit] of Object.entries({ maxFiles, maxBytes }))
    if (!(limit >= 0))
      throw new S3Error('S3_OPTION_INVALID', `${name} must be a number from 0, got ${limit}.`)
  const signal = eitherSignal(scope, options.signal)
  signal.throwIfAborted()
  const folder = resolve(
    options.to ?? (await freePath(scope, await scope.folder(), basename(archive, extname(archive)))),
  )
  const zip = await opened(archive)
  const extraction = new Extraction(zip, { archive, folder, maxFiles, maxBytes, signal })
  try {
    await extraction.run()
    return extraction.files
  } catch (cause) {
    await extraction.undo()
    throw signal.aborted ? signal.reason : cause
  } finally {
    zip.close()
  }
}

interface Bounds {
  archive: string
  folder: string
  maxFiles: number
  maxBytes: number
  signal: AbortSignal
}

class Extraction {
  readonly files: string[] = []
  readonly #zip: ZipFile
  readonly #bounds: Bounds
  /** Folders that were not there before. */
  readonly #made = new Set<string>()
  #entries = 0
  #bytes = 0

  constructor(zip: ZipFile, bounds: Bounds) {
    this.#zip = zip
    this.#bounds = bounds
  }

  async run(): Promise<void> {
    await this.#makeFolder(this.#bounds.folder)
    const entries = this.#zip.eachEntry()[Symbol.asyncIterator]()
    for (;;) {
      const entry = await this.#next(entries)
      if (!entry) return
      this.#bounds.signal.throwIfAborted()
      await this.#take(entry)
    }
  }

  /** Removes what was written, and nothing that was there before. */
  async undo(): Promise<void> {
    for (const file of this.files) await rm(file, { force: true }).catch(() => undefined)
    for (const folder of this.#made) await rm(folder, { recursive: true, force: true }).catch(() => undefined)
  }

  async #next(entries: AsyncIterator<Entry>): Promise<Entry | undefined> {
    try {
      const { done, value } = await entries.next()
      return done ? undefined : value
    } catch (cause) {
      throw refused(this.#bounds.archive, wordsOf(cause), cause)
    }
  }

  async #take(entry: Entry): Promise<void> {
    const { archive, folder, maxFiles } = this.#bounds
    this.#entries += 1
    if (this.#entries > maxFiles) throw this.#over(`has more than ${maxFiles} entries`, 'maxFiles')
    const path = resolve(folder, entry.fileName)
    const isWithin = path === folder || path.startsWith(folder === sep ? sep : folder + sep)
    if (!isWithin || entry.fileName.includes('\0'))
      throw refused(archive, `'${entry.fileName}' would be written outside of its folder`)
    // A link could lead the entries behind it anywhere.
    const kind = (entry.externalFileAttributes >>> 16) & KIND
    if (kind !== NO_KIND && kind !== REGULAR && kind !== FOLDER)
      throw refused(archive, `'${entry.fileName}' is neither a file nor a folder`)
    if (entry.isEncrypted()) throw refused(archive, `'${entry.fileName}' is encrypted`)
    if (entry.fileName.endsWith('/')) {
      await this.#makeFolder(path)
      return this.#checkPlace(entry, path)
    }
    // What it says of itself is refused before anything is written; what it really is, meanwhile.
    this.#count(entry.uncompressedSize, 'says')
    await this.#makeFolder(dirname(path))
    await this.#checkPlace(entry, dirname(path))
    await this.#write(entry, path)
  }

  /** The folder may have had links before, which lead elsewhere. */
  async #checkPlace(entry: Entry, parent: string): Promise<void> {
    const { archive, folder } = this.#bounds
    const [within, place] = await Promise.all([realpath(folder), realpath(parent)])
    if (place !== within && !place.startsWith(within === sep ? sep : within + sep))
      throw refused(archive, `'${entry.fileName}' would be written outside of its folder, past a link`)
  }

  async #write(entry: Entry, path: string): Promise<void> {
    const { archive, signal } = this.#bounds
    let digest = 0
    let bytes = 0
    const watch = new Transform({
      transform: (chunk: Uint8Array, _encoding, done) => {
        digest = crc32(chunk, digest)
        bytes += chunk.byteLength
        done(null, chunk)
      },
    })
    const file = (await this.#create(path)).createWriteStream()
    try {
      await pipeline(await this.#zip.openReadStreamPromise(entry), watch, file, { signal })
    } catch (cause) {
      file.destroy()
      // All of the streams were ended with it; only its code tells where it is from.
      if (/^E[A-Z]+$/.test(codeOf(cause))) throw writeTrouble(cause, path)
      throw refused(archive, `'${entry.fileName}' is damaged (${wordsOf(cause)})`, cause)
    }
    if (digest !== entry.crc32) throw refused(archive, `'${entry.fileName}' is damaged: its checksum differs`)
    this.#bytes += bytes
  }

  async #create(path: string): Promise<FileHandle> {
    try {
      // Its mode is not the archive's to say: nothing becomes executable or anybody's.
      const handle = await open(path, 'wx', 0o644)
      this.files.push(path)
      return handle
    } catch (cause) {
      throw alreadyThere(cause, path) ?? writeTrouble(cause, path)
    }
  }

  #count(more: number, words: string): void {
    const { maxBytes } = this.#bounds
    if (this.#bytes + more > maxBytes)
      throw this.#over(`${words} that it is more than ${maxBytes} bytes when extracted`, 'maxBytes')
  }

  async #makeFolder(folder: string): Promise<void> {
    try {
      const first = await mkdir(folder, { recursive: true })
      if (first !== undefined) this.#made.add(first)
      await access(folder)
    } catch (cause) {
      throw writeTrouble(cause, folder)
    }
  }

  #over(problem: string, option: string): S3Error {
    const { archive } = this.#bounds
    return new S3Error(
      'S3_ZIP_REFUSED',
      `Cannot extract ${archive}: it ${problem}. Raise ${option}, if it can be trusted.`,
    )
  }
}

async function opened(archive: string): Promise<ZipFile> {
  try {
    return await yauzl.openPromise(archive, { autoClose: false, strictFileNames: true })
  } catch (cause) {
    if (codeOf(cause).startsWith('E'))
      throw new S3Error('S3_FILE_UNREADABLE', `Cannot read ${archive}: ${wordsOf(cause)}. Check the path.`, {
        cause,
      })
    throw refused(archive, wordsOf(cause), cause)
  }
}

function alreadyThere(cause: unknown, path: string): S3Error | undefined {
  if (codeOf(cause) !== 'EEXIST') return undefined
  return new S3Error(
    'S3_FILE_UNWRITABLE',
    `${path} is there already. Extract to an empty folder; an archive may also have one name twice.`,
    { cause },
  )
}

function refused(archive: string, problem: string, cause?: unknown): S3Error {
  const message = `Cannot extract ${archive}: ${problem}. Nothing of it was kept.`
  return new S3Error('S3_ZIP_REFUSED', message, cause === undefined ? undefined : { cause })
}
