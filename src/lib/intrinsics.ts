// What our runtime needs of its surroundings beside an author's code, taken before that is imported: a handler may put
// something of its own in the place of performance.now or JSON.stringify, and what it reports must stay true and readable.

export const stringifyJson = JSON.stringify.bind(JSON)
export const parseJson = JSON.parse.bind(JSON) as (text: string) => unknown
/** Monotonic ms with fractions. */
export const monotonicMs: () => number = performance.now.bind(performance)
export const queueTurn = setImmediate
export const queueSoon = queueMicrotask
export const bytesFrom = Buffer.from.bind(Buffer)
export const concatBytes = Buffer.concat.bind(Buffer)
export const allocateBytes = Buffer.allocUnsafe.bind(Buffer)
export const countBytes = Buffer.byteLength.bind(Buffer)
