// longshore build: an image with one handler in it.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { findHandlerFile } from '../worker/handler.ts'
import { bundleHandler } from './bundle/bundle.ts'
import { docker } from './docker.ts'
import { CommandError } from './fail.ts'
import { writeImageFolder, type ImageFolder } from './image-folder.ts'

export interface BuildOptions {
  tag?: string
  base: string
  /** Writes the folder there and builds nothing. */
  out?: string
  /** Packages that are installed whatever they are like. */
  install?: string[]
  /** Files and folders beside the handler that the image has too. */
  include?: string[]
}

const BASE = 'longshore-base'

/** `dockerWords` go to `docker build` as they are. */
export async function buildImage(
  handlerPath: string,
  dockerWords: readonly string[],
  { tag, base, out, install = [], include = [] }: BuildOptions,
): Promise<void> {
  checkGiven({ tag, base, out, install, include })
  const file = findHandlerFile(handlerPath)
  if (tag === undefined && out === undefined)
    throw new CommandError(
      'The image has no name. Give it one with --tag <name>, or write what it is built from with --out <dir>.',
    )
  const bundle = await bundleHandler(file, { install, include })
  const image: ImageFolder = { base, bundle, from: dirname(resolve(file)), include }
  say(`Bundled ${handlerPath}: ${Math.ceil(bundle.code.byteLength / 1_000)} kB.`)
  for (const [name, version] of bundle.installs)
    say(`Installed in the image, not bundled: ${name} ${version}.`)
  for (const host of bundle.registries)
    say(
      `Some of these come from ${host}, so that the build needs your .npmrc: -- --secret id=npmrc,src=$HOME/.npmrc.`,
    )
  for (const sentence of bundle.warnings) process.stderr.write(`Warning: ${sentence}\n`)
  if (out !== undefined) {
    writeImageFolder(out, image)
    return say(`Wrote ${out}. Next:\n  docker build -t ${tag ?? 'my-worker'} ${out}`)
  }
  const folder = mkdtempSync(join(tmpdir(), 'longshore-build-'))
  try {
    writeImageFolder(folder, image)
    const code = await docker(['build', '--tag', tag ?? '', ...dockerWords, folder])
    if (code !== 0) throw new CommandError(await explain(code, image))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  say(`Built ${tag}. Next:\n  docker run -e LONGSHORE_ENDPOINT_URL=… -e LONGSHORE_WORKER_TOKEN=… ${tag}`)
}

const WORDS = {
  tag: '<name>',
  base: '<image>',
  out: '<dir>',
  install: '<packages...>',
  include: '<paths...>',
}

/** A script whose variable is not set gives them so. */
function checkGiven(
  given: Partial<Record<keyof typeof WORDS, string | readonly string[] | undefined>>,
): void {
  for (const [name, word] of Object.entries(WORDS)) {
    const value = given[name as keyof typeof WORDS]
    if (value === '' || (typeof value === 'object' && value.includes('')))
      throw new CommandError(`--${name} has an empty value. Write --${name} ${word}, or leave it out.`)
  }
}

const NO_COMPILER =
  ' If npm install failed: the image has no compiler, and a package that has no prebuilt binary for it needs a Dockerfile of yours with a stage that builds it.'

async function explain(code: number, { base, bundle }: ImageFolder): Promise<string> {
  const failed = `docker build ended with exit code ${code}; what it said is above.`
  if ((await docker(['version'], 'ignore')) !== 0)
    return `${failed} The Docker engine does not answer: start it, or set DOCKER_HOST to one.`
  if ((await docker(['image', 'inspect', base], 'ignore')) === 0)
    return `${failed}${bundle.installs.size > 0 ? NO_COMPILER : ''} Look at what it was given with --out <dir>.`
  return base === BASE
    ? `${failed} There is no image ${BASE} here. Make it in a checkout of longshore: docker build -f Dockerfile.base -t ${BASE} .`
    : `${failed} There is no image ${base} here. Check --base.`
}

function say(text: string): void {
  process.stdout.write(`${text}\n`)
}
