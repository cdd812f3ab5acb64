// A public https URL as something to download, private addresses refused where the socket connects.

import { pipeline, type Duplex, type Readable } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import { Agent, type Dispatcher } from 'undici'
import { lookupPublic, PrivateAddressError, refusePrivateHost } from '../lib/public-address.ts'
import type { OpenedRange, RangeSource } from './bucket.ts'
import { codeOf, S3Error, wordsOf } from './s3-error.ts'

const MAX_REDIRECTS = 5
const REDIRECTS = new Set([301, 302, 303, 307, 308])
const CONNECT_MS = 10_000
const ANSWER_MS = 60_000

/** The server answered, but not with what was asked for. */
class StatusError extends Error {
  readonly status: number

  constructor(status: number) {
    super(`the server answered ${status}`)
    this.name = 'StatusError'
    this.status = status
  }
}

export interface WebOptions {
  /** Private addresses and http are taken too. */
  allowPrivate: boolean
  /** Makes the connections; by default one of its own, which goes to no private address unless that is allowed. */
  dispatcher?: Dispatcher
}

/** Downloads from the web for one job. */
export class Web {
  readonly #allowPrivate: boolean
  readonly #agent: Dispatcher

  constructor({ allowPrivate, dispatcher }: WebOptions) {
    this.#allowPrivate = allowPrivate
    this.#agent =
      dispatcher ??
      new Agent({
        connect: { timeout: CONNECT_MS, ...(!allowPrivate && { lookup: lookupPublic }) },
        headersTimeout: ANSWER_MS,
        bodyTimeout: ANSWER_MS,
        keepAliveTimeout: 4_000,
      })
  }

  /** Throws S3_URL_REFUSED or S3_ADDRESS_PRIVATE for an address that is never to be asked. */
  source(address: string): RangeSource {
    const url = URL.parse(address)
    if (!url)
      throw new S3Error(
        'S3_URL_REFUSED',
        'The address to download from is no URL. Check it, percent signs and spaces too.',
      )
    const label = `${url.origin}${url.pathname}`
    this.#check(url, label)
    /** Where redirects led to: asked at once for further ranges, as long as it answers. */
    let found = url
    /** Once it was: what a place in the file is for us is another for the server. */
    let isEncoded = false
    return {
      label,
      isManyfold: true,
      open: async (range, signal) => {
        const ask = (): Promise<{ answer: Dispatcher.ResponseData; url: URL }> =>
          this.#follow(found, url, isEncoded ? { from: 0 } : range, signal, label)
        let { answer, url: at } = await ask()
        if (answer.statusCode === 206 && encodingOf(answer) !== undefined) {
          await answer.body.dump({ limit: 65_536 }).catch(() => undefined)
          isEncoded = true
          ;({ answer, url: at } = await ask())
        }
        found = at
        isEncoded ||= encodingOf(answer) !== undefined
        return openedFrom(answer)
      },
      judge: (cause) => {
        if (cause instanceof S3Error) return cause
        if (isPrivate(cause)) return refusedPrivate(label, cause)
        if (codeOf(cause).startsWith('Z_')) return damaged(label, cause)
        const status = cause instanceof StatusError ? cause.status : undefined
        // What redirects led to may have been meant for one time only.
        if (status !== undefined && found !== url && status < 500) {
          found = url
          return undefined
        }
        const isPassing = status === undefined || status >= 500 || status === 429 || status === 408
        return isPassing ? undefined : refusedByServer(label, status, cause)
      },
      unreachable: (cause) => unreachable(label, cause),
    }
  }

  close(): Promise<void> {
    return this.#agent.destroy()
  }

  #check(url: URL, label: string): void {
    const isSafe = url.protocol === 'https:' || (url.protocol === 'http:' && this.#allowPrivate)
    if (!isSafe)
      throw new S3Error(
        'S3_URL_REFUSED',
        `Cannot download ${label}: only https is taken, got ${url.protocol}//. Use https; for a network of your own set LONGSHORE_ALLOW_PRIVATE_DOWNLOADS=true for the worker.`,
      )
    if (this.#allowPrivate) return
    try {
      refusePrivateHost(url)
    } catch (cause) {
      throw refusedPrivate(label, cause)
    }
  }

  async #follow(
    start: URL,
    given: URL,
    range: { from: number; to?: number },
    signal: AbortSignal,
    label: string,
  ): Promise<{ answer: Dispatcher.ResponseData; url: URL }> {
    let url = start
    for (let redirects = 0; ; redirects += 1) {
      const answer = await this.#ask(url, range, signal, url.origin === given.origin ? given : undefined)
      const { statusCode, headers, body } = answer
      if (REDIRECTS.has(statusCode) && typeof headers.location === 'string') {
        await body.dump({ limit: 65_536 }).catch(() => undefined)
        if (redirects === MAX_REDIRECTS)
          throw new S3Error(
            'S3_URL_REFUSED',
            `Cannot download ${label}: more than ${MAX_REDIRECTS} redirects. Use the address that they end at.`,
          )
        const next = URL.parse(headers.location, url.href)
        if (!next)
          throw new S3Error(
            'S3_URL_REFUSED',
            `Cannot download ${label}: a redirect to something that is no URL.`,
          )
        this.#check(next, label)
        url = next
        continue
      }
      if (statusCode === 416 && range.from === 0 && range.to !== undefined) {
        await body.dump({ limit: 65_536 }).catch(() => undefined)
        return this.#follow(url, given, { from: 0 }, signal, label)
      }
      if (statusCode !== 200 && statusCode !== 206) {
        await body.dump({ limit: 65_536 }).catch(() => undefined)
        throw new StatusError(statusCode)
      }
      return { answer, url }
    }
  }

