// Webhooks of a real service: refused where they must not go, delivered over a kill between two tries.

import { createHmac } from 'node:crypto'
import { hostname } from 'node:os'
import { expect, it } from 'vitest'
import { KEY, serve } from '../support/processes.ts'
import { startReceiver } from '../support/receiver.ts'

it('are told of an end once it can be, though the service is killed between two tries', async () => {
  let isUp = false
  const receiver = await startReceiver(() => ({ status: isUp ? 200 : 503 }))
  const options = { args: ['--allow-private-webhooks'], env: { LONGSHORE_WEBHOOK_SECRET: 'whsec' } }
  const first = await serve(options)
  const webhook = `${receiver.url}/done`
  const { id } = await first.client.run({ input: { n: 1 }, webhook })
  await first.client.cancel(id)
  await receiver.calls.first(() => true)
  await first.kill('SIGKILL')

  isUp = true
  const again = await serve({ ...options, file: first.file })
  await expect.poll(() => receiver.calls.all.length, { timeout: 25_000 }).toBe(2)
  const call = receiver.calls.all[1]
  expect(JSON.parse(call?.body ?? '')).toMatchObject({ id, status: 'CANCELLED', input: { n: 1 }, webhook })
  const signature = String(call?.headers['x-longshore-signature'])
  const t = /^t=(\d+),/.exec(signature)?.[1]
  const mac = createHmac('sha256', 'whsec')
    .update(`${t}.${call?.body ?? ''}`)
    .digest('hex')
  expect(signature).toBe(`t=${t},v1=${mac}`)
  expect(await again.kill('SIGTERM')).toBe(0)
}, 60_000)

it('are refused at private addresses, in the submission or when called', async () => {
  const receiver = await startReceiver()
  const server = await serve({ env: { LONGSHORE_LOG_LEVEL: 'debug' } })
  const submit = (webhook: string): Promise<Response> =>
    fetch(`${server.endpointUrl}/run`, {
      method: 'POST',
      headers: { authorization: KEY },
      body: JSON.stringify({ input: {}, webhook }),
    })
  const refused = await submit(`${receiver.url}/?token=hidden`)
  expect(refused.status).toBe(400)
  const { error } = (await refused.json()) as { error: string }
  expect(error).toMatch(/^webhook must not be at an address of this machine/)
  expect(error).not.toContain('hidden')

  // This machine's own name is judged only when it is looked up.
  const accepted = await submit(`http://${hostname()}:${new URL(receiver.url).port}/?token=hidden`)
  const { id } = (await accepted.json()) as { id: string }
  await server.client.cancel(id)
  await server.says(/private address.*webhook failed/)
  expect(server.stderr).not.toContain('hidden')
  expect(receiver.calls.all).toEqual([])
})
