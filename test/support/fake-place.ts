// A place of pods that runs none: its machine and what its pods print are made up, what is asked of them is recorded.

import { hostMachine } from '../../src/fleet/providers/host-machine.ts'
import type { PodPlace } from '../../src/fleet/resources/pod-place.ts'
import type { LogOptions } from '../../src/fleet/providers/provider.ts'
import { podFrom, type StoredPod } from '../../src/resource/pod.ts'

export class FakePlace implements PodPlace {
  readonly id = 'here'
  kind: PodPlace['kind'] = 'process'
  allowsFileImages = true
  /** Ids of endpoints with a change, or nothing for a pod of one's own. */
  readonly woken: (string | undefined)[] = []
  /** What each pod prints. */
  readonly printed = new Map<string, (options: LogOptions) => AsyncGenerator<string>>()

  readonly wake = (endpointId?: string): void => {
    this.woken.push(endpointId)
  }

  async machine(): ReturnType<PodPlace['machine']> {
    return hostMachine({
      id: 'machine-1',
      cpuModel: 'Model T',
      threads: 8,
      threadsPerCore: 2,
      memoryBytes: 16e9,
      diskBytes: 250e9,
    })
  }

  logs(podId: string, options: LogOptions): AsyncIterable<string> {
    return this.printed.get(podId)?.(options) ?? nothing()
  }
}

// oxlint-disable-next-line require-yield
async function* nothing(): AsyncGenerator<string> {
  return
}

/** The record of a worker as a scaler writes it and a service that runs it goes on. */
export function workerRecord(id: string, endpointId: string, more: Partial<StoredPod> = {}): StoredPod {
  const size = { id, machineId: 'machine-1', vcpuCount: 8, memoryInGb: 16 }
  return {
    ...podFrom({ name: id, image: 'image:1' }, size),
    endpointId,
    slsVersion: 3,
    hostId: 'here',
    createdAt: 1,
    ...more,
  }
}
