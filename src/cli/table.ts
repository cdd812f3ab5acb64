// Rows of text under a head, as wide as what is in them; what does not fit the terminal is cut.

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
    head.map((_name, column) => Math.max(...lines.map((row) => row[column]!.length))),
    width,
  )
  return lines
    .map((row) => row.map((cell, column) => cut(cell, widths[column]!).padEnd(widths[column]!)).join(GAP))
    .map((line) => `${line.trimEnd()}\n`)
    .join('')
}

/** The widest gives way first. */
function fittedWidths(wanted: readonly number[], width: number): number[] {
  const widths = [...wanted]
  const total = (): number => widths.reduce((sum, one) => sum + one, (widths.length - 1) * GAP.length)
  while (total() > width) {
    const widest = Math.max(...widths.slice(1))
    if (widest <= LEAST) break
    widths[widths.lastIndexOf(widest)] = Math.max(
      LEAST,
      widest - Math.max(1, Math.ceil((total() - width) / 8)),
    )
  }
  return widths
}

function cut(cell: string, width: number): string {
  return cell.length > width ? `${cell.slice(0, width - 1)}…` : cell
}

/** A reason may hold what a program printed. */
function printable(text: string): string {
  return text.replaceAll(/[\p{C}\p{Zl}\p{Zp}]+/gu, ' ')
}
