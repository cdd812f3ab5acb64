// Changing a record that others change too.

import type { Records } from '../../store/fleet-store.ts'

/**
 * Replaces the record by what `change` makes of it as it is then. False when it is gone, when its new name is another's, or when
 * `change` answers undefined, which leaves it as it is.
 */
export async function changeRecord<T extends { id: string }>(
  records: Records<T>,
  id: string,
  change: (value: T) => T | undefined,
): Promise<boolean> {
  for (;;) {
    const found = await records.find(id)
    const changed = found && change(found.value)
    if (!changed) return false
    const answer = await records.replace(changed, found.revision)
    if (answer !== 'changed') return answer === 'replaced'
  }
}
