// The OpenAPI document as a judge: every reply that a test sees must be one that the document allows.

import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'

interface Operation {
  responses: Record<string, { content?: Record<string, { schema: object }> }>
}

interface Document {
  paths?: Record<string, Record<string, unknown> | undefined>
}

export interface SeenReply {
  method: string
  url: string
  status: number
  type: string
  /** Undefined for one that is not there as a whole. */
  body?: string | undefined
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

  /** Says why the document does not allow the reply: its operation, status, type or form. */
  problemOf({ method, url, status, type, body }: SeenReply): string | undefined {
    const path = url.split('?', 1)[0] ?? ''
    const what = `${method} ${path}`
    const found = this.#operations.find((one) => one.method === method && one.pattern.test(path))
    if (!found)
      return [401, 404].includes(status) ? undefined : `${what} was answered ${status}, and is no operation.`
    const { responses } = found.operation
    const response = responses[status] ?? responses[`${Math.floor(status / 100)}XX`]
    if (!response) return `${what} may not answer ${status}.`
    if (status === 204) return undefined
    const mime = type.split(';', 1)[0] ?? ''
    const media = response.content?.[mime]
    if (!media) return `${what} may not answer ${status} as '${mime}'.`
    if (mime !== 'application/json' || body === undefined) return undefined
    return this.#problemOfJson(media.schema, body, what)
  }

  #problemOfJson(schema: object, body: string, what: string): string | undefined {
    let validate = this.#validators.get(schema)
    if (!validate) {
      validate = this.#ajv.compile(schema)
      this.#validators.set(schema, validate)
    }
    if (validate(JSON.parse(body))) return undefined
    return `${what} answered what its schema forbids: ${this.#ajv.errorsText(validate.errors)} in ${body.slice(0, 500)}`
  }
}

/** `{name}` stands for one segment; for the rest of the path where it is the last of a wildcard. */
function patternOf(path: string): RegExp {
  const pattern = path.replace('/openai/{path}', '/openai/.*').replaceAll(/\{[^}]+\}/g, '[^/]+')
  return new RegExp(`^${pattern}$`)
}
