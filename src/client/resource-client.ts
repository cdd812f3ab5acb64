// The resource interface of a service, as the commands ask for it.

import { z } from 'zod'
import { shownEndpointSchema } from '../protocol/resource-api.ts'
import type { EndpointUpdate, NewEndpoint } from '../resource/endpoint.ts'
import { podSchema, type Pod } from '../resource/pod.ts'
import { releaseSchema, type Release } from '../resource/release.ts'
import { templateSchema, type NewTemplate, type Template, type TemplateUpdate } from '../resource/template.ts'
import { answeredError, Connections, type HttpCall } from './http.ts'

export type ShownEndpoint = z.output<typeof shownEndpointSchema>
export type PodOrder = 'start' | 'stop' | 'restart'

export interface ResourceClientOptions {
  /** `http(s)://host:port`, what is before `/v1`. */
  serviceUrl: string
  /** With the permission `fleet`. */
  apiKey: string
}

const TIMEOUT_MS = 30_000

/**
 * Each verb is one request. Throws QueueUnreachableError where the service cannot be asked, and QueueRefusedError with the
 * code and the words of what it refuses.
 */
export class ResourceClient {
  readonly #connections = new Connections({ connections: 4 })
  readonly #origin: string
  readonly #base: string
  readonly #headers: Record<string, string>

  constructor({ serviceUrl, apiKey }: ResourceClientOptions) {
    const { origin, pathname } = new URL(serviceUrl)
    this.#origin = origin
    this.#base = `${pathname.replace(/\/$/, '')}/v1`
    this.#headers = { authorization: `Bearer ${apiKey}` }
  }

  templates(): Promise<Template[]> {
    return this.#ask(z.array(templateSchema), 'GET', '/templates')
  }

  createTemplate(made: NewTemplate): Promise<Template> {
    return this.#ask(templateSchema, 'POST', '/templates', made)
  }

  updateTemplate(id: string, update: TemplateUpdate): Promise<Template> {
    return this.#ask(templateSchema, 'POST', `/templates/${id}/update`, update)
  }

  deleteTemplate(id: string): Promise<void> {
    return this.#ask(z.undefined(), 'DELETE', `/templates/${id}`)
  }

  endpoints(): Promise<ShownEndpoint[]> {
    return this.#ask(z.array(shownEndpointSchema), 'GET', '/endpoints')
  }

  endpoint(id: string): Promise<ShownEndpoint> {
    return this.#ask(shownEndpointSchema, 'GET', `/endpoints/${encodeURIComponent(id)}?includeWorkers=true`)
  }

  createEndpoint(made: NewEndpoint): Promise<ShownEndpoint> {
    return this.#ask(shownEndpointSchema, 'POST', '/endpoints', made)
  }

  updateEndpoint(id: string, update: EndpointUpdate): Promise<ShownEndpoint> {
    return this.#ask(shownEndpointSchema, 'POST', `/endpoints/${id}/update`, update)
  }

  deleteEndpoint(id: string): Promise<void> {
    return this.#ask(z.undefined(), 'DELETE', `/endpoints/${encodeURIComponent(id)}`)
  }

  /** Newest first. */
  releases(endpointId: string): Promise<Release[]> {
    return this.#ask(z.array(releaseSchema), 'GET', `/endpoints/${encodeURIComponent(endpointId)}/releases`)
  }

  /** Workers too. Those that are gone only where they are asked for, and then they alone. */
  pods({ areGone = false } = {}): Promise<Pod[]> {
    const query = areGone ? '&desiredStatus=TERMINATED' : ''
    return this.#ask(z.array(podSchema), 'GET', `/pods?includeWorkers=true${query}`)
  }

  order(podId: string, order: PodOrder): Promise<Pod> {
    return this.#ask(podSchema, 'POST', `/pods/${encodeURIComponent(podId)}/${order}`)
  }

  deletePod(podId: string): Promise<void> {
    return this.#ask(z.undefined(), 'DELETE', `/pods/${encodeURIComponent(podId)}`)
  }

  /** What the pod printed, as it comes. Ends when the pod does, or at once without `follow`. */
  logs(
    podId: string,
    { tail, follow = false, signal }: { tail?: number | undefined; follow?: boolean; signal?: AbortSignal },
  ): AsyncGenerator<Uint8Array> {
    const query = new URLSearchParams({
      follow: String(follow),
      ...(tail !== undefined && { tail: String(tail) }),
    })
    const path = `${this.#base}/pods/${encodeURIComponent(podId)}/logs?${query.toString()}`
    return this.#connections.stream(
      { origin: this.#origin, path },
      { headers: this.#headers, timeoutMs: TIMEOUT_MS, ...(signal && { signal }) },
    )
  }

  async close(): Promise<void> {
    await this.#connections.close()
  }

  async #ask<T>(schema: z.ZodType<T>, method: HttpCall['method'], path: string, body?: object): Promise<T> {
    const answer = await this.#connections.call(
      { origin: this.#origin, path: `${this.#base}${path}` },
      {
        method,
        headers: { ...this.#headers, ...(body && { 'content-type': 'application/json' }) },
        ...(body && { body: JSON.stringify(body) }),
        timeoutMs: TIMEOUT_MS,
      },
    )
    const { status } = answer
    if (status === 204) return schema.parse(undefined)
    if (status !== 200 && status !== 201) throw answeredError(this.#origin, answer)
    return schema.parse(JSON.parse(answer.body.toString('utf8')))
  }
}
