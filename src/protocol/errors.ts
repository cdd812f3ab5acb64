// The error catalogue: every refusal a server answers and every code a failed job can carry.

/** What a text fills in; never a job's input, never a secret. */
export type RefusalParams = Readonly<Record<string, string | number | undefined>>

interface RefusalEntry {
  readonly status: number
  /** When it is answered, for the documents. */
  readonly when: string
  readonly text: (p: RefusalParams) => string
}

/** What a caller did that cannot be done. The code is the promise; the text may improve. */
export const refusals = {
  FIELD_INVALID: {
    status: 400,
    when: 'A field of the body, the query or the path is missing, of the wrong type or out of range.',
    text: (p) => `${p['field']} ${p['problem']}.`,
  },
  BODY_NOT_JSON: {
    status: 400,
    when: 'The body is not one JSON document in UTF-8, or is nested too deep.',
    text: (p) => `The body cannot be read as JSON: ${p['problem']}. Send one JSON object in UTF-8.`,
  },
  UNAUTHORIZED: {
    status: 401,
    when: 'No key, one that this service does not know, or one that may not do this.',
    text: (p) => `${p['problem']} Send "Authorization: Bearer <key>" with a key that may do this.`,
  },
  ROUTE_NOT_FOUND: {
    status: 404,
    when: 'The path or the method is not part of the interface.',
    text: (p) =>
      `There is no ${p['method']} ${p['path']} here. See /v2/{endpointId}/run and its neighbours in docs/http-api.md.`,
  },
  ENDPOINT_NOT_FOUND: {
    status: 404,
    when: 'No endpoint has this id.',
    text: (p) =>
      `There is no endpoint '${p['endpoint']}'. Start the service with --endpoint ${p['endpoint']}, or check the id.`,
  },
  JOB_NOT_FOUND: {
    status: 404,
    when: 'The endpoint has no job of this id, or it was deleted at its ttl or after its retention.',
    text: (p) =>
      `Endpoint '${p['endpoint']}' has no job '${p['id']}'. It never existed, or its ttl or retention has passed.`,
  },
  RESOURCE_NOT_FOUND: {
    status: 404,
    when: 'No template, endpoint, pod or registry auth has this id.',
    text: (p) => `There is no ${p['kind']} '${p['id']}'. List them with GET /v1/${p['path']}.`,
  },
  NAME_TAKEN: {
    status: 400,
    when: 'A name that has to be unique, and is that of another template or registry auth.',
    text: (p) => `name must be unique, got '${p['name']}', which is the name of another ${p['kind']}.`,
  },
  RESOURCE_IN_USE: {
    status: 409,
    when: 'A template, registry auth or endpoint is to be deleted that others are made from.',
    text: (p) =>
      `The ${p['kind']} '${p['id']}' is in use by ${p['users']}. Delete these first, or have them use another.`,
  },
  POD_IS_WORKER: {
    status: 409,
    when: 'A worker of an endpoint is to be started, stopped or locked: its endpoint decides on that.',
    text: (p) =>
      `Pod '${p['id']}' is a worker of endpoint '${p['endpoint']}', which decides when it runs. Set workersMin and workersMax of the endpoint instead.`,
  },
  POD_LOCKED: {
    status: 409,
    when: 'A locked pod is to be stopped, restarted, reset or deleted.',
    text: (p) => `Pod '${p['id']}' is locked and runs on. Set its locked to false first.`,
  },
  POD_TERMINATED: {
    status: 409,
    when: 'A pod that is gone, but can be read still, is to be changed or started.',
    text: (p) => `Pod '${p['id']}' is TERMINATED and does not come back. Make another one.`,
  },
  ENDPOINT_HALF_DELETED: {
    status: 409,
    when: 'An endpoint is to be updated whose delete broke off.',
    text: (p) => `Endpoint '${p['id']}' was deleted, which broke off: its queue is gone. Delete it again.`,
  },
  POD_ELSEWHERE: {
    status: 409,
    when: 'The log of a pod is asked for that another service on the same store runs.',
    text: (p) => `Pod '${p['id']}' is of the service '${p['host']}', which has its log. Ask there.`,
  },
  WRONG_STATUS: {
    status: 409,
    when: 'A retry of a job that did not fail or time out.',
    text: (p) => `Job ${p['id']} is ${p['status']}; only FAILED or TIMED_OUT jobs can be retried.`,
  },
  TTL_PASSED: {
    status: 409,
    when: 'A retry of a job whose ttl has passed since it was submitted; queued again it would be deleted at once.',
    text: (p) =>
      `The ttl of job ${p['id']} has passed, and a retry does not restart it. Submit the input as a new job.`,
  },
  IDEMPOTENCY_CONFLICT: {
    status: 409,
    when: 'An Idempotency-Key that stands for another body already.',
    text: (p) =>
      `Idempotency-Key '${p['key']}' belongs to job ${p['id']}, which was submitted with another body. Use a new key.`,
  },
  BODY_TOO_LARGE: {
    status: 413,
    when: 'The body is over the limit of its operation.',
    text: (p) =>
      `The body is ${p['bytes'] === undefined ? 'larger' : `${p['bytes']} bytes, more`} than the ${p['limit']} bytes that ${p['operation']} takes. Pass large data by reference, for example through s3Config.`,
  },
  REQUEST_INVALID: {
    status: 400,
    when: 'The request cannot be read as HTTP for this service (a broken header, length or encoding).',
    text: (p) => `The request cannot be read: ${p['problem']}.`,
  },
  EXCHANGE_INVALID: {
    status: 400,
    when: 'A worker sent an exchange that does not fit its schema.',
    text: (p) =>
      `The exchange cannot be read: ${p['problem']}. Run the same version of longshore on both sides.`,
  },
  TOO_MANY_REQUESTS: {
    status: 429,
    when: 'The key asks more often for this, or for more of it at a time, than its rate allows.',
    text: (p) =>
      `${p['operation']} takes ${p['limit']} requests ${p['per']} from one key and endpoint, and this is one more. Try again in ${p['retryAfter']} s, and wait longer after each further try.`,
  },
  STORE_FULL: {
    status: 503,
    when: 'The disk or the quota of the store is full. Nothing was accepted; reads go on.',
    text: () => 'The store is full, so nothing was accepted. Free disk space and send the request again.',
  },
  STORE_UNAVAILABLE: {
    status: 503,
    when: 'The store cannot be reached, is closing, or has not confirmed in time what was asked; that may have happened.',
    text: () =>
      'The store is not available, or has not confirmed in time what was asked. Send the request again later, a submission with the Idempotency-Key that it had.',
  },
  SECRET_KEY_MISSING: {
    status: 503,
    when: 'A submission with an s3Config, or a registry auth, at a service that has no secret to seal it with.',
    text: (p) =>
      `The service has no secret to seal ${p['field']} with, so nothing was accepted. Start it with LONGSHORE_SECRET_KEY, the same on every server of the store.`,
  },
  NO_POD_HOST: {
    status: 503,
    when: 'A pod is to be made at a service that runs none.',
    text: () =>
      'This service runs no pods, so none was made. Ask a service on the same store that does, or have this one run them.',
  },
  PODS_UNREACHABLE: {
    status: 503,
    when: 'What runs the pods of this service, a Docker engine for instance, does not answer or refuses.',
    text: (p) => `${p['problem']}`,
  },
  INTERNAL: {
    status: 500,
    when: 'A fault of the service itself; its log has the details under the same request id.',
    text: (p) => `The service failed to answer request ${p['requestId']}. Its log says why under this id.`,
  },
} as const satisfies Record<string, RefusalEntry>

