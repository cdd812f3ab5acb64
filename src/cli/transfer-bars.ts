// Bars on a terminal for the files that a job moves.

import { MultiBar, Presets, type SingleBar } from 'cli-progress'
import { z } from 'zod'

/** A job's progress while its files move, as `s3/transfers.ts` makes it; a handler's own may be anything. */
const transferSchema = z.strictObject({
  s3: z.strictObject({
    direction: z.enum(['upload', 'download']),
    name: z.string(),
    bytes: z.number(),
    totalBytes: z.number().optional(),
  }),
})

const LABEL_CHARS = 30

export class TransferBars {
  readonly #stream: NodeJS.WriteStream
  readonly #byName = new Map<string, SingleBar>()
  #all: MultiBar | undefined

  constructor(stream: NodeJS.WriteStream) {
    this.#stream = stream
  }

  /** Draws it when it is about a file on its way; else says false. */
  show(progress: unknown): boolean {
    const parsed = transferSchema.safeParse(progress)
    if (!parsed.success) return false
    const { direction, name, bytes, totalBytes } = parsed.data.s3
    const bar = this.#barOf(`${direction} ${shortened(name)}`)
    // An empty bar, as long as nobody knows how much there is to come.
    bar.setTotal(Math.max(1, totalBytes ?? 1))
    const done = totalBytes === undefined ? 0 : totalBytes === 0 ? 1 : bytes
    bar.update(done, { size: megabytes(bytes) })
    return true
  }

  /** Writes lines above the bars; false when there are none, and they are to be written as ever. */
  print(text: string): boolean {
    if (!this.#all) return false
    this.#all.log(text)
    return true
  }

  close(): void {
    this.#all?.stop()
    this.#all = undefined
  }

  #barOf(label: string): SingleBar {
    this.#all ??= new MultiBar(
      {
        stream: this.#stream,
        format: '{label} {bar} {size}',
        hideCursor: true,
        emptyOnZero: true,
        // What else it could bind to the process is the command's to do.
        gracefulExit: false,
        noTTYOutput: false,
      },
      Presets.shades_classic,
    )
    const bar = this.#byName.get(label) ?? this.#all.create(1, 0, { label, size: '' })
    this.#byName.set(label, bar)
    return bar
  }
}

/** The end of a key is what tells files apart. */
function shortened(name: string): string {
  return name.length <= LABEL_CHARS ? name : `…${name.slice(1 - LABEL_CHARS)}`
}

function megabytes(bytes: number): string {
  return `${(bytes / 1_000_000).toFixed(1)} MB`
}
