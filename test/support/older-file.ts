// A queue file as an earlier version of the schema left it.

import type { DatabaseSync } from 'node:sqlite'

/** What undoes each step, by the version that it leads to. */
const undo: Record<number, string> = {
  8: 'drop index deliveries_endpoint; alter table endpoints drop column is_removed',
  7: `drop index jobs_waiting; drop index jobs_waiting_low;
      create index jobs_waiting on jobs (endpoint, position) where status in ('IN_QUEUE');
      alter table endpoints drop column in_queue_low; alter table endpoints drop column arrived`,
  6: 'drop table records; drop table duties',
  5: 'drop index jobs_secrets',
}

/** Takes back what came after that version, rows included. */
export function makeOlder(db: DatabaseSync, version: number): void {
  const present = Number(db.prepare('pragma user_version').get()?.['user_version'])
  for (let step = present; step > version; step -= 1) {
    const statements = undo[step]
    if (statements === undefined)
      throw new Error(`Nothing is known that undoes version ${step} of the schema.`)
    db.exec(statements)
  }
  db.exec(`pragma user_version = ${version}`)
}
