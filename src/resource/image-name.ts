// The names of images: references as registries have them, or the file of a handler.

import { z } from 'zod'
import { fleetLimits } from './fleet-limits.ts'

const part = '[a-z0-9]+(?:(?:\\.|_|__|-+)[a-z0-9]+)*'
const label = '[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?'
const ipv6 = '\\[[a-fA-F0-9:]+\\]'
// A first part without a dot or a port is no registry, unless it is this machine.
const registry = `(?:(?:localhost|${label}(?:\\.${label})+|${ipv6})(?::\\d{1,5})?|${label}:\\d{1,5})`
const tag = '[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}'
const digest = '[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}'
const reference = `(?:${registry}/)?(${part}(?:/${part})*)(?::${tag})?(?:@${digest})?`
const REFERENCE = new RegExp(`^${reference}$`)
const file = String.raw`file:[^\s\p{C}]+`
const FILE = new RegExp(`^${file}$`, 'u')
const REPOSITORY_CHARS = 255

/** Whether an engine takes it for an image's name. Whatever else it is would be part of an address that the engine is asked at. */
export function isImageReference(name: string): boolean {
  const [, repository = ''] = REFERENCE.exec(name) ?? []
  return repository !== '' && repository.length <= REPOSITORY_CHARS
}

export function isFileImage(name: string): boolean {
  return FILE.test(name)
}

export const imageNameSchema = z
  .string()
  .min(1)
  .max(fleetLimits.wordChars)
  .refine(
    (name) => isImageReference(name) || isFileImage(name),
    'must be the name of an image, as registry/path:tag@digest, or file:<path of a handler>, without spaces',
  )
  .meta({
    pattern: `^(?:${reference}|${file})$`,
    description: `An image as registry/path:tag@digest, of which the path has at most ${REPOSITORY_CHARS} characters, or file:<path of a handler>.`,
  })
