// Who may import whom: one rule per layer and one per door.

const layers = {
  lib: [],
  job: ['lib'],
  resource: ['job', 'lib'],
  protocol: ['job', 'resource', 'lib'],
  store: ['job', 'resource', 'lib'],
  queue: ['store', 'protocol', 'job', 'lib'],
  fleet: ['store', 'protocol', 'resource', 'job', 'lib'],
  server: ['fleet', 'queue', 'store', 'protocol', 'resource', 'job', 'lib'],
  client: ['protocol', 'resource', 'job', 'lib'],
  s3: ['job', 'lib'],
  config: ['protocol', 'job', 'lib'],
  worker: ['config', 'client', 'protocol', 's3', 'job', 'lib'],
  testing: ['worker', 's3', 'job', 'lib'],
  dev: ['worker', 'job', 'lib'],
  cli: [
    'dev',
    'fleet',
    'server',
    'resource',
    'queue',
    'store',
    'worker',
    'config',
    'client',
    'protocol',
    's3',
    'job',
    'lib',
  ],
}

const layerRules = Object.entries(layers).map(([layer, allowed]) => ({
  name: `${layer}-imports-its-own`,
  comment: `src/${layer} may import ${allowed.length > 0 ? allowed.map((name) => `src/${name}`).join(', ') : 'nothing else of src'}.`,
  severity: 'error',
  from: { path: `^src/${layer}/` },
  to: { path: '^src/', pathNot: `^src/(${[layer, ...allowed].join('|')})/` },
}))

// Within the fleet, where a folder is a part. What stands above them puts them together.
const fleetParts = {
  rules: [],
  providers: [],
  resources: ['providers'],
  service: ['resources', 'rules', 'providers'],
  scaling: ['service', 'resources', 'rules'],
  host: ['service', 'providers'],
}

const fleetRules = Object.entries(fleetParts).map(([part, allowed]) => ({
  name: `fleet-${part}-imports-its-own`,
  comment: `src/fleet/${part} may import ${allowed.length > 0 ? allowed.map((name) => `src/fleet/${name}`).join(', ') : 'nothing else of src/fleet'}.`,
  severity: 'error',
  from: { path: `^src/fleet/${part}/` },
  to: { path: '^src/fleet/', pathNot: `^src/fleet/(${[part, ...allowed].join('|')})/` },
}))

const doors = {
  'node:sqlite': ['^src/store/sqlite/', '^(node:)?sqlite$'],
  fastify: ['^src/server/', 'node_modules/(fastify|fastify-type-provider-zod|@fastify/[^/]+)/'],
  undici: ['^src/(client/http|queue/webhook-call|s3/url-source)\\.ts$', 'node_modules/undici/'],
  pino: ['^src/(cli/logger|worker/log)\\.ts$', 'node_modules/pino(-pretty)?/'],
  '@inquirer/select': ['^src/cli/init\\.ts$', 'node_modules/@inquirer/'],
  commander: ['^src/cli/(program|commands/[^/]+)\\.ts$', 'node_modules/commander/'],
  tsx: ['^src/worker/handler\\.ts$', 'node_modules/tsx/'],
  'prom-client': ['^src/(worker|server)/metrics\\.ts$', 'node_modules/prom-client/'],
  opentelemetry: ['^src/worker/tracing\\.ts$', 'node_modules/@opentelemetry/'],
  'aws-sdk': ['^src/s3/(s3-bucket|upload-guard)\\.ts$', 'node_modules/@aws-sdk/'],
  ioredis: ['^src/store/redis/(client|cluster-listener|connection)\\.ts$', 'node_modules/ioredis/'],
  leven: ['^src/config/did-you-mean\\.ts$', 'node_modules/leven/'],
  yauzl: ['^src/s3/unzip\\.ts$', 'node_modules/(@types/)?yauzl/'],
  mime: ['^src/s3/upload\\.ts$', 'node_modules/mime/'],
  'cli-progress': ['^src/cli/transfer-bars\\.ts$', 'node_modules/(@types/)?cli-progress/'],
  'string-width': ['^src/cli/table\\.ts$', 'node_modules/string-width/'],
  esbuild: ['^src/cli/bundle/', 'node_modules/esbuild/'],
  dockerode: ['^src/fleet/providers/docker-engine\\.ts$', 'node_modules/(@types/)?dockerode/'],
  // The rest of the fleet asks a provider.
  child_process: [
    '^src/(worker/handler-process|cli/docker|fleet/providers/pod-(launch|run))\\.ts$',
    '^(node:)?child_process$',
  ],
}

const doorRules = Object.entries(doors).map(([name, [from, to]]) => ({
  name: `one-door-for-${name.replace(':', '-')}`,
  comment: `Only ${from} imports ${name}.`,
  severity: 'error',
  from: { path: '^src/', pathNot: from },
  to: { path: to },
}))

module.exports = {
  forbidden: [
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true } },
    {
      name: 'no-orphans',
      severity: 'error',
      from: {
        orphan: true,
        pathNot: '^src/(index|cli/main|client/client|testing/test-worker|worker/child|worker/watchdog)\\.ts$',
      },
      to: {},
    },
    {
      name: 'no-missing-dependencies',
      severity: 'error',
      from: { path: '^src/' },
      to: {
        dependencyTypes: ['npm-dev', 'npm-no-pkg', 'npm-unknown', 'unknown'],
        // An optional peer, there for our own tests.
        pathNot: 'node_modules/(@types|@opentelemetry/api)/',
      },
    },
    {
      name: 'index-re-exports-only-what-authors-need',
      severity: 'error',
      from: { path: '^src/index\\.ts$' },
      to: {
        path: '^src/',
        pathNot:
          '^src/(worker/define-handler|config/define-config|job/chunk|s3/s3|s3/s3-from|s3/s3-error)\\.ts$',
      },
    },
    ...layerRules,
    ...fleetRules,
    ...doorRules,
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'types', 'node', 'default'],
    },
  },
}
