// A registry of private images, for tests: Debian's, on a port of its own, with one user and one image.

import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Daemons, isInstalled, reservePorts } from './daemons.ts'
import type { Docker } from './docker.ts'

const execute = promisify(execFile)

/** True where its tests are to be skipped; never where CI runs. */
export const isRegistryMissing =
  !['docker-registry', 'htpasswd'].every(isInstalled) && process.env['CI'] !== 'true'

export interface PrivateRegistry {
  /** What it has. The engine that it was made of does not have it any more. */
  readonly image: string
  readonly credentials: { username: string; password: string }
  close(): Promise<void>
}

/** With `source`, an image of this engine, in it. */
export async function startPrivateRegistry(docker: Docker, source: string): Promise<PrivateRegistry> {
  const credentials = { username: 'shipper', password: 'a pass+word/ü' }
  const dir = mkdtempSync(join(tmpdir(), 'longshore-registry-'))
  const ports = await reservePorts()
  const daemons = new Daemons(dir)
  const close = async (): Promise<void> => {
    await daemons.close()
    await ports.release()
    rmSync(dir, { recursive: true })
  }
  try {
    const address = `127.0.0.1:${ports.first}`
    const image = `${address}/private/worker:1`
    await serveImages(daemons, { dir, address, credentials })
    await docker.run('tag', source, image)
    const env = { ...process.env, ...docker.env, DOCKER_CONFIG: join(dir, 'config') }
    const login = `docker login --username "$1" --password-stdin "$2"`
    const loggingIn = execute('sh', ['-c', login, 'sh', credentials.username, address], { env })
    loggingIn.child.stdin?.end(credentials.password)
    await loggingIn
    await execute('docker', ['push', '--quiet', image], { env })
    await docker.run('rmi', image)
    return { image, credentials, close }
  } catch (cause) {
    await close()
    throw cause
  }
}

interface Place {
  dir: string
  address: string
  credentials: PrivateRegistry['credentials']
}

async function serveImages(daemons: Daemons, { dir, address, credentials }: Place): Promise<void> {
  const { username, password } = credentials
  writeFileSync(join(dir, 'htpasswd'), await daemons.run('htpasswd', ['-niB', username], password))
  mkdirSync(join(dir, 'images'))
  const config = [
    'version: 0.1',
    `storage: { filesystem: { rootdirectory: ${dir}/images } }`,
    `http: { addr: "${address}", secret: ${createHash('sha256').update(dir).digest('hex')} }`,
    `auth: { htpasswd: { realm: tests, path: ${dir}/htpasswd } }`,
  ]
  writeFileSync(join(dir, 'registry.yml'), config.join('\n'))
  daemons.start('docker-registry', 'docker-registry', ['serve', join(dir, 'registry.yml')])
  await daemons.answerAt(`http://${address}/v2/`)
}
