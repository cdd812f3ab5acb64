// How far uploads and downloads are, told now and then.

import type { Clock } from '../lib/clock.ts'

/** What the progress of a job is while its files move: `{ s3: TransferProgress }`. */
export interface TransferProgress {
  direction: 'upload' | 'download'
  /** The key, or the last part of a URL. */
  name: string
  bytes: number
  /** Left out while nobody knows it. */
  totalBytes?: number
}

/** Between two words about one transfer; its end is always told. */
const INTERVAL_MS = 500

export interface Transfer {
  totalBytes: number | undefined
  /** So many more bytes are there; negative when a download has to begin anew. */
  moved(bytes: number): void
  /** All are there. */
  finish(): void
}

/** Begins to tell about one transfer. What telling throws is not the transfer's to fail of. */
export function beginTransfer(
  { direction, name }: Pick<TransferProgress, 'direction' | 'name'>,
  tell: ((progress: TransferProgress) => void) | undefined,
  clock: Clock,
): Transfer {
  let bytes = 0
  let toldAt = clock.monotonic()
  const say = (): void => {
    const { totalBytes } = transfer
    toldAt = clock.monotonic()
    try {
      tell?.({ direction, name, bytes, ...(totalBytes !== undefined && { totalBytes }) })
    } catch {
      // Whoever listens fails alone.
    }
  }
  const transfer: Transfer = {
    totalBytes: undefined,
    moved(more) {
      bytes += more
      if (clock.monotonic() - toldAt >= INTERVAL_MS) say()
    },
    finish() {
      transfer.totalBytes = bytes
      say()
    },
  }
  return transfer
}
