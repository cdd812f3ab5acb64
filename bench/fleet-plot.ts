// A plot of two curves over the same minutes, as SVG: workers above, queue delay below.

export interface Point {
  x: number
  y: number
}

const WIDTH = 720
const PANEL = 130
const LEFT = 56
const TOP = 34
const GAP = 34
/** Points across: more than these would only make the file larger. */
const ACROSS = 240

/** `marks`: minutes at which a release began. */
export function drawPlot(
  title: string,
  { workers, delay, marks }: { workers: Point[]; delay: Point[]; marks: number[] },
): string {
  const most = Math.max(1, ...[...workers, ...delay].map(({ x }) => x))
  const height = TOP + 2 * PANEL + GAP + 30
  const lower = TOP + PANEL + GAP
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="sans-serif" font-size="11">`,
    `<title>${title}</title>`,
    `<rect width="${WIDTH}" height="${height}" fill="#fff"/>`,
    `<text x="${LEFT}" y="16" font-size="13">${title}</text>`,
    panel('workers', workers, { top: TOP, most, colour: '#1f6feb', marks }),
    panel('queue delay, p99 of 10 s, in seconds', delay, { top: lower, most, colour: '#cf222e', marks }),
    ...[0, 0.25, 0.5, 0.75, 1].map(
      (share) =>
        `<text x="${place(share * most, most)}" y="${height - 8}" text-anchor="${share < 1 ? 'middle' : 'end'}">${Math.round(share * most)} min</text>`,
    ),
    '</svg>\n',
  ].join('\n')
}

function panel(
  name: string,
  points: Point[],
  { top, most, colour, marks }: { top: number; most: number; colour: string; marks: number[] },
): string {
  const high = Math.max(1, ...points.map(({ y }) => y))
  const foot = top + PANEL
  const path = thinned(points, most)
    .map(({ x, y }) => `${place(x, most)},${round(foot - (y / high) * (PANEL - 12))}`)
    .join(' ')
  return [
    `<path d="M${LEFT} ${top}V${foot}H${WIDTH - 20}" fill="none" stroke="#57606a"/>`,
    `<text x="${LEFT - 6}" y="${foot}" text-anchor="end">0</text>`,
    `<text x="${LEFT - 6}" y="${top + 16}" text-anchor="end">${round(high)}</text>`,
    ...marks.map(
      (at) =>
        `<path d="M${place(at, most)} ${top}V${foot}" stroke="#8c959f" stroke-dasharray="3 3"/><text x="${place(at, most) + 3}" y="${foot - 4}" fill="#57606a">update</text>`,
    ),
    `<polyline points="${path}" fill="none" stroke="${colour}" stroke-width="1.5"/>`,
    `<text x="${LEFT + 6}" y="${top + 4}" fill="${colour}">${name}</text>`,
  ].join('\n')
}

/** The highest of each stretch, so that no peak is lost. */
function thinned(points: Point[], most: number): Point[] {
  const stretches = new Map<number, Point>()
  for (const point of points) {
    const stretch = Math.floor((point.x / most) * ACROSS)
    const highest = stretches.get(stretch)
    if (!highest || point.y > highest.y) stretches.set(stretch, point)
  }
  return [...stretches.values()].toSorted((a, b) => a.x - b.x)
}

function place(x: number, most: number): number {
  return round(LEFT + (x / most) * (WIDTH - 20 - LEFT))
}

function round(value: number): number {
  return Math.round(value * 10) / 10
}
