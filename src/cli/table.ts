// Rows of text under a head, as wide as what is in them; what does not fit the terminal is cut, or left out.

import stringWidth from 'string-width'

const GAP = '  '
/** What is left of a column that gives way. */
const LEAST = 6

/** `width`: that of the terminal; without one nothing is cut. The first column names the row and stays whole. */
export function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  width = Number.POSITIVE_INFINITY,
): string {
  const lines = [head, ...rows].map((row) => row.map(printable))
  const widths = fittedWidths(
    head.map((_name, column) => Math.max(...lines.map((row) => stringWidth(row[column]!)))),
    width,
  )
  return lines
    .map((row) => widths.map((most, column) => padded(cut(row[column]!, most), most)).join(GAP))
    .map((line) => `${line.trimEnd()}\n`)
    .join('')
}

/** The widest gives way first; where that is not enough the last columns go. */
function fittedWidths(wanted: readonly number[], width: number): number[] {
  const widths = [...wanted]
  const total = (): number => widths.reduce((sum, one) => sum + one, (widths.length - 1) * GAP.length)
  while (total() > width) {
    const widest = Math.max(...widths.slice(1))
    if (widest <= LEAST) {
      if (widths.length <= 2) break
      widths.pop()
      continue
    }
    widths[widths.lastIndexOf(widest)] = Math.max(
      LEAST,
      widest - Math.max(1, Math.ceil((total() - width) / 8)),
    )
  }
  return widths
}

function padded(cell: string, width: number): string {
  return cell + ' '.repeat(Math.max(0, width - stringWidth(cell)))
}

const signs = new Intl.Segmenter()

/** Some signs are two columns wide. */
function cut(cell: string, width: number): string {
  if (stringWidth(cell) <= width) return cell
  let kept = ''
  let left = width - 1
  for (const { segment } of signs.segment(cell)) {
    left -= stringWidth(segment)
    if (left < 0) break
    kept += segment
  }
  return `${kept}…`
}

/** A reason may hold what a program printed. */
function printable(text: string): string {
  return text.replaceAll(/[\p{C}\p{Zl}\p{Zp}]+/gu, ' ')
}
