// A Docker engine of a test run's own, from Debian's docker.io, and an image like that of Node made of this machine's files:
// neither needs a registry. Where there is no engine its tests are skipped, except in CI.

import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  closeSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { freemem, tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import { isInstalled } from './daemons.ts'

const execute = promisify(execFile)
const PATIENCE_MS = 30_000
const POLL_MS = 100
const NEEDED_BYTES = 8_000_000_000

/** The image that Dockerfile.base is built FROM here; a build never asks a registry for one that is there. */
const NODE_IMAGE = 'node:24-bookworm-slim'

/** True where its tests are to be skipped: an engine needs root, and there may be none; never where CI runs. */
export const isDockerMissing = !canRunEngine() && process.env['CI'] !== 'true'

function canRunEngine(): boolean {
  return process.getuid?.() === 0 && ['dockerd', 'docker', 'containerd', 'runc'].every(isInstalled)
}

export interface Docker {
  /** The variables by which a docker command finds this engine. */
  readonly env: Record<string, string>
  /** Runs docker with these words and gives what it printed on both; fails with that when docker does. */
  run(...words: string[]): Promise<string>
  stop(): Promise<void>
}

/** Starts the engine, with the image of Node in it. */
export async function startDocker(): Promise<Docker> {
  const dir = mkdtempSync(join(tmpdir(), 'longshore-docker-'))
  const isInMemory = await mountMemory(dir)
  const engine = startEngine(dir)
  const env = {
    DOCKER_HOST: `unix://${dir}/docker.sock`,
    DOCKER_BUILDKIT: '1',
    DOCKER_CONFIG: dir,
    // Debian's own client before any other: it brings BuildKit, which others want a plugin for.
    PATH: `/usr/bin${delimiter}${process.env['PATH']}`,
  }
  const run = async (...words: string[]): Promise<string> => {
    const options = { env: { ...process.env, ...env }, maxBuffer: 50_000_000 }
    try {
      const { stdout, stderr } = await execute('docker', words, options)
      return (stdout + stderr).trim()
    } catch (cause) {
      const { stdout, stderr } = cause as { stdout: string; stderr: string }
      throw new Error(`docker ${words.join(' ')} failed:\n${stdout}${stderr}`, { cause })
    }
  }
  const stop = async (): Promise<void> => {
    await end(engine)
    // What the engine keeps mounted after its end.
    await execute('umount', [join(dir, 'exec/netns/default')]).catch(() => undefined)
    if (isInMemory) await execute('umount', [dir])
    rmSync(dir, { recursive: true, force: true })
  }
  try {
    await untilReady(engine, dir, () => run('info'))
    await importNodeImage(dir, env)
    return { env, run, stop }
  } catch (cause) {
    await stop()
    throw cause
  }
}

/** Tens of thousands of small files are written and deleted: on a disk that takes longer than all tests together. */
async function mountMemory(dir: string): Promise<boolean> {
  if (freemem() < NEEDED_BYTES) return false
  try {
    await execute('mount', ['-t', 'tmpfs', '-o', `size=${NEEDED_BYTES / 2}`, 'longshore-docker', dir])
    return true
  } catch {
    // The disk does as well; where the engine may not mount anything either, it says so itself.
    return false
  }
}

function startEngine(dir: string): ChildProcess {
  const log = openSync(join(dir, 'log'), 'a')
  const flags = ['iptables', 'ip6tables', 'ip-forward', 'ip-masq'].map((name) => `--${name}=false`)
  const places = ['--data-root', `${dir}/data`, '--exec-root', `${dir}/exec`, '--pidfile', `${dir}/pid`]
  // Containers use the network of this machine: nothing of it is changed for them.
  const engine = spawn('dockerd', ['-H', `unix://${dir}/docker.sock`, ...places, ...flags, '--bridge=none'], {
    stdio: ['ignore', log, log],
  })
  closeSync(log)
  // One that cannot be started is told when it is waited for.
  engine.on('error', () => undefined)
  const kill = (): void => void engine.kill('SIGTERM')
  process.on('exit', kill)
  engine.on('exit', () => process.off('exit', kill))
  return engine
}

async function untilReady(engine: ChildProcess, dir: string, ask: () => Promise<string>): Promise<void> {
  for (let waitedMs = 0; ; waitedMs += POLL_MS) {
    try {
      return void (await ask())
    } catch (cause) {
      const hasEnded = engine.pid === undefined || engine.exitCode !== null
      if (hasEnded || waitedMs > PATIENCE_MS) {
        const said = readFileSync(join(dir, 'log'), 'utf8').split('\n').slice(-15).join('\n')
        throw new Error(`The Docker engine does not start:\n${said}`, { cause })
      }
    }
    await pause(POLL_MS)
  }
}

async function end(engine: ChildProcess): Promise<void> {
  if (engine.pid === undefined || engine.exitCode !== null || engine.signalCode !== null) return
  const ended = once(engine, 'exit')
  // Asked, it ends its containers and takes its mounts away.
  engine.kill('SIGTERM')
  const insist = setTimeout(() => engine.kill('SIGKILL'), PATIENCE_MS)
  await ended
  clearTimeout(insist)
}

const TOOLS = 'sh dash env id cat ls cp mv ln rm mkdir rmdir chmod chown sleep true'.split(' ')

/** What Dockerfile.base uses of the image of Node: sh, node, npm and the core utilities, and the user "node". */
async function importNodeImage(dir: string, env: Record<string, string>): Promise<void> {
  const root = join(dir, 'node-image')
  const etc = join(root, 'etc')
  for (const folder of [
    'usr/bin',
    'usr/lib/node_modules',
    'etc/ssl/certs',
    'proc',
    'sys',
    'dev',
    'root',
    'home/node',
    'tmp',
  ])
    mkdirSync(join(root, folder), { recursive: true })
  chmodSync(join(root, 'tmp'), 0o1777)
  chownSync(join(root, 'home/node'), 1000, 1000)
  symlinkSync('usr/bin', join(root, 'bin'))
  const programs = [process.execPath, ...TOOLS.map((name) => realpathSync(join('/usr/bin', name)))]
  copyFileSync(process.execPath, join(root, 'usr/bin/node'))
  for (const name of TOOLS) copyFileSync(join('/usr/bin', name), join(root, 'usr/bin', name))
  for (const library of await librariesOf(programs)) {
    mkdirSync(join(root, dirname(library)), { recursive: true })
    copyFileSync(library, join(root, library))
  }
  const npm = dirname(dirname(realpathSync(npmCommand())))
  cpSync(npm, join(root, 'usr/lib/node_modules/npm'), { recursive: true })
  for (const name of ['npm', 'npx'])
    symlinkSync(`../lib/node_modules/npm/bin/${name}-cli.js`, join(root, 'usr/bin', name))
  const certificates = process.env['NODE_EXTRA_CA_CERTS']
  if (certificates !== undefined)
    cpSync(certificates, join(etc, 'ssl/certs/extra.pem'), { dereference: true })
  writeFileSync(join(etc, 'passwd'), 'root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n')
  writeFileSync(join(etc, 'group'), 'root:x:0:\nnode:x:1000:\n')
  writeFileSync(join(etc, 'nsswitch.conf'), 'hosts: files dns\n')
  await importFolder(root, env, certificates !== undefined)
  rmSync(root, { recursive: true })
}

function npmCommand(): string {
  const found = (process.env['PATH'] ?? '').split(delimiter).find((folder) => existsSync(join(folder, 'npm')))
  if (found === undefined) throw new Error('There is no npm on the PATH to put into the image.')
  return join(found, 'npm')
}

/** Those that programs are linked with, and those that are looked for when a name of a host is. */
async function librariesOf(programs: readonly string[]): Promise<Set<string>> {
  const { stdout } = await execute('ldd', [...programs])
  const libraries = new Set([...stdout.matchAll(/(?:=> |^\s)(\/\S+) \(/gm)].map((match) => match[1] ?? ''))
  const libc = [...libraries].find((library) => library.endsWith('/libc.so.6'))
  for (const name of ['libnss_dns.so.2', 'libnss_files.so.2', 'libresolv.so.2']) {
    const library = join(dirname(libc ?? '/lib'), name)
    if (existsSync(library)) libraries.add(library)
  }
  return libraries
}

async function importFolder(
  root: string,
  env: Record<string, string>,
  hasCertificates: boolean,
): Promise<void> {
  const path = 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
  const certificates = hasCertificates ? ' NODE_EXTRA_CA_CERTS=/etc/ssl/certs/extra.pem' : ''
  const script = 'tar -C "$1" -c . | docker import --change "$2" --change \'CMD ["node"]\' - "$3"'
  await execute('sh', ['-c', script, 'sh', root, `${path}${certificates}`, NODE_IMAGE], {
    env: { ...process.env, ...env },
  })
}
