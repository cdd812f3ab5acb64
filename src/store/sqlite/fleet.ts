// The fleet's records in a queue file: one table for all kinds, since there are few of them and they are read whole.

import type { z } from 'zod'
import { recordKinds, type FleetStore, type RecordKind, type Records, type Stored } from '../fleet-store.ts'
import { integer, text, type Context, type Row } from './context.ts'

type Parts = Pick<Context, 'statements' | 'commits'>

export function makeFleet(parts: Parts): FleetStore {
  return {
    templates: recordsOf('templates', parts),
    endpoints: recordsOf('endpoints', parts),
    pods: recordsOf('pods', parts),
    endedPods: recordsOf('endedPods', parts),
    releases: recordsOf('releases', parts),
    scalings: recordsOf('scalings', parts),
    registryAuths: recordsOf('registryAuths', parts),
    hold(duty, { holder, forMs, now }) {
      const { statements, commits } = parts
      return commits.submit(
        () =>
          statements.run(
            `insert into duties (duty, holder, until) values ($duty, $holder, $until)
             on conflict (duty) do update set holder = $holder, until = $until
             where holder = $holder or until <= $now`,
            { duty, holder, until: now + forMs, now },
          ) > 0,
      )
    },
    async letGo(duty, holder) {
      const { statements, commits } = parts
      await commits.submit(() =>
        statements.run('delete from duties where duty = $duty and holder = $holder', { duty, holder }),
      )
    },
  }
}

type ValueOf<K extends RecordKind> = z.output<(typeof recordKinds)[K]['schema']>

function recordsOf<K extends RecordKind>(kind: K, { statements, commits }: Parts): Records<ValueOf<K>> {
  const { schema, hasUniqueNames } = recordKinds[kind]
  const read = (row: Row): Stored<ValueOf<K>> => ({
    value: schema.parse(JSON.parse(text(row['body']))) as ValueOf<K>,
    revision: integer(row['revision']),
  })
  const bind = (value: ValueOf<K>): { kind: K; id: string; name: string | null; body: string } => ({
    kind,
    id: value.id,
    name: hasUniqueNames && 'name' in value ? value.name : null,
    body: JSON.stringify(value),
  })
  const isTaken = ({ name, id }: { name: string | null; id: string }): boolean =>
    statements.find('select 1 from records where kind = $kind and name = $name and id <> $id', {
      kind,
      name,
      id,
    }) !== undefined
  return {
    add: (value) =>
      commits.submit(
        () =>
          statements.run(
            'insert or ignore into records (kind, id, name, body) values ($kind, $id, $name, $body)',
            bind(value),
          ) > 0,
      ),
    async find(id) {
      const row = statements.find('select body, revision from records where kind = $kind and id = $id', {
        kind,
        id,
      })
      return row && read(row)
    },
    list: async () =>
      statements.all('select body, revision from records where kind = $kind order by id', { kind }).map(read),
    replace: (value, revision) =>
      commits.submit(() => {
        const row = bind(value)
        if (isTaken(row)) return 'taken'
        const changed = statements.run(
          `update records set name = $name, body = $body, revision = revision + 1
           where kind = $kind and id = $id and revision = $revision`,
          { ...row, revision },
        )
        return changed > 0 ? 'replaced' : 'changed'
      }),
    remove: (id) =>
      commits.submit(
        () => statements.run('delete from records where kind = $kind and id = $id', { kind, id }) > 0,
      ),
  }
}
