// Responsible for the OCR example's images: sets page.txt as a book page, then spoils it the way a scanner does.
// Needs the font DejaVu Serif (Debian: fonts-dejavu) and sharp; another font gives another, equally good page.
// Run: node demo/make-page.ts. The noise is seeded, so the same font and sharp give the same images again.
import { readFile, writeFile } from 'node:fs/promises'
import sharp, { type CreateRaw, type OverlayOptions, type Sharp } from 'sharp'

const FOLDER = new URL('../templates/ocr/', import.meta.url)
const DPI = 170
/** Type is set and turned at this many times DPI, then scaled down, so that glyph edges stay smooth. */
const OVERSAMPLE = 2
const FONT = 'DejaVu Serif Condensed'
/** Point size of the running text. */
const BODY_SIZE = 10.5
/** Points by which an em space moves the first line of a paragraph in. */
const INDENT = 0.9 * BODY_SIZE

/** One byte per pixel; 255 is full ink (in a layer) or white (in a picture). */
interface Gray {
  data: Buffer
  width: number
  height: number
}

interface Wear {
  turnDegrees: number
  blurPixels: number
  /** Standard deviation of the sensor noise, in gray levels. */
  noise: number
  specks: number
  /** Share of light lost at the darkest edge, 0 to 1. */
  shadow: number
  /** Share of the mirrored print that shines through from the other side, 0 to 1. */
  showThrough: number
}

const points = (n: number): number => Math.round((n * DPI * OVERSAMPLE) / 72)

async function main(): Promise<void> {
  const text = await readFile(new URL('page.txt', FOLDER), 'utf8')
  const page = await scan(await setPage(text), {
    turnDegrees: 0.85,
    blurPixels: 1.4,
    noise: 8,
    specks: 300,
    shadow: 0.42,
    showThrough: 0.06,
  })
  await writeFile(new URL('page.png', FOLDER), await png(page))

  const lines = ['Right and left, the streets', 'take you waterward.']
  const sample = await scan(await setSample(lines), {
    turnDegrees: 0.4,
    blurPixels: 1,
    noise: 1,
    specks: 4,
    shadow: 0,
    showThrough: 0,
  })
  const input = { input: { pages: [(await png(sample)).toString('base64')] } }
  await writeFile(new URL('test_input.json', FOLDER), `${JSON.stringify(input, null, 2)}\n`)
}

/** Sets a book page: first block centred as the heading, last block as the page number, paragraphs between. */
async function setPage(text: string): Promise<Gray> {
  const blocks = text.trim().split(/\n{2,}/)
  const [heading = '', folio = ''] = [blocks.at(0), blocks.at(-1)]
  const [width, height, measure] = [points(424), points(650), points(318)]
  const paragraphs = blocks.slice(1, -1).map((block) => block.split('\n'))
  const body: string[] = []
  for (const [p, lines] of paragraphs.entries()) {
    for (const [l, line] of lines.entries()) {
      const isLast = l === lines.length - 1
      const indent = p > 0 && l === 0
      const wanted = isLast ? undefined : measure - (indent ? points(INDENT) : 0)
      body.push((indent ? '\u2003' : '') + (await justified(line, wanted)))
    }
  }
  const left = Math.round((width - measure) / 2)
  const centred = async (markup: string, size: number, top: number): Promise<OverlayOptions> => {
    const layer = await setType(markup, size, 'centre')
    return overlay(layer, Math.round((width - layer.width) / 2), top)
  }
  return layers(width, height, [
    await centred(escape(heading), 12.5, points(46)),
    overlay(await setType(body.join('\n'), BODY_SIZE, 'left'), left, points(100)),
    await centred(escape(folio), 9.5, points(618)),
  ])
}

async function setSample(lines: string[]): Promise<Gray> {
  const type = await setType(escape(lines.join('\n')), 11, 'left')
  const margin = points(12)
  return layers(type.width + 2 * margin, type.height + 2 * margin, [overlay(type, margin, margin)])
}

/** Pango markup of one line, its spaces widened so that it is `measure` pixels long if that is given. */
async function justified(line: string, measure?: number): Promise<string> {
  const spaced = (spacing: number): string => {
    const space = spacing === 0 ? ' ' : `<span letter_spacing="${spacing}"> </span>`
    return line.split(' ').map(escape).join(space)
  }
  const widthAt = async (spacing: number): Promise<number> =>
    (await setType(spaced(spacing), BODY_SIZE, 'left')).width
  if (measure === undefined) return spaced(0)
  // Pango gives a lone letter only part of its spacing, so the part is measured rather than reckoned.
  const trial = 4096
  const narrow = await widthAt(0)
  const gained = (await widthAt(trial)) - narrow
  return spaced(Math.max(0, Math.round((trial * (measure - narrow)) / gained)))
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}

async function setType(markup: string, size: number, align: 'left' | 'centre'): Promise<Gray> {
  const text = { text: markup, font: `${FONT} ${size}`, dpi: DPI * OVERSAMPLE, align, spacing: points(2.4) }
  return gray(sharp({ text }).toColourspace('b-w'))
}

