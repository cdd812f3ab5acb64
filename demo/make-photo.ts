// Responsible for the thumbnail starter's picture: a drawn landscape, kept lying on its side as phones keep photos.
// Run: node demo/make-photo.ts.
import { fileURLToPath } from 'node:url'
import sharp from 'sharp'

const FILE = fileURLToPath(new URL('../templates/thumbnail/local-bucket/photo.jpg', import.meta.url))
/** Upright. */
const [WIDTH, HEIGHT] = [480, 720]
/** What Exif calls an image that has to be turned right by 90 degrees to be seen upright. */
const ON_ITS_LEFT_SIDE = 6

const landscape = `
  <svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${HEIGHT}" viewBox="0 0 800 1200">
    <defs>
      <linearGradient id="sky" x2="0" y2="1">
        <stop offset="0" stop-color="#2b5c8f"/><stop offset="0.6" stop-color="#f3c98b"/>
      </linearGradient>
      <linearGradient id="sea" x2="0" y2="1">
        <stop offset="0" stop-color="#c98f5e"/><stop offset="1" stop-color="#16324a"/>
      </linearGradient>
    </defs>
    <rect width="800" height="760" fill="url(#sky)"/>
    <circle cx="560" cy="640" r="90" fill="#ffe9b8"/>
    <path d="M0 760 L150 520 L290 680 L420 470 L620 760 Z" fill="#4a5568"/>
    <rect y="750" width="800" height="450" fill="url(#sea)"/>
    <path d="M180 930 h300 l-50 90 h-200 Z" fill="#7a2e2e"/>
    <path d="M320 920 V690 L460 890 H330 Z" fill="#f7f1e3"/>
  </svg>`

await sharp(Buffer.from(landscape))
  .rotate(-90)
  .withMetadata({ orientation: ON_ITS_LEFT_SIDE })
  .jpeg({ quality: 80, mozjpeg: true })
  .toFile(FILE)
