// All that a handler author imports.

export {
  chunk,
  defineHandler,
  spill,
  type AbortReason,
  type HandlerDefinition,
  type HandlerFunction,
  type Job,
  type JobContext,
  type JobLog,
  type SpillOptions,
} from './worker/define-handler.ts'
export { defineConfig, type LongshoreConfig } from './config/define-config.ts'
export { joinChunks, type Chunk } from './job/chunk.ts'
export { s3From } from './s3/s3-from.ts'
export { S3Error, type S3FailureCode } from './s3/s3-error.ts'
export type {
  Downloaded,
  DownloadOptions,
  ExtractOptions,
  S3,
  S3Options,
  UploadBody,
  UploadDirectoryOptions,
  Uploaded,
  UploadFileOptions,
  UploadOptions,
} from './s3/s3.ts'
