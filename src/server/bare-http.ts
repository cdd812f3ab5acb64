// Fastify as this service needs it: no route yet, every mistake answered in the one form.

import Fastify, { LogController, type FastifyBaseLogger, type FastifyInstance } from 'fastify'
import { serializerCompiler, validatorCompiler } from 'fastify-type-provider-zod'
import { readBodiesByRoute } from './body.ts'
import { clientErrorHandler, errorHandler, refuseExpectation } from './error-handler.ts'

/** An application without routes that answers every mistake in the one form. */
export function bareHttp(logger: FastifyBaseLogger): FastifyInstance {
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
