/** The state on PostgreSQL: its parts, one for each interface. */
import { sql } from '../../platform/sql.ts'
import type { State } from '../state.ts'
import { PgContexts } from './contexts.ts'
import { PgLogins } from './logins.ts'
import type { EngineContext } from './part.ts'
import { PgSessions } from './sessions.ts'
import { PgSignIns } from './sign-ins.ts'

export function createState(context: EngineContext): State {
  const sessions = new PgSessions(context)
  return {
    sessions,
    contexts: new PgContexts(context, sessions),
    logins: new PgLogins(context, sessions),
    signIns: new PgSignIns(context),
    // Each change is one transaction.
    readTogether: read => read(),
    forgetUser: user => forgetUser(context, sessions, user),
  }
}

async function forgetUser({ db }: EngineContext, sessions: PgSessions, user: string): Promise<void> {
  // An imported context may have the id in lower case.
  const ids = [...new Set([user, user.toLowerCase()])]
  await db.retry(queries =>
    queries.script([
      sql`UPDATE outbox_lane SET token = NULL, first_seen = NULL WHERE peer = ANY (${ids}::text[])`,
      sql`SELECT touch_sessions(ARRAY(SELECT DISTINCT s.name_key FROM outbox_lane l JOIN session s ON s.key = l.session
        WHERE l.peer = ANY (${ids}::text[])))`,
    ]),
  )
  for (const { name, bot } of await sessions.list())
    if (bot?.user_id === user) await sessions.removeUser(name, user)
  await db.barrier()
}
