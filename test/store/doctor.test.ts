import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { systemClock } from '../../src/lib/clock.ts'
import type { Finding } from '../../src/lib/finding.ts'
import { examineStore } from '../../src/store/doctor.ts'
import { openStore } from '../../src/store/open-store.ts'
import { tried } from '../../src/store/redis/check-user.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { main, temporaryDir } from '../support/processes.ts'
import { DURABLE, isRedisMissing, startRedis, type RedisServer } from '../support/redis.ts'

async function redis(settings: readonly string[] = DURABLE): Promise<RedisServer> {
  const server = await startRedis(settings)
  onTestFinished(() => server.stop())
  return server
}

const sentences = (findings: readonly Finding[]): string[] => findings.map(({ sentence }) => sentence)
const levels = (findings: readonly Finding[]): string[] => findings.map(({ level }) => level)

describe.skipIf(isRedisMissing)('the doctor of a Redis', () => {
  it('finds nothing where all is well', async () => {
    expect(await examineStore((await redis()).url)).toEqual([])
  })

  it.each([
    [1_500, 'behind'],
    [-90_000, 'ahead of'],
  ])('says that clocks are apart when that of this machine is off by %d ms', async (offMs, words) => {
    const { url } = await redis()
    const clock = { ...systemClock, now: () => systemClock.now() + offMs }
    const findings = await examineStore(url, { clock })
    expect(levels(findings)).toEqual(['problem'])
    const [, ms, where] =
      /has a clock that is (\d+) ms (ahead of|behind) this machine's\. .*NTP/.exec(findings[0]!.sentence) ??
      []
    expect(where).toBe(words)
    expect(Math.abs(Number(ms) - Math.abs(offMs))).toBeLessThan(400)
  })

  it('lets clocks be half a second apart', async () => {
    const clock = { ...systemClock, now: () => systemClock.now() + 500 }
    expect(await examineStore((await redis()).url, { clock })).toEqual([])
  })

  it('says that it is a replica', async () => {
    const master = await redis()
    const replica = await redis()
    await replica.cli('replicaof', '127.0.0.1', String(master.port))
    const findings = await examineStore(replica.url)
    expect(levels(findings)).toContain('problem')
    expect(sentences(findings).join('\n')).toContain('is a replica and takes no writes. Name its master.')
  })

  it('says that the scripts are not taken', async () => {
    const server = await redis()
    await server.cli(
      'acl',
      'setuser',
      'limited',
      'on',
      '>word',
      '~*',
      '&*',
      '+@all',
      '-script',
      '-eval',
      '-evalsha',
    )
    const findings = await examineStore(server.url.replace('//', '//limited:word@'))
    expect(levels(findings)).toEqual(['problem'])
    expect(findings[0]!.sentence).toMatch(
      /^The store redis:\/\/127\.0\.0\.1:\d+ does not let this user do what a server does: .*NOPERM.*ACL SETUSER/,
    )
  })

  it('says which commands its user may not give, and a server too', async () => {
    const server = await redis()
    const url = server.url.replace('//', '//limited:word@')
    for (const words of [
      '-zadd',
      '-evalsha',
      '-info -time',
      '-@dangerous',
      '-unlink',
      '%R~longshore:* +@all',
    ]) {
      await server.cli(
        'acl',
        'setuser',
        'limited',
        'reset',
        'on',
        '>word',
        '&*',
        '+@all',
        ...words.split(' '),
      )
      if (words.startsWith('-')) await server.cli('acl', 'setuser', 'limited', '~*')
      const findings = await examineStore(url)
      expect(levels(findings)).toEqual(['problem'])
      const [, named = ''] = /^-(\w+)/.exec(words) ?? []
      expect(findings[0]!.sentence).toMatch(new RegExp(`NOPERM.*\\b${named}\\b.*ACL SETUSER`))
      await expect(openStore(url)).rejects.toMatchObject({ code: 'STORE_MISCONFIGURED' })
    }
    expect(await server.cli('dbsize')).toBe('0')
  })

  it('knows each command that is given', () => {
    const folder = new URL('../../src/store/redis/', import.meta.url)
    const given = readdirSync(folder).flatMap((name) =>
      [
        ...readFileSync(new URL(name, folder), 'utf8').matchAll(
          /(?:\b(?:call|write|ask)|\.told)\(\s*'(\w+)'/g,
        ),
      ].map(([, command = '']) => command.toLowerCase()),
    )
    expect(given.length).toBeGreaterThan(100)
    const others = new Set(['wait', 'config'])
    expect(new Set(given.filter((one) => !others.has(one)))).toEqual(
      new Set(Object.keys(tried).filter((one) => !['publish', 'info'].includes(one) || given.includes(one))),
    )
  })

  it('says that there are too few replicas to wait for', async () => {
    const { url } = await redis()
    const asked = async (store: string): Promise<string[]> =>
      sentences(await examineStore(store, { replicas: 1 }))
    expect(await asked(url)).toEqual([expect.stringMatching(/^--redis-wait 1 .* which are 0\./)])
    for (const other of ['redis+cluster://127.0.0.1:1', 'sqlite::memory:'])
      expect(await asked(other)).toEqual([expect.stringContaining('--redis-wait')])
  })

  it('says that messages may not be heard, and a server too; what both say mends it', async () => {
    const server = await redis()
    const url = server.url.replace('//', '//narrow:word@')
    await server.cli('acl', 'setuser', 'narrow', 'on', '>word', '~longshore:*', 'resetchannels', '+@all')
    const [finding] = await examineStore(url)
    expect(finding?.sentence).toContain('NOPERM')
    await expect(openStore(url)).rejects.toMatchObject({ code: 'STORE_MISCONFIGURED' })
    const [, words = ''] = /ACL SETUSER <user> (.*)$/.exec(finding?.sentence ?? '') ?? []
    await server.cli('acl', 'setuser', 'narrow', ...words.replaceAll("'", '').split(' '))
    expect(await examineStore(url)).toEqual([])
    const store = await openStore(url)
    await store.close()
  })

  it.each([
    [['set', 'longshore:version', '2'], /has version 2 of the keys/],
    [['set', 'longshore:version', 'late'], /has version "late" of the keys/],
    [['set', 'longshore:moving', '1'], /has only a part of a queue/],
    [['config', 'set', 'min-replicas-to-write', '1'], /takes no writes: NOREPLICAS/],
    [['config', 'set', 'maxmemory', '500kb'], /is full: \d+ of 512000 bytes are used/],
  ])('says why no server could start or write after %s', async (words, problem) => {
    const server = await redis()
    await server.cli(...words)
    const findings = await examineStore(server.url)
    expect(levels(findings)).toEqual(['problem'])
    expect(findings[0]!.sentence).toMatch(problem)
  })

  it.each([
    ['everysec', 'the last second or two'],
    ['no', 'the last half minute or so'],
  ])('warns of appendfsync %s', async (appendfsync, lost) => {
    const findings = await examineStore(
      (await redis(['--appendonly', 'yes', '--appendfsync', appendfsync])).url,
    )
    expect(levels(findings)).toEqual(['warning'])
    expect(findings[0]!.sentence).toContain(`has appendfsync '${appendfsync}': a power cut loses ${lost}`)
  })

  it('warns of a log that is not synced while it is rewritten', async () => {
    const findings = await examineStore((await redis([...DURABLE, '--no-appendfsync-on-rewrite', 'yes'])).url)
    expect(levels(findings)).toEqual(['warning'])
    expect(findings[0]!.sentence).toMatch(
      /has no-appendfsync-on-rewrite 'yes': .*power cut.*CONFIG SET no-appendfsync-on-rewrite no/,
    )
  })

  it('warns of a master that goes on without the replicas that are waited for', async () => {
    const master = await redis()
    await redis([...DURABLE, '--replicaof', `127.0.0.1 ${master.port}`])
    const online = { timeout: 20_000, interval: 50 }
    await expect.poll(() => master.cli('info', 'replication'), online).toContain('state=online')
    expect(await examineStore(master.url)).toEqual([])
    const findings = await examineStore(master.url, { replicas: 1 })
    expect(levels(findings)).toEqual(['warning'])
    expect(findings[0]!.sentence).toMatch(
      /has min-replicas-to-write 0, and --redis-wait is 1: .*CONFIG SET min-replicas-to-write 1/,
    )
    await master.cli('config', 'set', 'min-replicas-to-write', '1')
    expect(await examineStore(master.url, { replicas: 1 })).toEqual([])
  })

  it('says that a large input is not taken, and so does a server', async () => {
    const server = await redis([...DURABLE, '--proto-max-bulk-len', '25165823'])
    const [finding, ...others] = await examineStore(server.url)
    expect([finding?.level, others]).toEqual(['problem', []])
    expect(finding?.sentence).toMatch(
      /values of more than 25165823 bytes: .*CONFIG SET proto-max-bulk-len 512mb/,
    )
    await expect(openStore(server.url)).rejects.toMatchObject({
      code: 'STORE_MISCONFIGURED',
      message: finding?.sentence,
    })
    await server.cli('config', 'set', 'proto-max-bulk-len', '25165824')
    expect(await examineStore(server.url)).toEqual([])
    await (await openStore(server.url)).close()
  })

  it('says that nothing is kept without appendonly', async () => {
    const findings = await examineStore((await redis(['--appendonly', 'no', '--appendfsync', 'always'])).url)
    expect(levels(findings)).toEqual(['problem'])
    expect(findings[0]!.sentence).toContain(
      'keeps nothing of what it answered when it ends: appendonly is off.',
    )
  })

  it('says that its file cannot be written', async () => {
    const server = await startRedis(['--appendonly', 'yes', '--appendfsync', 'everysec'], { ignores: 'XFSZ' })
    onTestFinished(() => server.stop())
    const pid = /process_id:(\d+)/.exec(await server.cli('info', 'server'))![1]!
    // A file that may not grow is what a full disk looks like.
    const limit = spawn('prlimit', ['--pid', pid, '--fsize=1'])
    expect(await once(limit, 'exit')).toEqual([0, null])
    await server.cli('set', 'a', 'b')
    const findings = await examineStore(server.url)
    expect(sentences(findings).join('\n')).toContain('could not write its append-only file.')
  })
})

/** No mode of a file keeps the root user out: then somebody else is asked to look. */
const isRoot = process.getuid?.() === 0
const nobody = isRoot ? { uid: 65_534, gid: 65_534 } : {}
const isHidden = spawnSync('test', ['-r', main], nobody).status !== 0

describe('the doctor of a queue file', () => {
  async function queueFile(): Promise<string> {
    const file = join(temporaryDir(), 'queue.db')
    await openSqliteStore({ file }).close()
    return file
  }

  it('says that the disk is nearly full, with what is left', async () => {
    const file = await queueFile()
    expect(await examineStore(`sqlite:${file}`, { freeBytes: () => 100_000_000 })).toEqual([])
    const findings = await examineStore(`sqlite:${file}`, { freeBytes: () => 99_999_999 })
    expect(findings).toEqual([
      {
        level: 'problem',
        sentence: `The disk of ${file} has 99 MB left. Free some: a full disk refuses submissions.`,
      },
    ])
  })

  it('offers to make a folder that is missing', async () => {
    const folder = join(temporaryDir(), 'a', 'b')
    const [finding] = await examineStore(`sqlite:${folder}/queue.db`)
    expect(finding).toMatchObject({
      level: 'problem',
      sentence: expect.stringContaining(`mkdir -p ${folder}`),
    })
    finding!.fix!.apply()
    expect(existsSync(folder)).toBe(true)
    expect(await examineStore(`sqlite:${folder}/queue.db`)).toEqual([
      { level: 'warning', sentence: expect.stringContaining('There is no queue file') },
    ])
  })

  it.skipIf(isHidden)('says that it cannot be written', async () => {
    const file = await queueFile()
    chmodSync(dirname(file), 0o755)
    chmodSync(file, 0o444)
    const words = ['--disable-warning=ExperimentalWarning', main, 'doctor', '--store', `sqlite:${file}`]
    const { stdout, status } = spawnSync(process.execPath, words, { ...nobody, encoding: 'utf8', cwd: '/' })
    expect(stdout).toContain('cannot be written by this user')
    expect(status).toBe(1)
  })

  it('has nothing to look at of one in memory', async () => {
    expect(await examineStore('sqlite::memory:')).toEqual([])
  })

  it('says that a folder is no queue file', async () => {
    const dir = join(temporaryDir(), 'queue.db')
    mkdirSync(dir)
    expect(sentences(await examineStore(`sqlite:${dir}`))).toEqual([
      expect.stringContaining('is no file. Name a queue file'),
    ])
  })
})
