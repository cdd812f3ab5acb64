// What a worker finds in its environment: its endpoint, its key and who it is, for our workers and for those of the hosted platform.

export interface WorkerPlace {
  podId: string
  endpointId: string
  /** Of this service, as pods reach it. */
  url: string
  token: string
}

/** Those append their parameters with a `&`, so there has to be a query already. */
const QUERY = '?gpu=none'

/** In no record: the token is in it. */
export function workerEnv({ podId, endpointId, url, token }: WorkerPlace): Record<string, string> {
  const endpointUrl = `${url.replace(/\/+$/, '')}/v2/${endpointId}`
  return {
    LONGSHORE_ENDPOINT_URL: endpointUrl,
    LONGSHORE_WORKER_TOKEN: token,
    LONGSHORE_WORKER_ID: podId,
    RUNPOD_WEBHOOK_GET_JOB: `${endpointUrl}/job-take/$ID${QUERY}`,
    RUNPOD_WEBHOOK_POST_OUTPUT: `${endpointUrl}/job-done/$RUNPOD_POD_ID/$ID${QUERY}`,
    RUNPOD_WEBHOOK_POST_STREAM: `${endpointUrl}/job-stream/$RUNPOD_POD_ID/$ID${QUERY}`,
    RUNPOD_WEBHOOK_PING: `${endpointUrl}/ping/$RUNPOD_POD_ID${QUERY}`,
    RUNPOD_PING_INTERVAL: '10000',
    RUNPOD_AI_API_KEY: token,
    RUNPOD_POD_ID: podId,
    RUNPOD_POD_HOSTNAME: podId,
    RUNPOD_ENDPOINT_ID: endpointId,
  }
}
