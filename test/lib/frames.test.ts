import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { encodeFrame, FrameDecoder, type Frame } from '../../src/lib/frames.ts'

const LIMITS = { headBytes: 1000, payloadBytes: 5000 }

function bytesOf(frames: readonly Frame[]): Buffer {
  return Buffer.concat(frames.flatMap(({ head, payload }) => encodeFrame(head, payload)))
}

/** What a decoder makes of the bytes when reads end at these places. */
function decodeInPieces(bytes: Buffer, cuts: readonly number[]): Frame[] {
  const decoder = new FrameDecoder(LIMITS)
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length]
  return places.slice(1).flatMap((end, at) => decoder.push(bytes.subarray(places[at], end)))
}

function plain(frames: readonly Frame[]): unknown[] {
  return frames.map(({ head, payload }) => ({ head, payload: Buffer.from(payload).toString('hex') }))
}

const anyFrame = fc
  .record({ head: fc.jsonValue(), payload: fc.uint8Array({ maxLength: 300 }) })
  .map((frame) => ({
    head: JSON.parse(JSON.stringify(frame.head)) as unknown,
    payload: frame.payload,
  }))

describe('FrameDecoder', () => {
  it('gives any list of frames back whole, wherever the reads fall', () => {
    const small = anyFrame.filter(({ head }) => Buffer.byteLength(JSON.stringify(head)) <= LIMITS.headBytes)
    fc.assert(
      fc.property(
        fc.array(small, { maxLength: 6 }),
        fc.array(fc.nat(), { maxLength: 30 }),
        (frames, cuts) => {
          expect(plain(decodeInPieces(bytesOf(frames), cuts))).toEqual(plain(frames))
        },
      ),
      { numRuns: 300 },
    )
  })

  it('gives frames back whole when every read is one byte', () => {
    const frames = [
      { head: { a: 'ö' }, payload: Buffer.from([1, 2, 3]) },
      { head: null, payload: Buffer.alloc(0) },
      { head: ['x'], payload: Buffer.from([4]) },
    ]
    const bytes = bytesOf(frames)
    expect(plain(decodeInPieces(bytes, [...bytes.keys()]))).toEqual(plain(frames))
  })

  it('gives a frame as soon as its last byte is there, and not before', () => {
    const decoder = new FrameDecoder(LIMITS)
    const bytes = bytesOf([{ head: { n: 1 }, payload: Buffer.from('abc') }])
    expect(decoder.push(bytes.subarray(0, -1))).toEqual([])
    expect(plain(decoder.push(bytes.subarray(-1)))).toEqual([{ head: { n: 1 }, payload: '616263' }])
  })

  it('gives an empty payload for a frame that has none', () => {
    const [frame] = new FrameDecoder(LIMITS).push(Buffer.concat(encodeFrame({ only: 'head' })))
    expect(frame?.head).toEqual({ only: 'head' })
    expect(frame?.payload.byteLength).toBe(0)
  })

  it('takes reads of no bytes', () => {
    const decoder = new FrameDecoder(LIMITS)
    expect(decoder.push(new Uint8Array(0))).toEqual([])
    expect(decoder.push(Buffer.concat(encodeFrame(1)))).toHaveLength(1)
    expect(decoder.push(new Uint8Array(0))).toEqual([])
  })

  it('takes a head and a payload of exactly the limits', () => {
    const head = 'h'.repeat(LIMITS.headBytes - 2)
    const frames = new FrameDecoder(LIMITS).push(
      bytesOf([{ head, payload: Buffer.alloc(LIMITS.payloadBytes) }]),
    )
    expect(frames).toHaveLength(1)
  })

  it.each([
    ['head', bytesOf([{ head: 'h'.repeat(LIMITS.headBytes - 1), payload: Buffer.alloc(0) }])],
    ['payload', bytesOf([{ head: 1, payload: Buffer.alloc(LIMITS.payloadBytes + 1) }])],
  ])('refuses a frame whose %s is over its limit as soon as its length is known', (_, bytes) => {
    const decoder = new FrameDecoder(LIMITS)
    expect(decoder.push(bytes.subarray(0, 7))).toEqual([])
    expect(() => decoder.push(bytes.subarray(7, 8))).toThrow('more than its limits allow.')
  })

  it('refuses a head that is not JSON', () => {
    const bytes = Buffer.concat(encodeFrame({ a: 1 }))
    bytes[8] = 0x5b
    expect(() => new FrameDecoder(LIMITS).push(bytes)).toThrow(SyntaxError)
  })
})

describe('encodeFrame', () => {
  it('does not copy the payload', () => {
    const payload = Buffer.from('abc')
    expect(encodeFrame({}, payload)[1]).toBe(payload)
  })

  it('counts the bytes of a head, not its characters', () => {
    const [start] = encodeFrame('ö😀')
    expect(Buffer.from(start ?? []).readUInt32BE(0)).toBe(8)
  })
})
