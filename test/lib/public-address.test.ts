import { lookup } from 'node:dns/promises'
import { connect } from 'node:net'
import { once } from 'node:events'
import { describe, expect, it } from 'vitest'
import {
  isPublicAddress,
  lookupPublic,
  PrivateAddressError,
  refusePrivateHost,
} from '../../src/lib/public-address.ts'

describe('isPublicAddress', () => {
  for (const address of ['1.1.1.1', '8.8.8.8', '172.15.0.1', '172.32.0.1', '100.63.0.1', '2606:4700::1111']) {
    it(`takes ${address}`, () => expect(isPublicAddress(address)).toBe(true))
  }
  for (const address of [
    '0.0.0.0',
    '10.1.2.3',
    '100.64.0.1',
    '127.0.0.1',
    '127.255.255.254',
    '169.254.169.254',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    '198.18.0.1',
    '224.0.0.1',
    '255.255.255.255',
    '::',
    '::1',
    '::ffff:10.0.0.1',
    '::ffff:8.8.8.8',
    '64:ff9b::a00:1',
    'fc00::1',
    'fd12:3456::1',
    'fe80::1',
    'fec0::1',
    'ff02::1',
    '2001:db8::1',
    '2001:0:a00:1::',
    '2002:a00:1::1',
    'no address',
    '',
  ]) {
    it(`refuses '${address}'`, () => expect(isPublicAddress(address)).toBe(false))
  }
})

describe('refusePrivateHost', () => {
  for (const url of [
    'http://127.0.0.1/',
    'http://127.1/',
    'http://2130706433/',
    'http://0x7f.1/',
    'http://0/',
    'http://[::1]:8000/',
    'http://[::ffff:127.0.0.1]/',
    'http://localhost/',
    'http://LOCALHOST./',
    'http://a.localhost/',
  ]) {
    it(`refuses ${url}`, () => expect(() => refusePrivateHost(new URL(url))).toThrow(PrivateAddressError))
  }
  for (const url of ['https://example.com/', 'http://1.1.1.1/', 'http://[2606:4700::1111]/']) {
    it(`lets ${url} pass`, () => expect(() => refusePrivateHost(new URL(url))).not.toThrow())
  }
})

describe('lookupPublic', () => {
  it('refuses a name that leads to this machine, where a socket would connect', async () => {
    expect((await lookup('localhost')).address).toMatch(/^(127\.|::1)/)
    const socket = connect({ host: 'localhost', port: 9, lookup: lookupPublic })
    const [error] = (await once(socket, 'error').catch((cause: unknown) => [cause])) as [Error]
    expect(error).toMatchObject({ code: 'PRIVATE_ADDRESS' })
    socket.destroy()
  })
})
