// The fleet of a service over one store: templates, endpoints, their releases, pods and registry auths, and what keeps them going.

import type { Clock } from '../lib/clock.ts'
import type { Store } from '../store/store.ts'
import { FleetController } from './controller.ts'
import { EndpointScaler } from './scaling/endpoint-scaler.ts'
import { Endpoints } from './resources/endpoints.ts'
import type { FleetLog, HostSettings } from './service/host-settings.ts'
import { PodHost } from './host/pod-host.ts'
import type { PodPlace } from './resources/pod-place.ts'
import { Pods } from './resources/pods.ts'
import { RegistryAuths, type Seal } from './resources/registry-auths.ts'
import { Releases } from './resources/releases.ts'
import { StoreContact } from './service/store-contact.ts'
import { Templates } from './resources/templates.ts'
import { WorkerTokens } from './service/worker-token.ts'
import type { Workforce } from './service/workforce.ts'

export interface FleetOptions {
  store: Store
  clock: Clock
  log: FleetLog
  workforce: Workforce
  /** Where pods are run; without it records are kept, and no pod is made here. */
  host?: HostSettings
  /** In place of a host: somebody else runs the pods of this service. */
  place?: PodPlace
  /** Told of each record that was changed and is to be carried out: of an endpoint's, or of pods of one's own. */
  wake?: (endpointId?: string) => void
  /** Without it no registry auth is taken. */
  seal?: Seal
}

export class Fleet {
  readonly templates: Templates
  readonly endpoints: Endpoints
  readonly releases: Releases
  readonly pods: Pods
  readonly registryAuths: RegistryAuths
  readonly #stopping = new AbortController()
  readonly #log: FleetLog
  readonly #podHost: PodHost | undefined
  readonly #controller: FleetController | undefined

  constructor(options: FleetOptions) {
    const { store, clock, host, seal, wake: tell } = options
    this.#log = options.log
    const { fleet, endpoints: queues } = store
    const wake = (endpointId?: string): void => {
      this.#controller?.wake(endpointId)
      tell?.(endpointId)
    }
    this.#podHost = host && podHostOf({ ...options, host }, () => this.#controller?.wake())
    const podPlace = host && this.#podHost ? placeOf(host, this.#podHost) : options.place
    const place = podPlace && { host: podPlace }
    const stopping = this.#stopping.signal
    this.releases = new Releases({ store: fleet, clock, wake })
    this.templates = new Templates({ store: fleet, releases: this.releases, clock, ...place })
    this.pods = new Pods({ store: fleet, clock, wake, stopping, ...place })
    const { releases, pods } = this
    this.endpoints = new Endpoints({ store: fleet, queues, releases, pods, clock, wake })
    this.registryAuths = new RegistryAuths({ store: fleet, ...(seal && { seal }) })
    if (host && this.#podHost) this.#controller = this.#controllerOf(options, host, this.#podHost)
  }

  /**
   * Finds the pods of an earlier service, and has endpoints scaled from now on. To be called once the service can be reached. A
   * store that fails is logged and asked again: a service that answers is not ended by it.
   */
  async start(): Promise<void> {
    try {
      await this.#podHost?.open()
    } catch (err) {
      this.#log.error({ err }, 'finding the pods failed; the next tick tries again')
    }
    this.#controller?.start()
  }

  /** While workers are still answered: nothing is started any more, and pods are ended or left, as the host says. */
  async close(): Promise<void> {
    this.#stopping.abort()
    await this.#controller?.close()
    await this.#podHost?.close()
  }

  #controllerOf(options: FleetOptions, host: HostSettings, podHost: PodHost): FleetController {
    const { store, clock, log, workforce } = options
    const { releases } = this
    const contact = new StoreContact(clock)
    const tokens = new WorkerTokens({ keys: store.keys, clock })
    return new FleetController({
      contact,
      tokens,
      store,
      clock,
      log,
      hostId: host.id,
      podHost,
      makeScaler: (endpointId, { onOrder }) =>
        new EndpointScaler({
          endpointId,
          store: store.fleet,
          releases,
          workforce,
          clock,
          log,
          hostId: host.id,
          contact,
          tokens,
          machine: () => podHost.machine(),
          random: Math.random,
          onOrder,
        }),
    })
  }
}

function podHostOf(options: FleetOptions & { host: HostSettings }, onChange: () => void): PodHost {
  const { store, clock, log, workforce, host, seal } = options
  const openAuth = seal && ((sealed: string) => seal.open(sealed))
  return new PodHost({ store, clock, log, workforce, host, openAuth, onChange })
}

function placeOf({ id, kind, allowsFileImages }: HostSettings, podHost: PodHost): PodPlace {
  return {
    id,
    kind,
    allowsFileImages,
    machine: () => podHost.machine(),
    logs: podHost.logs.bind(podHost),
  }
}
