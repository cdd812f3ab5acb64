// The files of one pod in the fleet's folder: what it wrote, its volume, and what the next service has to know of it.

import { chmodSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { resourceIdSchema } from '../../resource/container.ts'
import { podExitSchema } from './pod-exit.ts'
import { parseStat, type ProcessIdentity } from './process-identity.ts'

/** Written before the pod is started; no part of its environment is in it. */
const startSchema = z.object({
  startedAt: z.int(),
  bootId: z.string(),
  portMappings: z.record(z.string(), z.int()),
  memoryLimit: z.enum(['kernel', 'none']),
})
export type PodStart = z.output<typeof startSchema>

const endSchema = z.object({ endedAt: z.int(), exit: podExitSchema })
export type PodEnd = z.output<typeof endSchema>

export class PodFolder {
  readonly path: string
  /** Kept over restarts. */
  readonly volume: string
  /** Wiped at each start; where its program begins. */
  readonly disk: string
  /** The pod's own line of /proc/<pid>/stat, by which it is known again. */
  readonly identityFile: string

  /** In the folder of all pods. Nothing is made yet. */
  constructor(pods: string, podId: string) {
    // An id that is a path would remove other folders than its own.
    this.path = join(pods, resourceIdSchema.parse(podId))
    this.volume = join(this.path, 'volume')
    this.disk = join(this.path, 'disk')
    this.identityFile = join(this.path, 'identity')
  }

  /** For a start: the volume as it was, an empty disk, and nothing of the run before but its log. */
  prepare(start: PodStart): void {
    this.makeVolume()
    rmSync(this.disk, { recursive: true, force: true })
    mkdirSync(this.disk, { mode: 0o700 })
    for (const file of [this.identityFile, this.#end, this.#stopping]) rmSync(file, { force: true })
    this.#write(this.#start, start)
  }

  /** Nothing came of it. */
  forgetStart(): void {
    rmSync(this.#start, { force: true })
  }

  makeVolume(): void {
    // Nobody else comes through the outer folder; the inner one is for whichever user a container runs as.
    mkdirSync(this.path, { recursive: true, mode: 0o700 })
    mkdirSync(this.volume, { recursive: true })
    chmodSync(this.volume, 0o777)
  }

  /** It is to end; so that a service which finds it ended knows that it was asked to. */
  markStopping(): void {
    writeFileSync(this.#stopping, '')
  }

  get isStopping(): boolean {
    return read(this.#stopping) !== undefined
  }

  writeEnd(end: PodEnd): void {
    this.#write(this.#end, end)
  }

  readStart(): PodStart | undefined {
    const text = read(this.#start)
    return text === undefined ? undefined : startSchema.parse(JSON.parse(text))
  }

  readEnd(): PodEnd | undefined {
    const text = read(this.#end)
    return text === undefined ? undefined : endSchema.parse(JSON.parse(text))
  }

  /** Undefined when the pod did not come so far. */
  readIdentity(): ProcessIdentity | undefined {
    const stat = parseStat(read(this.identityFile) ?? '')
    return stat && { pid: stat.pid, startTicks: stat.startTicks }
  }

  remove(): void {
    rmSync(this.path, { recursive: true, force: true })
  }

  get #start(): string {
    return join(this.path, 'start.json')
  }

  get #end(): string {
    return join(this.path, 'end.json')
  }

  get #stopping(): string {
    return join(this.path, 'stopping')
  }

  /** Whole or not at all. */
  #write(path: string, value: unknown): void {
    writeFileSync(`${path}.new`, JSON.stringify(value), { mode: 0o600 })
    renameSync(`${path}.new`, path)
  }
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw cause
  }
}
