// A Docker engine, spoken to by its HTTP interface: the requests that pods need, each with a bound and with errors that say what
// was asked.

import type { IncomingMessage } from 'node:http'
import { addAbortSignal } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import Dockerode from 'dockerode'
import { isImageReference } from '../../resource/image-name.ts'
import { ProviderError, type RegistryCredentials } from './provider.ts'

export type ContainerRequest = Dockerode.ContainerCreateOptions
export type ContainerFacts = Dockerode.ContainerInspectInfo

/** For everything that the engine does at once. */
const ANSWER_MS = 60_000
const PULL_MS = 1_800_000

export class DockerEngine {
  readonly #docker: Dockerode

  /** `host` is written as in DOCKER_HOST: unix:///path or tcp://name:port. Without it, dockerode finds the engine as docker does. */
  constructor(host?: string) {
    this.#docker = new Dockerode(host === undefined ? undefined : connectionOf(host))
    hearAnswers(this.#docker)
  }

  async info(): Promise<{ name: string; cpus: number; memoryBytes: number }> {
    const info = (await this.#ask('tell about itself', () => within(this.#docker.info()))) as {
      Name: string
      NCPU: number
      MemTotal: number
    }
    return { name: info.Name, cpus: info.NCPU, memoryBytes: info.MemTotal }
  }

  /** What it runs by itself; undefined where the engine does not have it. */
  async findImage(name: string): Promise<{ command: readonly string[] } | undefined> {
    requireReference(name)
    const image = await this.#find(`tell about the image ${name}`, () =>
      within(this.#docker.getImage(encodeURIComponent(name)).inspect()),
    )
    // An image with no settings at all has no Config either.
    return image && { command: (image.Config as { Cmd?: string[] | null } | undefined)?.Cmd ?? [] }
  }

  /** Rejects with what the engine says of it; neither the password nor the username is in any error. */
  async pull(name: string, auth: RegistryCredentials | undefined, signal: AbortSignal): Promise<void> {
    requireReference(name)
    const abortSignal = AbortSignal.any([signal, AbortSignal.timeout(PULL_MS)])
    const authconfig = auth && { ...auth, serveraddress: registryOf(name) }
    try {
      const progress = await this.#docker.pull(name, { abortSignal, ...(authconfig && { authconfig }) })
      await new Promise<void>((resolve, reject) => {
        this.#docker.modem.followProgress(progress, (error, steps: { error?: string }[]) => {
          // What goes wrong on the way is a step like others to the client.
          const failed = steps.find((step) => step.error !== undefined)
          if (error || failed) reject(error ?? new Error(failed?.error))
          else resolve()
        })
      })
    } catch (cause) {
      throw pullError(name, auth, signal, cause)
    }
  }

  async create(request: ContainerRequest): Promise<void> {
    const abortSignal = AbortSignal.timeout(ANSWER_MS)
    await this.#ask(`make the container ${request.name}`, () =>
      this.#docker.createContainer({ ...request, abortSignal }),
    )
  }

  async start(name: string): Promise<void> {
    const abortSignal = AbortSignal.timeout(ANSWER_MS)
    try {
      await this.#docker.getContainer(name).start({ abortSignal })
    } catch (cause) {
      // 304: it runs.
      if (statusOf(cause) === 304) return
      const { message } = cause as Error
      if (!/exec: .*(executable file not found|no such file or directory|permission denied)/.test(message))
        throw this.#failed(`start the container ${name}`, cause)
      throw new ProviderError(
        'COMMAND_NOT_FOUND',
        `The container ${name} cannot be started: its image has no such program to run (${message}). Mend the template's dockerEntrypoint or dockerStartCmd.`,
        cause,
      )
    }
  }

  /** Resolves when it has ended; also when there is none, or it is ended by others. */
  async stop(name: string, graceSeconds: number): Promise<void> {
    const abortSignal = AbortSignal.timeout(graceSeconds * 1_000 + ANSWER_MS)
    await this.#find(
      `stop the container ${name}`,
      () => this.#docker.getContainer(name).stop({ t: graceSeconds, abortSignal }),
      [304, 404],
    )
  }

  /** With its anonymous volumes, running or not. */
  async remove(name: string): Promise<void> {
    const abortSignal = AbortSignal.timeout(ANSWER_MS)
    // 409: others are at it.
    await this.#find(
      `remove the container ${name}`,
      () => this.#docker.getContainer(name).remove({ force: true, v: true, abortSignal }),
      [404, 409],
    )
  }

  async inspect(name: string, signal?: AbortSignal): Promise<ContainerFacts | undefined> {
    const abortSignal = boundBy(ANSWER_MS, signal)
    return this.#find(`tell about the container ${name}`, () =>
      this.#docker.getContainer(name).inspect({ abortSignal }),
    )
  }

  /** The ids of those with all of these labels, running or not. */
  async list(labels: readonly string[]): Promise<string[]> {
    const abortSignal = AbortSignal.timeout(ANSWER_MS)
    const filters = { label: [...labels] }
    const containers = await this.#ask('list its containers', () =>
      this.#docker.listContainers({ all: true, filters, abortSignal }),
    )
    return containers.map(({ Id }) => Id)
  }

  /**
   * Resolves when it runs no more, with its exit code, or without one when there is none or after `mostMs`: an engine whose machine
   * is gone never closes the connection.
   */
  async wait(
    name: string,
    { mostMs, signal }: { mostMs: number; signal: AbortSignal },
  ): Promise<number | undefined> {
    const bound = AbortSignal.timeout(mostMs)
    const abortSignal = AbortSignal.any([signal, bound])
    try {
      const ended = (await this.#find(`wait for the container ${name}`, () =>
        this.#docker.getContainer(name).wait({ abortSignal }),
      )) as { StatusCode: number } | undefined
      return ended?.StatusCode
    } catch (cause) {
      if (bound.aborted && !signal.aborted) return undefined
      throw cause
    }
  }

  /** As the engine frames it; nothing when there is no such container. */
  async *logs(
    name: string,
    { tail, follow, signal }: { tail: number | undefined; follow: boolean; signal: AbortSignal },
  ): AsyncGenerator<Buffer> {
    const asked = {
      stdout: true,
      stderr: true,
      abortSignal: signal,
      ...(tail !== undefined && { tail }),
    } as const
    const container = this.#docker.getContainer(name)
    try {
      if (follow) {
        const stream = await container.logs({ ...asked, follow: true })
        for await (const bytes of stream) yield bytes as Buffer
      } else yield await container.logs({ ...asked, follow: false })
    } catch (cause) {
      if (!signal.aborted && statusOf(cause) !== 404)
        throw this.#failed(`give the log of the container ${name}`, cause)
    }
  }

  async #ask<T>(what: string, ask: () => Promise<T>): Promise<T> {
    try {
      return await ask()
    } catch (cause) {
      throw this.#failed(what, cause)
    }
  }

  async #find<T>(
    what: string,
    ask: () => Promise<T>,
    fine: readonly number[] = [404],
  ): Promise<T | undefined> {
    try {
      return await ask()
    } catch (cause) {
      const status = statusOf(cause)
      if (status !== undefined && fine.includes(status)) return undefined
      throw this.#failed(what, cause)
    }
  }

  #failed(what: string, cause: unknown): ProviderError {
    const { message } = cause as Error
    const text =
      statusOf(cause) === undefined
        ? `The Docker engine does not answer: ${message}. It was to ${what}. Start it, or set DOCKER_HOST.`
        : `The Docker engine does not ${what}: ${message}.`
    return new ProviderError('ENGINE_FAILED', text, cause)
  }
}