  #ask(
    url: URL,
    { from, to }: { from: number; to?: number },
    signal: AbortSignal,
    given: URL | undefined,
  ): Promise<Dispatcher.ResponseData> {
    const isAll = from === 0 && to === undefined
    return this.#agent.request({
      origin: url.origin,
      path: `${url.pathname}${url.search}`,
      method: 'GET',
      headers: {
        // Bytes are to be counted as they are.
        'accept-encoding': 'identity',
        ...(!isAll && { range: `bytes=${from}-${to ?? ''}` }),
        ...(given && credentialsOf(given)),
      },
      signal,
    })
  }
}

function openedFrom({ statusCode, headers, body }: Dispatcher.ResponseData): OpenedRange {
  const header = (name: string): string | undefined => {
    const value = headers[name]
    return typeof value === 'string' && value !== '' ? value : undefined
  }
  const [, first, size] = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(header('content-range') ?? '') ?? []
  const length = header('content-length')
  const isPart = statusCode === 206
  const total = isPart
    ? size === undefined || size === '*'
      ? undefined
      : Number(size)
    : length === undefined
      ? undefined
      : Number(length)
  const version = header('etag') ?? header('last-modified')
  const contentType = header('content-type')
  const encoding = encodingOf({ headers })
  if (encoding !== undefined) {
    // It was asked not to; its length is another than that of the file as it is.
    const plain = isPart ? undefined : decodedBody(body, encoding)
    if (plain) {
      return {
        from: 0,
        isPart: false,
        body: plain,
        ...(version !== undefined && { version }),
        ...(contentType !== undefined && { contentType }),
      }
    }
    body.on('error', () => undefined).destroy()
    throw new S3Error(
      'S3_DOWNLOAD_REFUSED',
      `The server answers in the encoding '${encoding}', which was not asked for. Use an address that gives the file as it is.`,
    )
  }
  return {
    from: isPart ? Number(first ?? 0) : 0,
    isPart,
    body,
    ...(total !== undefined && { total }),
    ...(version !== undefined && { version }),
    ...(contentType !== undefined && { contentType }),
  }
}

function encodingOf({ headers }: Pick<Dispatcher.ResponseData, 'headers'>): string | undefined {
  const encoding = headers['content-encoding']
  const name = typeof encoding === 'string' ? encoding.toLowerCase() : 'identity'
  return name === 'identity' || name === '' ? undefined : name
}

const decoders: Record<string, () => Duplex> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
}

function decodedBody(body: Readable, encoding: string): Readable | undefined {
  const decoder = decoders[encoding]?.()
  // Whoever reads the one learns what befalls the other, and closing it closes both.
  return decoder && pipeline(body, decoder, () => undefined)
}

function isPrivate(cause: unknown): boolean {
  return (
    cause instanceof PrivateAddressError ||
    (cause instanceof Error && cause.cause instanceof PrivateAddressError)
  )
}

function refusedPrivate(label: string, cause: unknown): S3Error {
  return new S3Error(
    'S3_ADDRESS_PRIVATE',
    `Cannot download ${label}: ${wordsOf(cause)}. Use a public address; for a network of your own set LONGSHORE_ALLOW_PRIVATE_DOWNLOADS=true for the worker.`,
    { cause },
  )
}

function refusedByServer(label: string, status: number, cause: unknown): S3Error {
  const advice =
    status === 404 || status === 410
      ? 'Check the address'
      : status === 401 || status === 403
        ? 'Check that the address is still valid: signed ones expire'
        : 'Check the address, and what its server says'
  return new S3Error(
    'S3_DOWNLOAD_REFUSED',
    `Cannot download ${label}: its server answered ${status}. ${advice}.`,
    { cause },
  )
}

function damaged(label: string, cause: unknown): S3Error {
  const message = `Cannot download ${label}: what its server compressed is damaged (${wordsOf(cause)}). Use an address that gives the file as it is.`
  return new S3Error('S3_DOWNLOAD_REFUSED', message, { cause })
}

function unreachable(label: string, cause: unknown): S3Error {
  const code = codeOf(cause)
  const words = wordsOf(cause)
  return new S3Error(
    'S3_UNREACHABLE',
    `Cannot download ${label}: ${words}${code === '' || words.includes(code) ? '' : ` (${code})`}. Check the address, and the network of the worker.`,
    { cause },
  )
}

function credentialsOf({ username, password }: URL): Record<string, string> {
  if (username === '' && password === '') return {}
  try {
    const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
    return { authorization: `Basic ${Buffer.from(pair).toString('base64')}` }
  } catch (cause) {
    throw new S3Error(
      'S3_URL_REFUSED',
      'The user or the password in the address is not written as a URL has it. Encode its per cent signs.',
      { cause },
    )
  }
}
