// OpenStack Swift on this machine, as an S3 server: storage servers of one device, and the proxy with s3api.

import { mkdirSync, writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Daemons, reservePorts, type StartedObjectStore } from './daemons.ts'

const KINDS = ['account', 'container', 'object'] as const

export const SWIFT_PROGRAMS = [...KINDS, 'proxy'].map((kind) => `swift-${kind}-server`).concat('memcached')

/** Resolves when all its servers answer. Buckets are in us-east-1. `dir` is left when the server is closed. */
export async function startSwift({ dir }: { dir: string }): Promise<StartedObjectStore> {
  mkdirSync(join(dir, 'devices', 'disk'), { recursive: true })
  const ports = await reservePorts()
  const daemons = new Daemons(dir)
  const close = async (): Promise<void> => {
    await daemons.close()
    await ports.release()
  }
  try {
    const [memoryPort, proxyPort] = [ports.first, ports.first + 1]
    const storage = KINDS.map((kind, index) => ({ kind, port: proxyPort + 1 + index }))
    writeFileSync(join(dir, 'swift.conf'), '[swift-hash]\nswift_hash_path_suffix = longshore\n')
    writeFileSync(join(dir, 'proxy-server.conf'), proxyConfiguration(dir, proxyPort, memoryPort))
    for (const { kind, port } of storage) {
      writeFileSync(join(dir, `${kind}-server.conf`), storageConfiguration(dir, kind, port))
    }
    await makeRings(daemons, dir, storage)
    startMemcached(daemons, memoryPort)
    for (const kind of [...KINDS, 'proxy']) {
      daemons.start(`swift-${kind}`, `swift-${kind}-server`, [join(dir, `${kind}-server.conf`), '--verbose'])
    }
    const endpoint = `http://127.0.0.1:${proxyPort}`
    await daemons.answerAt(endpoint, ...storage.map(({ port }) => `http://127.0.0.1:${port}`))
    return { endpoint, accessId: 'test:tester', accessSecret: 'testing', close }
  } catch (error) {
    await close()
    throw error
  }
}

async function makeRings(
  daemons: Daemons,
  dir: string,
  storage: { kind: string; port: number }[],
): Promise<void> {
  const script = fileURLToPath(new URL('swift-rings.py', import.meta.url))
  const rings = storage.map(({ kind, port }) => `${kind}:${port}`)
  // The Python of the system by its path: another one that comes first does not have Swift's modules.
  await daemons.run('/usr/bin/python3', [script, dir, ...rings])
}

function startMemcached(daemons: Daemons, port: number): void {
  const user = ['-u', userInfo().username]
  daemons.start('memcached', 'memcached', ['-l', '127.0.0.1', '-p', String(port), '-m', '16', ...user])
}

function defaults(dir: string, port: number): string {
  return `[DEFAULT]
bind_ip = 127.0.0.1
bind_port = ${port}
workers = 0
user = ${userInfo().username}
swift_dir = ${dir}
log_level = WARNING
`
}

function storageConfiguration(dir: string, kind: string, port: number): string {
  return `${defaults(dir, port)}devices = ${dir}/devices
mount_check = false

[pipeline:main]
pipeline = ${kind}-server

[app:${kind}-server]
use = egg:swift#${kind}
`
}

function proxyConfiguration(dir: string, port: number, memoryPort: number): string {
  return `${defaults(dir, port)}
[pipeline:main]
pipeline = catch_errors cache listing_formats s3api tempauth copy slo dlo versioned_writes symlink proxy-server

[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
allow_account_management = true

[filter:catch_errors]
use = egg:swift#catch_errors

[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:${memoryPort}

[filter:listing_formats]
use = egg:swift#listing_formats

[filter:s3api]
use = egg:swift#s3api
location = us-east-1
s3_acl = false
check_bucket_owner = false
dns_compliant_bucket_names = true
min_segment_size = ${5 * 1024 ** 2}

[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin

[filter:copy]
use = egg:swift#copy

[filter:slo]
use = egg:swift#slo

[filter:dlo]
use = egg:swift#dlo

[filter:versioned_writes]
use = egg:swift#versioned_writes
allow_versioned_writes = true
allow_object_versioning = true

[filter:symlink]
use = egg:swift#symlink
`
}
