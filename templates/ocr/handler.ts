// Reads scanned pages: one Tesseract thread, kept warm, takes the pages of all jobs in turn and streams their text.
import { createRequire } from 'node:module'
import { dirname } from 'node:path'
import type { Worker as Thread } from 'node:worker_threads'
import { defineHandler } from 'longshore'
import { createWorker, OEM, type LoggerMessage, type Page, type Worker as Tesseract } from 'tesseract.js'
import { z } from 'zod'

type Report = (share: number) => void

const languageFile = '@tesseract.js-data/eng/4.0.0_best_int/eng.traineddata.gz'
const langPath = dirname(createRequire(import.meta.url).resolve(languageFile))

let engine: ReturnType<typeof startEngine> | undefined
let lastTurn: Promise<unknown> = Promise.resolve()
let reportShare: Report | undefined // of the page being read

async function startEngine() {
  const tesseract = await new Promise<Tesseract>((resolve, reject) => {
    // Its scale keeps the last 0.3 for a second pass, which the LSTM engine does not make.
    const logger = ({ status, progress }: LoggerMessage) =>
      status === 'recognizing text' && reportShare?.(Math.min(1, progress / 0.7))
    // Without an errorHandler a bad image would end the process; and only it hears of a start that failed.
    const errorHandler = (error: unknown) => {
      engine = undefined
      reject(error)
    }
    const options = { langPath, cacheMethod: 'none', logger, errorHandler }
    createWorker('eng', OEM.LSTM_ONLY, options).then(resolve, reject)
  })
  // Sauvola's local threshold: one level for the whole page would take the shadow at its edge for print.
  await tesseract.setParameters({ thresholding_method: '2' })
  const { worker: thread } = tesseract as unknown as { worker: Thread }
  const ended = new AbortController()
  thread.on('error', (error) => ended.abort(error))
  thread.on('exit', () => {
    engine = undefined
    ended.abort(new Error('the Tesseract thread ended'))
  })
  thread.unref() // An idle thread must not keep the process alive.
  return { tesseract, thread, ended: ended.signal }
}

async function read(image: Buffer, signal: AbortSignal, report: Report): Promise<Page> {
  signal.throwIfAborted()
  const { tesseract, thread, ended } = await (engine ??= startEngine())
  thread.ref()
  reportShare = report
  try {
    return (await unlessAborted(tesseract.recognize(image), AbortSignal.any([signal, ended]))).data
  } catch (error) {
    await thread.terminate() // It may be in mid-page or short of memory: the next page gets a new one.
    throw error
  } finally {
    reportShare = undefined
    thread.unref()
  }
}

function readInTurn(image: Buffer, signal: AbortSignal, report: Report): Promise<Page> {
  const turn = lastTurn.then(() => read(image, signal, report))
  lastTurn = turn.catch(() => undefined)
  return unlessAborted(turn, signal)
}

function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason)
    if (signal.aborted) abort()
    signal.addEventListener('abort', abort)
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}

export default defineHandler({
  input: z.object({ pages: z.array(z.string()).min(1).max(50) }),
  setup: async () => void (await (engine ??= startEngine())),
  async *handler(job, context) {
    const images = job.input.pages.map((page, index) => {
      const image = Buffer.from(page, 'base64')
      if (/^(\x89PNG|\xff\xd8\xff)/.test(image.toString('latin1', 0, 4))) return image
      throw new Error(`Page ${index + 1} is not a PNG or JPEG image in base64.`)
    })
    let percent = -1
    for (const [index, image] of images.entries()) {
      const page = index + 1
      const report = (share: number) => {
        const next = Math.floor((100 * (index + share)) / images.length)
        if (next > percent) context.progress({ page, pages: images.length, percent: (percent = next) })
      }
      const { text, confidence } = await readInTurn(image, context.signal, report).catch((error: unknown) => {
        context.signal.throwIfAborted()
        const reason = String(error).replace(/^(Error: )+/, '')
        throw new Error(`Page ${page} cannot be read: ${reason}`, { cause: error })
      })
      report(1)
      yield { page, text: text.trim(), confidence }
    }
  },
  aggregateStream: true,
})
