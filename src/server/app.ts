// The service as a Fastify application: wires queue, dispatch and routes over a store. Does not listen.

import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { limits } from '../job/limits.ts'
import type { Clock } from '../lib/clock.ts'
import { Fleet, type FleetOptions } from '../fleet/fleet.ts'
import type { FleetLog } from '../fleet/service/host-settings.ts'
import type { Seal } from '../fleet/resources/registry-auths.ts'
import { SecretBox } from '../queue/secret-box.ts'
import { RateLimit } from '../queue/rate-limit.ts'
import { Service, type ServiceSettings } from '../queue/service.ts'
import type { Telemetry } from '../queue/telemetry.ts'
import type { WebhookAttempt } from '../queue/webhooks.ts'
import type { Store } from '../store/store.ts'
import { Auth } from './auth.ts'
import { bareHttp } from './bare-http.ts'
import { notFoundHandler } from './error-handler.ts'
import { StoreLog } from './store-log.ts'
import { Metrics } from './metrics.ts'
import { describeInterface } from './openapi.ts'
import { limitRates } from './rate-limits.ts'
import { endpointRoutes } from './routes/endpoint-routes.ts'
import { exchangeRoutes } from './routes/exchange-routes.ts'
import { foreignReportRoutes, foreignTakeRoutes } from './routes/foreign-routes.ts'
import { hostedRoutes } from './routes/hosted-routes.ts'
import { jobRoutes, queueRoutes } from './routes/job-routes.ts'
import { openaiRoutes } from './routes/openai-routes.ts'
import { podLogRoutes } from './routes/pod-log-routes.ts'
import { podRoutes } from './routes/pod-routes.ts'
import { registryAuthRoutes } from './routes/registry-auth-routes.ts'
import { serviceRoutes } from './routes/service-routes.ts'
import { submitRoutes } from './routes/submit-routes.ts'
import { templateRoutes } from './routes/template-routes.ts'

export interface AppOptions extends ServiceSettings {
  store: Store
  clock: Clock
  logger: FastifyBaseLogger
  /** Valid while this process runs, never stored. One or several. */
  ownerKey?: string | readonly string[]
  /** Where pods are run; without it records are kept alone. */
  fleet?: Pick<FleetOptions, 'host' | 'place' | 'wake'>
  /** Of this package, for the OpenAPI document. */
  version?: string
  /** True by default. */
  hasRateLimits?: boolean
  /** What each running worker adds to a rate; 50 by default. */
  requestsPerWorker?: number
}

export interface App {
  http: FastifyInstance
  /** To be started once the service listens. */
  fleet: Fleet
  /** Ends or leaves the pods, answers whoever waits, finishes what is under way, ends the sweeper. The store stays open. */
  close(): Promise<void>
}

/** How long requests under way may take to end when the service stops. */
const CLOSE_MS = 2_000

export function buildApp({
  logger,
  ownerKey = [],
  hasRateLimits = true,
  version = '0.0.0',
  ...options
}: AppOptions): App {
  const { store, clock, requestsPerWorker = limits.requestsPerWorker.default } = options
  const metrics = new Metrics()
  const ping = (): Promise<void> => store.ping(options.endpoints)
  const storeLog = new StoreLog({ store: { ping }, clock, logger })
  const onError = (err: unknown): void => {
    if (!storeLog.note(err)) logger.error({ err }, 'background work failed')
  }
  const service = new Service({
    ...options,
    onError,
    telemetry: telemetryOf(metrics, logger),
    onRetired: (worker) => logger.warn(worker, 'worker asks to be recycled and gets no more jobs'),
  })
  const rateLimit = new RateLimit({
    rates: store.rates,
    clock,
    requestsPerWorker,
    onError: (err) => storeLog.note(err) || logger.error({ err }, 'leaving a rate failed'),
  })
  const http = bareHttp(logger)
  http.decorate('noteStoreTrouble', storeLog.note)
  metrics.watchRequests(http)
  metrics.watchQueues({ store, clock, workers: service.workers })
  describeInterface(http, version)
  const auth = new Auth(store.keys, [ownerKey].flat())
  http.register(serviceRoutes, { ping, metrics, auth })
  answerUnknownPaths(http, auth)
  const guard = (scope: FastifyInstance): void => {
    auth.guard(scope)
    if (hasRateLimits) limitRates(scope, rateLimit, service)
  }
  registerEndpoints(http, service, guard)
  const { workforce } = service
  const log = fleetLog(logger, storeLog)
  const fleet = new Fleet({ store, clock, workforce, log, ...options.fleet, ...sealFrom(options) })
  registerFleet(http, fleet, auth)

  return {
    http,
    fleet,
    async close() {
      // Workers of pods are answered until these have ended, and nobody waits for a store that says nothing.
      store.leave().catch(onError)
      await fleet.close()
      service.stop()
      storeLog.close()
      // A connection on which nobody ever finishes a request would keep the server open for ever.
      const insist = clock.after(CLOSE_MS, () => http.server.closeAllConnections())
      await http.close()
      insist.clear()
      await service.close()
    },
  }
}

