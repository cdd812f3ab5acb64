// Whether the bucket that is set here can be used, in the names that its settings have.

import type { Resolved } from '../../config/resolve.ts'
import { variableOf } from '../../config/setting.ts'
import { settings, type SettingKey } from '../../config/settings.ts'
import type { Finding } from '../../lib/finding.ts'

/** By the names that a bucket has them under for authors. */
const KEYS = {
  endpointUrl: 'bucketEndpointUrl',
  accessId: 'bucketAccessKeyId',
  accessSecret: 'bucketSecretAccessKey',
  bucketName: 'bucketName',
  region: 'bucketRegion',
} as const satisfies Record<string, SettingKey>

export function namesBucket({ values }: Resolved): boolean {
  return Object.values(KEYS).some((key) => values[key] !== undefined)
}

/** What is found of a bucket of which at least a part is set. */
export async function examineNamedBucket({ values, origins }: Resolved): Promise<Finding[]> {
  const fields = Object.entries(KEYS).map(([field, key]) => [field, values[key]] as const)
  const given = Object.fromEntries(fields.filter(([, value]) => value !== undefined))
  const { examineBucket } = await import('../../s3/examine.ts')
  const findings = await examineBucket(given)
  return findings.map((finding) => ({ ...finding, sentence: inSettings(finding.sentence, origins) }))
}

function inSettings(sentence: string, origins: Resolved['origins']): string {
  const said = Object.values(KEYS).flatMap((key) => origins[key] ?? [])
  return sentence
    .replace(/ Give accessId, .*$/, ` Set what it lacks, or take out what is set of it: ${said.join(', ')}.`)
    .replaceAll(/(?<![\w/.-])(?:endpointUrl|accessId|accessSecret|bucketName)\b/g, (field) => {
      const key = KEYS[field as keyof typeof KEYS]
      return origins[key] ?? `${variableOf(key, settings[key])} (${key})`
    })
}
