// Running the scripts of the verbs, each over the keys of one endpoint, and telling what they made happen.

import type { Argument, Connection } from './connection.ts'
import { endpointKey } from './endpoint-key.ts'
import type { News } from './news.ts'
import type { Script } from './script.ts'

export type { Argument } from './connection.ts'

export class Scripts {
  readonly #connection: Connection
  readonly #news: News

  constructor(connection: Connection, news: News) {
    this.#connection = connection
    this.#news = news
  }

  /** The first argument is `now`, where the verb has one. */
  async run(script: Script, endpoint: string, [now = 0, ...args]: readonly Argument[]): Promise<unknown> {
    const key = endpointKey(endpoint)
    try {
      const stamped = [`${String(now)}:${this.#news.server}`, ...args]
      const [result, message] = (await this.#connection.run(script, key, stamped)) as [unknown, Buffer?]
      // Whoever waits at this server need not wait for the message to come back.
      if (message) this.#news.answered(endpoint, message)
      return result
    } catch (cause) {
      // It may have happened all the same, and its message is this server's own.
      this.#news.unsure(endpoint)
      throw cause
    }
  }
}
