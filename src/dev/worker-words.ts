// What a worker tells, in words for whoever writes its handler; jobs and loads have their own.

import type { WorkerEvents } from '../worker/events.ts'
import { tamed, type Screen } from './screen.ts'

export function sayWorkerEvents(events: WorkerEvents, screen: Screen): void {
  const warn = (text: string): void => screen.print(screen.styled('yellow', text))
  events.on('line', ({ line }) => screen.print(screen.isLive ? tamed(line) : line))
  events.on('log', ({ level, message, fields }) => {
    const more = Object.keys(fields).length > 0 ? ` ${JSON.stringify(fields)}` : ''
    screen.print(`${level}: ${tamed(`${message}${more}`)}`)
  })
  events.on('stalled', ({ blockedMs, frames }) => {
    const place = frames[0] === undefined ? '' : ` in ${frames[0]}`
    warn(`The handler has blocked its event loop for ${Math.round(blockedMs)} ms${place}.`)
  })
  events.on('died', ({ exitCode, signal, wasKilled }) => {
    if (!wasKilled)
      warn(`The handler's process ended (${signal ?? `exit code ${exitCode}`}); another takes its place.`)
  })
  events.on('accident', ({ error }) =>
    warn(`What an earlier job left behind ends the handler's process: ${error.type}: ${error.message}`),
  )
  events.on('killing', ({ id, graceMs }) =>
    warn(`Job ${id} did not stop within ${graceMs} ms of its abort: its process is ended.`),
  )
  events.on('resized', ({ problem }) => {
    if (problem !== undefined) warn(problem)
  })
  events.on('untellable', ({ id, cause }) =>
    warn(`The queue refuses what job ${id} reports: ${textOf(cause)}`),
  )
  events.on('warned', ({ message }) => warn(message))
  events.on('unreachable', ({ cause, failures }) => {
    // The first is news.
    if (failures === 1) warn(`The queue cannot be reached, trying again: ${textOf(cause)}`)
  })
}

function textOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause)
}
