import { Readable } from 'node:stream'
import { beforeAll, describe, expect, inject, it, onTestFinished } from 'vitest'
import type { UploadBody } from '../../src/s3/s3.ts'
import { makeBucket, noise, PART, type TestBucket } from '../support/buckets.ts'
import { mulberry32 } from '../support/dice.ts'
import { storeLink, type SeenRequest, type StoreLink, type Treatment } from '../support/store-link.ts'

const isCreate = ({ method, path }: SeenRequest): boolean => method === 'POST' && /[?&]uploads/.test(path)
const isPart = ({ path }: SeenRequest): boolean => path.includes('partNumber=')
const isComplete = ({ method, path }: SeenRequest): boolean => method === 'POST' && path.includes('uploadId=')
const isRemoval = ({ method }: SeenRequest): boolean => method === 'DELETE'

for (const name of ['radosgw', 'swift'] as const) {
  const store = inject(name)

  describe.skipIf(!store)(`an upload to ${name}`, () => {
    let bucket: TestBucket
    beforeAll(async () => {
      bucket = await makeBucket(store!)
    })

    interface Stopped {
      body: UploadBody
      treat?: (request: SeenRequest) => Treatment
      /** Aborts when this has been asked for. */
      at: (request: SeenRequest) => boolean
      release?: () => void
      withinMs?: number
    }

    /** Aborts the upload, and looks at how it ends and what it leaves. */
    async function stop(
      key: string,
      { body, treat, at, release, withinMs = 1_500 }: Stopped,
    ): Promise<StoreLink> {
      const link = await storeLink(store!.endpoint, treat)
      const stopping = new AbortController()
      const reason = new Error('the job was cancelled')
      const s3 = bucket.helpers({ signal: stopping.signal, config: { endpointUrl: link.endpoint } })
      const uploading = s3.upload(body, { key }).then(
        () => 'resolved',
        (cause: unknown) => cause,
      )
      await link.seen.first(at)
      const abortedAt = performance.now()
      stopping.abort(reason)
      release?.()
      expect(await uploading).toBe(reason)
      expect(performance.now() - abortedAt).toBeLessThan(withinMs)
      expect(await bucket.unfinished()).toEqual([])
      return link
    }

    it('that is stopped before it begins asks the store nothing', async () => {
      const link = await storeLink(store!.endpoint)
      const reason = new Error('stopped before')
      const config = { endpointUrl: link.endpoint }
      const s3 = bucket.helpers({ signal: AbortSignal.abort(reason), config })
      await expect(s3.upload('x', { key: 'before' })).rejects.toBe(reason)
      const own = bucket.helpers({ config }).upload('x', { key: 'before', signal: AbortSignal.abort(reason) })
      await expect(own).rejects.toBe(reason)
      expect(link.seen.all).toEqual([])
    })

    it('that is stopped during a part leaves no parts and no object', async () => {
      const held = new Promise<void>(() => {})
      const treat = (request: SeenRequest): Treatment =>
        isPart(request) && request.path.includes('partNumber=2') ? { holdAnswer: held } : {}
      for (const body of [noise(6 * PART), Readable.from(endless(), { objectMode: false })])
        await stop('during-part', { body, treat, at: ({ path }) => path.includes('partNumber=2') })
      expect(await bucket.get('during-part')).toBeUndefined()
    })

    it('that is stopped during its only request leaves no object, or the whole one', async () => {
      const held = new Promise<void>(() => {})
      await stop('only', { body: noise(1000), treat: () => ({ holdAnswer: held }), at: () => true })
      expect([undefined, 1000]).toContain((await bucket.get('only'))?.bytes.length)
    })

    it('that is stopped while it is begun at the store leaves nothing there', async () => {
      const answer = Promise.withResolvers<void>()
      const link = await stop('during-create', {
        body: noise(3 * PART),
        treat: (request) => (isCreate(request) ? { holdAnswer: answer.promise } : {}),
        at: isCreate,
        release: () => setTimeout(answer.resolve, 300),
      })
      expect(link.seen.all.filter(isRemoval)).toHaveLength(1)
      expect(await bucket.get('during-create')).toBeUndefined()
    })

    const hanging: Record<string, () => UploadBody> = {
      'an async generator': () => thenHangs(2 * PART + 1),
      'a Node stream': () => Readable.from(thenHangs(2 * PART + 1), { objectMode: false }),
      'a web stream': () => ReadableStream.from(thenHangs(2 * PART + 1)),
    }
    for (const [kind, make] of Object.entries(hanging)) {
      it(`that is stopped while its body, ${kind}, gives no more leaves nothing`, async () => {
        // Seen to go on for ever: a generator that waits cannot be ended from outside.
        await stop('hangs', { body: make(), at: ({ path }) => path.includes('partNumber=2') })
        expect(await bucket.get('hangs')).toBeUndefined()
      })
    }

    it('that is stopped before its body gave anything leaves nothing', async () => {
      const stopping = new AbortController()
      const reason = new Error('stopped')
      const body = thenHangs(0, () => setImmediate(() => stopping.abort(reason)))
      await expect(bucket.helpers({ signal: stopping.signal }).upload(body, { key: 'nothing' })).rejects.toBe(
        reason,
      )
      expect(await bucket.get('nothing')).toBeUndefined()
    })

    it('that is stopped while it is completed leaves no object, or the whole one', async () => {
      const body = noise(2 * PART)
      for (const treatment of ['holdRequest', 'holdAnswer'] as const) {
        const held = Promise.withResolvers<void>()
        await stop('during-complete', {
          body,
          treat: (request) => (isComplete(request) ? { [treatment]: held.promise } : {}),
          at: isComplete,
          release: () => setTimeout(held.resolve, 200),
        })
        const stored = await bucket.get('during-complete')
        expect(stored === undefined || stored.bytes.equals(body)).toBe(true)
      }
    })

    it('that is stopped while the store no longer answers ends all the same', async () => {
      // Seen to wait for minutes: each request that was to remove parts waited for an answer, and was repeated.
      const never = new Promise<void>(() => {})
      const stopping = new AbortController()
      const link = await storeLink(store!.endpoint, (request) =>
        isCreate(request) ? {} : { holdRequest: never },
      )
      const s3 = bucket.helpers({ signal: stopping.signal, config: { endpointUrl: link.endpoint } })
      const uploading = s3.upload(noise(2 * PART), { key: 'silent' })
      void link.seen.first(isPart).then(() => stopping.abort('gone'))
      const startedAt = performance.now()
      await expect(uploading).rejects.toBe('gone')
      expect(performance.now() - startedAt).toBeLessThan(6_000)
      // Whoever removes them later finds them by this.
      expect(await bucket.unfinished()).toEqual(['silent'])
      await bucket.abortUnfinished()
    })

    it('that is stopped together with others leaves none of them', async () => {
      const stopping = new AbortController()
      const reason = new Error('all of them')
      const link = await storeLink(store!.endpoint)
      const s3 = bucket.helpers({ signal: stopping.signal, config: { endpointUrl: link.endpoint } })
      const uploads = ['1', '2', '3', '4'].map((one) => s3.upload(endless(), { key: `together-${one}` }))
      const outcomes = Promise.allSettled(uploads)
      await link.seen.first(({ path }) => path.includes('partNumber=3'))
      stopping.abort(reason)
      for (const outcome of await outcomes) expect(outcome).toMatchObject({ status: 'rejected', reason })
      expect(await bucket.unfinished()).toEqual([])
      expect((await bucket.keys()).filter((key) => key.startsWith('together'))).toEqual([])
    })
  })

  describe.skipIf(!store)(`on a link that fails before ${name}`, () => {
    let bucket: TestBucket
    beforeAll(async () => {
      bucket = await makeBucket(store!)
    })

    for (let seed = 1; seed <= 12; seed += 1) {
      it(`an object is whole or absent, by the dice of seed ${seed}`, async () => {
        const random = mulberry32(seed)
        const link = await storeLink(store!.endpoint, (request) =>
          // Of one that is begun twice, an upload without parts stays: a test below.
          isCreate(request) ? {} : misfortune(random),
        )
        const s3 = bucket.helpers({ config: { endpointUrl: link.endpoint } })
        const body = noise(Math.floor(random() * 2.5 * PART) + 1)
        const key = `seed-${seed}`
        const outcome = await s3.upload(Readable.from(slices(body), { objectMode: false }), { key }).then(
          () => 'whole',
          (cause: { code: string }) => cause.code,
        )
        expect(['whole', 'S3_UNREACHABLE']).toContain(outcome)
        const stored = await bucket.get(key)
        expect(stored?.bytes.equals(body) ?? outcome !== 'whole').toBe(true)
        if (outcome === 'whole') expect(stored).toBeDefined()
        expect(await bucket.unfinished()).toEqual([])
      })
    }

    it('an object is there when the answer that it is complete was lost', async () => {
      let lost = 0
      const link = await storeLink(store!.endpoint, (request) =>
        isComplete(request) && (lost += 1) === 1 ? { loseAnswer: true } : {},
      )
      const body = noise(2 * PART)
      const s3 = bucket.helpers({ config: { endpointUrl: link.endpoint } })
      expect(await s3.upload(body, { key: 'lost' })).toMatchObject({ bytes: body.length })
      expect(lost).toBeGreaterThan(1)
      expect((await bucket.get('lost'))?.bytes.equals(body)).toBe(true)
      expect(await bucket.unfinished()).toEqual([])
    })

    it('no parts stay when the answer that it is begun was lost and it is begun again', async () => {
      // The one that nobody was told of has no parts; only the store can know of it.
      let lost = 0
      const link = await storeLink(store!.endpoint, (request) =>
        isCreate(request) && (lost += 1) === 1 ? { loseAnswer: true } : {},
      )
      const s3 = bucket.helpers({ config: { endpointUrl: link.endpoint } })
      await s3.upload(noise(PART + 1), { key: 'begun-twice' })
      expect((await bucket.get('begun-twice'))?.bytes).toHaveLength(PART + 1)
      onTestFinished(() => bucket.abortUnfinished())
    })

    it('parts are removed when none of them arrives', async () => {
      const link = await storeLink(store!.endpoint, (request) =>
        isPart(request) ? { cutRequestAt: 1000 } : {},
      )
      const s3 = bucket.helpers({ config: { endpointUrl: link.endpoint } })
      await expect(s3.upload(noise(2 * PART), { key: 'none' })).rejects.toMatchObject({
        code: 'S3_UNREACHABLE',
      })
      expect(await bucket.unfinished()).toEqual([])
      expect(await bucket.get('none')).toBeUndefined()
    })
  })
}

/** One request in four or so goes wrong. */
function misfortune(random: () => number): Treatment {
  const dice = random()
  const bytes = Math.floor(random() * PART)
  if (dice < 0.1) return { cutRequestAt: bytes }
  if (dice < 0.15) return { cutAnswerAt: Math.floor(random() * 300) }
  return dice < 0.25 ? { loseAnswer: true } : {}
}

async function* endless(): AsyncGenerator<Buffer> {
  for (;;) yield noise(1_000_000)
}

async function* thenHangs(bytes: number, onHang?: () => void): AsyncGenerator<Buffer> {
  if (bytes > 0) yield noise(bytes)
  onHang?.()
  await new Promise(() => {})
}

function* slices(body: Buffer): Generator<Buffer> {
  for (let at = 0; at < body.length; at += 100_003) yield body.subarray(at, at + 100_003)
}
