// Reading the documents: their tables, headings, links and the commands they show.

import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../', import.meta.url))

/** A page of the documentation, by its path from the root of the repository. */
export interface Page {
  path: string
  text: string
}

export function readPage(path: string): Page {
  return { path, text: readFileSync(`${root}${path}`, 'utf8') }
}

/** README.md, docs/*.md and the README of every template. */
export function allPages(): Page[] {
  const docs = readdirSync(`${root}docs`).filter((name) => name.endsWith('.md'))
  const templates = readdirSync(`${root}templates`)
  return [
    'README.md',
    ...docs.map((name) => `docs/${name}`),
    ...templates.map((name) => `templates/${name}/README.md`),
  ].map(readPage)
}

/**
 * The rows of the first table below a heading, without its header; cells as text without backticks.
 * Throws when there is no such heading or table.
 */
export function tableUnder(page: Page, heading: string): string[][] {
  const lines = page.text.split('\n')
  const start = lines.findIndex((line) => /^#+ /.test(line) && line.replace(/^#+ /, '') === heading)
  if (start < 0) throw new Error(`${page.path} has no heading '${heading}'.`)
  const section = lines.slice(start + 1)
  const end = section.findIndex((line) => /^#+ /.test(line))
  const rows: string[][] = []
  for (const line of end < 0 ? section : section.slice(0, end)) {
    if (line.startsWith('|')) rows.push(cellsOf(line))
    else if (rows.length > 0) break
  }
  if (rows.length < 3) throw new Error(`${page.path} has no table under '${heading}'.`)
  return rows.slice(2)
}

function cellsOf(line: string): string[] {
  return line
    .split('|')
    .slice(1, -1)
    .map((cell) => cell.trim().replaceAll('`', ''))
}

/** The anchors that a page offers, formed as GitHub forms them. */
export function anchorsOf(page: Page): Set<string> {
  const anchors = new Set<string>()
  for (const line of withoutCode(page.text).split('\n')) {
    const title = /^#{1,6} (.+)$/.exec(line)?.[1]
    if (title === undefined) continue
    const slug = title
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replaceAll(/\s/g, '-')
    let anchor = slug
    for (let copy = 1; anchors.has(anchor); copy += 1) anchor = `${slug}-${copy}`
    anchors.add(anchor)
  }
  return anchors
}

/** The targets of all links and pictures, code left out. */
export function linksOf(page: Page): string[] {
  const text = withoutCode(page.text).replaceAll(/`[^`\n]*`/g, '')
  return [...text.matchAll(/\]\(([^)\s]+)(?:\s+"[^"]*")?\)/g)].map((match) => match[1] ?? '')
}

function withoutCode(text: string): string {
  return text.replaceAll(/^ *(```+)[^\n]*\n[\s\S]*?^ *\1 *$/gm, '')
}

/** The commands of all blocks marked `sh`, one per line, in their order. */
export function commandsOf(page: Page): string[] {
  const blocks = [...page.text.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map((match) => match[1] ?? '')
  return blocks.flatMap((block) => block.replaceAll('\\\n', ' ').split('\n').filter(Boolean))
}

/** Every `npx longshore …` and every command in code quotes that a page shows, as the words after `longshore`. */
export function shownCommands(page: Page): string[][] {
  const text = page.text.replaceAll('\\\n', ' ')
  return [...text.matchAll(/(?:npx |`)longshore ([a-z][^\n]*)/g)].map((match) => wordsOf(match[1] ?? ''))
}

/** Splits as a shell does, up to the end of the command or of the inline code. Prose has no end mark and is cut short. */
function wordsOf(line: string): string[] {
  const words: string[] = []
  for (const [word] of line.matchAll(/'[^']*'|"[^"]*"|[`|;&>]|[^\s'"`|;&>]+/g)) {
    if (/^[`|;&>]$/.test(word)) break
    words.push(word)
  }
  return words
}