function connectionOf(host: string): Dockerode.DockerOptions {
  const url = new URL(host)
  if (url.protocol === 'unix:') return { socketPath: url.pathname, host: undefined }
  if (url.protocol === 'tcp:' || url.protocol === 'http:')
    return { protocol: 'http', host: url.hostname, port: url.port || 2375 }
  throw new ProviderError(
    'ENGINE_FAILED',
    `The Docker engine's address must begin with unix:// or tcp://, got ${host}.`,
  )
}

type Answered = (error: Error | null, answer: unknown) => void

interface Modem {
  buildRequest(
    options: { signal?: AbortSignal },
    context: { isStream?: boolean },
    data: unknown,
    answered: Answered,
  ): void
}

/**
 * Two things that the client does not do by itself. A redirect is an error: it would be followed to wherever it leads. And a
 * connection that breaks in the middle of an answer is one too: the client would listen for the rest of it for ever.
 */
function hearAnswers(docker: Dockerode): void {
  const modem = docker.modem as unknown as Modem
  const build = modem.buildRequest.bind(modem)
  modem.buildRequest = (asked, context, data, answered) => {
    const options = { ...asked, maxRedirects: 0 }
    if (context.isStream) return build(options, context, data, answered)
    const heard = new Promise<IncomingMessage>((resolve, reject) => {
      build(options, { ...context, isStream: true }, data, (error, answer) => {
        if (error) reject(error)
        else resolve(answer as IncomingMessage)
      })
    })
    void heard
      .then((answer) => bodyOf(answer, asked.signal))
      .then(
        (body) => answered(null, body),
        (cause: Error) => answered(cause, null),
      )
  }
}

