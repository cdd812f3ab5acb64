// The service as a Fastify application: wires queue, dispatch and routes over a store. Does not listen.

import Fastify, { LogController, type FastifyBaseLogger, type FastifyInstance } from 'fastify'
import { serializerCompiler, validatorCompiler } from 'fastify-type-provider-zod'
import { limits } from '../job/limits.ts'
import type { Clock } from '../lib/clock.ts'
import { RateLimit } from '../queue/rate-limit.ts'
import { Service, type ServiceSettings } from '../queue/service.ts'
import type { WebhookAttempt } from '../queue/webhooks.ts'
import type { Store } from '../store/store.ts'
import { Auth } from './auth.ts'
import { readBodiesByRoute } from './body.ts'
import { clientErrorHandler, errorHandler, notFoundHandler, refuseExpectation } from './error-handler.ts'
import { limitRates } from './rate-limits.ts'
import { exchangeRoutes } from './routes/exchange-routes.ts'
import { foreignReportRoutes, foreignTakeRoutes } from './routes/foreign-routes.ts'
import { hostedRoutes } from './routes/hosted-routes.ts'
import { jobRoutes, queueRoutes } from './routes/job-routes.ts'
import { openaiRoutes } from './routes/openai-routes.ts'
import { submitRoutes } from './routes/submit-routes.ts'

export interface AppOptions extends ServiceSettings {
  store: Store
  clock: Clock
  logger: FastifyBaseLogger
  /** Valid while this process runs, never stored. */
  ownerKey?: string
  /** True by default. */
  hasRateLimits?: boolean
  /** What each running worker adds to a rate; 50 by default. */
  requestsPerWorker?: number
}

export interface App {
  http: FastifyInstance
  /** Answers whoever waits, finishes what is under way, ends the sweeper. The store stays open. */
  close(): Promise<void>
}

/** How long requests under way may take to end when the service stops. */
const CLOSE_MS = 2_000

export function buildApp({ logger, ownerKey, hasRateLimits = true, ...options }: AppOptions): App {
  const { store, clock, requestsPerWorker = limits.requestsPerWorker.default } = options
  const service = new Service({
    ...options,
    onError: (err) => logger.error({ err }, 'background work failed'),
    onWebhook: (attempt) => logWebhook(logger, attempt),
    onRetired: (worker) => logger.warn(worker, 'worker asks to be recycled and gets no more jobs'),
  })
  const rateLimit = new RateLimit({ clock, requestsPerWorker })
  const http = bareHttp(logger)
  http.get('/healthz', async () => {
    await store.ping()
    return { status: 'ok' }
  })
  const auth = new Auth(store.keys, ownerKey)
  http.setNotFoundHandler(async (request) => {
    if (/^\/(compat\/)?v2\//.test(request.url)) await auth.check(request)
    return notFoundHandler(request)
  })
  const guard = (scope: FastifyInstance): void => {
    auth.guard(scope)
    if (hasRateLimits) limitRates(scope, rateLimit, service)
  }
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

  return {
    http,
    async close() {
      service.stop()
      // A connection on which nobody ever finishes a request would keep the server open for ever.
      const insist = clock.after(CLOSE_MS, () => http.server.closeAllConnections())
      await http.close()
      insist.clear()
      await service.close()
    },
  }
}

function logWebhook(logger: FastifyBaseLogger, { result, ...attempt }: WebhookAttempt): void {
  if (result === 'delivered') logger.debug(attempt, 'webhook delivered')
  else if (result === 'failed') logger.info(attempt, 'webhook failed, it is tried again')
  else logger.warn(attempt, 'webhook given up')
}

/** An application without routes that answers every mistake in the one form. */
function bareHttp(logger: FastifyBaseLogger): FastifyInstance {
  const http = Fastify({
    loggerInstance: logger,
    // A line per request would be most of the work at a few thousand requests a second.
    logController: new LogController({ disableRequestLogging: true }),
    // As long as a header may be: what is too long for an id is refused like any other that nothing has.
    routerOptions: { maxParamLength: 16_384 },
    // A ping of the hosted kind lists ids of up to 65,536 bytes in its URL.
    http: { requireHostHeader: false, maxHeaderSize: 131_072 },
    // A HEAD that ran its GET would take a job or move a read position for nobody.
    exposeHeadRoutes: false,
    // Longer than any hold, so that a connection is not cut while its answer is being waited for.
    requestTimeout: 0,
    keepAliveTimeout: 75_000,
    forceCloseConnections: 'idle',
    // What comes while the service stops is still answered like everything else.
    return503OnClosing: false,
    frameworkErrors: errorHandler,
    clientErrorHandler,
  })
  http.setValidatorCompiler(validatorCompiler)
  http.setSerializerCompiler(serializerCompiler)
  http.setErrorHandler(errorHandler)
  http.server.on('checkExpectation', refuseExpectation)
  readBodiesByRoute(http)
  return http
}