export type RefusalCode = keyof typeof refusals

/** The caller's fault. Becomes a reply only in the server's error handler. */
export class Refusal extends Error {
  readonly code: RefusalCode
  readonly status: number

  constructor(code: RefusalCode, params: RefusalParams = {}) {
    super(refusals[code].text(params))
    this.name = 'Refusal'
    this.code = code
    this.status = refusals[code].status
  }
}

/** Why a worker could not begin: the code of its last words before it exits with 1. */
export const startFailures = {
  HANDLER_NOT_FOUND: 'There is no handler file at the path given.',
  HANDLER_NOT_EXPORTED: 'The handler file exports no handler.',
  DEFINITION_INVALID: "A field of the handler's definition is of a type that it cannot be.",
  HANDLER_IMPORT_FAILED:
    'Importing the handler file threw: a syntax error, a missing package, a fault in its top level.',
  SETUP_FAILED: "The handler's setup() threw.",
  IMPORT_TIMED_OUT: 'Importing the handler file did not end within --import-timeout-ms.',
  SETUP_TIMED_OUT: "The handler's setup() did not end within --setup-timeout-ms.",
  EXECUTOR_DIED: "The handler's process ended before it was ready.",
} as const

export type StartFailureCode = keyof typeof startFailures

/** Why a job ended FAILED or TIMED_OUT: the `code` of its error, and what it means. */
export const jobFailures = {
  HANDLER_ERROR: 'The handler threw, or its promise rejected.',
  INVALID_INPUT: "The job's input does not fit the handler's input schema.",
  OUTPUT_NOT_JSON: 'The output or a chunk has something JSON cannot say; the message gives its path.',
  OUTPUT_TOO_LARGE: 'The output is over 20,000,000 bytes of JSON.',
  TIMED_OUT: 'The job ran longer than its executionTimeout.',
  EXITED: "The handler's process ended by itself while the job ran (process.exit).",
  CRASHED: "The handler's process was ended by a signal (a segmentation fault, a kill).",
  OUT_OF_MEMORY: "The handler's process ran out of memory.",
  UNCAUGHT: 'An exception outside the handler call ended its process.',
  SECRET_UNREADABLE: "The job's s3Config was sealed with another secret than the service has now.",
  REPORT_REFUSED: 'The queue refused what the worker reported of the job.',
  WORKER_LOST: 'Every attempt ended with the worker unheard of for longer than its lease.',
} as const

export type JobFailureCode = keyof typeof jobFailures
