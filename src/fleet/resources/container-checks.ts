// What a container names and has to be there, or has to be allowed, before anything is made from it.

import { Refusal } from '../../protocol/errors.ts'
import { envSchema, type Container } from '../../resource/container.ts'
import type { FleetStore } from '../../store/fleet-store.ts'
import type { PodPlace } from './pod-place.ts'

export async function checkRegistryAuth(store: FleetStore, id: string | null | undefined): Promise<void> {
  if (!id || (await store.registryAuths.find(id))) return
  throw new Refusal('FIELD_INVALID', {
    field: 'containerRegistryAuthId',
    problem: `must be the id of a registry auth, got '${id}'`,
  })
}

/** What a pod or an endpoint adds to its template has to fit together with it. */
export function checkEnv(
  base: Container['env'] | undefined,
  own: Container['env'] | undefined,
  whose: string,
): void {
  const issue = envSchema.safeParse({ ...base, ...own }).error?.issues[0]
  if (!issue) return
  throw new Refusal('FIELD_INVALID', { field: 'env', problem: `${issue.message} together with ${whose}` })
}

/** Where nothing is run, no image is anybody's danger. */
export function checkImage(host: PodPlace | undefined, image: string | undefined): void {
  if (!host || !image?.startsWith('file:')) return
  if (host.kind === 'docker')
    throw new Refusal('FIELD_INVALID', {
      field: 'imageName',
      problem: `must be the name of an image: this service runs its pods in Docker, which runs no files, got '${image}'`,
    })
  if (host.allowsFileImages) return
  throw new Refusal('FIELD_INVALID', {
    field: 'imageName',
    problem: `must be the name of an image: this service runs no files of its machine, got '${image}'`,
  })
}
