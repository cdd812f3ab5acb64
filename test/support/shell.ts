// Commands as people paste them, and as they type at a prompt.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { dirname } from 'node:path'
import { text } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'

export interface Told {
  code: number | null
  /** What came on both outputs, in this order: stdout, stderr. */
  said: string
}

const NPM = {
  npm_config_prefer_offline: 'true',
  npm_config_audit: 'false',
  npm_config_fund: 'false',
  npm_config_update_notifier: 'false',
  // A starter of this checkout would have it built anew, under the feet of other tests.
  npm_config_ignore_scripts: 'true',
}

/** Lines of a shell, up to the first that fails. What npm fetches comes from its cache where it can. */
export async function paste(lines: string, cwd: string): Promise<Told> {
  const child = spawn('bash', ['-e', '-c', lines], {
    cwd,
    env: environment(NPM),
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  endWithTest(child.pid)
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  return { code: code as number | null, said: out + err }
}

/** Runs a command on a terminal of its own, and types each key once the text before it has appeared. */
export async function type(
  command: string,
  keys: readonly [after: string, key: string][],
  cwd: string,
): Promise<Told> {
  const child = spawn('script', ['--quiet', '--return', '--command', command, '/dev/null'], {
    cwd,
    env: environment({ TERM: 'xterm' }),
    stdio: ['pipe', 'pipe', 'inherit'],
    detached: true,
  })
  endWithTest(child.pid)
  const left = [...keys]
  let said = ''
  let seen = 0
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    said += part
    const [after, key] = left[0] ?? []
    const at = after === undefined ? -1 : said.indexOf(after, seen)
    if (at < 0 || key === undefined) return
    seen = said.length
    left.shift()
    child.stdin.write(key)
  })
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, said }
}

/** The Node of the tests goes first, as in a folder where it is installed. */
function environment(more: Record<string, string>): NodeJS.ProcessEnv {
  return { ...process.env, PATH: `${dirname(process.execPath)}:${process.env['PATH']}`, ...more }
}

/** The group, so that nothing that the shell began outlives the test. */
function endWithTest(pid: number | undefined): void {
  onTestFinished(() => {
    try {
      if (pid !== undefined) process.kill(-pid, 'SIGKILL')
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code !== 'ESRCH') throw cause
    }
  })
}
