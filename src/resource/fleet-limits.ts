// Every limit and default of templates, endpoints and pods. Times in the unit of their field.

export const fleetLimits = {
  nameChars: 191,
  readmeChars: 100_000,
  /** An argument, a path, the name of an image. */
  wordChars: 4_096,
  /** Arguments of one command. */
  words: 256,
  envVariables: 256,
  envBytes: 128_000,
  ports: 32,
  gigabytes: { min: 0, max: 4_000 },
  workers: { min: 0, max: 1_000 },
  /** Seconds that a worker waits for a job before it is stopped. */
  idleTimeoutSeconds: { min: 1, max: 3_600, default: 5 },
  /** QUEUE_DELAY: seconds in line; REQUEST_COUNT: jobs per worker. */
  scalerValue: { min: 1, max: 10_000, default: 4 },
  workersMax: { default: 3 },
  /** The last lines of a pod's log. */
  logTail: { min: 0, max: 100_000 },
  /** A pod that is gone stays readable. */
  terminatedMs: 86_400_000,
  /** Releases that an endpoint remembers. */
  releases: 100,
} as const
