/** The state on PostgreSQL: its parts, one for each interface. */
import { sql } from '../../platform/sql.ts'
import { openLogins } from '../nouns/logins.ts'
import { createSignIns } from '../nouns/sign-ins.ts'
import { openNoun } from '../routine.ts'
import type { State } from '../state.ts'
import { PgContexts } from './contexts.ts'
import { createFinish } from './logins.ts'
import type { EngineContext } from './part.ts'
import { createNounContext, createRunner } from './routines.ts'
import { PgSessions } from './sessions.ts'

/** Longest wait for a change. */
const waitMs = 60_000
const never = new AbortController().signal

export function createState(context: EngineContext): State {
  const sessions = new PgSessions(context)
  const nouns = createNounContext(context)
  const run = createRunner(context.db)
  return {
    sessions,
    contexts: new PgContexts(context, { sessions }),
    logins: {
      ...openLogins(nouns, run, () => untilTouched(context)),
      finish: createFinish(context, sessions),
    },
    signIns: openNoun(createSignIns(nouns), run),
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

/** Resolves when a process has touched the store. */
async function untilTouched({ db }: EngineContext): Promise<void> {
  const { touched } = db.horizon
  const isTouched = () => db.horizon.touched !== touched
  while (!isTouched() && !db.isClosed) await db.wait(isTouched, waitMs, never)
}
