// Bytes to lines of text.

/** A line without an end is told in pieces of about this size. */
const LINE_BYTES = 65_536
const NEWLINE = 10

export class LineSplitter {
  #rest: Buffer[] = []
  #restBytes = 0

  push(bytes: Buffer): string[] {
    const lines: string[] = []
    let from = 0
    for (let to = bytes.indexOf(NEWLINE); to >= 0; to = bytes.indexOf(NEWLINE, from)) {
      lines.push(this.#take(bytes.subarray(from, to)))
      from = to + 1
    }
    if (from < bytes.length) {
      // A copy: what we were given may be written over.
      this.#rest.push(Buffer.from(bytes.subarray(from)))
      this.#restBytes += bytes.length - from
    }
    if (this.#restBytes >= LINE_BYTES) lines.push(this.#cut())
    return lines
  }

  /** What has no newline behind it. */
  end(): string[] {
    return this.#restBytes > 0 ? [this.#take(Buffer.alloc(0))] : []
  }

  /** What there is of a long line, but for its last letter where more bytes of that may come. */
  #cut(): string {
    const all = Buffer.concat(this.#rest)
    let end = all.length
    while (end > 0 && ((all[end - 1] ?? 0) & 0xc0) === 0x80 && all.length - end < 3) end -= 1
    end = end > 0 && (all[end - 1] ?? 0) >= 0xc0 ? end - 1 : all.length
    this.#rest = [all.subarray(end)]
    this.#restBytes = all.length - end
    return all.toString('utf8', 0, end)
  }

  #take(last: Buffer): string {
    const line = Buffer.concat([...this.#rest, last]).toString('utf8')
    this.#rest = []
    this.#restBytes = 0
    return line.endsWith('\r') ? line.slice(0, -1) : line
  }
}
