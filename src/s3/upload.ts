// Uploads: what a file is called and of which kind it is, and its way into the bucket.

import { createReadStream } from 'node:fs'
import { lstat, readdir, stat } from 'node:fs/promises'
import { basename, extname, join, resolve } from 'node:path'
import { Readable } from 'node:stream'
import type { ReadableStream } from 'node:stream/web'
import mime from 'mime'
import {
  checkMetadata,
  checkOptions,
  checkText,
  checkTexts,
  problemOfContentType,
  problemOfExpiry,
  problemOfKey,
  refuse,
  SEVEN_DAYS_S,
} from './arguments.ts'
import { inParallel } from './in-parallel.ts'
import type { UploadBody, UploadDirectoryOptions, Uploaded, UploadFileOptions, UploadOptions } from './s3.ts'
import { codeOf, S3Error, wordsOf } from './s3-error.ts'
import { eitherSignal, type Scope } from './scope.ts'
import { beginTransfer } from './transfers.ts'

const FILES_AT_A_TIME = 4
/**
 * Each part is held in memory until it is stored. What a stream gives is garbage besides: with four at a time 2 GB of unknown
 * length took 161 MiB, with two 110 MiB in the same time.
 */
const PARTS_AT_A_TIME = { alone: 4, ofStreams: 2, amongOthers: 2 }
/** Read in the size of a part's fraction: 64 kB, which is the default, costs a third more time. */
const READ_BYTES = 1_048_576
const BYTES_OF_ANY_KIND = 'application/octet-stream'

interface Source {
  key: string
  body: Readable | Uint8Array
  /** Size, where it is known before. */
  bytes?: number
  partsAtATime: number
  options: UploadFileOptions
}

export async function uploadBody(scope: Scope, given: UploadBody, options: UploadOptions): Promise<Uploaded> {
  checkOptions(options, ['key', 'name', 'contentType'])
  const body = readable(given)
  if (typeof given === 'object' && body instanceof Readable) {
    if (scope.spent.has(given)) throw spent('was given to an upload before')
    scope.spent.add(given)
  }
  const extension =
    options.contentType === undefined ? 'bin' : (mime.getExtension(options.contentType) ?? 'bin')
  const key = options.key ?? `${scope.prefix}${options.name ?? `upload-${scope.nextNumber()}.${extension}`}`
  const bytes = body instanceof Readable ? undefined : body.byteLength
  return send(scope, {
    key,
    body,
    partsAtATime: bytes === undefined ? PARTS_AT_A_TIME.ofStreams : PARTS_AT_A_TIME.alone,
    options,
    ...(bytes !== undefined && { bytes }),
  })
}

export async function uploadFile(scope: Scope, path: string, options: UploadFileOptions): Promise<Uploaded> {
  checkText('The path of the file to upload', path)
  checkOptions(options, ['key', 'contentType'])
  return sendFile(
    scope,
    { path, key: options.key ?? `${scope.prefix}${basename(path)}` },
    options,
    PARTS_AT_A_TIME.alone,
  )
}

export async function uploadAll(
  scope: Scope,
  paths: readonly string[],
  given: UploadDirectoryOptions,
): Promise<Uploaded[]> {
  checkTexts('The paths of the files to upload', paths)
  const { prefix, ...options } = checkOptions(given, ['prefix', 'contentType'])
  const names = distinct(paths.map((path) => basename(path)))
  const base = prefix === undefined ? scope.prefix : slashed(prefix)
  const files = paths.map((path, at) => ({ path, key: `${base}${names[at]}` }))
  return sendFiles(scope, files, options)
}

/** Links are not followed: what they lead to may be anything of the worker's. */
export async function uploadDirectory(
  scope: Scope,
  folder: string,
  given: UploadDirectoryOptions,
): Promise<Uploaded[]> {
  checkText('The path of the folder to upload', folder)
  const { prefix, ...options } = checkOptions(given, ['prefix', 'contentType'])
  const base = prefix === undefined ? `${scope.prefix}${basename(resolve(folder))}/` : slashed(prefix)
  const found = await filesIn(folder)
  return sendFiles(
    scope,
    found.map((name) => ({ path: join(folder, ...name.split('/')), key: `${base}${name}` })),
    options,
  )
}

interface NamedFile {
  path: string
  key: string
}

function sendFiles(
  scope: Scope,
  files: readonly NamedFile[],
  options: Omit<UploadDirectoryOptions, 'prefix'>,
): Promise<Uploaded[]> {
  return inParallel(files, FILES_AT_A_TIME, eitherSignal(scope, options.signal), (file, signal) =>
    sendFile(
      scope,
      file,
      { ...options, signal },
      files.length > 1 ? PARTS_AT_A_TIME.amongOthers : PARTS_AT_A_TIME.alone,
    ),
  )
}

async function sendFile(
  scope: Scope,
  { path, key }: NamedFile,
  options: UploadFileOptions,
  partsAtATime: number,
): Promise<Uploaded> {
  const bytes = await sizeOf(path)
  const body = createReadStream(path, { highWaterMark: READ_BYTES })
  try {
    return await send(scope, { key, body, bytes, partsAtATime, options })
  } catch (cause) {
    throw body.errored === cause ? unreadable(path, cause) : cause
  } finally {
    body.destroy()
  }
}

