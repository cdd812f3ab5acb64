// The job that lies beside a handler for trying it out.

import { existsSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** Where it lies, whether or not it does. */
export function testInputBeside(handlerPath: string): string {
  const isFolder = existsSync(handlerPath) && statSync(handlerPath).isDirectory()
  return join(isFolder ? handlerPath : dirname(handlerPath), 'test_input.json')
}
