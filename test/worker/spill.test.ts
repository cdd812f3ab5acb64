import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { startExecutor, type TestExecutor } from '../support/test-executor.ts'
import { temporaryDir } from '../support/processes.ts'

async function withFolder(): Promise<TestExecutor & { folder: string }> {
  const folder = join(temporaryDir(), 'local-bucket')
  return {
    ...(await startExecutor('spills.ts', { env: { ...process.env, LONGSHORE_LOCAL_BUCKET: folder } })),
    folder,
  }
}

describe('an output that may be spilled', () => {
  it('goes to the bucket when it is over its bytes, and the output says where', async () => {
    const executor = await withFolder()
    expect(await executor.outputOf({ chars: 998 })).toBe('x'.repeat(998))
    const spilled = await executor.outputOf({ chars: 999 })
    expect(spilled).toEqual({
      url: expect.stringMatching(/^file:.*\/job-1\/output\.json$/),
      key: 'job-1/output.json',
      bytes: 1001,
      contentType: 'application/json',
    })
    expect(JSON.parse(readFileSync(join(executor.folder, 'job-1/output.json'), 'utf8'))).toBe('x'.repeat(999))
  })

  it('goes by what the handler says of this one output, before its definition', async () => {
    const executor = await withFolder()
    expect(await executor.outputOf({ chars: 2_000, over: 5_000 })).toEqual({ text: 'x'.repeat(2_000) })
    expect(existsSync(executor.folder)).toBe(false)
    expect(await executor.outputOf({ chars: 10, over: 0 })).toMatchObject({
      bytes: 21,
      key: 'job-1/output.json',
    })
  })

  it('may be all values of a stream', async () => {
    const executor = await withFolder()
    expect(await executor.outputOf({ chars: 600, streams: true })).toMatchObject({ key: 'job-1/output.json' })
    expect(JSON.parse(readFileSync(join(executor.folder, 'job-1/output.json'), 'utf8'))).toHaveLength(2)
  })

  it('may be larger than all that is kept', async () => {
    const executor = await withFolder()
    expect(await executor.outputOf({ chars: 30_000_000 })).toMatchObject({ bytes: 30_000_002 })
    expect(readFileSync(join(executor.folder, 'job-1/output.json')).byteLength).toBe(30_000_002)
  })

  it('stays in the record without a bucket, as long as it fits', async () => {
    const executor = await startExecutor('spills.ts')
    expect(await executor.outputOf({ chars: 2_000 })).toBe('x'.repeat(2_000))
    const error = await executor.errorOf({ chars: 20_000_000 })
    expect(error.code).toBe('OUTPUT_TOO_LARGE')
    expect(error.message).toContain('the job has no s3Config')
  })

  it.each([-1, 20_000_001, 'much'])('cannot have %s as its bytes', async (over) => {
    const executor = await startExecutor('spills.ts')
    const { code, message } = await executor.errorOf({ chars: 1, over })
    expect(code).toBe('HANDLER_ERROR')
    expect(message).toContain(`overBytes of spill() must be a number from 0 to 20000000, got ${over}.`)
  })
})

it('without it an output that is too large fails its job, and the failure names the option', async () => {
  const executor = await startExecutor('returns-what-is-asked.ts')
  const { code, message } = await executor.errorOf({ kind: 'too large' })
  expect(code).toBe('OUTPUT_TOO_LARGE')
  expect(message).toContain("'spill: true'")
})
