// What a shell can complete of the command.

export const shells = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof shells)[number]

export type Values =
  { kind: 'any' | 'files' | 'folders' | 'files behind @' } | { kind: 'choices'; choices: readonly string[] }

export interface CompletedOption {
  names: readonly string[]
  description: string
  /** Where it takes one. */
  value?: {
    name: string
    values: Values
    /** All words up to the next flag are values of it. */
    isMany: boolean
  }
}

export interface CompletedCommand {
  /** Its words after `longshore`; none for longshore itself. */
  path: readonly string[]
  /** Those right below it. */
  commands: readonly { name: string; description: string }[]
  options: readonly CompletedOption[]
  positionals: readonly { name: string; values: Values }[]
}

/** As one word of a shell, whatever is in it. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
