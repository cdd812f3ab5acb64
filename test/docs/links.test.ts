import { existsSync } from 'node:fs'
import { dirname, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { allPages, anchorsOf, linksOf } from './markdown.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const pages = new Map(allPages().map((page) => [page.path, page]))

describe.each([...pages.values()])('$path', (page) => {
  const links = linksOf(page).filter((link) => !/^[a-z]+:/.test(link))

  it('links only to files that exist', () => {
    const broken = links.filter((link) => !existsSync(`${root}${targetOf(link, page.path)}`))
    expect(broken).toEqual([])
  })

  it('links only to headings that exist', () => {
    const broken = links.filter((link) => {
      const anchor = link.split('#')[1]
      if (anchor === undefined) return false
      const target = pages.get(targetOf(link, page.path))
      return !target || !anchorsOf(target).has(anchor)
    })
    expect(broken).toEqual([])
  })
})

describe('the page of a template', () => {
  const starters = [...pages.values()].filter(({ path }) => path.startsWith('templates/'))

  it.each(starters)('$path links to nothing outside the folder that init copies', (page) => {
    const links = linksOf(page).filter((link) => !/^[a-z]+:/.test(link))
    const folder = `${dirname(page.path)}/`
    expect(links.filter((link) => !targetOf(link, page.path).startsWith(folder))).toEqual([])
  })
})

describe('the documentation', () => {
  it('has no page that README.md does not link to', () => {
    const readme = pages.get('README.md')
    const linked = new Set(readme && linksOf(readme).map((link) => targetOf(link, readme.path)))
    expect([...pages.keys()].filter((path) => path !== 'README.md' && !linked.has(path))).toEqual([])
  })
})

/** The file a link means, by its path from the root. */
function targetOf(link: string, from: string): string {
  const file = link.split('#')[0] ?? ''
  return file === '' ? from : posix.normalize(posix.join(dirname(from), file))
}
