// What a store throws.

/** The world's fault, not the caller's. `code` is stable; the cause says what the engine met. */
export class StoreError extends Error {
  readonly code:
    | 'STORE_FULL'
    | 'STORE_UNAVAILABLE'
    | 'STORE_IN_USE'
    | 'STORE_TOO_NEW'
    | 'STORE_UNREADABLE'
    | 'STORE_MISCONFIGURED'

  constructor(code: StoreError['code'], message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'StoreError'
    this.code = code
  }
}
