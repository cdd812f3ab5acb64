// What happens in the service that somebody may want to count. Whoever counts decides on the names.

import type { WebhookAttempt } from './webhooks.ts'

export interface Telemetry {
  /** A job was handed to a worker after waiting so long, ms. */
  leased(endpoint: string, waitedMs: number): void
  /** A run was reported over. */
  ran(endpoint: string, outcome: 'completed' | 'failed' | 'timedOut', executionMs: number): void
  webhook(attempt: WebhookAttempt): void
}
