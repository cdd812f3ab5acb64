// A pod: one running instance, a worker of an endpoint or on its own.

import { z } from 'zod'
import { endpointIdSchema } from '../job/job.ts'
import {
  containerDefaults,
  containerFrom,
  containerShape,
  keptContainerShape,
  resourceIdSchema,
  resourceNameSchema,
} from './container.ts'
import { withDefaults } from './documented.ts'
import { imageNameSchema } from './image-name.ts'
import { gpuSchema, machineSchema, NO_GPU } from './machine.ts'
import { templateSchema, type Template } from './template.ts'

export const desiredStatuses = ['RUNNING', 'EXITED', 'TERMINATED'] as const
export type DesiredStatus = (typeof desiredStatuses)[number]

const podDefaults = { interruptible: false, locked: false } as const
const DEFAULT_NAME = 'my pod'

const FROM_MACHINE = "The machine's where it is left out, and no more than that."

/** What a pod of one's own is made with; the template's where one is named. */
export const newPodSchema = withDefaults(
  z
    .strictObject({
      ...containerShape,
      name: resourceNameSchema,
      imageName: imageNameSchema,
      templateId: resourceIdSchema.meta({
        description: 'What it says is in place of the defaults; without it imageName is required.',
      }),
      interruptible: z.boolean(),
      locked: z.boolean(),
      vcpuCount: z.number().min(0.01).max(1_024).meta({ description: FROM_MACHINE }),
      memoryInGb: z.number().min(0.01).max(65_536).meta({ description: FROM_MACHINE }),
    })
    .partial(),
  { ...containerDefaults, ...podDefaults, name: DEFAULT_NAME },
)
export type NewPod = z.output<typeof newPodSchema>

/** The rest of a pod is what it was started with: another one is made for that. */
export const podUpdateSchema = z.strictObject({ name: resourceNameSchema, locked: z.boolean() }).partial()
export type PodUpdate = z.output<typeof podUpdateSchema>

const networkVolumeSchema = z.object({
  id: z.string(),
  name: z.string(),
  size: z.int(),
  dataCenterId: z.string(),
})

const savingsPlanSchema = z.object({
  costPerHr: z.number(),
  endTime: z.string(),
  gpuTypeId: z.string(),
  id: z.string(),
  podId: z.string(),
  startTime: z.string(),
})

export const podSchema = z.object({
  id: resourceIdSchema,
  name: z.string(),
  ...keptContainerShape,
  image: z.string(),
  adjustedCostPerHr: z.number(),
  costPerHr: z.number(),
  /** `endpointId` under its older name. */
  aiApiId: endpointIdSchema.optional(),
  endpointId: endpointIdSchema.optional(),
  /** The endpoint's version that a worker was made at. */
  slsVersion: z.int().optional(),
  consumerUserId: z.string(),
  cpuFlavorId: z.string(),
  desiredStatus: z.enum(desiredStatuses),
  gpu: gpuSchema,
  interruptible: z.boolean(),
  /** ISO 8601, UTC; none before the first start. */
  lastStartedAt: z.string().optional(),
  lastStatusChange: z.string(),
  locked: z.boolean(),
  machine: machineSchema.optional(),
  machineId: z.string(),
  memoryInGb: z.number(),
  networkVolume: networkVolumeSchema.optional(),
  /** Port within the container to port on the machine; empty until it runs. */
  portMappings: z.record(z.string(), z.int()),
  publicIp: z.string().nullable(),
  savingsPlans: z.array(savingsPlanSchema).optional(),
  template: templateSchema.optional(),
  templateId: resourceIdSchema.optional(),
  vcpuCount: z.number(),
  volumeEncrypted: z.boolean(),
})
export type Pod = z.output<typeof podSchema>

/** As it is kept. Times are epoch ms. */
export const storedPodSchema = podSchema.extend({
  /** The service that runs it. */
  hostId: z.string(),
  createdAt: z.int(),
  /** Where a worker was told to reach the service at its start. */
  queueUrl: z.string().optional(),
  /** Its process began; none before the first start. */
  startedAt: z.int().optional(),
  /** A worker made its first lease poll. */
  readyAt: z.int().optional(),
  /** Why it is to end after the jobs that it has: it gets no others. */
  drain: z.string().optional(),
  /** It is to be ended and started again. */
  isRestartAsked: z.boolean().optional(),
  endedAt: z.int().optional(),
  /** What it died of, where nobody had told it to end. */
  failure: z.string().optional(),
})
export type StoredPod = z.output<typeof storedPodSchema>

/** What stays the same of every pod here: no prices, no accelerators, one user. */
const own = {
  adjustedCostPerHr: 0,
  costPerHr: 0,
  consumerUserId: 'owner',
  cpuFlavorId: '',
  gpu: NO_GPU,
  volumeEncrypted: false,
} as const

/** What is given says more than the template, which says more than the defaults. */
export function podFrom(
  made: NewPod & { image: string },
  from: { id: string; machineId: string; vcpuCount: number; memoryInGb: number; template?: Template },
): Pod {
  const { template, id, machineId } = from
  return {
    ...own,
    ...containerFrom(made, template),
    env: { ...template?.env, ...made.env },
    id,
    machineId,
    name: made.name ?? template?.name ?? DEFAULT_NAME,
    image: made.image,
    ...(template && { templateId: template.id }),
    interruptible: made.interruptible ?? podDefaults.interruptible,
    locked: made.locked ?? podDefaults.locked,
    vcpuCount: made.vcpuCount ?? from.vcpuCount,
    memoryInGb: made.memoryInGb ?? from.memoryInGb,
    desiredStatus: 'RUNNING',
    lastStatusChange: 'created',
    portMappings: {},
    publicIp: null,
  }
}
