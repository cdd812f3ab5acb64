// The log of a container, line by line: the engine sends both outputs in one stream, each piece behind a head of 8 bytes.

import { LineSplitter } from './line-splitter.ts'

const HEAD_BYTES = 8
const STDERR = 2

export async function* containerLines(log: AsyncIterable<Buffer>): AsyncGenerator<string> {
  const outputs = { stdout: new LineSplitter(), stderr: new LineSplitter() }
  let bytes: Buffer = Buffer.alloc(0)
  for await (const more of log) {
    bytes = bytes.length === 0 ? more : Buffer.concat([bytes, more])
    while (bytes.length >= HEAD_BYTES) {
      const end = HEAD_BYTES + bytes.readUInt32BE(4)
      if (bytes.length < end) break
      const output = bytes[0] === STDERR ? outputs.stderr : outputs.stdout
      yield* output.push(bytes.subarray(HEAD_BYTES, end))
      bytes = bytes.subarray(end)
    }
  }
  yield* outputs.stdout.end()
  yield* outputs.stderr.end()
}
