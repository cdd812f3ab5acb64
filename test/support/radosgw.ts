// The S3 server of Ceph on this machine: one monitor, one object store daemon and the gateway.

import { randomUUID } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Daemons, reservePorts, type Ports, type StartedObjectStore } from './daemons.ts'

export const RADOSGW_PROGRAMS = [
  'ceph',
  'ceph-authtool',
  'ceph-mon',
  'ceph-osd',
  'monmaptool',
  'radosgw',
  'radosgw-admin',
]

export interface RadosgwOptions {
  /** Holds configuration, data and logs; created when it is not there, and left when the server is closed. */
  dir: string
  /** Where the objects are: in memory, or in a file in `dir`. Default memstore. */
  objectstore?: 'memstore' | 'bluestore'
  accessId?: string
  accessSecret?: string
}

/** Resolves when the gateway answers and knows the account. */
export async function startRadosgw(options: RadosgwOptions): Promise<StartedObjectStore> {
  const { dir, objectstore = 'memstore', accessId = 'AKIALONGSHORE', accessSecret = 'of-no-worth' } = options
  for (const folder of ['mon', 'osd', 'rgw']) mkdirSync(join(dir, folder), { recursive: true })
  const ports = await reservePorts()
  const daemons = new Daemons(dir)
  const close = async (): Promise<void> => {
    await daemons.close()
    await ports.release()
  }
  try {
    const cluster = { dir, conf: join(dir, 'ceph.conf'), clusterId: randomUUID(), monitorPort: ports.first }
    const gatewayPort = ports.first + 1
    writeFileSync(cluster.conf, configuration(cluster, ports, gatewayPort, objectstore))
    await startMonitor(daemons, cluster)
    await startStore(daemons, cluster)
    const endpoint = `http://127.0.0.1:${gatewayPort}`
    daemons.start('radosgw', 'radosgw', ['-c', cluster.conf, '-n', 'client.admin', '-f'])
    await daemons.answerAt(endpoint)
    const account = ['--uid=longshore', '--display-name=Longshore']
    const keys = [`--access-key=${accessId}`, `--secret-key=${accessSecret}`]
    await daemons.run('radosgw-admin', ['-c', cluster.conf, 'user', 'create', ...account, ...keys])
    return { endpoint, accessId, accessSecret, close }
  } catch (error) {
    await close()
    throw error
  }
}

interface Cluster {
  readonly dir: string
  readonly conf: string
  readonly clusterId: string
  readonly monitorPort: number
}

async function startMonitor(daemons: Daemons, { dir, conf, clusterId, monitorPort }: Cluster): Promise<void> {
  const keyring = join(dir, 'keyring')
  const map = join(dir, 'monmap')
  const all = ['--cap', 'mon', 'allow *', '--cap', 'osd', 'allow *', '--cap', 'mgr', 'allow *']
  await daemons.run('ceph-authtool', ['--create-keyring', keyring, '--gen-key', '-n', 'mon.', ...all])
  await daemons.run('ceph-authtool', [keyring, '--gen-key', '-n', 'client.admin', ...all])
  const address = `[v2:127.0.0.1:${monitorPort}]`
  await daemons.run('monmaptool', ['--create', '--fsid', clusterId, '--addv', 'a', address, map])
  await daemons.run('ceph-mon', ['-c', conf, '--mkfs', '-i', 'a', '--monmap', map, '--keyring', keyring])
  daemons.start('ceph-mon', 'ceph-mon', ['-c', conf, '-i', 'a', '-f'])
}

async function startStore(daemons: Daemons, { dir, conf }: Cluster): Promise<void> {
  const id = randomUUID()
  const key = (await daemons.run('ceph-authtool', ['--gen-print-key'])).trim()
  // The file has to be there before mkfs, which would make a key of its own that the monitor does not know.
  writeFileSync(join(dir, 'osd', 'keyring'), `[osd.0]\nkey = ${key}\n`)
  const secrets = JSON.stringify({ cephx_secret: key })
  await daemons.run('ceph', ['-c', conf, '--connect-timeout', '30', 'osd', 'new', id, '-i', '-'], secrets)
  await daemons.run('ceph-osd', ['-c', conf, '-i', '0', '--mkfs', '--osd-uuid', id])
  daemons.start('ceph-osd', 'ceph-osd', ['-c', conf, '-i', '0', '-f'])
}

function configuration(cluster: Cluster, ports: Ports, gatewayPort: number, objectstore: string): string {
  const { dir, clusterId, monitorPort } = cluster
  return `[global]
fsid = ${clusterId}
mon host = [v2:127.0.0.1:${monitorPort}/0]
public addr = 127.0.0.1
public network = 127.0.0.0/8
cluster network = 127.0.0.0/8
ms bind msgr1 = false
ms bind port min = ${gatewayPort + 1}
ms bind port max = ${ports.last}

keyring = ${dir}/keyring
mon data = ${dir}/mon
osd data = ${dir}/osd
rgw data = ${dir}/rgw
run dir = ${dir}
crash dir = ${dir}
admin socket =
log file =
log to stderr = true
err to stderr = true
mon cluster log file = /dev/null

# One of everything: no copies, one placement group per pool, decisions without delay.
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pgp num = 1
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon max pg per osd = 1000
mon data avail crit = 1
paxos propose interval = 0.02
paxos min wait = 0.01

osd objectstore = ${objectstore}
memstore device bytes = ${2 * 1024 ** 3}
bluestore block size = ${4 * 1024 ** 3}
osd max object name len = 256
osd max object namespace len = 64

rgw frontends = beast endpoint=127.0.0.1:${gatewayPort}
rgw run sync thread = false
rgw enable gc threads = false
rgw enable lc threads = false
rgw gc max objs = 3
rgw lc max objs = 3
rgw reshard num logs = 3
rgw dynamic resharding = false

[osd]
keyring = ${dir}/osd/keyring
`
}
