// A provider as the service opens it, for tests and for the program that is killed in one.

import { DockerEngine } from '../../src/fleet/providers/docker-engine.ts'
import { DockerProvider } from '../../src/fleet/providers/docker-provider.ts'
import { ProcessProvider } from '../../src/fleet/providers/process-provider.ts'
import type { Provider } from '../../src/fleet/providers/provider.ts'
import { systemClock } from '../../src/lib/clock.ts'

export type ProviderPlace = { dir: string; logFileBytes: number } & (
  { kind: 'process'; path: string } | { kind: 'docker'; host: string; owner: string }
)

export function openProvider(place: ProviderPlace): Promise<Provider> {
  const onTrouble = (podId: string, error: unknown): void => console.error(`Pod ${podId}:`, error)
  const { dir, logFileBytes } = place
  const common = { dir, clock: systemClock, onTrouble }
  if (place.kind === 'process')
    return ProcessProvider.open({ ...common, logFileBytes, baseEnv: { PATH: place.path }, tickMs: 50 })
  return DockerProvider.open({
    ...common,
    engine: new DockerEngine(place.host),
    owner: place.owner,
    networkMode: 'host',
    publishAddress: '127.0.0.1',
  })
}
