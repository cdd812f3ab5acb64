// What an engine is asked for to make the container of a pod.

import type { ContainerRequest } from './docker-engine.ts'
import { memoryBytes, podEnv, podPorts } from './pod-env.ts'
import type { PodSpec } from './provider.ts'

export interface ContainerPlace {
  /** Which service's pods these are: engines may be shared. */
  owner: string
  /** As docker run has it: bridge, host, none or the name of one. */
  networkMode: string
  /** Where published ports listen. */
  publishAddress: string
  /** The folder on the engine's machine. */
  volume: string
}

export const POD_LABEL = 'longshore.pod'
export const OWNER_LABEL = 'longshore.owner'
const PERIOD_NANO_CPUS = 1e9

export function containerRequest(spec: PodSpec, place: ContainerPlace): ContainerRequest {
  const { pod, command } = spec
  const ports = podPorts(spec).map((port) => `${port}/tcp`)
  const memory = memoryBytes(spec)
  const [entrypoint, words] = command ? [command, []] : [pod.dockerEntrypoint, pod.dockerStartCmd]
  return {
    name: containerName(pod.id),
    Image: pod.image,
    Env: Object.entries(podEnv(spec, pod.volumeMountPath)).map((pair) => pair.join('=')),
    // Left out, they are the image's own.
    ...(entrypoint.length > 0 && { Entrypoint: [...entrypoint] }),
    ...(words.length > 0 && { Cmd: [...words] }),
    Labels: { [POD_LABEL]: pod.id, [OWNER_LABEL]: place.owner },
    ExposedPorts: Object.fromEntries(ports.map((port) => [port, {}])),
    HostConfig: {
      NetworkMode: place.networkMode,
      // Without a number the engine chooses a free one.
      PortBindings: Object.fromEntries(
        ports.map((port) => [port, [{ HostIp: place.publishAddress, HostPort: '' }]]),
      ),
      Binds: [`${place.volume}:${pod.volumeMountPath}`],
      Memory: memory,
      // As much as the memory: no swap.
      MemorySwap: memory,
      NanoCpus: Math.round(pod.vcpuCount * PERIOD_NANO_CPUS),
      // Who is started again, and when, the fleet decides.
      RestartPolicy: { Name: 'no' },
      LogConfig: { Type: 'json-file', Config: { 'max-size': '10m', 'max-file': '3' } },
    },
  }
}

/** An engine leaves out the image's own words for an entrypoint that is not the image's own; `[]` stands for them there too. */
export function withWordsOf(
  image: { command: readonly string[] },
  { command }: PodSpec,
  request: ContainerRequest,
): ContainerRequest {
  const isWhole = command !== undefined || request.Entrypoint === undefined || request.Cmd !== undefined
  return isWhole ? request : { ...request, Cmd: [...image.command] }
}

export function containerName(podId: string): string {
  return `longshore-${podId}`
}
