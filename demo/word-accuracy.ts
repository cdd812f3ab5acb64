// Responsible for scoring text a machine read against the text that was really on the page.

/**
 * How many words of `expected` were read right.
 *
 * Rules: a hyphen at the end of a line joins the word with its rest on the next line; white space and dashes
 * (–, —, --) part words; punctuation around a word is dropped, and what is left without a letter or a digit
 * is no word; curly apostrophes count as straight ones and ligatures as their letters. What remains must match
 * exactly, case included. Words are paired in order (longest common subsequence), so a word missed or invented
 * costs nothing but itself.
 *
 * @returns `right` and `total` in words of `expected`; `share` is right / total, from 0 to 1 (1 if there are none)
 */
export function wordAccuracy(
  expected: string,
  actual: string,
): { right: number; total: number; share: number } {
  const wanted = words(expected)
  const right = commonLength(wanted, words(actual))
  return { right, total: wanted.length, share: wanted.length === 0 ? 1 : right / wanted.length }
}

function words(text: string): string[] {
  return text
    .normalize('NFKC')
    .replaceAll(/[‘’]/g, "'")
    .replaceAll(/(\p{L})-[ \t]*\r?\n\s*(?=\p{Ll})/gu, '$1')
    .split(/[\s–—]+|-{2,}/u)
    .map((word) => word.replaceAll(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, ''))
    .filter((word) => word !== '')
}

/** Length of the longest common subsequence; memory grows with `b` alone, time with both. */
function commonLength(a: string[], b: string[]): number {
  let row = new Uint32Array(b.length + 1)
  for (const word of a) {
    const next = new Uint32Array(b.length + 1)
    b.forEach((other, i) => {
      next[i + 1] = word === other ? (row[i] ?? 0) + 1 : Math.max(row[i + 1] ?? 0, next[i] ?? 0)
    })
    row = next
  }
  return row[b.length] ?? 0
}
