// The folder that an image of a worker is built from: the bundled handler, its Dockerfile, and what it takes along.

import {
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from 'node:path'
import type { Bundle } from './bundle/bundle.ts'
import { CommandError } from './fail.ts'
import { isWithin } from './bundle/within.ts'

export interface ImageFolder {
  /** The image that it is built FROM. */
  base: string
  bundle: Bundle
  /** The handler's folder, and the files and folders of it that go along. */
  from: string
  include: readonly string[]
}

/** Writes the folder, which is new or empty. */
export function writeImageFolder(folder: string, { base, bundle, from, include }: ImageFolder): void {
  checkOut(folder)
  if (existsSync(folder) && readdirSync(folder).length > 0)
    throw new CommandError(`The folder ${folder} is not empty. Name another with --out.`)
  const named = [...new Set(include.map((path) => resolve(from, path)))]
  // What is within another comes along with that, where need be by a link.
  const files = named.filter((file) => !named.some((other) => other !== file && isWithin(other, file)))
  for (const file of named) checkIncluded(file, { from, folder })
  for (const link of files.flatMap(linksIn)) checkLink(link, { from, files })
  mkdirSync(folder, { recursive: true })
  for (const file of files) takeAlong(file, join(folder, relative(from, file)))
  const dependencies = Object.fromEntries(bundle.installs)
  const manifest = { private: true, type: bundle.type, dependencies }
  writeFileSync(join(folder, 'Dockerfile'), dockerfile(base, bundle))
  writeFileSync(join(folder, '.dockerignore'), 'Dockerfile\n.dockerignore\n')
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
  writeFileSync(join(folder, 'handler.js'), bundle.code)
  writeFileSync(join(folder, 'handler.js.map'), bundle.sourceMap)
  for (const name of readdirSync(folder)) letEverybodyRead(join(folder, name))
}

/** The worker's user is not the author's, and COPY keeps modes: a umask or a private file would shut it out. */
function letEverybodyRead(path: string): void {
  const stats = lstatSync(path)
  if (stats.isSymbolicLink()) return
  const isOpenable = stats.isDirectory() || (stats.mode & 0o111) !== 0
  chmodSync(path, stats.mode | (isOpenable ? 0o555 : 0o444))
  if (stats.isDirectory()) for (const name of readdirSync(path)) letEverybodyRead(join(path, name))
}

/** What is installed comes first: a changed handler leaves that layer as it is. */
function dockerfile(base: string, { installs, registries }: Bundle): string {
  const packages = [...installs].map(([name, version]) => `${name}@${version}`).join(' ')
  // Without it npm would ask the public registry for these names.
  const secret =
    registries.size > 0
      ? '--mount=type=secret,id=npmrc,uid=1000,required=true NPM_CONFIG_USERCONFIG=/run/secrets/npmrc '
      : ''
  return [
    `ARG BASE=${base}`,
    'FROM $BASE',
    ...(packages === '' ? [] : [`RUN ${secret}npm install ${packages} --cache /tmp/npm && rm -r /tmp/npm`]),
    'COPY . .',
    'CMD ["longshore", "start", "handler.js"]',
    '',
  ].join('\n')
}

/** Throws a CommandError where something that is no folder stands in its way. */
function checkOut(folder: string): void {
  for (const at of stepsOf(sep, resolve(folder).slice(1))) {
    if (lstatSync(at, { throwIfNoEntry: false }) === undefined) return
    if (statSync(at, { throwIfNoEntry: false })?.isDirectory() !== true)
      throw new CommandError(
        `${at} is no folder, so that nothing can be written to ${folder}. Name another with --out.`,
      )
  }
}

const OWN_FILES = ['Dockerfile', '.dockerignore', 'package.json', 'handler.js', 'handler.js.map']

/** Before anything is written. */
function checkIncluded(file: string, { from, folder }: { from: string; folder: string }): void {
  const path = relative(from, file)
  if (lstatSync(file, { throwIfNoEntry: false }) === undefined)
    throw new CommandError(
      `There is no ${file} to include. Check --include: its paths start at the handler's folder.`,
    )
  if (path === '' || !isWithin(from, file))
    throw new CommandError(
      `${file} cannot be included: it is not within the handler's folder ${from}. Move it there.`,
    )
  if (OWN_FILES.includes(path))
    throw new CommandError(`${path} cannot be included: the image has one of its own. Rename yours.`)
  if (isWithin(realPathOf(file), realPathOf(folder)))
    throw new CommandError(
      `--out ${folder} lies within --include ${path}, which would take it along into itself. Name another folder with --out.`,
    )
}

/** A link goes along as it is, and so has to lead to what goes along too. */
function checkLink(link: string, { from, files }: { from: string; files: readonly string[] }): void {
  const target = readlinkSync(link)
  if (!isAbsolute(target) && existsSync(link)) {
    const steps = stepsOfLink(link, { from, target })
    // The handler's folder has another name in the image: a way that leaves it does not lead back.
    const isThere = steps.every(
      (step) => isWithin(from, step) && files.some((file) => isWithin(file, step) || isWithin(step, file)),
    )
    if (isThere && files.some((file) => isWithin(file, steps.at(-1) ?? from))) return
  }
  throw new CommandError(
    `${link} cannot be included: it is a symbolic link to ${target}, which the image would not have. Put the file itself there, or a relative link to one that --include names too.`,
  )
}

/** The folders and files that a path goes through from a folder on, the last one too. */
function stepsOf(folder: string, path: string): string[] {
  const names = path.split('/')
  return names.map((_, index) => resolve(folder, ...names.slice(0, index + 1)))
}

/** The same of a link that leads to something: behind another link on its way, `..` leaves the folder that this leads to. */
function stepsOfLink(link: string, { from, target }: { from: string; target: string }): string[] {
  const root = realPathOf(from)
  const steps: string[] = []
  let at = dirname(link)
  for (const name of target.split('/')) {
    const step = join(at, name)
    steps.push(step)
    const isLink = lstatSync(step, { throwIfNoEntry: false })?.isSymbolicLink() === true
    at = isLink ? join(from, relative(root, realPathOf(step))) : step
  }
  return steps
}

function linksIn(path: string): string[] {
  const stats = lstatSync(path)
  if (stats.isSymbolicLink()) return [path]
  return stats.isDirectory() ? readdirSync(path).flatMap((name) => linksIn(join(path, name))) : []
}

function takeAlong(file: string, to: string): void {
  mkdirSync(dirname(to), { recursive: true })
  cpSync(file, to, { recursive: true, verbatimSymlinks: true })
}

/** Without symbolic links, also of what is yet to be made. Node's own way takes the `..` of a link by its words alone. */
function realPathOf(path: string): string {
  const full = resolve(path)
  return existsSync(full) ? realpathSync.native(full) : join(realPathOf(dirname(full)), basename(full))
}
