// The contract of what the fleet keeps: records of a few kinds, each with a revision, and who does what for all servers.

import { z } from 'zod'
import { endpointResourceSchema, type EndpointResource } from '../resource/endpoint.ts'
import { storedPodSchema, type StoredPod } from '../resource/pod.ts'
import { storedRegistryAuthSchema, type StoredRegistryAuth } from '../resource/registry-auth.ts'
import { releaseSchema, type Release } from '../resource/release.ts'
import { storedScalingSchema, type StoredScaling } from '../resource/scaling.ts'
import { templateSchema, type Template } from '../resource/template.ts'

/** A record and how often it was replaced. */
export interface Stored<T> {
  value: T
  revision: number
}

/** Records of one kind. Each verb is atomic and durable when its promise resolves. Other servers may change a record at any time. */
export interface Records<T extends { id: string }> {
  /** False when its id is taken, or its name where names of the kind are unique. */
  add(value: T): Promise<boolean>
  find(id: string): Promise<Stored<T> | undefined>
  /** In order of their ids. */
  list(): Promise<Stored<T>[]>
  /** `changed`: it is gone, or was replaced since it had that revision. `taken`: its new name is another's. */
  replace(value: T, revision: number): Promise<'replaced' | 'changed' | 'taken'>
  /** False when there was none. */
  remove(id: string): Promise<boolean>
}

export interface FleetStore {
  readonly templates: Records<Template>
  readonly endpoints: Records<EndpointResource>
  /** Those that are to run, or may be started again. */
  readonly pods: Records<StoredPod>
  /** Those that are gone, for as long as they can be read. */
  readonly endedPods: Records<StoredPod>
  readonly releases: Records<Release>
  readonly scalings: Records<StoredScaling>
  readonly registryAuths: Records<StoredRegistryAuth>
  /**
   * Whether `holder` may do this until `now + forMs`: true for the one that has it, and for the first to ask once that time
   * has passed. Whoever dies with it holds up the others no longer.
   */
  hold(duty: string, ask: { holder: string; forMs: number; now: number }): Promise<boolean>
  /** Gives it back before its time. */
  letGo(duty: string, holder: string): Promise<void>
}

/** What an engine needs to know of each kind. */
export const recordKinds = {
  templates: { schema: templateSchema, hasUniqueNames: true },
  endpoints: { schema: endpointResourceSchema, hasUniqueNames: false },
  pods: { schema: storedPodSchema, hasUniqueNames: false },
  endedPods: { schema: storedPodSchema, hasUniqueNames: false },
  releases: { schema: releaseSchema, hasUniqueNames: false },
  scalings: { schema: storedScalingSchema, hasUniqueNames: false },
  registryAuths: { schema: storedRegistryAuthSchema, hasUniqueNames: true },
} as const satisfies Record<string, { schema: z.ZodType; hasUniqueNames: boolean }>

export type RecordKind = keyof typeof recordKinds
