// A sentinel that names the master that it is told to, and answers when the test lets it.

import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'
import { Facts } from './facts.ts'

export interface MadeUpSentinel {
  readonly port: number
  /** Each question for the master's address. */
  readonly asked: Facts<string>
  /** Clients that are told when another is master. */
  readonly listeners: number
  /** From here on questions for the address wait until `answer`. */
  hold(): void
  /** Says to whoever listens that another is master now. */
  tellSwitch(): void
  /** Names this master to those that wait, and to all that ask after. */
  answer(masterPort: number): void
}

export async function madeUpSentinel(masterPort: number): Promise<MadeUpSentinel> {
  let master = masterPort
  let isHeld = false
  const asked = new Facts<string>()
  const waiting = new Set<Socket>()
  const listening = new Set<Socket>()
  const sockets = new Set<Socket>()
  const name = (to: Socket): void => void to.write(array('127.0.0.1', String(master)))
  const obey = (words: string[], from: Socket): void => {
    const [command = '', what = ''] = words.map((word) => word.toLowerCase())
    if (command === 'subscribe') {
      listening.add(from)
      from.write(`*3\r\n${bulk('subscribe')}${bulk(what)}:1\r\n`)
    } else if (what === 'get-master-addr-by-name') {
      if (isHeld) waiting.add(from)
      else name(from)
      asked.add(what)
    } else from.write(what === 'sentinels' ? '*0\r\n' : '+OK\r\n')
  }
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('close', () => listening.delete(socket))
    socket.on('error', () => undefined)
    socket.on('data', (bytes) => commandsIn(String(bytes)).forEach((words) => obey(words, socket)))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy()
    await once(server.close(), 'close')
  })
  return {
    port: (server.address() as AddressInfo).port,
    asked,
    get listeners() {
      return listening.size
    },
    hold: () => (isHeld = true),
    tellSwitch() {
      for (const to of listening) to.write(array('message', '+switch-master', 'queue'))
    },
    answer(port) {
      master = port
      isHeld = false
      for (const to of waiting) name(to)
      waiting.clear()
    },
  }
}

/** Short commands come whole. */
function commandsIn(text: string): string[][] {
  return text
    .split(/(?=\*\d+\r\n\$)/)
    .map((command) => [...command.matchAll(/\$\d+\r\n([^\r]*)\r\n/g)].map(([, word = '']) => word))
}

function bulk(word: string): string {
  return `$${Buffer.byteLength(word)}\r\n${word}\r\n`
}

function array(...words: string[]): string {
  return `*${words.length}\r\n${words.map(bulk).join('')}`
}
