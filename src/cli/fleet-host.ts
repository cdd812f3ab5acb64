// The place where a service runs pods: its folder, its name there, and the provider.

import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { randomBytes } from 'node:crypto'
import { extname, join, resolve } from 'node:path'
import type { Settled } from '../config/settings.ts'
import type { HostSettings } from '../fleet/service/host-settings.ts'
import { claimFolder, type FolderClaim } from '../fleet/providers/folder-claim.ts'
import { ProviderError, type Provider } from '../fleet/providers/provider.ts'
import { systemClock as clock } from '../lib/clock.ts'

export interface FleetPlace {
  settings: Settled<'serve'>
  /** Of an embedded store. */
  storeFile: string | undefined
  /** Where the service listens, once it does. */
  url: () => string
  onTrouble: (podId: string, error: unknown) => void
}

/** What a worker gets to hand back its jobs in: its own drain time and the grace after it, by default, and a little more. */
const STOP_GRACE_MS = 40_000

/** From the service's own environment; nothing that only it is to know. */
const PASSED_ON =
  /^(PATH|HOME|USER|LOGNAME|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|NODE_EXTRA_CA_CERTS|SSL_CERT_(FILE|DIR)|(https?|no|all)_proxy|(HTTPS?|NO|ALL)_PROXY)$/

/**
 * Nothing is made before the first pod is. Who the service is stands in its folder; two that took it from there would each see to
 * the pods of the other.
 */
export class FleetHost implements HostSettings {
  readonly id: string
  readonly kind: Provider['kind']
  readonly mayHavePods: boolean
  readonly allowsFileImages: boolean
  readonly keepsPods: boolean
  readonly stopGraceMs = STOP_GRACE_MS
  readonly cwd = process.cwd()
  readonly #place: FleetPlace
  readonly #dir: string
  #claim: FolderClaim | undefined

  /** Throws the ProviderError FOLDER_IN_USE where pods were run from its folder before, and another service has it now. */
  constructor(place: FleetPlace) {
    const { settings, storeFile } = place
    this.#place = place
    const beside = storeFile === undefined ? 'longshore.fleet' : `${storeFile}.fleet`
    this.#dir = resolve(settings.fleetDir ?? beside)
    this.mayHavePods = existsSync(this.#nameFile)
    if (this.mayHavePods) this.#claim = claimFolder(this.#dir)
    this.id = this.#readName() ?? randomBytes(8).toString('hex')
    this.kind = settings.provider
    this.allowsFileImages = settings.allowFileImages || isLoopback(settings.host)
    this.keepsPods = settings.keepPods
  }

  url(): string {
    const { settings, url } = this.#place
    if (settings.podUrl !== undefined) return settings.podUrl.replace(/\/$/, '')
    // What listens everywhere is reached here.
    return url().replace(/\/\/(0\.0\.0\.0|\[::\])/, '//127.0.0.1')
  }

  workerCommand(handler: string): string[] {
    const main = join(import.meta.dirname, `main${extname(import.meta.filename)}`)
    return [process.execPath, main, 'start', handler]
  }

  async openProvider(): Promise<Provider> {
    this.#claim ??= this.#claimAs(this.id)
    const { settings, onTrouble } = this.#place
    const common = { dir: this.#dir, clock, onTrouble }
    if (settings.provider === 'process') {
      const { ProcessProvider } = await import('../fleet/providers/process-provider.ts')
      return ProcessProvider.open({ ...common, baseEnv: passedOn(process.env) })
    }
    const [{ DockerProvider }, { DockerEngine }] = await Promise.all([
      import('../fleet/providers/docker-provider.ts'),
      import('../fleet/providers/docker-engine.ts'),
    ])
    return DockerProvider.open({
      ...common,
      engine: new DockerEngine(),
      owner: this.id,
      networkMode: settings.dockerNetwork,
      publishAddress: settings.publishAddress,
    })
  }

  close(): void {
    this.#claim?.release()
    this.#claim = undefined
  }

  /** Another service may have come first, and gone. */
  #claimAs(id: string): FolderClaim {
    const claim = claimFolder(this.#dir)
    try {
      const name = this.#readName()
      if (name === undefined)
        writeFileSync(this.#nameFile, `${id}\n`, { mode: 0o600, flag: 'wx', flush: true })
      else if (name !== id)
        throw new ProviderError(
          'FOLDER_IN_USE',
          `The folder ${this.#dir} has become that of another service, '${name}', since this one was started. Start this one again, or give it a folder of its own with --fleet-dir.`,
        )
      return claim
    } catch (cause) {
      claim.release()
      throw cause
    }
  }

  #readName(): string | undefined {
    return existsSync(this.#nameFile) ? readFileSync(this.#nameFile, 'utf8').trim() : undefined
  }

  get #nameFile(): string {
    return join(this.#dir, 'service')
  }
}

/** Why workers in containers cannot reach this service, as far as its settings tell. */
export function reachProblems({ provider, dockerNetwork, host, podUrl }: Settled<'serve'>): string[] {
  if (provider !== 'docker' || dockerNetwork === 'host') return []
  const place = podUrl === undefined ? host : new URL(podUrl).hostname.replace(/[[\]]/g, '')
  if (!isLoopback(place) && !isEverywhere(place)) return []
  const given = podUrl === undefined ? `--host ${host}` : `--pod-url ${podUrl}`
  return [
    `Containers on the network '${dockerNetwork}' cannot reach this service by ${given}: their loopback address is their own. Set --docker-network host, or --pod-url with an address of this machine that they reach and this service listens on.`,
  ]
}

/** What a service that runs as this user cannot clear away: containers mostly write as root. */
export function volumeProblems({ provider }: Settled<'serve'>, uid = process.getuid?.() ?? 0): string[] {
  if (provider !== 'docker' || uid === 0) return []
  return [
    `This service runs as user ${uid}, not as root: files that containers write as other users into folders of their volumes stay on the disk when their pods are removed, and each is told then. Run the service as root, or let the containers run as user ${uid}; nothing stays either where the engine itself runs as this user.`,
  ]
}

function passedOn(env: NodeJS.ProcessEnv): Record<string, string> {
  const pairs = Object.entries(env).filter(
    (pair): pair is [string, string] => pair[1] !== undefined && PASSED_ON.test(pair[0]),
  )
  return Object.fromEntries(pairs)
}

/** Nobody but this machine can ask a service that listens there. */
function isLoopback(host: string): boolean {
  return /^(127\.\d+\.\d+\.\d+|::1|localhost)$/.test(host)
}

function isEverywhere(host: string): boolean {
  return host === '0.0.0.0' || host === '::'
}
