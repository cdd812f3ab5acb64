// Zip archives as bytes, also such as no honest program makes.

import { crc32, deflateRawSync } from 'node:zlib'

export interface ZipEntry {
  name: string | Buffer
  body?: Buffer | string
  /** Unix mode, such as 0o120777 for a link. */
  mode?: number
  /** What the archive says, in place of what is so. */
  says?: { size?: number; crc?: number; flags?: number; method?: number }
  /** Bytes in place of those that the body deflates to. */
  packed?: Buffer
}

export function zip(entries: readonly ZipEntry[]): Buffer {
  const locals: Buffer[] = []
  const centrals: Buffer[] = []
  let offset = 0
  for (const { name, body = '', mode = 0, says = {}, packed } of entries) {
    const bytes = Buffer.from(body as string)
    const label = Buffer.from(name as string)
    const data = packed ?? deflateRawSync(bytes)
    const common = Buffer.alloc(26)
    common.writeUInt16LE(20, 0)
    // Names are UTF-8.
    common.writeUInt16LE(0x800 | (says.flags ?? 0), 2)
    common.writeUInt16LE(says.method ?? 8, 4)
    common.writeUInt32LE(says.crc ?? crc32(bytes), 10)
    common.writeUInt32LE(data.length, 14)
    common.writeUInt32LE(says.size ?? bytes.length, 18)
    common.writeUInt16LE(label.length, 22)
    const local = Buffer.concat([Buffer.from('PK\x03\x04'), common, label, data])
    const tail = Buffer.alloc(14)
    tail.writeUInt32LE((mode << 16) >>> 0, 6)
    tail.writeUInt32LE(offset, 10)
    centrals.push(Buffer.concat([Buffer.from('PK\x01\x02'), Buffer.from([20, 3]), common, tail, label]))
    locals.push(local)
    offset += local.length
  }
  const central = Buffer.concat(centrals)
  const end = Buffer.alloc(22)
  end.write('PK\x05\x06', 'latin1')
  end.writeUInt16LE(entries.length, 8)
  end.writeUInt16LE(entries.length, 10)
  end.writeUInt32LE(central.length, 12)
  end.writeUInt32LE(offset, 16)
  return Buffer.concat([...locals, central, end])
}
