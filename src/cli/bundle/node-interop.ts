// What a module gets by the default import of CommonJS. Node gives all that `module.exports` is; the bundler does so only
// where a package.json says "type": "module", and gives `exports.default` of what was once a module elsewhere.

import { readFileSync } from 'node:fs'
import { dirname, sep } from 'node:path'
import type { Plugin } from 'esbuild'
import { moduleTypeOf } from './installed-package.ts'

/** Of the files that stand between the two, which lie nowhere. */
export const BETWEEN = 'as-node-gives-it'

export function nodeInterop(): Plugin {
  return {
    name: BETWEEN,
    setup(bundling) {
      bundling.onResolve({ filter: /^/, namespace: 'file' }, async ({ path, pluginData, ...how }) => {
        const { importer, resolveDir, kind } = how
        if (pluginData === 'asked' || (kind !== 'import-statement' && kind !== 'dynamic-import'))
          return undefined
        if (!isTakenOtherwise(importer)) return undefined
        const found = await bundling.resolve(path, { importer, resolveDir, kind, pluginData: 'asked' })
        const isFile = found.errors.length === 0 && !found.external && found.namespace === 'file'
        return isFile && wasModule(found.path) ? { path: found.path, namespace: BETWEEN } : undefined
      })
      bundling.onLoad({ filter: /^/, namespace: BETWEEN }, ({ path }) => {
        const file = JSON.stringify(path)
        const contents = `const exported = require(${file}); export { exported as default }; export * from ${file}`
        return { contents, resolveDir: dirname(path) }
      })
    },
  }
}

function isTakenOtherwise(importer: string): boolean {
  if (/\.m[jt]s$/.test(importer) || importer.split(sep).includes('node_modules')) return false
  return moduleTypeOf(importer) !== 'module'
}

function wasModule(file: string): boolean {
  if (!/\.c?js$/.test(file) || (file.endsWith('.js') && moduleTypeOf(file) === 'module')) return false
  const text = readFileSync(file, 'utf8')
  return text.includes('__esModule') && !/^\s*(?:import|export)\b/m.test(text)
}
