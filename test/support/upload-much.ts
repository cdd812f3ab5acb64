// A process that uploads a stream of unknown length and prints by how much its memory grew: upload-much.ts BYTES, with the
// bucket in the environment.

import { Readable } from 'node:stream'
import { s3From } from '../../src/s3/s3-from.ts'

const total = Number(process.argv[2])
const s3 = s3From()
// What the SDK takes by itself is no growth.
await s3.upload('x', { key: 'first' })
const before = process.memoryUsage.rss()
const startedAt = performance.now()
const { bytes } = await s3.upload(Readable.from(much(total), { objectMode: false }), { key: 'much' })
const ms = Math.round(performance.now() - startedAt)
const peak = process.resourceUsage().maxRSS * 1024
await s3.close()
process.stdout.write(JSON.stringify({ bytes, grownMb: Math.round((peak - before) / 1e6), ms }))

async function* much(left: number): AsyncGenerator<Buffer> {
  // A new one each time, as from a file or the network.
  for (let rest = left; rest > 0; rest -= 65_536) yield Buffer.alloc(Math.min(rest, 65_536), rest % 251)
}
