// The whole contract of the jobs from the parts that an engine makes it of.

import type { JobStore } from './job-store.ts'

export interface JobParts {
  client: Pick<JobStore, 'enqueue' | 'cancel' | 'retry' | 'purge' | 'setTtl'>
  worker: Pick<
    JobStore,
    | 'lease'
    | 'start'
    | 'extend'
    | 'extendHeldBy'
    | 'appendChunks'
    | 'setProgress'
    | 'settle'
    | 'release'
    | 'lose'
  >
  reads: Pick<JobStore, 'find' | 'list' | 'readChunks' | 'markRead' | 'count' | 'headWaitedMs' | 'load'>
  sweep: Pick<JobStore, 'sweep'>
}

export function composeJobs({ client, worker, reads, sweep }: JobParts): JobStore {
  return {
    enqueue: (job) => client.enqueue(job),
    cancel: (...ask) => client.cancel(...ask),
    retry: (...ask) => client.retry(...ask),
    purge: (...ask) => client.purge(...ask),
    setTtl: (...ask) => client.setTtl(...ask),
    lease: (ask) => worker.lease(ask),
    start: (...report) => worker.start(...report),
    extend: (...ask) => worker.extend(...ask),
    extendHeldBy: (...ask) => worker.extendHeldBy(...ask),
    appendChunks: (...report) => worker.appendChunks(...report),
    setProgress: (...report) => worker.setProgress(...report),
    settle: (...report) => worker.settle(...report),
    release: (...ask) => worker.release(...ask),
    lose: (...report) => worker.lose(...report),
    find: (...ask) => reads.find(...ask),
    list: (...ask) => reads.list(...ask),
    readChunks: (...ask) => reads.readChunks(...ask),
    markRead: (...ask) => reads.markRead(...ask),
    count: (endpoint) => reads.count(endpoint),
    headWaitedMs: (...ask) => reads.headWaitedMs(...ask),
    load: (...ask) => reads.load(...ask),
    sweep: (...ask) => sweep.sweep(...ask),
  }
}
