import { appendFileSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, expect, it, onTestFinished } from 'vitest'
import { containerLines } from '../../src/fleet/providers/container-log.ts'
import { PodLog } from '../../src/fleet/providers/pod-log.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { linesOf } from './provider-conformance.ts'

let dir: string
let log: PodLog
const open = (): PodLog => new PodLog({ dir, clock: systemClock, fileBytes: 1_000, files: 3 })

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longshore-log-'))
  onTestFinished(() => rmSync(dir, { recursive: true }))
  log = open()
})

let printed = 0
/** Lines of 10 bytes with their number. */
function print(lines: number): string[] {
  const all = Array.from({ length: lines }, () => String((printed += 1)).padStart(9, '0'))
  appendFileSync(log.file, all.map((line) => `${line}\n`).join(''))
  return all
}

const lines = (options: { tail?: number } = {}): Promise<string[]> => linesOf(log.lines(options, () => true))

it('keeps three files, and tells what is in them in order', async () => {
  const all: string[] = []
  for (let n = 0; n < 5; n += 1) {
    all.push(...print(100))
    log.rotate()
  }
  all.push(...print(10))
  expect(readdirSync(dir).toSorted()).toEqual(['log', 'log.1', 'log.2'])
  expect(await lines()).toEqual(all.slice(-210))
  for (const tail of [1, 10, 11, 110, 111, 209, 210, 5_000])
    expect(await lines({ tail })).toEqual(all.slice(-tail).slice(-210))
  log = open()
  expect(await lines()).toEqual(all.slice(-210))
  expect(await lines({ tail: 11 })).toEqual(all.slice(-11))
})

it('leaves a file alone that is not full', async () => {
  print(99)
  log.rotate()
  expect(readdirSync(dir)).toEqual(['log'])
})

it('keeps the latest words of a pod that printed more than fits', async () => {
  const all = print(1_000)
  log.rotate()
  expect(statSync(log.file).size).toBe(0)
  expect(await lines()).toEqual(all.slice(-100))
})

it('goes on for a reader where it was, over several rotations, and tells the rest when the pod has ended', async () => {
  let isOver = false
  const reading = log.lines({ follow: true }, () => isOver)
  const seen: string[] = []
  const all = print(100)
  seen.push((await reading.next()).value as string)
  log.rotate()
  all.push(...print(100))
  log.rotate()
  all.push(...print(5))
  appendFileSync(log.file, 'no newline')
  isOver = true
  seen.push(...(await linesOf(reading)))
  expect(seen).toEqual([...all, 'no newline'])
})

it('skips what is no longer kept for a reader that is too slow', async () => {
  const reading = log.lines({ follow: true }, () => true)
  const [first, ...more] = print(100)
  expect((await reading.next()).value).toBe(first)
  // The rest of the block that was read is told all the same.
  const later: string[] = []
  for (let n = 0; n < 4; n += 1) {
    log.rotate()
    later.push(...print(100))
  }
  expect(await linesOf(reading)).toEqual([...more, ...later.slice(-300)])
})

it('cuts a line that does not end, and keeps letters whole over the ends of blocks', async () => {
  const big = new PodLog({ dir, clock: systemClock, fileBytes: 1e9, files: 3 })
  appendFileSync(big.file, `${'x'.repeat(65_535)}ü\nshort\r\n`)
  const seen = await linesOf(big.lines({}, () => true))
  expect(seen).toEqual(['x'.repeat(65_535), 'ü', 'short'])
})

it('takes both outputs of a container apart, wherever the engine cuts', async () => {
  const frame = (kind: number, text: string): Buffer => {
    const head = Buffer.alloc(8)
    head[0] = kind
    head.writeUInt32BE(Buffer.byteLength(text), 4)
    return Buffer.concat([head, Buffer.from(text)])
  }
  const bytes = Buffer.concat([frame(1, 'a\nhalf '), frame(2, 'wrong\n'), frame(1, 'line\nünd')])
  for (const size of [1, 3, 7, 8, 9, 100]) {
    const pieces = (async function* () {
      for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
    })()
    expect(await linesOf(containerLines(pieces))).toEqual(['a', 'wrong', 'half line', 'ünd'])
  }
})
