import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { startTestService } from '../support/service.ts'

const s3Config = {
  accessId: 'ID-OF-MINE',
  accessSecret: 'SECRET-OF-MINE',
  bucketName: 'b',
  endpointUrl: 'https://s3.example.org',
}

it('an s3Config is not readable in the file, and a job that cannot be unsealed fails alone', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'longshore-test-'))
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }))
  const file = join(dir, 'queue.db')
  const first = await startTestService({ file, secret: 'of that time' })
  const sealed = (await first.ask('POST', '/run', { input: { n: 1 }, s3Config })).json().id
  const behind = (await first.ask('POST', '/run', { input: { n: 2 } })).json().id
  await first.close()
  expect(readFileSync(file).includes('OF-MINE')).toBe(false)

  const second = await startTestService({ file, secret: 'of today' })
  onTestFinished(() => second.close())
  expect((await second.ask('GET', '/job-take/w1?x=1')).json()).toMatchObject({ id: behind })
  await expect
    .poll(async () => (await second.ask('GET', `/status/${sealed}`)).json())
    .toMatchObject({ status: 'FAILED', error: { code: 'SECRET_UNREADABLE' } })
})
