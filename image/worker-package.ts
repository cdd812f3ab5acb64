// Makes the package that an image of workers holds: the files that a worker can reach, and only the dependencies they import.
// Run in Dockerfile.base as `node image/worker-package.ts <folder>`, after the build.

import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build, type Plugin } from 'esbuild'

const root = fileURLToPath(new URL('..', import.meta.url))

/** The commands that an image has; the others belong to a queue service or to an author's machine. */
const COMMANDS = ['start', 'run', 'doctor-live']

/** What is started by its path, and so imported by nobody. */
const STARTED_BY_PATH = ['src/worker/child.ts', 'src/worker/watchdog.ts']

interface Manifest {
  name: string
  version: string
  license: string
  type: string
  engines: Record<string, string>
  bin: Record<string, string>
  exports: Record<string, string | { default: string }>
  dependencies: Record<string, string>
  peerDependencies: Record<string, string>
}

export interface WorkerPackage {
  /** Source files, by their path from the root. */
  files: string[]
  /** The dependencies of package.json that these files import. */
  dependencies: Record<string, string>
}

const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Manifest

/** Follows every import from what a worker is started by, the late ones too. */
export async function findWorkerPackage(): Promise<WorkerPackage> {
  const imported = new Set<string>()
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: [...sourcesOf(manifest), ...STARTED_BY_PATH],
    bundle: true,
    format: 'esm',
    platform: 'node',
    write: false,
    metafile: true,
    outdir: 'none',
    logLevel: 'error',
    plugins: [workerImports(imported)],
  })
  const isThere = (name: string): boolean =>
    name in manifest.dependencies || name in manifest.peerDependencies
  const unknown = [...imported].filter((name) => !isThere(name))
  if (unknown.length > 0) throw new Error(`package.json has no dependency on ${unknown.join(', ')}.`)
  return {
    files: Object.keys(metafile.inputs).toSorted(),
    dependencies: Object.fromEntries(
      Object.entries(manifest.dependencies).filter(([name]) => imported.has(name)),
    ),
  }
}

/** The sources of what others start or import by the names of the package. */
function sourcesOf({ bin, exports }: Manifest): string[] {
  const targets = Object.values(exports).map((target) =>
    typeof target === 'string' ? target : target.default,
  )
  return [...Object.values(bin), ...targets]
    .filter((file) => file.endsWith('.js'))
    .map((file) => file.replace(/^(\.\/)?dist\//, 'src/').replace(/\.js$/, '.ts'))
}

function workerImports(imported: Set<string>): Plugin {
  return {
    name: 'worker-imports',
    setup(bundling) {
      bundling.onResolve({ filter: /^[^.]/ }, ({ path, kind }) => {
        if (kind === 'entry-point') return undefined
        if (!path.startsWith('node:')) imported.add(nameOf(path))
        return { external: true }
      })
      bundling.onResolve({ filter: /^\./ }, ({ path, kind, importer }) => {
        const isCommand = kind === 'dynamic-import' && importer.includes('src/cli/commands/')
        return isCommand && !COMMANDS.includes(path.slice('../'.length, -'.ts'.length))
          ? { external: true }
          : undefined
      })
    },
  }
}

/** The package of an import, without the path in it. */
function nameOf(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')
}

/** Writes the package into a folder, without the modules it needs; the lock file says which versions they have. */
async function writeWorkerPackage(folder: string): Promise<void> {
  const { files, dependencies } = await findWorkerPackage()
  mkdirSync(folder, { recursive: true })
  const { name, version, license, type, engines, bin, exports } = manifest
  const kept = { name, version, license, type, engines, bin, exports, dependencies }
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(kept, null, 2)}\n`)
  cpSync(join(root, 'package-lock.json'), join(folder, 'package-lock.json'))
  for (const file of files) {
    const built = join('dist', relative('src', file)).replace(/\.ts$/, '.js')
    mkdirSync(join(folder, dirname(built)), { recursive: true })
    cpSync(join(root, built), join(folder, built))
  }
}

if (import.meta.main) {
  const [folder] = process.argv.slice(2)
  if (folder === undefined)
    throw new Error('Name the folder to write: node image/worker-package.ts <folder>.')
  await writeWorkerPackage(folder)
}
