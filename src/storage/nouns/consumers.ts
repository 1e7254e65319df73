/** The end of readers of the log. Claims are hot, and each engine has its own. */
import { constantSql, type Sql, sql } from '../../platform/sql.ts'
import { changes, type Dialect, type Noun, type NounContext } from '../routine.ts'
import type { Consumers } from '../store.ts'

const tablesOfConsumer = ['consumer_ahead', 'acknowledged', 'lease'].map(constantSql)

/** @returns statements of a write that removes consumers. `areThese`: the condition that a column names one of them */
export const removeConsumers = (
  dialect: Pick<Dialect, 'lock'>,
  areThese: (name: Sql) => Sql,
): readonly Sql[] => [
  // Claims lock this row first.
  ...dialect.lock(sql`SELECT FROM consumer WHERE ${areThese(sql`consumer.name`)}`),
  ...tablesOfConsumer.map(table => sql`DELETE FROM ${table} WHERE ${areThese(sql`${table}.consumer`)}`),
  sql`DELETE FROM consumer WHERE ${areThese(sql`consumer.name`)} RETURNING name`,
]

export const createConsumers = ({
  dialect,
}: Pick<NounContext, 'dialect'>): Noun<Pick<Consumers, 'remove'>> => ({
  verbs: {
    remove: consumer => changes(...removeConsumers(dialect, name => sql`${name} = ${consumer}`)),
  },
  modes: { remove: 'light' },
})