function telemetryOf(metrics: Metrics, logger: FastifyBaseLogger): Telemetry {
  return {
    leased: (...what) => metrics.leased(...what),
    ran: (...what) => metrics.ran(...what),
    webhook(attempt) {
      metrics.webhook(attempt)
      logWebhook(logger, attempt)
    },
  }
}

/** A store that is away is told once, whoever misses it. */
function fleetLog(logger: FastifyBaseLogger, storeLog: StoreLog): FleetLog {
  return {
    info: (fields, message) => logger.info(fields, message),
    warn: (fields, message) => logger.warn(fields, message),
    error(fields, message) {
      if (!('err' in fields && storeLog.note(fields.err))) logger.error(fields, message)
    },
  }
}

/** Where every route asks for a key, one that there is not asks too. */
function answerUnknownPaths(http: FastifyInstance, auth: Auth): void {
  http.setNotFoundHandler(async (request) => {
    if (/^\/((compat\/)?v2|v1)\//.test(request.url)) await auth.check(request)
    return notFoundHandler(request)
  })
}

/** The resource interface. */
function registerFleet(http: FastifyInstance, fleet: Fleet, auth: Auth): void {
  http.register(
    async (scope) => {
      auth.guard(scope, { isOfTheFleet: true })
      await scope.register(templateRoutes, fleet)
      await scope.register(endpointRoutes, fleet)
      await scope.register(podRoutes, fleet)
      await scope.register(podLogRoutes, fleet)
      await scope.register(registryAuthRoutes, fleet)
    },
    { prefix: '/v1' },
  )
}

/** What seals the jobs' secrets seals the fleet's too. */
function sealFrom({ secret }: Pick<AppOptions, 'secret'>): { seal?: Seal } {
  if (secret === undefined) return {}
  const box = new SecretBox(secret)
  return {
    seal: {
      seal: (text) => Buffer.from(box.seal(text)).toString('base64url'),
      open: (sealed) => String(box.open(Buffer.from(sealed, 'base64url'))),
    },
  }
}

/** Every route below an endpoint, each behind the guard. */
function registerEndpoints(
  http: FastifyInstance,
  service: Service,
  guard: (scope: FastifyInstance) => void,
): void {
  http.register(
    async (scope) => {
      guard(scope)
      await scope.register(submitRoutes, service)
      await scope.register(jobRoutes, service)
      await scope.register(queueRoutes, service)
      await scope.register(openaiRoutes, service)
      await scope.register(exchangeRoutes, service)
      await scope.register(foreignTakeRoutes, service)
      await scope.register(foreignReportRoutes, service)
    },
    { prefix: '/v2/:endpointId' },
  )
  // The same for clients of the hosted platform, where their words differ from these.
  http.register(
    async (scope) => {
      guard(scope)
      await scope.register(submitRoutes, { queue: service.queue, dialect: 'hosted' })
      await scope.register(hostedRoutes, service)
      await scope.register(queueRoutes, service)
      await scope.register(openaiRoutes, service)
    },
    { prefix: '/compat/v2/:endpointId' },
  )
}

function logWebhook(logger: FastifyBaseLogger, { result, ...attempt }: WebhookAttempt): void {
  if (result === 'delivered') logger.debug(attempt, 'webhook delivered')
  else if (result === 'failed') logger.info(attempt, 'webhook failed, it is tried again')
  else logger.warn(attempt, 'webhook given up')
}
