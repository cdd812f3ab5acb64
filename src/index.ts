// All that a handler author imports.

export {
  chunk,
  defineHandler,
  type AbortReason,
  type HandlerDefinition,
  type HandlerFunction,
  type Job,
  type JobContext,
  type JobLog,
} from './worker/define-handler.ts'
export { joinChunks, type Chunk } from './job/chunk.ts'
