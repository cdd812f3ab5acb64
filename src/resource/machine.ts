// The machine that a pod runs on, in the words of the resource interface.

import { z } from 'zod'

export const gpuSchema = z.object({
  id: z.string(),
  count: z.int(),
  displayName: z.string(),
  securePrice: z.number(),
  communityPrice: z.number(),
  oneMonthPrice: z.number(),
  threeMonthPrice: z.number(),
  sixMonthPrice: z.number(),
  oneWeekPrice: z.number(),
  communitySpotPrice: z.number(),
  secureSpotPrice: z.number(),
})
export type Gpu = z.output<typeof gpuSchema>

/** What a service without accelerators and prices says of them. */
export const NO_GPU: Gpu = {
  id: '',
  count: 0,
  displayName: '',
  securePrice: 0,
  communityPrice: 0,
  oneMonthPrice: 0,
  threeMonthPrice: 0,
  sixMonthPrice: 0,
  oneWeekPrice: 0,
  communitySpotPrice: 0,
  secureSpotPrice: 0,
}

export const machineSchema = z.object({
  minPodGpuCount: z.number(),
  gpuTypeId: z.string(),
  gpuType: gpuSchema,
  cpuCount: z.number(),
  cpuTypeId: z.string(),
  cpuType: z.object({
    id: z.string(),
    displayName: z.string(),
    cores: z.number(),
    threadsPerCore: z.number(),
    groupId: z.string(),
  }),
  location: z.string(),
  dataCenterId: z.string(),
  diskThroughputMBps: z.number(),
  maxDownloadSpeedMbps: z.number(),
  maxUploadSpeedMbps: z.number(),
  supportPublicIp: z.boolean(),
  secureCloud: z.boolean(),
  maintenanceStart: z.string(),
  maintenanceEnd: z.string(),
  maintenanceNote: z.string(),
  note: z.string(),
  costPerHr: z.number(),
  currentPricePerGpu: z.number(),
  gpuAvailable: z.number(),
  gpuDisplayName: z.string(),
})
export type Machine = z.output<typeof machineSchema>
