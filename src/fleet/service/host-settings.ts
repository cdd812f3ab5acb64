// What a service that runs pods has to know of its place. Without it the fleet keeps records and starts nothing.

import type { Provider } from '../providers/provider.ts'

export interface HostSettings {
  /** Which service this is: the same after a restart, and no other's. */
  id: string
  /** What its pods are. */
  kind: Provider['kind']
  /** Called at the first pod, and at a start that finds pods of an earlier one. */
  openProvider(): Promise<Provider>
  /** Whether an earlier service may have left pods: then the provider is opened at once. */
  mayHavePods: boolean
  /** Where pods reach this service, `http://host:port`. */
  url(): string
  /** The words that run a worker on a handler file. */
  workerCommand(handler: string): readonly string[]
  /** Whether `file:` images may be run: whoever may name one runs any code on this machine. */
  allowsFileImages: boolean
  /** What relative `file:` images are relative to. */
  cwd: string
  /** Whether pods go on when the service stops. */
  keepsPods: boolean
  /** What a pod gets to end in, ms. A worker hands its jobs back within it. */
  stopGraceMs: number
}

export interface FleetLog {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}
