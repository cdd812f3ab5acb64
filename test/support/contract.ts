// The OpenAPI document as a judge: every reply that a test sees must be one that the document allows.

import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import type { LightMyRequestResponse } from 'fastify'

interface Operation {
  responses: Record<string, { content?: Record<string, { schema: object }> }>
}

interface Document {
  paths?: Record<string, Record<string, unknown> | undefined>
}

export class Contract {
  readonly #operations: { method: string; pattern: RegExp; operation: Operation }[]
  readonly #ajv = new Ajv2020({ strict: false, validateFormats: false })
  readonly #validators = new WeakMap<object, ValidateFunction>()

  constructor(document: Document) {
    this.#operations = Object.entries(document.paths ?? {}).flatMap(([path, methods]) =>
      Object.entries(methods ?? {}).map(([method, operation]) => ({
        method: method.toUpperCase(),
        pattern: patternOf(path),
        operation: operation as Operation,
      })),
    )
  }

  /** Throws when the document does not know the operation, the status, the type or the form of the reply. */
  check(asked: { method: string; url: string }, reply: LightMyRequestResponse): void {
    const path = asked.url.split('?', 1)[0] ?? ''
    const found = this.#operations.find(
      ({ method, pattern }) => method === asked.method && pattern.test(path),
    )
    if (!found) {
      if (reply.statusCode === 404 || reply.statusCode === 401) return
      throw new Error(`${asked.method} ${path} was answered ${reply.statusCode}, and is no operation.`)
    }
    const { responses } = found.operation
    const { statusCode } = reply
    const response = responses[statusCode] ?? responses[`${Math.floor(statusCode / 100)}XX`]
    if (!response) throw new Error(`${asked.method} ${path} may not answer ${statusCode}.`)
    const type = (reply.headers['content-type'] ?? '').split(';', 1)[0] ?? ''
    if (reply.body === '' && statusCode === 204) return
    const media = response.content?.[type]
    if (!media) throw new Error(`${asked.method} ${path} may not answer ${statusCode} as '${type}'.`)
    if (type === 'application/json') this.#checkJson(media.schema, reply.body, `${asked.method} ${path}`)
  }

  #checkJson(schema: object, body: string, what: string): void {
    let validate = this.#validators.get(schema)
    if (!validate) {
      validate = this.#ajv.compile(schema)
      this.#validators.set(schema, validate)
    }
    if (validate(JSON.parse(body))) return
    throw new Error(
      `${what} answered what its schema forbids: ${this.#ajv.errorsText(validate.errors)} in ${body}`,
    )
  }
}

/** `{name}` stands for one segment; for the rest of the path where it is the last of a wildcard. */
function patternOf(path: string): RegExp {
  const pattern = path.replace('/openai/{path}', '/openai/.*').replaceAll(/\{[^}]+\}/g, '[^/]+')
  return new RegExp(`^${pattern}$`)
}
