// Downloads: what is meant by a key, an s3:// or an https address, and where the file goes.

import { stat } from 'node:fs/promises'
import { extname, join, resolve } from 'node:path'
import { checkOptions, checkText, checkTexts } from './arguments.ts'
import type { ObjectRef, RangeSource } from './bucket.ts'
import { freePath } from './free-path.ts'
import { inParallel } from './in-parallel.ts'
import { downloadTo } from './ranged-download.ts'
import type { Downloaded, DownloadOptions } from './s3.ts'
import { S3Error } from './s3-error.ts'
import { eitherSignal, type Scope } from './scope.ts'
import { beginTransfer } from './transfers.ts'

const FILES_AT_A_TIME = 4
const MAX_BYTES = 5_000_000_000
/** Of a name in a folder; longer ones no file system takes. */
const NAME_BYTES = 200
const EXTENSION_BYTES = 20

/** Gives the source of a web address; made only when one is asked for. */
export type FindWeb = (address: string) => Promise<RangeSource>

export async function download(
  scope: Scope,
  from: string,
  options: DownloadOptions,
  findWeb: FindWeb,
): Promise<Downloaded> {
  const { maxBytes = MAX_BYTES } = checkOptions(options, ['to'])
  if (!(maxBytes >= 0))
    throw new S3Error('S3_OPTION_INVALID', `maxBytes must be a number from 0, got ${maxBytes}.`)
  const signal = eitherSignal(scope, options.signal)
  if (options.to === '')
    throw new S3Error(
      'S3_OPTION_INVALID',
      "to must be a file or a folder, got an empty text. './' is this folder.",
    )
  signal.throwIfAborted()
  const { source, name } = await sourceOf(scope, from, findWeb)
  const path = await placeOf(scope, name, options.to)
  const transfer = beginTransfer({ direction: 'download', name }, scope.tell, scope.clock)
  try {
    const { clock } = scope
    const { bytes, contentType } = await downloadTo(source, path, { maxBytes, signal, clock, transfer })
    return { path, bytes, ...(contentType !== undefined && { contentType }) }
  } catch (cause) {
    scope.taken.delete(path)
    throw cause
  }
}

export async function downloadAll(
  scope: Scope,
  all: readonly string[],
  options: DownloadOptions,
  findWeb: FindWeb,
): Promise<Downloaded[]> {
  checkTexts('What to download', all)
  checkOptions(options, ['to'])
  // Each has a name of its own, so the place can only be a folder.
  const to = options.to === undefined || options.to === '' ? options.to : join(options.to, '/')
  return inParallel(all, FILES_AT_A_TIME, eitherSignal(scope, options.signal), (from, signal) =>
    download(scope, from, { ...options, signal, ...(to !== undefined && { to }) }, findWeb),
  )
}

async function sourceOf(
  scope: Scope,
  from: string,
  findWeb: FindWeb,
): Promise<{ source: RangeSource; name: string }> {
  checkText('What to download, a key, an s3:// or an https:// address,', from)
  if (/^https?:\/\//i.test(from))
    return { source: await findWeb(from), name: lastOf(decoded(URL.parse(from)?.pathname)) }
  const bucket = await scope.bucket()
  const ref = refOf(bucket.name, from)
  return { source: bucket.source(ref), name: lastOf(ref.key) }
}

function refOf(own: string, from: string): ObjectRef {
  if (!/^s3:\/\//i.test(from)) return { bucket: own, key: checkedKey(from) }
  const [, bucket, key] = /^s3:\/\/([^/]+)\/(.+)$/is.exec(from) ?? []
  if (bucket === undefined || key === undefined)
    throw new S3Error('S3_OPTION_INVALID', `An address of an object is s3://bucket/key, got '${from}'.`)
  return { bucket, key: checkedKey(key) }
}

/** A store may have keys that are not made here; but none that no request can carry. */
function checkedKey(key: string): string {
  if (!key.isWellFormed() || Buffer.byteLength(key) > 1024)
    throw new S3Error(
      'S3_OPTION_INVALID',
      `A key must be well-formed Unicode of up to 1024 bytes, got ${JSON.stringify(key.slice(0, 200))}.`,
    )
  return key
}

/** The last part of a URL's path; slashes that are written in code are none. */
function decoded(path = ''): string {
  const last = path.split('/').findLast((segment) => segment !== '') ?? ''
  try {
    return decodeURIComponent(last).replaceAll('/', '_')
  } catch {
    return last
  }
}

/** A name that a folder can have, whatever the address is. */
function lastOf(path: string): string {
  const name = path.split('/').findLast((segment) => segment !== '') ?? ''
  const safe = name.replaceAll(/[\p{Cc}\\]/gu, '_').replace(/^\.{1,2}$/, '_')
  const extension = cutTo(extname(safe), EXTENSION_BYTES)
  const stem = safe.slice(0, safe.length - extname(safe).length)
  return `${cutTo(stem, NAME_BYTES)}${extension}` || 'download'
}

function cutTo(text: string, bytes: number): string {
  let cut = text
  while (Buffer.byteLength(cut) > bytes) cut = cut.slice(0, -1)
  // Half of a letter that takes two goes as well.
  return cut.isWellFormed() ? cut : cut.slice(0, -1)
}

/** `to` as a file; within it when it is a folder; without it a new name in the job's own folder. */
async function placeOf(scope: Scope, name: string, to: string | undefined): Promise<string> {
  if (to !== undefined) {
    const place = resolve(to)
    const isFolder = /[\\/]$/.test(to) || ((await stat(place).catch(() => undefined))?.isDirectory() ?? false)
    return isFolder ? freePath(scope, place, name) : place
  }
  return freePath(scope, await scope.folder(), name)
}
