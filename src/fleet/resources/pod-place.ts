// What the verbs of pods ask of the service that runs them.

import type { HostMachine, LogOptions, Provider } from '../providers/provider.ts'

export interface PodPlace {
  /** Which service this is: it runs the pods whose `hostId` is this. */
  id: string
  /** What its pods are. */
  kind: Provider['kind']
  /** Whether `file:` images may be run: whoever may name one runs any code on this machine. */
  allowsFileImages: boolean
  machine(): Promise<HostMachine>
  /** What a pod printed, line by line; nothing of one that is not known here. Ends early once the signal aborts. */
  logs(podId: string, options: LogOptions): AsyncIterable<string>
}
