// What was found wrong, or unwise, by looking.

export interface Finding {
  /** A warning is to be known, and may stay. */
  level: 'problem' | 'warning'
  /** What it is, and the mend. */
  sentence: string
  /** Where it can be mended without losing anything. */
  fix?: Fix
}

export interface Fix {
  apply(): void
  /** What was done then. */
  done: string
}

export function problem(sentence: string, fix?: Fix): Finding {
  return { level: 'problem', sentence, ...(fix && { fix }) }
}

export function warning(sentence: string): Finding {
  return { level: 'warning', sentence }
}
