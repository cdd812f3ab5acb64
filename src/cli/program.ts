// The commands and their options; what each does is loaded only when it is called.

import { Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import { limits } from '../job/limits.ts'
import { fail } from './fail.ts'
import type { ServeOptions } from './serve.ts'
import { version } from './version.ts'

/** Parses the arguments and runs the command. Sets the exit code; never throws. */
export async function runProgram(argv: readonly string[]): Promise<void> {
  try {
    await buildProgram().parseAsync([...argv])
  } catch (cause) {
    if (cause instanceof CommanderError) process.exitCode = cause.exitCode === 0 ? 0 : 1
    else fail(cause)
  }
}

function buildProgram(): Command {
  const program = new Command('longshore')
    .description('A worker runtime for serverless job queues, and the queue service itself.')
    .version(version(), '--version')
    .exitOverride()
    .showSuggestionAfterError()
    .showHelpAfterError('(add --help for the options)')
    .enablePositionalOptions()

  addServe(program)
  addStart(program)
  addRun(program)
  addInit(program)
  addKeys(program)
  addDoctor(program)
  addMigrate(program)
  return program
}

function addServe(program: Command): void {
  program
    .command('serve')
    .description('run the queue service')
    .option('--store <url>', 'where jobs live: sqlite:<file> or redis://<host>:<port>', 'sqlite:queue.db')
    .option('--port <number>', 'port to listen on; 0 takes a free one', port, 8000)
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--endpoint <names...>', 'endpoints to make; "default" when there is none')
    .option('--no-rate-limits', 'let every key ask as often as it likes')
    .option(
      '--requests-per-worker <number>',
      'what each running worker adds to a rate',
      requestsPerWorker,
      50,
    )
    .option(
      '--redis-wait <number>',
      'replicas of Redis that have every write before it is answered',
      replicas,
      0,
    )
    .option('--allow-private-webhooks', 'call webhooks of this machine and of private networks too', false)
    .addHelpText('after', '\nExample:\n  longshore serve --store sqlite:queue.db --port 8000 --endpoint ocr')
    .action(
      async ({ endpoint = [], ...options }: Omit<ServeOptions, 'endpoints'> & { endpoint?: string[] }) => {
        const { serve } = await import('./serve.ts')
        await serve({ ...options, endpoints: endpoint })
      },
    )
}

function addStart(program: Command): void {
  program
    .command('start')
    .description('run a worker: lease jobs and run the handler')
    .argument('<handler>', 'the handler file')
    .option('--concurrency <number>', "jobs at the same time (default: the definition's, else 1)")
    .option('--executors <number>', 'handler processes that share the jobs', '1')
    .option('--spare <kind>', 'what stands ready to replace a process: none, bare or warm', 'bare')
    .option('--max-jobs-per-executor <number>', 'replace a process after so many jobs')
    .option('--max-memory-mb <MB>', 'replace a process that has more memory after a job')
    .option('--import-timeout-ms <ms>', 'how long importing the handler may take', '60000')
    .option('--setup-timeout-ms <ms>', 'how long its setup() may take', '600000')
    .option('--health-port <number>', 'answer /health and /metrics on this port')
    .option('--health-host <address>', 'and this address', '127.0.0.1')
    .option('--drain-ms <ms>', 'how long running jobs get to end on SIGTERM', '30000')
    .option('--kill-grace-ms <ms>', "between a job's abort and the end of its process", '5000')
    .option('--test_input <json>', 'run this one job instead, as JSON or @file.json, and exit')
    .addOption(new Option('--test-input <json>').hideHelp())
    .addHelpText(
      'after',
      '\nExample:\n  LONGSHORE_ENDPOINT_URL=http://127.0.0.1:8000/v2/default LONGSHORE_WORKER_TOKEN=… longshore start handler.ts',
    )
    .action(async (handler: string, options: Record<string, string>) => {
      const { start } = await import('./start.ts')
      await start(handler, options)
    })
}

function addRun(program: Command): void {
  program
    .command('run')
    .description('run one job without a queue')
    .argument('<handler>', 'the handler file')
    .option(
      '--test-input <json>',
      'the job as JSON, or @file.json; test_input.json beside the handler by default',
    )
    .addHelpText('after', `\nExample:\n  longshore run handler.ts --test-input '{"input":{"name":"Ada"}}'`)
    .action(async (handler: string, options: { testInput?: string }) => {
      const { run } = await import('./run.ts')
      await run(handler, options.testInput)
    })
}

function addInit(program: Command): void {
  program
    .command('init')
    .description('write a starter')
    .argument('[template]', 'hello, stream-text, ocr or thumbnail', 'hello')
    .argument('[dir]', 'the folder to write; named like the template by default')
    .addHelpText('after', '\nExample:\n  longshore init stream-text my-worker')
    .action(async (template: string, dir: string | undefined) => {
      const { init } = await import('./init.ts')
      await init(template, dir ?? template)
    })
}

function addKeys(program: Command): void {
  const keys = program.command('keys').description('the API keys of a store, also while it is served')
  const store = ['--store <url>', 'the store: sqlite:<file>', 'sqlite:queue.db'] as const
  keys
    .command('create')
    .description('make a key and print it, once')
    .option(...store)
    .option('--name <text>', 'what it is for, in lists', 'key')
    .option('--endpoint <names...>', 'the endpoints it opens; every one by default')
    .option('--allow <permissions...>', 'read, write, worker or fleet', ['read', 'write'])
    .addHelpText(
      'after',
      '\nExamples:\n  longshore keys create --name web --endpoint ocr\n  longshore keys create --name workers --endpoint ocr --allow worker',
    )
    .action(async (options: { store: string; name: string; endpoint?: string[]; allow: string[] }) => {
      const { createKey } = await import('./keys.ts')
      const { store: url, name, endpoint, allow } = options
      await createKey({ store: url, name, permissions: allow, ...(endpoint && { endpoints: endpoint }) })
    })
  keys
    .command('list')
    .description('show what keys there are; never their text')
    .option(...store)
    .action(async ({ store: url }: { store: string }) => {
      const { listKeys } = await import('./keys.ts')
      await listKeys(url)
    })
  keys
    .command('revoke')
    .description('end a key: it opens nothing from the next request on')
    .argument('<id>', 'the id that the list shows')
    .option(...store)
    .action(async (id: string, { store: url }: { store: string }) => {
      const { revokeKey } = await import('./keys.ts')
      await revokeKey(url, id)
    })
}

function addDoctor(program: Command): void {
  program
    .command('doctor')
    .description('say what is wrong with a store; nothing when all is well')
    .option('--store <url>', 'the store: sqlite:<file> or redis://<host>:<port>', 'sqlite:queue.db')
    .action(async ({ store }: { store: string }) => {
      const { doctor } = await import('./doctor.ts')
      await doctor(store)
    })
}

function addMigrate(program: Command): void {
  program
    .command('migrate')
    .description('move a stopped queue from its file to Redis')
    .requiredOption('--from <url>', 'the queue file: sqlite:<file>')
    .requiredOption('--to <url>', 'where it goes: redis://<host>:<port>')
    .addHelpText(
      'after',
      '\nExample:\n  longshore migrate --from sqlite:queue.db --to redis://127.0.0.1:6379',
    )
    .action(async ({ from, to }: { from: string; to: string }) => {
      const { migrate } = await import('./migrate.ts')
      await migrate(from, to)
    })
}

function requestsPerWorker(text: string): number {
  const { min, max } = limits.requestsPerWorker
  const value = Number(text)
  if (/^\d+$/.test(text) && value >= min && value <= max) return value
  throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`)
}

function replicas(text: string): number {
  if (/^\d{1,3}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It must be a whole number from 0 to 999.')
}

function port(text: string): number {
  const value = Number(text)
  if (!/^\d+$/.test(text) || value > 65_535) throw new InvalidArgumentError('It must be from 0 to 65535.')
  return value
}
