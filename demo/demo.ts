// npm run demo [-- picture …]: one job through the whole system, a scanned page read by the ocr template.

import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { MultiBar } from 'cli-progress'
import { Client, QueueRefusedError } from '../src/client/client.ts'
import { startService } from './running-service.ts'
import { wordAccuracy } from './word-accuracy.ts'

const template = fileURLToPath(new URL('../templates/ocr/', import.meta.url))
const LOOK_EVERY_MS = 150
/** Bytes whose base64 fits into the 10 MiB that a submission may have. */
const LARGEST_PICTURE = 7_500_000

interface PageText {
  page: number
  text: string
  confidence: number
}

process.exitCode = await main(process.argv.slice(2))

async function main(pictures: string[]): Promise<number> {
  // npm changes into the package's folder; the user's paths are from where npm was called.
  const from = process.env['INIT_CWD'] ?? process.cwd()
  const paths = pictures.length > 0 ? pictures.map((path) => resolve(from, path)) : [`${template}page.png`]
  let pages: string[]
  try {
    pages = await Promise.all(paths.map(pageOf))
  } catch (cause) {
    say(`The picture cannot be read: ${cause instanceof Error ? cause.message : String(cause)}.`)
    return 1
  }
  say('Starting the queue service and a worker on templates/ocr …')
  const interrupted = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => interrupted.abort())
  const service = await startService(`${template}handler.ts`, interrupted.signal)
  if (!service) return 130
  try {
    return await readPages(service, pages, {
      isOwnPicture: pictures.length > 0,
      interrupted: interrupted.signal,
    })
  } catch (cause) {
    if (interrupted.signal.aborted) return 130
    if (!(cause instanceof QueueRefusedError)) throw cause
    say(cause.message)
    return 1
  } finally {
    await service.stop()
  }
}

/** A picture as base64. One too large for a job's body is sent as a JPEG, made smaller until it fits. */
async function pageOf(path: string): Promise<string> {
  const picture = readFileSync(path)
  if (picture.byteLength <= LARGEST_PICTURE) return picture.toString('base64')
  const { default: sharp } = await import('sharp')
  const { width } = await sharp(picture).metadata()
  for (let share = 1; ; share *= 0.8) {
    const smaller = await sharp(picture)
      .resize({ width: Math.max(1, Math.round(width * share)) })
      .flatten({ background: 'white' })
      .grayscale()
      .jpeg({ quality: 80 })
      .toBuffer()
    if (smaller.byteLength <= LARGEST_PICTURE) return smaller.toString('base64')
  }
}

async function readPages(
  service: { endpointUrl: string; apiKey: string },
  pages: string[],
  { isOwnPicture, interrupted }: { isOwnPicture: boolean; interrupted: AbortSignal },
): Promise<number> {
  const client = new Client(service)
  try {
    const { id } = await client.run({ input: { pages } })
    say(`Submitted job ${id} to ${service.endpointUrl}: ${pages.length} page(s).`)
    const view = process.stdout.isTTY ? barView() : lineView()
    const progress = followProgress(client, id, view, interrupted)
    const texts: PageText[] = []
    for await (const { output } of client.stream(id, { signal: interrupted })) {
      const page = output as PageText
      texts.push(page)
      view.text(`\n--- page ${page.page}, confidence ${page.confidence} ---\n${page.text}\n`)
    }
    await progress
    if (!isOwnPicture) {
      const expected = readFileSync(`${template}page.txt`, 'utf8')
      const { right, total, share } = wordAccuracy(expected, texts.map(({ text }) => text).join('\n'))
      say(`\nWords read right: ${(share * 100).toFixed(1)} % (${right} of ${total})`)
    }
    // The output is the text that was shown already.
    const { output, ...record } = await client.status(id)
    say(`\nFinal record: ${JSON.stringify(record, null, 2)}`)
    return record.status === 'COMPLETED' && output !== undefined ? 0 : 1
  } finally {
    await client.close()
  }
}

/** Asks for the progress until the job has ended. */
async function followProgress(
  client: Client,
  id: string,
  view: View,
  interrupted: AbortSignal,
): Promise<void> {
  for (;;) {
    const { status, progress } = await client.status(id)
    if (typeof progress === 'object' && progress !== null && 'percent' in progress)
      view.at(Number(progress.percent))
    if (status !== 'IN_QUEUE' && status !== 'IN_PROGRESS') return view.end(status === 'COMPLETED')
    await new Promise<void>((done) => {
      const timer = setTimeout(done, LOOK_EVERY_MS)
      interrupted.addEventListener('abort', () => (clearTimeout(timer), done()), { once: true })
    })
    if (interrupted.aborted) return view.end(false)
  }
}

/** What a person sees: a bar on a terminal, lines elsewhere, and the text as it comes. */
interface View {
  at(percent: number): void
  text(text: string): void
  end(isWhole: boolean): void
}

function barView(): View {
  const bars = new MultiBar({
    format: 'Reading [{bar}] {percentage} %',
    hideCursor: true,
    stream: process.stdout,
  })
  const bar = bars.create(100, 0)
  return {
    at: (percent) => bar.update(percent),
    text: (text) => bars.log(`${text}\n`),
    end(isWhole) {
      if (isWhole) bar.update(100)
      bars.stop()
    },
  }
}

function lineView(): View {
  let last = -1
  return {
    at(percent) {
      if (percent !== last) say(`Reading: ${percent} %`)
      last = percent
    },
    text: say,
    end(isWhole) {
      if (isWhole && last !== 100) say('Reading: 100 %')
    },
  }
}

function say(text: string): void {
  process.stdout.write(`${text}\n`)
}
