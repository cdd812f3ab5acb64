// What authors write a longshore.config.ts with.

import type { Values } from './settings.ts'

/** Every setting of every command; what is left out has its default. */
export type LongshoreConfig = Values

/** Gives back what it is given: for the types. */
export function defineConfig(config: LongshoreConfig): LongshoreConfig {
  return config
}
