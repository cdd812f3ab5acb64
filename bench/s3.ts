// What the S3 helpers cost over the plain SDK, on a real store: a large file both ways, the first call of a process, and
// what importing the package costs.
//
//   npm run bench:s3             200 MB, seven rounds
//   npm run bench:s3 -- 50 5     50 MB, five rounds

import { CreateBucketCommand, GetObjectCommand, S3Client, type S3ClientConfig } from '@aws-sdk/client-s3'
import { Upload } from '@aws-sdk/lib-storage'
import { execFile } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { createReadStream, createWriteStream, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import { s3From } from '../src/s3/s3-from.ts'
import { isInstalled, type ObjectStore } from '../test/support/daemons.ts'
import { RADOSGW_PROGRAMS, startRadosgw } from '../test/support/radosgw.ts'

const BUCKET = 'bench'
const WARM_UP = 1
const FRESH = 9
const dist = new URL('../dist/', import.meta.url).href

const [megabytes = 200, rounds = 7] = process.argv.slice(2).map(Number)
const run = promisify(execFile)

interface Way {
  name: string
  upload(store: ObjectStore, file: string, key: string): Promise<unknown>
  download(store: ObjectStore, key: string, file: string): Promise<unknown>
}

/** The processor time is that of this process, without the store's: it varies less than the clock on a busy machine. */
interface Cost {
  seconds: number
  cpuSeconds: number
}

const helpers: Way = {
  name: 'helpers',
  async upload(store, file, key) {
    const s3 = s3From(configOf(store))
    await s3.uploadFile(file, { key })
    await s3.close()
  },
  async download(store, key, file) {
    const s3 = s3From(configOf(store))
    await s3.download(key, { to: file })
    await s3.close()
  },
}

// Its defaults are parts of 5 MB, four at a time, and a CRC32 of each; on the way back none but the store's length.
const plain = sdk('plain SDK', {})

// The helpers switch checksums off for stores that are not Amazon's: so much of the difference is that alone.
const bare = sdk('plain SDK, checksums WHEN_REQUIRED', {
  requestChecksumCalculation: 'WHEN_REQUIRED',
  responseChecksumValidation: 'WHEN_REQUIRED',
})

const cli: Way = {
  name: 'aws CLI, its start included',
  upload: (store, file, key) => aws(store, [file, `s3://${BUCKET}/${key}`]),
  download: (store, key, file) => aws(store, [`s3://${BUCKET}/${key}`, file]),
}

const { model } = cpus()[0] ?? { model: 'unknown' }
process.stdout.write(`Node ${process.versions.node}, ${cpus().length} x ${model}\n`)
const missing = RADOSGW_PROGRAMS.filter((program) => !isInstalled(program))
if (missing.length > 0) throw new Error(`This needs Ceph's gateway, and there is no ${missing.join(', ')}.`)
const dir = mkdtempSync(join(tmpdir(), 'longshore-bench-'))
try {
  const store = await startRadosgw({ dir: join(dir, 'radosgw') })
  try {
    const client = clientOf(store, {})
    await client.send(new CreateBucketCommand({ Bucket: BUCKET }))
    client.destroy()
    await largeFile(store)
    await firstCall(store)
    await imports()
  } finally {
    await store.close()
  }
} finally {
  rmSync(dir, { recursive: true, force: true })
}

async function largeFile(store: ObjectStore): Promise<void> {
  const ways = [helpers, plain, bare, ...(isInstalled('aws') ? [cli] : [])]
  const file = join(dir, 'file')
  writeFileSync(file, '')
  for (let at = 0; at < megabytes; at += 1) writeFileSync(file, randomBytes(1_000_000), { flag: 'a' })
  const sum = await sumOf(file)
  process.stdout.write(
    `${megabytes} MB, radosgw on 127.0.0.1 with memstore, one key per way, a client per transfer, ${rounds} rounds after ` +
      `${WARM_UP} to warm up, the order turned each round; ${ways.includes(cli) ? 'aws installed' : 'no aws installed'}\n`,
  )
  const times = { upload: new Map<Way, Cost[]>(), download: new Map<Way, Cost[]>() }
  for (let round = 0; round < WARM_UP + rounds; round += 1) {
    const turned = [...ways.slice(round % ways.length), ...ways.slice(0, round % ways.length)]
    // Turning alone would leave each way behind the same one every time, with what that left to be done.
    for (const way of round % 2 === 0 ? turned : turned.toReversed()) {
      const key = `file-${ways.indexOf(way)}`
      const back = join(dir, 'back')
      const up = await costOf(() => way.upload(store, file, key))
      const down = await costOf(() => way.download(store, key, back))
      if ((await sumOf(back)) !== sum) throw new Error(`${way.name} gave another file back.`)
      rmSync(back)
      await collect()
      if (round < WARM_UP) continue
      note(times.upload, way, up)
      note(times.download, way, down)
    }
  }
  for (const [direction, byWay] of Object.entries(times)) {
    const base = median((byWay.get(plain) ?? []).map(({ seconds }) => seconds))
    for (const [way, costs] of byWay) {
      const seconds = costs.map((cost) => cost.seconds)
      const cpu = median(costs.map((cost) => cost.cpuSeconds)).toFixed(3)
      process.stdout.write(
        `${direction}, ${way.name}: median ${median(seconds).toFixed(3)} s [${least(seconds).toFixed(3)} to ` +
          `${most(seconds).toFixed(3)}], ${Math.round(megabytes / median(seconds))} MB/s, ` +
          `${(median(seconds) / base).toFixed(2)} x the plain SDK, ` +
          `${way === cli ? '' : `${cpu} s of processor time, `}n = ${seconds.length}\n`,
      )
    }
  }
}

/** What was overwritten stays in the store's 2 GiB until it is collected, which nothing there does by itself. */
async function collect(): Promise<void> {
  await run('radosgw-admin', ['-c', join(dir, 'radosgw', 'ceph.conf'), 'gc', 'process', '--include-all'])
}

async function firstCall(store: ObjectStore): Promise<void> {
  const config = JSON.stringify(configOf(store))
  const file = join(dir, 'small')
  writeFileSync(file, randomBytes(1_000))
  const body = `createReadStream(${JSON.stringify(file)})`
  const { endpoint, accessId: accessKeyId, accessSecret: secretAccessKey } = store
  const options = {
    endpoint,
    region: 'us-east-1',
    forcePathStyle: true,
    credentials: { accessKeyId, secretAccessKey },
  }
  const programs = {
    helpers: `
      const { s3From } = await import('${dist}index.js')
      const from = performance.now()
      await s3From(${config}).uploadFile(${JSON.stringify(file)}, { key: 'small' })`,
    'plain SDK': `
      const { createReadStream } = await import('node:fs')
      const from = performance.now()
      const [{ S3Client }, { Upload }] = await Promise.all([import('@aws-sdk/client-s3'), import('@aws-sdk/lib-storage')])
      const client = new S3Client(${JSON.stringify(options)})
      await new Upload({ client, params: { Bucket: '${BUCKET}', Key: 'small', Body: ${body} } }).done()`,
  }
  await fresh('first upload of 1 kB in a process, the SDK loaded for it', programs)
}

async function imports(): Promise<void> {
  await fresh('import of the package', {
    'all of it': `
      const from = performance.now()
      await import('${dist}index.js')`,
    'without the s3 exports': `
      const from = performance.now()
      await Promise.all([import('${dist}worker/define-handler.js'), import('${dist}job/chunk.js')])`,
  })
}

/** Runs each program in processes of its own, in turn. */
async function fresh(question: string, programs: Record<string, string>): Promise<void> {
  const times = new Map<string, number[]>()
  for (let round = 0; round < WARM_UP + FRESH; round += 1) {
    for (const [name, program] of Object.entries(programs)) {
      const end = 'process.stdout.write(String(performance.now() - from), () => process.exit())'
      const args = ['--input-type=module', '--eval', `${program}\n${end}`]
      const { stdout } = await run(process.execPath, args, { cwd: new URL('..', import.meta.url) })
      if (round >= WARM_UP) note(times, name, Number(stdout))
    }
  }
  for (const [name, all] of times) {
    const spread = `[${least(all).toFixed(1)} to ${most(all).toFixed(1)}]`
    process.stdout.write(
      `${question}, ${name}: median ${median(all).toFixed(1)} ms ${spread}, n = ${all.length}\n`,
    )
  }
}

function sdk(name: string, settings: S3ClientConfig): Way {
  return {
    name,
    async upload(store, file, key) {
      const client = clientOf(store, settings)
      await new Upload({
        client,
        params: { Bucket: BUCKET, Key: key, Body: createReadStream(file) },
      }).done()
      client.destroy()
    },
    async download(store, key, file) {
      const client = clientOf(store, settings)
      const { Body } = await client.send(new GetObjectCommand({ Bucket: BUCKET, Key: key }))
      await pipeline(Body as Readable, createWriteStream(file))
      client.destroy()
    },
  }
}

function clientOf({ endpoint, accessId, accessSecret }: ObjectStore, settings: S3ClientConfig): S3Client {
  return new S3Client({
    endpoint,
    region: 'us-east-1',
    forcePathStyle: true,
    credentials: { accessKeyId: accessId, secretAccessKey: accessSecret },
    ...settings,
  })
}

function configOf({ endpoint, accessId, accessSecret }: ObjectStore) {
  return { accessId, accessSecret, bucketName: BUCKET, endpointUrl: endpoint }
}

function aws({ endpoint, accessId, accessSecret }: ObjectStore, fromTo: string[]): Promise<unknown> {
  const env = {
    ...process.env,
    AWS_ACCESS_KEY_ID: accessId,
    AWS_SECRET_ACCESS_KEY: accessSecret,
    AWS_DEFAULT_REGION: 'us-east-1',
  }
  return run('aws', ['--endpoint-url', endpoint, 's3', 'cp', '--quiet', ...fromTo], { env })
}

async function sumOf(file: string): Promise<string> {
  const hash = createHash('sha1')
  await pipeline(createReadStream(file), hash)
  return hash.digest('hex')
}

async function costOf(deed: () => Promise<unknown>): Promise<Cost> {
  const from = performance.now()
  const before = process.cpuUsage()
  await deed()
  const { user, system } = process.cpuUsage(before)
  return { seconds: (performance.now() - from) / 1000, cpuSeconds: (user + system) / 1e6 }
}

function note<Key, Value>(noted: Map<Key, Value[]>, key: Key, value: Value): void {
  noted.set(key, [...(noted.get(key) ?? []), value])
}

function median(all: readonly number[]): number {
  return all.toSorted((a, b) => a - b)[Math.floor(all.length / 2)] ?? NaN
}

function least(all: readonly number[]): number {
  return Math.min(...all)
}

function most(all: readonly number[]): number {
  return Math.max(...all)
}
