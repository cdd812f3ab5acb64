// The environment of a pod, checked before anything is started with it.

import { envSchema } from '../../resource/container.ts'
import { ProviderError, type PodSpec } from './provider.ts'

/** Where the pod finds its volume. */
export const VOLUME_VARIABLE = 'LONGSHORE_VOLUME'

/** The names are told when they are none; values never are. */
export function podEnv(spec: PodSpec, volume: string): Record<string, string> {
  for (const [name, value] of Object.entries(spec.env)) {
    const problem = envSchema.safeParse({ [name]: value }).error?.issues[0]
    if (!problem) continue
    throw new ProviderError(
      'ENV_INVALID',
      `Pod ${spec.pod.id} cannot be started: the variable '${name}' in its env ${problem.code === 'invalid_key' ? 'has no name that a variable can have' : problem.message}.`,
    )
  }
  return { ...spec.env, [VOLUME_VARIABLE]: volume }
}

/** Whichever kind a port is of, it is one of TCP. */
export function podPorts({ pod }: PodSpec): number[] {
  return pod.ports.map((port) => Number.parseInt(port, 10))
}

/** Decimal, as all sizes here. */
export function memoryBytes({ pod }: PodSpec): number {
  return Math.floor(pod.memoryInGb * 1e9)
}
