// Which addresses are everybody's: what is fetched or called on a stranger's word must not reach into this network.

import { lookup as resolve, type LookupAddress, type LookupOptions } from 'node:dns'
import { BlockList, isIP, isIPv4 } from 'node:net'

/** A name or a literal that leads to an address of this machine or of a private network. */
export class PrivateAddressError extends Error {
  readonly code = 'PRIVATE_ADDRESS'

  constructor(host: string) {
    super(`'${host}' is or leads to a private address`)
    this.name = 'PrivateAddressError'
  }
}

// The special-purpose registries of IANA, without what is global after all.
const special = new BlockList()
for (const [net, bits] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
] as const) {
  special.addSubnet(net, bits, 'ipv4')
}
const special6 = new BlockList()
for (const [net, bits] of [
  // Of all IPv6 only this eighth is assigned to be reached by everybody.
  ['::', 3],
  ['4000::', 2],
  ['8000::', 1],
  // Teredo and 6to4 lead to an IPv4 address that nobody has looked at; the rest is for documents and benchmarks.
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
] as const) {
  special6.addSubnet(net, bits, 'ipv6')
}

export function isPublicAddress(address: string): boolean {
  if (isIPv4(address)) return !special.check(address, 'ipv4')
  return isIP(address) === 6 && !special6.check(address, 'ipv6')
}

/** Throws PrivateAddressError for a URL whose host says by itself that it is private; a name is judged when it is looked up. */
export function refusePrivateHost({ hostname }: URL): void {
  const host = hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '')
  const isName = isIP(host) === 0
  const isLocal = isName && (host === 'localhost' || host.endsWith('.localhost'))
  if (isLocal || (!isName && !isPublicAddress(host))) throw new PrivateAddressError(host)
}

type LookupCallback = (
  error: NodeJS.ErrnoException | null,
  address: string | LookupAddress[],
  family?: number,
) => void

/**
 * A lookup for sockets that finds only names all of whose addresses are public, so that the very address which was
 * judged is the one that is connected to.
 */
export function lookupPublic(hostname: string, options: LookupOptions, callback: LookupCallback): void {
  resolve(hostname, { ...options, all: true }, (error, addresses) => {
    if (error) return callback(error, [])
    const [first] = addresses
    if (!first || !addresses.every(({ address }) => isPublicAddress(address)))
      return callback(new PrivateAddressError(hostname), [])
    if (options.all) callback(null, addresses)
    else callback(null, first.address, first.family)
  })
}
