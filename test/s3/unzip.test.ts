import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join, relative } from 'node:path'
import { describe, expect, it } from 'vitest'
import { s3From } from '../../src/s3/s3-from.ts'
import type { ExtractOptions } from '../../src/s3/s3.ts'
import { temporaryFolder } from '../support/buckets.ts'
import { zip, type ZipEntry } from '../support/zip.ts'

const LINK = 0o120777

describe('extracting an archive', () => {
  it('gives its files in its own order, with the folders between', async () => {
    const { folder, extract } = scene([
      { name: 'b.txt', body: 'b' },
      { name: 'sub/' },
      { name: 'sub/deeper/ünï 코드.txt', body: 'u' },
      { name: 'empty.txt' },
      { name: 'bare/' },
    ])
    expect((await extract()).map((path) => relative(folder, path))).toEqual([
      'made/b.txt',
      'made/sub/deeper/ünï 코드.txt',
      'made/empty.txt',
    ])
    expect(readFileSync(join(folder, 'made/sub/deeper/ünï 코드.txt'), 'utf8')).toBe('u')
    expect(statSync(join(folder, 'made/empty.txt')).size).toBe(0)
    expect(readdirSync(join(folder, 'made')).toSorted()).toEqual(['b.txt', 'bare', 'empty.txt', 'sub'])
  })

  it('of nothing makes an empty folder', async () => {
    const { folder, extract } = scene([])
    expect(await extract()).toEqual([])
    expect(readdirSync(join(folder, 'made'))).toEqual([])
  })

  it('makes nothing executable', async () => {
    const { extract } = scene([{ name: 'run.sh', body: '#!', mode: 0o106777 }])
    const [path = ''] = await extract()
    expect(statSync(path).mode & 0o7111).toBe(0)
  })

  it('goes to a folder of its own each time, beside what has that name', async () => {
    const { folder, archive, s3 } = scene([{ name: 'a', body: 'a' }])
    const first = await s3.extractZip(archive)
    const second = await s3.extractZip(archive)
    expect([first, second].map(([path = '']) => relative(folder, path))).toEqual(['archive/a', 'archive-2/a'])
    // Seen to fail: an archive without an extension stands where its folder would.
    const bare = join(folder, 'bare')
    writeFileSync(bare, zip([{ name: 'a', body: 'a' }]))
    expect(relative(folder, (await s3.extractZip(bare))[0] ?? '')).toBe('bare-2/a')
  })

  const refused: Record<string, ZipEntry[]> = {
    'a path out of the folder': [{ name: '../out.txt', body: 'x' }],
    'a path out of the folder by a detour': [{ name: 'a/../../out.txt', body: 'x' }],
    'an absolute path': [{ name: '/out-of-the-archive.txt', body: 'x' }],
    'an absolute path of Windows': [{ name: 'C:/out.txt', body: 'x' }],
    'a backslash in a path': [{ name: '..\\out.txt', body: 'x' }],
    'a NUL in a path': [{ name: 'a\0.txt', body: 'x' }],
    'a link': [{ name: 'link', body: '/etc/passwd', mode: LINK }],
    'a link, and a file behind it': [
      { name: 'link', body: '/', mode: LINK },
      { name: 'link/out-of-the-archive.txt', body: 'x' },
    ],
    'a device': [{ name: 'null', mode: 0o020666 }],
    'an encrypted file': [{ name: 'secret', body: 'x', says: { flags: 1 } }],
    'a kind of compression that is not known': [{ name: 'lzma', body: 'x', says: { method: 14 } }],
    'a wrong checksum': [{ name: 'a', body: 'abc', says: { crc: 1 } }],
    'damaged data': [{ name: 'a', body: 'abc', packed: Buffer.from('no deflate') }],
    'data cut short': [{ name: 'a', body: 'abcdefgh'.repeat(99), packed: Buffer.from([0x4b, 0x4c]) }],
    'less in it than its size': [{ name: 'a', body: 'abc', says: { size: 2 } }],
    'more in it than its size': [{ name: 'a', body: 'abc', says: { size: 9 } }],
    'a bomb that says it is small': [{ name: 'bomb', body: Buffer.alloc(30_000_000), says: { size: 10 } }],
  }
  for (const [what, entries] of Object.entries(refused)) {
    it(`refuses ${what}, and leaves nothing`, async () => {
      const { folder, extract } = scene([{ name: 'before/good.txt', body: 'good' }, ...entries])
      await expect(extract()).rejects.toMatchObject({ code: 'S3_ZIP_REFUSED' })
      expect(readdirSync(folder)).toEqual(['archive.zip'])
      expect(existsSync('/out-of-the-archive.txt')).toBe(false)
    })
  }

  const conflicting: Record<string, ZipEntry[]> = {
    'one name twice': [
      { name: 'a', body: '1' },
      { name: 'a', body: '2' },
    ],
    'one name twice, damaged': [
      { name: 'a', body: '1' },
      { name: 'a', body: '2', says: { method: 14 } },
    ],
    'a file where a folder must be': [
      { name: 'a', body: '1' },
      { name: 'a/b', body: '2' },
    ],
    'a folder where a file must be': [{ name: 'a/' }, { name: 'a', body: '1' }],
    'a name that is too long': [{ name: 'n'.repeat(300), body: '1' }],
  }
  for (const [what, entries] of Object.entries(conflicting)) {
    it(`refuses ${what}, and leaves nothing`, async () => {
      const { folder, extract } = scene([{ name: 'before/good.txt', body: 'good' }, ...entries])
      await expect(extract()).rejects.toMatchObject({ code: 'S3_FILE_UNWRITABLE' })
      expect(readdirSync(folder)).toEqual(['archive.zip'])
    })
  }

  it('refuses what is more than its limits, and leaves nothing', async () => {
    const { folder, extract } = scene([
      { name: 'a', body: '12345' },
      { name: 'b', body: '12345' },
    ])
    await expect(extract({ maxFiles: 1 })).rejects.toMatchObject({ code: 'S3_ZIP_REFUSED' })
    await expect(extract({ maxBytes: 9 })).rejects.toMatchObject({ code: 'S3_ZIP_REFUSED' })
    for (const limits of [{ maxFiles: NaN }, { maxBytes: -1 }])
      await expect(extract(limits)).rejects.toMatchObject({ code: 'S3_OPTION_INVALID' })
    expect(readdirSync(folder)).toEqual(['archive.zip'])
    expect(await extract({ maxFiles: 2, maxBytes: 10 })).toHaveLength(2)
  })

  it('refuses what is no archive or not there', async () => {
    const { folder, s3 } = scene([])
    const text = join(folder, 'text.zip')
    writeFileSync(text, 'no archive at all, though it has some length to it')
    const cut = join(folder, 'cut.zip')
    writeFileSync(cut, zip([{ name: 'a', body: 'a' }]).subarray(0, -30))
    for (const path of [text, cut])
      await expect(s3.extractZip(path)).rejects.toMatchObject({ code: 'S3_ZIP_REFUSED' })
    for (const path of [join(folder, 'none.zip'), folder])
      await expect(s3.extractZip(path)).rejects.toMatchObject({ code: 'S3_FILE_UNREADABLE' })
    expect(readdirSync(folder).toSorted()).toEqual(['archive.zip', 'cut.zip', 'text.zip'])
  })

  it('touches nothing that was there before, be it in the way or not', async () => {
    const { folder, extract } = scene([
      { name: 'new/one.txt', body: '1' },
      { name: 'old/two.txt', body: '2' },
      { name: 'old/mine.txt', body: 'theirs' },
    ])
    mkdirSync(join(folder, 'made', 'old'), { recursive: true })
    writeFileSync(join(folder, 'made', 'old', 'mine.txt'), 'mine')
    await expect(extract()).rejects.toMatchObject({ code: 'S3_FILE_UNWRITABLE' })
    expect(readFileSync(join(folder, 'made', 'old', 'mine.txt'), 'utf8')).toBe('mine')
    expect(readdirSync(join(folder, 'made'), { recursive: true }).map(String).toSorted()).toEqual([
      'old',
      join('old', 'mine.txt'),
    ])
  })

  it('follows no link of its folder to somewhere else', async () => {
    const { folder, extract } = scene([{ name: 'b/c.txt', body: 'c' }])
    mkdirSync(join(folder, 'outside'))
    mkdirSync(join(folder, 'made'))
    symlinkSync(join(folder, 'outside'), join(folder, 'made/b'))
    await expect(extract()).rejects.toMatchObject({ code: 'S3_ZIP_REFUSED' })
    expect(readdirSync(join(folder, 'outside'))).toEqual([])
  })

  it('writes through no link that stands in its folder', async () => {
    const { folder, extract } = scene([{ name: 'a.txt', body: 'x' }])
    mkdirSync(join(folder, 'made'))
    symlinkSync(join(folder, 'elsewhere.txt'), join(folder, 'made', 'a.txt'))
    await expect(extract()).rejects.toMatchObject({ code: 'S3_FILE_UNWRITABLE' })
    expect(existsSync(join(folder, 'elsewhere.txt'))).toBe(false)
  })

  it('that is aborted leaves nothing, and rejects with the reason', async () => {
    const entries = Array.from({ length: 200 }, (_, at) => ({ name: `f/${at}`, body: Buffer.alloc(200_000) }))
    for (const afterMs of [0, 5, 30]) {
      const { folder, extract } = scene(entries)
      const stopping = new AbortController()
      const extracting = extract({ signal: stopping.signal })
      setTimeout(() => stopping.abort('stopped'), afterMs)
      await expect(extracting).rejects.toBe('stopped')
      expect(readdirSync(folder)).toEqual(['archive.zip'])
    }
  })
})

function scene(entries: ZipEntry[]) {
  const folder = temporaryFolder()
  const archive = join(folder, 'archive.zip')
  writeFileSync(archive, zip(entries))
  const s3 = s3From({}, { folder })
  const extract = (options: ExtractOptions = {}): Promise<string[]> =>
    s3.extractZip(archive, { to: join(folder, 'made'), ...options })
  return { folder, archive, s3, extract }
}
