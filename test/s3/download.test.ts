import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { beforeAll, describe, expect, inject, it, onTestFinished } from 'vitest'
import { makeBucket, noise, DOWNLOAD_PART, temporaryFolder, type TestBucket } from '../support/buckets.ts'
import { mulberry32 } from '../support/dice.ts'
import { storeLink } from '../support/store-link.ts'

for (const name of ['radosgw', 'swift'] as const) {
  const store = inject(name)

  describe.skipIf(!store)(`a download from ${name}`, () => {
    let bucket: TestBucket
    beforeAll(async () => {
      bucket = await makeBucket(store!)
    })

    it('is of a key, of s3:// in another bucket, or of a presigned URL', async () => {
      const other = await makeBucket(store!)
      await bucket.put('a/b.txt', 'mine', 'text/plain')
      await other.put('a/b.txt', 'theirs')
      const s3 = bucket.helpers({ allowPrivate: true })
      const mine = await s3.download('a/b.txt')
      expect(mine).toMatchObject({ bytes: 4, contentType: 'text/plain' })
      expect(readFileSync(mine.path, 'utf8')).toBe('mine')
      const theirs = await s3.download(`s3://${other.name}/a/b.txt`)
      expect(readFileSync(theirs.path, 'utf8')).toBe('theirs')
      const signed = await s3.download(await s3.urlOf('a/b.txt'))
      expect(readFileSync(signed.path, 'utf8')).toBe('mine')
      expect(new Set([mine.path, theirs.path, signed.path]).size).toBe(3)
    })

    for (const size of [
      0,
      1,
      DOWNLOAD_PART - 1,
      DOWNLOAD_PART,
      DOWNLOAD_PART + 1,
      2 * DOWNLOAD_PART,
      3 * DOWNLOAD_PART + 77,
    ]) {
      it(`of ${size} bytes has every one of them`, async () => {
        const body = noise(size)
        await bucket.put(`size-${size}`, body)
        const s3 = bucket.helpers({ allowPrivate: true })
        for (const from of [`size-${size}`, await s3.urlOf(`size-${size}`)]) {
          const { path, bytes } = await s3.download(from)
          expect(bytes).toBe(size)
          expect(digest(readFileSync(path))).toBe(digest(body))
        }
      })
    }

    const names: [key: string, file: string][] = [
      ['ü/코드 🚢.txt', '코드 🚢.txt'],
      ['a%2Fb%20c.txt', 'a%2Fb%20c.txt'],
      ['folder/back\\slash', 'back_slash'],
      [`${'long'.repeat(51)}.png`, `${'long'.repeat(51).slice(0, 200)}.png`],
      ['trailing/', 'trailing'],
      ['...', '...'],
    ]
    for (const [key, file] of names) {
      it(`of '${key.slice(0, 30)}' goes to a file of such a name`, async () => {
        await bucket.put(key, key)
        const folder = temporaryFolder()
        const { path } = await bucket.helpers({ folder }).download(key)
        expect(path).toBe(join(folder, file))
        expect(readFileSync(path, 'utf8')).toBe(key)
        expect(readdirSync(folder)).toEqual([file])
      })
    }

    it('never leaves its folder, whatever the key', async () => {
      const folder = temporaryFolder()
      const s3 = bucket.helpers({ folder })
      for (const key of ['..', '../..', 'a/..', '/etc/passwd', '../../outside.txt'])
        await s3.download(key).then(
          ({ path }) => expect(path.startsWith(folder)).toBe(true),
          () => undefined,
        )
      for (const file of readdirSync(folder)) expect(file).not.toMatch(/\.part$/)
      expect(existsSync(join(folder, '..', 'outside.txt'))).toBe(false)
    })

    it('goes to `to`: a file, a folder that is there, or one to be made', async () => {
      await bucket.put('x/n.txt', 'n')
      const folder = temporaryFolder()
      const s3 = bucket.helpers()
      const at = async (to: string): Promise<string> => (await s3.download('x/n.txt', { to })).path
      expect(await at(join(folder, 'f.bin'))).toBe(join(folder, 'f.bin'))
      expect(await at(join(folder, 'f.bin'))).toBe(join(folder, 'f.bin'))
      expect(await at(folder)).toBe(join(folder, 'n.txt'))
      expect(await at(folder)).toBe(join(folder, 'n-2.txt'))
      expect(await at(`${folder}/new/er/`)).toBe(join(folder, 'new', 'er', 'n.txt'))
      expect(await at(`${folder}/deep/file`)).toBe(join(folder, 'deep', 'file'))
    })

    it('of many keeps their order, and tells those of one name apart', async () => {
      const keys = ['1/same.txt', '2/same.txt', '3/other', '4/same.txt']
      for (const key of keys) await bucket.put(key, key)
      const folder = temporaryFolder()
      const all = await bucket.helpers().downloadAll(keys, { to: join(folder, 'all') })
      expect(all.map(({ path }) => readFileSync(path, 'utf8'))).toEqual(keys)
      expect(readdirSync(join(folder, 'all')).toSorted()).toEqual([
        'other',
        'same-2.txt',
        'same-3.txt',
        'same.txt',
      ])
      const missing = bucket.helpers().downloadAll([...keys, 'none'], { to: join(folder, 'missing') })
      await expect(missing).rejects.toMatchObject({
        code: 'S3_OBJECT_NOT_FOUND',
        message: expect.stringContaining('none'),
      })
      expect(readdirSync(join(folder, 'missing')).filter((file) => file.endsWith('.part'))).toEqual([])
      await expect(bucket.helpers().downloadAll(keys, { to: '' })).rejects.toMatchObject({
        code: 'S3_OPTION_INVALID',
      })
    })

    it('may take the name of one that failed', async () => {
      const folder = temporaryFolder()
      const s3 = bucket.helpers({ folder })
      await expect(s3.download('later.txt')).rejects.toMatchObject({ code: 'S3_OBJECT_NOT_FOUND' })
      await bucket.put('later.txt', 'now')
      expect((await s3.download('later.txt')).path).toBe(join(folder, 'later.txt'))
    })

    for (const from of ['', 's3://', 's3://only-a-bucket', 's3://b/', 7 as never, undefined as never]) {
      it(`refuses to be of ${JSON.stringify(from)}`, async () => {
        await expect(bucket.helpers().download(from)).rejects.toMatchObject({ code: 'S3_OPTION_INVALID' })
      })
    }

    it('over its limit leaves nothing', async () => {
      await bucket.put('limit', noise(DOWNLOAD_PART + 5))
      const folder = temporaryFolder()
      const s3 = bucket.helpers({ folder, allowPrivate: true })
      for (const from of ['limit', await s3.urlOf('limit')])
        await expect(s3.download(from, { maxBytes: DOWNLOAD_PART + 4 })).rejects.toMatchObject({
          code: 'S3_TOO_LARGE',
        })
      expect(readdirSync(folder)).toEqual([])
      expect(await s3.download('limit', { maxBytes: DOWNLOAD_PART + 5 })).toMatchObject({
        bytes: DOWNLOAD_PART + 5,
      })
      for (const maxBytes of [-1, NaN, 'many' as never])
        await expect(s3.download('limit', { maxBytes })).rejects.toMatchObject({ code: 'S3_OPTION_INVALID' })
    })

    it('of an object that is replaced meanwhile is refused', async () => {
      await bucket.put('replaced', noise(3 * DOWNLOAD_PART))
      const later = noise(3 * DOWNLOAD_PART)
      const folder = temporaryFolder()
      const first = Promise.withResolvers<void>()
      const link = await storeLink(store!.endpoint, ({ number }) =>
        number > 1 ? { holdRequest: first.promise } : {},
      )
      const s3 = bucket.helpers({ folder, config: { endpointUrl: link.endpoint } })
      const downloading = s3.download('replaced')
      await link.seen.first(({ number }) => number === 2)
      await bucket.put('replaced', later)
      first.resolve()
      await expect(downloading).rejects.toMatchObject({ code: 'S3_OBJECT_CHANGED' })
      expect(readdirSync(folder)).toEqual([])
    })

    it('that is aborted leaves nothing, and rejects with the reason', async () => {
      await bucket.put('aborted', noise(2 * DOWNLOAD_PART))
      const folder = temporaryFolder()
      const link = await storeLink(store!.endpoint, ({ number }) =>
        number > 2 ? { holdAnswer: new Promise(() => {}) } : {},
      )
      for (const reason of [new Error('cancelled'), 'a word']) {
        const stopping = new AbortController()
        const s3 = bucket.helpers({ folder, signal: stopping.signal, config: { endpointUrl: link.endpoint } })
        const before = link.seen.all.length
        const downloading = s3.download('aborted')
        void link.seen
          .first(({ number }) => number === before + 1)
          .then(() => setTimeout(() => stopping.abort(reason), 50))
        await expect(downloading).rejects.toBe(reason)
        expect(readdirSync(folder)).toEqual([])
      }
    })

    it('to a place that cannot be written names the place, and asks the store nothing', async () => {
      const folder = temporaryFolder()
      writeFileSync(join(folder, 'file'), '')
      mkdirSync(join(folder, 'folder', 'full'), { recursive: true })
      const s3 = bucket.helpers()
      await bucket.put('any', 'any')
      for (const to of [join(folder, 'file', 'below'), '/dev/null/here'])
        await expect(s3.download('any', { to })).rejects.toMatchObject({
          code: 'S3_FILE_UNWRITABLE',
          message: expect.stringContaining(to),
        })
    })

    it.skipIf(userInfo().uid !== 0)('to a disk that fills says so, and leaves nothing', async ({ skip }) => {
      const disk = temporaryFolder()
      try {
        execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'tmpfs', disk], { stdio: 'ignore' })
      } catch {
        skip('a container that may not mount')
      }
      onTestFinished(() => void execFileSync('umount', [disk]))
      await bucket.put('too-much', noise(2 * DOWNLOAD_PART))
      const download = bucket.helpers({ folder: disk }).download('too-much')
      await expect(download).rejects.toMatchObject({ code: 'S3_DISK_FULL', cause: { code: 'ENOSPC' } })
      expect(readdirSync(disk)).toEqual([])
    })

    for (let seed = 1; seed <= 12; seed += 1) {
      it(`on a link that fails is whole or absent, by the dice of seed ${seed}`, async () => {
        const random = mulberry32(seed)
        const body = noise(Math.floor(random() * 2.5 * DOWNLOAD_PART) + 1)
        await bucket.put(`seed-${seed}`, body)
        const link = await storeLink(store!.endpoint, () => {
          const dice = random()
          if (dice < 0.35) return { cutAnswerAt: Math.floor(random() * DOWNLOAD_PART) }
          return dice < 0.45 ? { loseAnswer: true } : {}
        })
        const folder = temporaryFolder()
        const s3 = bucket.helpers({ folder, config: { endpointUrl: link.endpoint } })
        const outcome = await s3.download(`seed-${seed}`).then(
          () => 'whole',
          (cause: { code: string }) => cause.code,
        )
        expect(['whole', 'S3_UNREACHABLE']).toContain(outcome)
        const files = readdirSync(folder)
        expect(files).toEqual(outcome === 'whole' ? [`seed-${seed}`] : [])
        for (const file of files) expect(digest(readFileSync(join(folder, file)))).toBe(digest(body))
      })
    }

    it('tells how far it is', async () => {
      await bucket.put('told', noise(DOWNLOAD_PART + 1))
      const told: unknown[] = []
      const onProgress = (progress: unknown): void => void told.push(progress)
      await bucket.helpers({ onProgress }).download('told')
      expect(told.at(-1)).toEqual({
        direction: 'download',
        name: 'told',
        bytes: DOWNLOAD_PART + 1,
        totalBytes: DOWNLOAD_PART + 1,
      })
    })
  })
}

function digest(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}
