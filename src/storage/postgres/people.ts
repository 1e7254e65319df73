/** What the erasure of a person needs of this engine: see `nouns/people.ts`; and VACUUM. */
import { constantSql, sql } from '../../platform/sql.ts'
import { erasedSession, receivedElsewhere } from '../log-rows.ts'
import type { PeopleParts } from '../nouns/people.ts'
import type { PeopleStore } from '../people.ts'
import { write } from '../routine.ts'
import { storeTables } from '../table-list.ts'
import type { EngineContext } from './part.ts'

/** Longest wait for transactions that began before, and the pause between two looks. svc has none that takes longer. */
const [writersMs, lookEveryMs] = [30_000, 5]
/** Longest wait of a rewrite for a table: everything else waits behind it. */
const rewriteWaitMs = 2000
/** Longest time of one VACUUM, and of its wait for another one. */
const [vacuumMs, vacuumWaitMs] = [30 * 60_000, 60_000]

/** Tables with rows of users. */
const touchedTables = storeTables.flatMap(({ name, people }) => (people === undefined ? [] : [name]))

export const createPeopleParts = ({ clock, db }: EngineContext): PeopleParts => ({
  store: constantSql('meta'),
  isUndated: constantSql('token IS NOT NULL AND received_at IS NULL'),
  beforeUnnaming: user => [
    sql`SELECT touch_sessions(ARRAY(SELECT DISTINCT s.name_key FROM user_name n JOIN session s ON s.key = n.session
      WHERE n.peer = ${user}))`,
  ],
  eraseFromLeases: user => [
    sql`UPDATE lease SET ids = ARRAY(SELECT one FROM unnest(ids) WITH ORDINALITY AS all_ids(one, nth)
        WHERE NOT EXISTS (SELECT 1 FROM message m WHERE m.id = one AND m.peer = ${user}) ORDER BY nth)
      WHERE EXISTS (SELECT 1 FROM message m WHERE m.id = ANY (ids) AND m.peer = ${user})`,
    sql`DELETE FROM lease WHERE ids = '{}'`,
  ],
  *eraseMessages(user, most) {
    const [erased] = yield* write<{ count: number }>(sql`WITH doomed AS (SELECT id FROM message
        WHERE peer = ${user} ORDER BY id LIMIT ${most}),
      erased AS (UPDATE message m SET message_id = 'forgotten:' || m.id, session = ${erasedSession},
        sent = ${receivedElsewhere}, peer = '', msg_type = 'TEXT', timestamp = 0, content_hash = NULL, text = '',
        raw = '{}', sent_by = NULL, reason = NULL, reason_quote = NULL, sent_with = NULL
        FROM doomed WHERE m.id = doomed.id RETURNING m.id),
      -- A row without pairs: a process that indexes the text that it read before leaves it as it is.
      grams AS (INSERT INTO gram (id, pairs) SELECT id, '{}' FROM erased
        ON CONFLICT (id) DO UPDATE SET pairs = excluded.pairs)
      SELECT count(*) AS count FROM erased`)
    return erased!.count
  },
  async othersEnded() {
    const { xid } = await db.one<{ xid: string }>(
      sql`SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS xid`,
    )
    const areOver = sql`SELECT pg_snapshot_xmin(pg_current_snapshot()) >= ${xid}::xid8 AS over`
    const until = clock.monotonic() + writersMs
    while (clock.monotonic() < until && !(await db.one<{ over: boolean }>(areOver)).over)
      await clock.sleep(lookEveryMs)
  },
})

export const createScrub = ({ db }: EngineContext): Pick<PeopleStore, 'scrub' | 'listRemains'> => ({
  scrub: (rewrite = false) =>
    db.guarded(async () => {
      using connection = await db.connect(vacuumMs)
      const [command, waitMs] = rewrite ? ['VACUUM (FULL)', rewriteWaitMs] : ['VACUUM', vacuumWaitMs]
      await connection.run(sql`SELECT set_config('lock_timeout', ${String(waitMs)}, false)`)
      for (const table of touchedTables) await connection.run(constantSql(`${command} ${table}`))
    }),
  async listRemains(rewrite) {
    const { isOwner } = await db.one<{ isOwner: boolean }>(ownsTables)
    if (!isOwner) return [remains.rows, remains.log]
    return rewrite ? [remains.log] : [remains.files, remains.log]
  },
})

/** VACUUM leaves out the tables of other roles, without an error. */
const ownsTables = sql`SELECT bool_and(pg_has_role(relowner, 'USAGE')) AS "isOwner" FROM pg_class
  WHERE relnamespace = 'svc'::regnamespace AND relkind = 'r'`

const remains = {
  rows: 'old rows in the tables of the database, which belong to another role: let their owner run VACUUM (FULL) there',
  files:
    'files of the tables in the database, until their space is used again: --rewrite writes the tables again, without them',
  log: 'the log (WAL) of the database and its archive, standbys that lag, and dumps and backups of the database',
}
