// The same deed for many things, some at a time.

/**
 * Results in the order of the items. After the first failure no further item is begun and the others are aborted; it is
 * thrown once they have ended, so that nothing goes on behind the caller's back.
 */
export async function inParallel<Item, Result>(
  items: readonly Item[],
  atATime: number,
  signal: AbortSignal,
  deed: (item: Item, signal: AbortSignal) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = []
  const halt = new AbortController()
  const either = AbortSignal.any([signal, halt.signal])
  let failure: { cause: unknown } | undefined
  let next = 0
  const line = async (): Promise<void> => {
    for (;;) {
      const at = next
      const item = items[at]
      if (at >= items.length || either.aborted) return
      next += 1
      try {
        results[at] = await deed(item as Item, either)
      } catch (cause) {
        failure ??= { cause }
        halt.abort(cause)
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(atATime, items.length) }, line))
  if (failure) throw failure.cause
  signal.throwIfAborted()
  return results
}
