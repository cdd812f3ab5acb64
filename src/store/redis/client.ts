// From the address of a store to a client of one server, of the master that sentinels name, or of a cluster.

import { Cluster, Redis, type RedisOptions } from 'ioredis'
import { backoffMs } from '../../lib/backoff.ts'

const CONNECT_MS = 5_000
/** What takes longer is not known to have happened; whoever asked is told that the store is not available. */
const COMMAND_MS = 5_000
/** A sentinel that has said nothing for so long is passed over for the next one. */
const SENTINEL_MS = 2_000
const RECONNECT = { baseMs: 50, maxMs: 1_000 }
/** How often at most a connection is given up because its server only reads: the address may lead there for a while. */
const READONLY_MS = 1_000

const redisOptions = {
  protocol: 2,
  connectTimeout: CONNECT_MS,
  commandTimeout: COMMAND_MS,
  // One on which an answer is owed for so long may lead nowhere, and everything that is sent there would be lost with it.
  socketTimeout: COMMAND_MS,
  keepAlive: 10_000,
  // Whoever closes has had its answers; a link that leads nowhere never says that it is closed.
  disconnectTimeout: 200,
  // A command whose answer was lost may have happened: whoever sent it decides whether to send it again.
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  enableOfflineQueue: false,
} as const satisfies RedisOptions

type Secured = Pick<RedisOptions, 'username' | 'password' | 'tls'>

const retry = (times: number): number => backoffMs(times, RECONNECT)

/** Of an address that can be read otherwise. What it says may be shown. */
export class OptionError extends Error {}

/** Not connected yet. Throws on an address that cannot be read, with the whole of it in the error. */
export function clientFor(url: string): Redis | Cluster {
  refuseOptions(url)
  if (!/^rediss?\+/i.test(url)) return new Redis(checkedUrl(url), ofOneServer())
  const address = /^redis(s?)\+(cluster|sentinel):\/\/(?:([^@]*)@)?([^/@]+)(?:\/([^/]*))?$/.exec(url)
  if (!address) throw new Error('it is no address of a cluster or of sentinels')
  const [, tls, kind, userinfo = '', hosts = '', name = ''] = address
  const [username, password] = userinfo.split(':').map(decodeURIComponent)
  const secured = {
    ...(username && { username }),
    ...(password && { password }),
    ...(tls === 's' && { tls: {} }),
  }
  if (kind === 'cluster' && !/^0?$/.test(name))
    throw new OptionError('names a database, and a cluster has number 0 alone. Leave the path out.')
  if (kind === 'cluster') return ofCluster(nodesOf(hosts, 6379), secured)
  if (name === '') throw new Error('it does not name its master')
  return new Redis({
    ...ofOneServer(),
    ...secured,
    sentinels: nodesOf(hosts, 26_379),
    name,
    sentinelCommandTimeout: SENTINEL_MS,
    sentinelRetryStrategy: retry,
    enableTLSForSentinelMode: tls === 's',
    // Sentinels say at once that another master was named; else the loss of the connection would.
    failoverDetector: true,
  })
}

const ofOneServer = () =>
  ({
    ...redisOptions,
    retryStrategy: retry,
    lazyConnect: true,
    reconnectOnError: givesUpReplicas(),
  }) satisfies RedisOptions

function ofCluster(nodes: { host: string; port: number }[], secured: Secured): Cluster {
  const { enableOfflineQueue: _queue, ...nodeOptions } = redisOptions
  return new Cluster(nodes, {
    lazyConnect: true,
    enableOfflineQueue: false,
    clusterRetryStrategy: retry,
    // Else the client sends again what was on a connection that closed, which may have happened. What a node refuses to
    // do (MOVED, ASK, TRYAGAIN, CLUSTERDOWN) has not, and is sent again.
    retryDelayOnFailover: 0,
    redisOptions: { ...nodeOptions, ...secured },
  })
}

/** What the client library would make something else of: a path of a socket, a host of a part of the password. */
function checkedUrl(url: string): string {
  const { pathname, hostname, hash } = new URL(url)
  if (hostname === '' || hash !== '' || url.slice(url.indexOf('//') + 2).split('@').length > 2)
    throw new Error('it has signs in it that have to be escaped')
  if (!/^(?:\/\d{0,9})?$/.test(pathname)) throw new Error('its path is no number of a database')
  return url
}

/** The client library takes any setting of its own behind a `?`: another database, time limits, names of hosts. */
function refuseOptions(url: string): void {
  const at = url.indexOf('?')
  if (at < 0) return
  const options = new URLSearchParams(url.slice(at + 1))
  const isOfOne = /^rediss?:/i.test(url)
  if (isOfOne && [...options].every(([name, value]) => name === 'family' && /^[46]$/.test(value))) return
  const taken = isOfOne ? 'only family=4 or family=6 is taken' : 'none is taken'
  throw new OptionError(
    `has options behind its ?, of which ${taken} here. Leave them out; the database is the number of the path, as in redis://<host>:<port>/0.`,
  )
}

function nodesOf(hosts: string, usual: number): { host: string; port: number }[] {
  return hosts.split(',').map((host) => {
    const { hostname, port } = new URL(`redis://${host}`)
    return { host: hostname, port: Number(port || usual) }
  })
}

/** A server that became a replica is no longer the one to write to: the address may lead to another one by now. */
function givesUpReplicas(): (error: Error) => boolean {
  let latest = Number.NEGATIVE_INFINITY
  return ({ message }) => {
    if (!message.startsWith('READONLY') || performance.now() - latest < READONLY_MS) return false
    latest = performance.now()
    return true
  }
}

/** Why a node of a cluster (`host:port`) does not answer, in its connection's own words: the client keeps them to itself. */
export async function nodeTrouble({ options }: Cluster, node: string): Promise<unknown> {
  const [address = { host: node, port: 6379 }] = nodesOf(node, 6379)
  const { replyMapping: _mapping, ...ofNodes } = options.redisOptions ?? {}
  const link = new Redis({ ...ofNodes, ...address, lazyConnect: true, retryStrategy: null })
  let told: unknown
  link.on('error', (cause) => (told ??= cause))
  try {
    await link.connect()
    return undefined
  } catch (cause) {
    return told ?? cause
  } finally {
    link.disconnect()
  }
}