function overlay(layer: Gray, left: number, top: number): OverlayOptions {
  return { input: layer.data, raw: shape(layer), left, top }
}

function layers(width: number, height: number, parts: OverlayOptions[]): Promise<Gray> {
  return gray(sharp({ create: { width, height, channels: 3, background: '#000' } }).composite(parts))
}

const shape = ({ width, height }: Gray): CreateRaw => ({ width, height, channels: 1 })

async function gray(image: Sharp): Promise<Gray> {
  const { data, info } = await image.extractChannel(0).raw().toBuffer({ resolveWithObject: true })
  return { data, width: info.width, height: info.height }
}

/** The picture a scanner takes of an ink layer, at DPI. */
async function scan(ink: Gray, wear: Wear): Promise<Gray> {
  const width = Math.round(ink.width / OVERSAMPLE)
  const height = Math.round(ink.height / OVERSAMPLE)
  const turned = await gray(
    sharp(ink.data, { raw: shape(ink) }).rotate(wear.turnDegrees, { background: '#000' }),
  )
  const crop = {
    left: Math.floor((turned.width - ink.width) / 2),
    top: Math.floor((turned.height - ink.height) / 2),
    width: ink.width,
    height: ink.height,
  }
  const straight = sharp(turned.data, { raw: shape(turned) }).extract(crop)
  const [front, back] = await Promise.all([
    gray(straight.clone().blur(wear.blurPixels).resize(width, height)),
    gray(straight.clone().flop().blur(6).resize(width, height)),
  ])

  const random = seeded(1851)
  const inking = clouds(random, width, height, 40)
  const fibre = clouds(random, width, height, 3)
  const light = new Float64Array(width * height)
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const i = y * width + x
      const at = { x: x / width, y: y / height }
      const spine = Math.exp(-at.x / 0.03)
      const corner = (at.x * at.y) ** 2
      const lamp = 1 - wear.shadow * (spine + 0.3 * corner + 0.12 * at.y)
      const paper = 236 + 8 * ((fibre[i] ?? 0) - 0.5)
      const printed = ((front.data[i] ?? 0) / 255) * (0.66 + 0.26 * (inking[i] ?? 0))
      const shining = ((back.data[i] ?? 0) / 255) * wear.showThrough
      light[i] = paper * lamp * (1 - printed) * (1 - shining)
    }
  }
  addSpecks(light, width, height, wear.specks, random)
  // Steps of eight levels: finer ones would only store noise, and noise does not compress.
  const data = Buffer.alloc(light.length)
  for (const [i, value] of light.entries()) {
    data[i] = Math.min(255, Math.max(0, Math.round((value + wear.noise * normal(random)) / 8) * 8))
  }
  return { data, width, height }
}

/** Dust: most specks darken the paper, some leave holes in the print. */
function addSpecks(
  light: Float64Array,
  width: number,
  height: number,
  count: number,
  random: () => number,
): void {
  for (let n = 0; n < count; n++) {
    const [cx, cy, radius] = [random() * width, random() * height, 0.5 + 1.1 * random() ** 3]
    const tone = random() < 0.75 ? 60 + 90 * random() : 225
    for (let y = Math.max(0, Math.floor(cy - 2)); y < Math.min(height, cy + 3); y++) {
      for (let x = Math.max(0, Math.floor(cx - 2)); x < Math.min(width, cx + 3); x++) {
        const cover = Math.min(1, Math.max(0, radius + 0.5 - Math.hypot(x - cx, y - cy)))
        const i = y * width + x
        light[i] = (light[i] ?? 0) * (1 - cover) + tone * cover
      }
    }
  }
}

/** Smooth random field, 0 to 1, whose blobs are about `size` pixels wide. */
function clouds(random: () => number, width: number, height: number, size: number): Float64Array {
  const columns = Math.ceil(width / size) + 2
  const knots = Float64Array.from({ length: columns * (Math.ceil(height / size) + 2) }, random)
  const field = new Float64Array(width * height)
  const ease = (t: number): number => t * t * (3 - 2 * t)
  for (let y = 0; y < height; y++) {
    const row = Math.floor(y / size)
    const v = ease(y / size - row)
    for (let x = 0; x < width; x++) {
      const column = Math.floor(x / size)
      const u = ease(x / size - column)
      const knot = (dx: number, dy: number): number => knots[(row + dy) * columns + column + dx] ?? 0
      const upper = knot(0, 0) * (1 - u) + knot(1, 0) * u
      const lower = knot(0, 1) * (1 - u) + knot(1, 1) * u
      field[y * width + x] = upper * (1 - v) + lower * v
    }
  }
  return field
}

/** Mulberry32: small, and the same on every machine, unlike Math.random. */
function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), state | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}

/** Normal deviate with mean 0 and standard deviation 1 (Box-Muller). */
function normal(random: () => number): number {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
}

function png(picture: Gray): Promise<Buffer> {
  return sharp(picture.data, { raw: shape(picture) })
    .toColourspace('b-w')
    .withDensity(DPI)
    .png({ compressionLevel: 9, adaptiveFiltering: false })
    .toBuffer()
}

await main()
