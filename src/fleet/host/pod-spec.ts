// What a pod is started from: its record, and what only its host knows.

import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { StoredPod } from '../../resource/pod.ts'
import type { StoredRegistryAuth } from '../../resource/registry-auth.ts'
import type { HostSettings } from '../service/host-settings.ts'
import {
  ProviderError,
  type PodSpec,
  type Provider,
  type RegistryCredentials,
} from '../providers/provider.ts'
import { workerEnv } from './worker-env.ts'

export interface PodSpecParts {
  kind: Provider['kind']
  host: Pick<HostSettings, 'url' | 'workerCommand' | 'allowsFileImages' | 'cwd'>
  /** A worker's. */
  token?: string | undefined
  /** Undefined where the record names none, or one that is gone. */
  registryAuth?: StoredRegistryAuth | undefined
  openAuth?: ((sealed: string) => string) | undefined
}

/** Throws a ProviderError where this host runs no such pod. What the service adds to its environment beats what its record has. */
export function podSpec(pod: StoredPod, parts: PodSpecParts): PodSpec {
  const { kind, host, token } = parts
  const command = commandOf(pod, parts)
  const registryAuth = kind === 'docker' ? credentialsOf(pod, parts) : undefined
  const { id: podId, endpointId } = pod
  const own = endpointId && token ? workerEnv({ podId, endpointId, url: host.url(), token }) : {}
  return {
    pod,
    env: { ...pod.env, ...own },
    ...(command && { command }),
    ...(registryAuth && { registryAuth }),
  }
}

/** The worker on the file that its image names; undefined where the record or the image says what to run. */
function commandOf(pod: StoredPod, { kind, host }: PodSpecParts): readonly string[] | undefined {
  if (!pod.image.startsWith('file:')) return undefined
  if (kind === 'docker')
    throw new ProviderError(
      'IMAGE_UNSUPPORTED',
      `Pod ${pod.id} cannot be started: ${pod.image} is a file, and this service runs its pods in Docker. Make an image of it with "longshore build", or run a service whose pods are processes.`,
    )
  if (!host.allowsFileImages)
    throw new ProviderError(
      'IMAGE_UNSUPPORTED',
      `Pod ${pod.id} cannot be started: ${pod.image} is a file of the service's machine, and a service that others can reach runs none. Let it listen on the loopback address, or start it with --allow-file-images.`,
    )
  if (pod.dockerEntrypoint.length + pod.dockerStartCmd.length > 0) return undefined
  return host.workerCommand(fileOf(pod, host.cwd))
}

function fileOf({ id, image }: StoredPod, cwd: string): string {
  if (!image.startsWith('file://')) return resolve(cwd, image.slice('file:'.length))
  try {
    return fileURLToPath(image)
  } catch (cause) {
    throw new ProviderError(
      'IMAGE_UNSUPPORTED',
      `Pod ${id} cannot be started: ${image} is not the URL of a file. Name it as file:/path/handler.ts.`,
      cause,
    )
  }
}

function credentialsOf(pod: StoredPod, parts: PodSpecParts): RegistryCredentials | undefined {
  const { registryAuth, openAuth } = parts
  const authId = pod.containerRegistryAuthId
  if (authId === undefined) return undefined
  const refuse = (problem: string, cause?: unknown): ProviderError =>
    new ProviderError('REGISTRY_REFUSED', `Pod ${pod.id} cannot be started: ${problem}`, cause)
  if (!registryAuth) throw refuse(`its registry auth '${authId}' is gone. Name another one in the template.`)
  if (!openAuth)
    throw refuse(`this service has no secret to open the password of registry auth '${authId}' with.`)
  try {
    return { username: registryAuth.username, password: openAuth(registryAuth.sealedPassword) }
  } catch (cause) {
    throw refuse(
      `the password of registry auth '${authId}' was sealed with another LONGSHORE_SECRET_KEY than this service has. Set that one, or make the registry auth anew.`,
      cause,
    )
  }
}
