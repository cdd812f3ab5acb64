// This machine in the words of the resource interface: what can be read is read, the rest is 0 or empty.

import { readFileSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { availableParallelism, cpus, hostname, totalmem } from 'node:os'
import { NO_GPU } from '../../resource/machine.ts'
import type { HostMachine } from './provider.ts'

/** With the disk that this folder is on. */
export async function readHostMachine(dir: string): Promise<HostMachine> {
  const { blocks, bsize } = await statfs(dir)
  return hostMachine({
    id: hostname(),
    cpuModel: cpus()[0]?.model.trim() ?? '',
    threads: availableParallelism(),
    threadsPerCore: readThreadsPerCore(),
    memoryBytes: totalmem(),
    diskBytes: blocks * bsize,
  })
}

export interface HostReading {
  id: string
  cpuModel: string
  threads: number
  threadsPerCore: number
  memoryBytes: number
  diskBytes: number
}

export function hostMachine(read: HostReading): HostMachine {
  const memoryInGb = Math.floor(read.memoryBytes / 1e7) / 100
  return {
    id: read.id,
    vcpuCount: read.threads,
    memoryInGb,
    diskBytes: read.diskBytes,
    machine: {
      minPodGpuCount: 0,
      gpuTypeId: '',
      gpuType: NO_GPU,
      cpuCount: read.threads,
      cpuTypeId: read.cpuModel,
      cpuType: {
        id: read.cpuModel,
        displayName: read.cpuModel,
        cores: Math.max(1, Math.round(read.threads / read.threadsPerCore)),
        threadsPerCore: read.threadsPerCore,
        groupId: process.arch,
      },
      location: '',
      dataCenterId: '',
      diskThroughputMBps: 0,
      maxDownloadSpeedMbps: 0,
      maxUploadSpeedMbps: 0,
      supportPublicIp: false,
      secureCloud: false,
      maintenanceStart: '',
      maintenanceEnd: '',
      maintenanceNote: '',
      note: `${memoryInGb} GB of memory, a disk of ${Math.round(read.diskBytes / 1e9)} GB`,
      costPerHr: 0,
      currentPricePerGpu: 0,
      gpuAvailable: 0,
      gpuDisplayName: '',
    },
  }
}

/** 1 where the kernel does not say. */
function readThreadsPerCore(): number {
  try {
    const text = readFileSync('/proc/cpuinfo', 'utf8')
    const siblings = Number(/^siblings\s*: (\d+)$/m.exec(text)?.[1])
    const cores = Number(/^cpu cores\s*: (\d+)$/m.exec(text)?.[1])
    return siblings >= cores ? Math.round(siblings / cores) : 1
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return 1
    throw cause
  }
}
