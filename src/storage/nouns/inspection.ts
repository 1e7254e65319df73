/** What an inspection reads of the tables. It writes nothing. */
import type { Scope } from '../../model/access.ts'
import { suspectSpanMs } from '../../model/message.ts'
import { noSql, type Sql, sql } from '../../platform/sql.ts'
import type { KnownNames, StoreStats, WebhookProblem } from '../inspection.ts'
import type { WaitingSends } from '../outbox.ts'
import { type Dialect, type Routine, readAll } from '../routine.ts'
import { createBackups } from './backups.ts'

type Contents = Omit<StoreStats, 'form' | 'newest' | 'sizeBytes' | 'walBytes' | 'damage'>

/** The contents of a store without tables, or with tables that this version cannot interpret. */
export const noContents: Contents = {
  messages: 0,
  asked: 0,
  planned: 0,
  outbox: { sends: 0, messages: 0, users: 0 },
  suspects: new Map(),
  backups: {},
}
export const noNames: KnownNames = { users: [], webhooks: [], keys: [] }

/** A webhook is reported after this time without a success. */
const failingMs = 60_000

/** @param counted SQL for the number of messages */
export function* readContents(dialect: Dialect, counted: Sql): Routine<Contents> {
  const now = Date.now()
  const backups = createBackups({ dialect }).verbs
  const [counts] = yield* readAll<Pick<StoreStats, 'messages' | 'asked' | 'planned'>>(sql`SELECT
    ${counted} AS messages, ${countHeld(sql`o.asked IS NOT NULL`)} AS asked, ${countHeld(sql`o.asked IS NULL`)} AS planned`)
  const outbox = yield* readWaiting()
  const webhooks = yield* readAll<WebhookProblem>(sql`SELECT id,
    CASE WHEN disabled IS NULL THEN 'failing' ELSE 'disabled' END AS status,
    coalesce(disabled, last_error, '') AS why,
    CASE WHEN disabled IS NULL THEN failing_since ELSE disabled_at END AS since
    FROM webhook WHERE disabled IS NOT NULL OR (paused = 0 AND failing_since < ${now - failingMs})
    ORDER BY created_at`)
  const agents = yield* readAll<{ agent: string }>(
    sql`SELECT agent FROM agent_conversation WHERE session = 0 ORDER BY agent`,
  )
  const scopes = yield* readAll<{ name: string; grant: string }>(sql`SELECT name, "grant" FROM access_key
    WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ${now}) ORDER BY created_at`)
  const [newest] = yield* backups.list()
  const failure = yield* backups.getFailure()
  return {
    ...counts!,
    outbox,
    agents: agents.map(({ agent }) => agent),
    keys: scopes.map(({ grant, name }) => ({ name, scope: JSON.parse(grant) as Scope })),
    suspects: yield* readSuspects(dialect, now - suspectSpanMs),
    ...(webhooks.length > 0 && { webhooks }),
    backups: { ...(newest && { newest }), ...(failure && { failure }) },
  }
}

/** Number of sends that wait outside their lanes: for an approval, or for their time. */
const countHeld = (which: Sql): Sql => sql`(SELECT count(DISTINCT part.entry) FROM outbox_part part
  JOIN outbox o ON o.id = part.entry WHERE part.status = 'asked' AND ${which})`

/** Reads what waits for its users. */
export function* readWaiting(): Routine<WaitingSends> {
  const [waiting] = yield* readAll<WaitingSends>(sql`SELECT count(*) AS messages,
    count(DISTINCT part.entry) AS sends, count(DISTINCT part.lane) AS users, min(o.created_at) AS "oldestAt",
    min(o.expires_at) AS "firstExpiryAt" FROM outbox_part part JOIN outbox o ON o.id = part.entry
    WHERE part.status = 'queued' AND part.message IS NOT NULL`)
  return waiting!
}

/**
 * Reads the number of messages since then (Unix ms) that WeChat accepted without an id, by session. Sessions without such
 * messages are not in it.
 *
 * @param isSeen goes on with the condition of a message `m`
 */
export function* readSuspects(
  { by, inOrderJoin }: Dialect,
  since: number,
  isSeen: Sql = noSql,
): Routine<Map<string, number>> {
  const rows = yield* readAll<{ name: string; messages: number }>(sql`SELECT s.name, count(*) AS messages
    FROM message m${by('message_suspect')} ${inOrderJoin} session s ON s.key = m.session
    WHERE m.status = 'suspect' AND m.timestamp >= ${since}${isSeen} GROUP BY s.name`)
  return new Map(rows.map(({ name, messages }) => [name, messages]))
}

export function* readNames(): Routine<KnownNames> {
  return {
    users: yield* readAll(sql`SELECT DISTINCT user_name.name AS name, session.name AS session FROM user_name
      JOIN session ON session.key = user_name.session ORDER BY 1, 2`),
    webhooks: yield* readAll(sql`SELECT id, url FROM webhook ORDER BY created_at`),
    keys: yield* readAll(sql`SELECT id, name FROM access_key WHERE revoked_at IS NULL ORDER BY created_at`),
  }
}
