// Whether the user of a Redis may do all that a server does: each command is tried in a script, and changes nothing.

import { channelsOf, WAITED } from './channels.ts'
import type { Connection } from './connection.ts'
import { REFUSALS } from './refusals.ts'
import { plainScript } from './script.ts'

const KEY = 'longshore:nothing'

/** What is said to each. After the first one most that would write fails at a key of another kind. */
export const tried: Readonly<Record<string, readonly string[]>> = {
  setnx: [KEY, 'x'],
  set: [KEY, 'x', 'NX'],
  get: [KEY],
  exists: [KEY],
  hdel: [KEY, 'x'],
  hexists: [KEY, 'x'],
  hget: [KEY, 'x'],
  hgetall: [KEY],
  hincrby: [KEY, 'x', '1'],
  hkeys: [KEY],
  hlen: [KEY],
  hmget: [KEY, 'x'],
  hscan: [KEY, '0'],
  hset: [KEY, 'x', 'x'],
  hsetnx: [KEY, 'x', 'x'],
  hvals: [KEY],
  pexpire: [KEY, '60000'],
  sadd: [KEY, 'x'],
  sismember: [KEY, 'x'],
  smembers: [KEY],
  srem: [KEY, 'x'],
  zadd: [KEY, '1', 'x'],
  zcard: [KEY],
  zcount: [KEY, '0', '0'],
  zrange: [KEY, '0', '0'],
  zrem: [KEY, 'x'],
  zremrangebyscore: [KEY, '0', '0'],
  zscore: [KEY, 'x'],
  publish: [WAITED, ''],
  info: ['server'],
  time: [],
  del: [KEY],
  unlink: [KEY],
}

// Without flags, so that it also runs where nothing may be written just now. The key is not declared: in a cluster the
// script runs on each node, and who may do what is looked at before whose key it is.
const tryAll = plainScript(
  'tryAll',
  `
local refused = {}
local function try(...)
  local answer = redis.pcall(...)
  local said = type(answer) == 'table' and answer.err
  if not said then return end
  for _, words in ipairs({ ${REFUSALS.map((words) => `'${words}'`).join(', ')} }) do
    if string.find(said, words, 1, true) then
      refused[#refused + 1] = (...)
      return
    end
  end
end
-- What cannot be removed is not made.
try('unlink', '${KEY}')
if #refused > 0 then return refused end
try('publish', ARGV[1], '')
${Object.entries(tried)
  .map(([command, words]) => `try(${[command, ...words].map((word) => `'${word}'`).join(', ')})`)
  .join('\n')}
return refused`,
)

/** Throws an error that begins with NOPERM and names what is refused. */
export async function checkUser(connection: Connection, { replicas }: { replicas: number }): Promise<void> {
  // Nobody hears it: no endpoint has this name.
  const channel = channelsOf(connection.database).replace('*', '')
  const refused = [...new Set((await connection.runOnMasters(tryAll, channel)).flat())] as string[]
  if (refused.length > 0) throw new Error(`NOPERM this user may not run ${refused.join(', ')}`)
  if (replicas > 0) await connection.call('wait', 0, 1)
}