async function send(scope: Scope, source: Source): Promise<Uploaded> {
  const { body } = source
  if (!(body instanceof Readable)) return store(scope, source)
  // It may fail before the bucket listens, and an error that nobody listens to ends the process.
  body.on('error', () => undefined)
  try {
    return await store(scope, source)
  } finally {
    body.destroy()
  }
}

async function store(scope: Scope, { key, body, bytes, partsAtATime, options }: Source): Promise<Uploaded> {
  const signal = eitherSignal(scope, options.signal)
  const { metadata, expiresInSeconds = SEVEN_DAYS_S } = options
  const contentType = options.contentType ?? mime.getType(extname(key)) ?? BYTES_OF_ANY_KIND
  refuse(problemOfKey(key) ?? problemOfExpiry(expiresInSeconds) ?? problemOfContentType(contentType))
  checkMetadata(metadata)
  signal.throwIfAborted()
  scope.used.add(key)
  const bucket = await scope.bucket()
  const transfer = beginTransfer({ direction: 'upload', name: key }, scope.tell, scope.clock)
  transfer.totalBytes = bytes
  let stored = 0
  const { etag } = await bucket.put({
    key,
    body,
    contentType,
    partsAtATime,
    signal,
    onStored: (more) => {
      stored += more
      transfer.moved(more)
    },
    ...(metadata && { metadata }),
    ...(bytes !== undefined && { bytes }),
  })
  transfer.finish()
  const url = await bucket.sign(key, expiresInSeconds)
  return { key, url, bytes: stored, ...(etag !== undefined && { etag }) }
}

export async function signedUrl(
  scope: Scope,
  key: string,
  options: { expiresInSeconds?: number },
): Promise<string> {
  const { expiresInSeconds = SEVEN_DAYS_S } = checkOptions(options, [])
  checkText('The key to sign', key)
  refuse(problemOfKey(key) ?? problemOfExpiry(expiresInSeconds))
  return (await scope.bucket()).sign(key, expiresInSeconds)
}

function readable(body: UploadBody): Readable | Uint8Array {
  if (typeof body === 'string') return Buffer.from(body)
  if (body instanceof Uint8Array) return body
  if (body instanceof Readable) {
    // What was read before would be stored as nothing, and said to be whole.
    if (body.readableEnded || body.destroyed) throw spent('was read to its end before, or is closed')
    return body
  }
  if (body instanceof Blob) return Readable.fromWeb(body.stream())
  if (body instanceof globalThis.ReadableStream) {
    if (body.locked || Readable.isDisturbed(body as unknown as Readable))
      throw spent('is locked, or was read before')
    return Readable.fromWeb(body as ReadableStream)
  }
  if (typeof body === 'object' && body !== null && Symbol.asyncIterator in body)
    return Readable.from(copies(body), { objectMode: true })
  throw new S3Error(
    'S3_OPTION_INVALID',
    `The body to upload must be a string, bytes or a stream, got ${body === null ? 'null' : typeof body}. Use uploadFile for a path.`,
  )
}

function spent(problem: string): S3Error {
  return new S3Error('S3_OPTION_INVALID', `The stream to upload ${problem}. Make a new one for each upload.`)
}

/** A generator may fill the same buffer again and again; what it gave is stored some time after. */
async function* copies(body: AsyncIterable<Uint8Array | string>): AsyncGenerator<Uint8Array | string> {
  for await (const chunk of body) yield chunk instanceof Uint8Array ? Buffer.from(chunk) : chunk
}

async function sizeOf(path: string): Promise<number> {
  try {
    const found = await stat(path)
    if (found.isFile()) return found.size
  } catch (cause) {
    throw unreadable(path, cause)
  }
  throw new S3Error('S3_FILE_UNREADABLE', `${path} is no file. Use uploadDirectory for a folder.`)
}

function unreadable(path: string, cause: unknown): S3Error {
  const why = codeOf(cause) === 'ENOENT' ? 'it does not exist' : wordsOf(cause)
  return new S3Error('S3_FILE_UNREADABLE', `Cannot upload ${path}: ${why}. Check the path.`, { cause })
}

/** Names of all files in a folder and below, with slashes, in order. */
async function filesIn(folder: string): Promise<string[]> {
  try {
    if (!(await lstat(resolve(folder))).isDirectory())
      throw new S3Error('S3_FILE_UNREADABLE', `${folder} is no folder. Use uploadFile for a file.`)
    const entries = await readdir(folder, { recursive: true, withFileTypes: true })
    const root = resolve(folder)
    return entries
      .filter((entry) => entry.isFile())
      .map((entry) =>
        join(resolve(entry.parentPath), entry.name)
          .slice(root.length + 1)
          .split(/[\\/]/)
          .join('/'),
      )
      .toSorted()
  } catch (cause) {
    throw cause instanceof S3Error ? cause : unreadable(folder, cause)
  }
}

/** The same names, the second `a.png` as `a-2.png`. */
function distinct(names: readonly string[]): string[] {
  const used = new Set<string>()
  return names.map((name) => {
    const extension = extname(name)
    const stem = name.slice(0, name.length - extension.length)
    let free = name
    for (let number = 2; used.has(free); number += 1) free = `${stem}-${number}${extension}`
    used.add(free)
    return free
  })
}

function slashed(prefix: string): string {
  return prefix === '' || prefix.endsWith('/') ? prefix : `${prefix}/`
}
