// Waiting for an answer, and no longer than so long.

/** Throws LateError when nothing has come by then; what is waited for goes on. */
export async function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new LateError(`there was no answer within ${ms} ms`)), ms)
  try {
    return await Promise.race([promise, late.promise])
  } finally {
    clearTimeout(timer)
  }
}

export class LateError extends Error {
  override readonly name = 'LateError'
}
