/** WeiLink's message log (`messages.db`, form 1 of its release 0.6.2), read from a copy in the order of time. */
import { isSvcError } from '../model/error.ts'
import { errorCodeOf } from '../platform/files.ts'
import type { Database } from '../platform/sqlite.ts'
import type { PastMessage } from '../storage/messages.ts'
import { snapshotOf } from './snapshot.ts'
import type { Conversation, Findings, HistoryTally, SourceHistory } from './source.ts'
import { pastOf, rowColumns } from './weilink-row.ts'

/** Rows read at a time. */
const pageRows = 500
/** The form of the log that is known. */
const knownForm = 1

/**
 * Opens the log.
 *
 * @returns undefined when it cannot be used at all, which is in `findings` then
 * @throws SvcError `store_unavailable` when WeiLink writes into it all the time
 */
export async function openWeiLinkHistory(
  path: string,
  findings: Findings,
): Promise<SourceHistory | undefined> {
  const unusable = (why: string) => {
    findings.problem(
      `messages.db ${why}: the history does not come over`,
      'The sessions do. sqlite3 with its command .recover may repair a damaged one, which can be moved later; nothing comes twice.',
    )
    return undefined
  }
  let snapshot: Awaited<ReturnType<typeof snapshotOf>>
  try {
    snapshot = await snapshotOf(path)
  } catch (error) {
    if (isSvcError(error)) throw error
    return unusable(`cannot be read (${errorCodeOf(error) ?? 'unknown reason'})`)
  }
  if (!snapshot) return undefined
  const { db, close } = snapshot
  try {
    const form = Number(db.get`PRAGMA user_version`?.user_version)
    const tables = db.all`SELECT name FROM sqlite_schema WHERE name = 'messages'`
    if (tables.length === 0) {
      await close()
      return form === 0 ? undefined : unusable('has no table of messages')
    }
    if (form > knownForm) {
      findings.warning(
        `messages.db has form ${form}, of a WeiLink newer than 0.6.2: what is new in it does not come over`,
      )
    }
    const rows = orderRows(db)
    return {
      rows,
      conversations: conversationsIn(db),
      read: (sessionOf, tally) => pages(db, sessionOf, tally),
      close,
    }
  } catch (error) {
    await close()
    return unusable(`is no database, or too damaged (${errorCodeOf(error) ?? 'unknown reason'})`)
  }
}

/** Notes the ids of all rows, in the order of time. @returns how many @throws the engine's error for a damaged file */
function orderRows(db: Database): number {
  db.exec('CREATE TEMP TABLE walk (nth INTEGER PRIMARY KEY, id INTEGER NOT NULL)')
  // Looking at the end of every row tells whether all of it can be read.
  db.exec(
    `INSERT INTO walk (id) SELECT id FROM messages NOT INDEXED WHERE ifnull(length(data), 0) >= 0
     ORDER BY CASE WHEN timestamp_ms > 0 THEN timestamp_ms ELSE stored_at * 1000 END, id`,
  )
  return Number(db.get`SELECT count(*) AS rows FROM walk`?.rows)
}

function conversationsIn(db: Database): Conversation[] {
  return db.all`SELECT m.bot_id, m.user_id, count(*) AS messages
    FROM walk w CROSS JOIN messages m ON m.id = w.id
    GROUP BY m.bot_id, m.user_id`.map(row => ({
    bot_id: String(row.bot_id),
    user_id: String(row.user_id),
    messages: Number(row.messages),
  }))
}

function* pages(
  db: Database,
  sessionOf: (botId: string) => string,
  tally: HistoryTally,
): Generator<PastMessage[]> {
  const equals = new Map<string, number>()
  for (let done = 0; ; done += pageRows) {
    const rows = db.all(
      `SELECT ${rowColumns} FROM walk w CROSS JOIN messages m ON m.id = w.id
         WHERE w.nth > ? AND w.nth <= ? ORDER BY w.nth`,
      done,
      done + pageRows,
    )
    if (rows.length === 0) return
    yield rows.map(row => pastOf(row, sessionOf, tally, equals))
  }
}
