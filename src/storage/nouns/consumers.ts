/** Leases of rows, and the end of readers of the log. Claims are hot, and each engine has its own. */
import { constantSql, type Sql, sql } from '../../platform/sql.ts'
import { changes, type Dialect, type Noun, type NounContext, write } from '../routine.ts'
import { type Consumers, maxHandOuts } from '../store.ts'
import { neverSeen, ofProgram, programLeaseMs, rowLeaseMs } from './readers.ts'

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
  clock,
  dialect,
}: Pick<NounContext, 'clock' | 'dialect'>): Noun<
  Omit<Consumers, 'claim' | 'register' | 'giveBack' | 'lease'>
> => ({
  verbs: {
    *ack(lease) {
      yield* write(sql`DELETE FROM lease WHERE id = ${lease}`)
    },

    *nack(lease) {
      yield* write(sql`UPDATE lease SET expires_at = 0 WHERE id = ${lease}`)
    },

    recordHandOut: lease =>
      changes(
        sql`UPDATE lease SET hand_outs = hand_outs + 1 WHERE id = ${lease}`,
        sql`DELETE FROM lease WHERE id = ${lease} AND hand_outs >= ${maxHandOuts} RETURNING id`,
      ),

    *renew(lease) {
      yield* write(sql`UPDATE lease SET expires_at = ${clock.now() + rowLeaseMs} WHERE id = ${lease}`)
    },

    *renewLeases(consumer, leases) {
      const expiresAt = clock.now() + programLeaseMs
      const renewed = yield* write<{ id: number }>(
        sql`UPDATE lease SET expires_at = ${expiresAt} WHERE ${areOpen(dialect, consumer, leases)} RETURNING id`,
      )
      return { leases: renewed.map(({ id }) => id), expiresAt }
    },

    *settleLeases(consumer, leases, as) {
      const which = sql`WHERE ${areOpen(dialect, consumer, leases)} RETURNING id`
      const settled = yield* write<{ id: number }>(
        as === 'read'
          ? sql`DELETE FROM lease ${which}`
          : sql`UPDATE lease SET expires_at = ${as === 'unread' ? 0 : neverSeen} ${which}`,
      )
      return settled.map(({ id }) => id)
    },

    remove: consumer => changes(...removeConsumers(dialect, name => sql`${name} = ${consumer}`)),
  },
  modes: {
    ack: 'relaxed',
    nack: 'touch',
    recordHandOut: 'light',
    renew: 'relaxed',
    renewLeases: 'relaxed',
    settleLeases: 'touch',
    remove: 'light',
  },
})

/** The condition that a lease is one of these of programs, and is not settled, even if it has expired. */
const areOpen = ({ isOneOf }: Dialect, consumer: string, leases: readonly number[]): Sql =>
  sql`${isOneOf(sql`id`, leases)} AND consumer = ${consumer} AND owner = ${ofProgram} AND expires_at > 0`
