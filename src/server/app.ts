// The service as a Fastify application: wires queue, dispatch and routes over a store. Does not listen.

import Fastify, { LogController, type FastifyBaseLogger, type FastifyInstance } from 'fastify'
import { serializerCompiler, validatorCompiler } from 'fastify-type-provider-zod'
import type { Clock } from '../lib/clock.ts'
import { Dispatch } from '../queue/dispatch.ts'
import { ForeignWorkers } from '../queue/foreign-workers.ts'
import { JobWatch } from '../queue/job-watch.ts'
import { LeaseLine } from '../queue/lease-line.ts'
import { Queue } from '../queue/queue.ts'
import { SecretBox } from '../queue/secret-box.ts'
import { runSweeper } from '../queue/sweeper.ts'
import { Workers } from '../queue/workers.ts'
import type { Store } from '../store/store.ts'
import { Auth } from './auth.ts'
import { readBodiesByRoute } from './body.ts'
import { clientErrorHandler, errorHandler, notFoundHandler, refuseExpectation } from './error-handler.ts'
import { exchangeRoutes } from './routes/exchange-routes.ts'
import { foreignReportRoutes, foreignTakeRoutes } from './routes/foreign-routes.ts'
import { jobRoutes, queueRoutes } from './routes/job-routes.ts'
import { submitRoutes } from './routes/submit-routes.ts'

export interface AppOptions {
  store: Store
  clock: Clock
  logger: FastifyBaseLogger
  /** Valid while this process runs, never stored. */
  ownerKey?: string
  /** Seals what must not be readable in the store. */
  secret: string
  /** How long a lease lives unheard, ms. */
  leaseMs?: number
}

export interface App {
  http: FastifyInstance
  /** Answers whoever waits, finishes what is under way, ends the sweeper. The store stays open. */
  close(): Promise<void>
}

const DEFAULT_LEASE_MS = 10_000
/** How long requests under way may take to end when the service stops. */
const CLOSE_MS = 2_000

export function buildApp(options: AppOptions): App {
  const { store, clock, logger, leaseMs = DEFAULT_LEASE_MS } = options
  const stopping = new AbortController()
  const onError = (err: unknown): void => logger.error({ err }, 'background work failed')
  const secrets = new SecretBox(options.secret)
  const workers = new Workers(clock)
  const watch = new JobWatch(store)
  const line = new LeaseLine({ store, clock, secrets, onError })
  const queue = new Queue({ store, watch, secrets, clock, stopping: stopping.signal })
  const dispatch = new Dispatch({ store, line, workers, clock, leaseMs, onError })
  const foreign = new ForeignWorkers({ store, line, workers, clock, stopping: stopping.signal, onError })

  const http = bareHttp(logger)
  http.get('/healthz', async () => {
    await store.ping()
    return { status: 'ok' }
  })
  const auth = new Auth(store.keys, options.ownerKey)
  http.setNotFoundHandler(async (request) => {
    if (request.url.startsWith('/v2/')) await auth.check(request)
    return notFoundHandler(request)
  })
  http.register(
    async (scope) => {
      auth.guard(scope)
      await scope.register(submitRoutes, { queue })
      await scope.register(jobRoutes, { queue })
      await scope.register(queueRoutes, { queue, workers })
      await scope.register(exchangeRoutes, { queue, dispatch })
      await scope.register(foreignTakeRoutes, { queue, foreign })
      await scope.register(foreignReportRoutes, { queue, foreign })
    },
    { prefix: '/v2/:endpointId' },
  )

  const sweeping = runSweeper({ store, clock, leaseMs, onError }, stopping.signal)
  return {
    http,
    async close() {
      stopping.abort()
      dispatch.close()
      foreign.close()
      // A connection on which nobody ever finishes a request would keep the server open for ever.
      const insist = clock.after(CLOSE_MS, () => http.server.closeAllConnections())
      await http.close()
      insist.clear()
      line.close()
      watch.close()
      await sweeping
    },
  }
}

/** An application without routes that answers every mistake in the one form. */
function bareHttp(logger: FastifyBaseLogger): FastifyInstance {
  const http = Fastify({
    loggerInstance: logger,
    // A line per request would be most of the work at a few thousand requests a second.
    logController: new LogController({ disableRequestLogging: true }),
    // As long as a header may be: what is too long for an id is refused like any other that nothing has.
    routerOptions: { maxParamLength: 16_384 },
    http: { requireHostHeader: false },
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
