// Reading what Redis answers: bytes, and flat lists of fields.

export type Fields = Map<string, Buffer>

export function textOf(value: Buffer | undefined | null): string {
  if (!Buffer.isBuffer(value))
    throw new TypeError(`Expected text from Redis, got ${value === null ? 'null' : typeof value}.`)
  return value.toString()
}

export function numberOf(value: Buffer | undefined | null): number {
  const number = Number(textOf(value))
  if (!Number.isFinite(number)) throw new TypeError(`Expected a number from Redis, got '${textOf(value)}'.`)
  return number
}

/** Names and values in turn, as HGETALL gives them. */
export function fieldsOf(flat: readonly Buffer[]): Fields {
  const fields: Fields = new Map()
  for (let at = 0; at + 1 < flat.length; at += 2) {
    const value = flat[at + 1]
    if (value) fields.set(textOf(flat[at]), value)
  }
  return fields
}

/** `{ [name]: read(value) }`, or `{}` without the field, so that optional ones are left out rather than undefined. */
export function optional<K extends string, T>(
  name: K,
  value: Buffer | undefined | null,
  read: (value: Buffer) => T,
): { [name in K]?: T } {
  if (value === null || value === undefined) return {}
  return { [name]: read(value) } as { [name in K]?: T }
}
