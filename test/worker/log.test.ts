import pino from 'pino'
import { describe, expect, it } from 'vitest'
import { createWorkerEvents } from '../../src/worker/events.ts'
import { logWorkerEvents } from '../../src/worker/log.ts'

describe("a line of a job's log", () => {
  // Seen: such fields came after the line's own, and whoever read it was told another level, time and text.
  it('keeps what it says of itself, whatever the fields are called', () => {
    const lines: string[] = []
    const events = createWorkerEvents()
    logWorkerEvents(events, pino({ name: 'worker' }, { write: (line: string) => void lines.push(line) }))
    const fields = { level: 99, time: 0, msg: 'm', pid: 1, name: 'n', hostname: 'h', jobId: 'j', page: 3 }
    events.emit('log', { id: 'job-1', level: 'info', fields, message: 'a fact' })
    const [line = ''] = lines
    expect(JSON.parse(line)).toMatchObject({
      level: 30,
      pid: process.pid,
      name: 'worker',
      msg: 'a fact',
      jobId: 'job-1',
      level_: 99,
      time_: 0,
      msg_: 'm',
      pid_: 1,
      name_: 'n',
      hostname_: 'h',
      jobId_: 'j',
      page: 3,
    })
    for (const key of ['level', 'time', 'msg', 'pid', 'name', 'hostname', 'jobId'])
      expect(line.split(`"${key}":`)).toHaveLength(2)
  })

  it('says of an error what it is, also under the name that pino has for errors', () => {
    const lines: string[] = []
    const events = createWorkerEvents()
    logWorkerEvents(events, pino({}, { write: (line: string) => void lines.push(line) }))
    const err = {
      type: 'RangeError',
      message: 'too far',
      code: 'HANDLER_ERROR',
      stack: 'RangeError: too far',
    }
    events.emit('log', { id: 'job-1', level: 'error', fields: { err }, message: '' })
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({ err: { type: 'RangeError', message: 'too far' } })
  })
})