/** What is no JSON is given as it came. */
async function bodyOf(answer: IncomingMessage, signal: AbortSignal | undefined): Promise<unknown> {
  const bytes = await buffer(signal ? addAbortSignal(signal, answer) : answer)
  try {
    return JSON.parse(bytes.toString())
  } catch {
    return bytes
  }
}

/** It becomes part of the address that the engine is asked at. */
function requireReference(name: string): void {
  if (isImageReference(name)) return
  throw new ProviderError(
    'IMAGE_UNSUPPORTED',
    `The image '${name}' has no name that an image can have. Name it as registry/path:tag@digest.`,
  )
}

/** By the rule of image names: a first part with a dot or a port, or "localhost", is a registry. */
export function registryOf(name: string): string {
  const [first = '', ...rest] = name.split('/')
  const isRegistry = rest.length > 0 && (/[.:]/.test(first) || first === 'localhost')
  return isRegistry ? first : 'https://index.docker.io/v1/'
}

/** For requests that take no signal. */
async function within<T>(answer: Promise<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const bound = AbortSignal.timeout(ANSWER_MS)
  bound.addEventListener('abort', () => reject(new Error(`no answer within ${ANSWER_MS} ms`)))
  return Promise.race([answer, late])
}

function boundBy(ms: number, signal: AbortSignal | undefined): AbortSignal {
  const bound = AbortSignal.timeout(ms)
  return signal ? AbortSignal.any([signal, bound]) : bound
}

function statusOf(cause: unknown): number | undefined {
  return (cause as { statusCode?: number }).statusCode
}

function pullError(
  name: string,
  auth: RegistryCredentials | undefined,
  signal: AbortSignal,
  cause: unknown,
): ProviderError {
  if (signal.aborted) return new ProviderError('START_STOPPED', `Pulling ${name} was stopped.`)
  // What was sent is repeated by no engine that we know, and by none that we do not; so the cause itself is not passed on.
  const said = (cause as Error).message
  const text = auth ? said.replaceAll(auth.password, '***').replaceAll(auth.username, '***') : said
  if (!/unauthorized|no basic auth|denied|authentication required/i.test(text))
    return new ProviderError(
      'IMAGE_NOT_PULLED',
      `The image ${name} is not on this machine and cannot be pulled: ${text}. Check its name, and that its registry is there.`,
    )
  const who = auth ? 'for the credentials that it was shown' : 'without credentials'
  return new ProviderError(
    'REGISTRY_REFUSED',
    `The registry of ${name} does not give it out ${who}: ${text}. Name credentials that may read it by containerRegistryAuthId.`,
  )
}
