/** WeiLink's message log (`messages.db`, form 1 of its release 0.6.2), read from a copy in the order of time. */
import { isSvcError } from '../model/error.ts'
import { errorCodeOf } from '../platform/files.ts'
import type { Database, Row } from '../platform/sqlite.ts'
import type { PastMessage } from '../store/store.ts'
import { snapshotOf } from './snapshot.ts'
import type { Conversation, Finding, HistoryTally, SourceHistory } from './source.ts'
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
  findings: Finding[],
): Promise<SourceHistory | undefined> {
  const unusable = (why: string) => {
    findings.push({
      level: 'problem',
      text: `messages.db ${why}: the history does not come over`,
      hint: 'The sessions do; the file stays where it is.',
    })
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
      findings.push({
        level: 'warning',
        text: `messages.db has form ${form}, of a WeiLink newer than 0.6.2: what is new in it does not come over`,
      })
    }
    const rows = orderRows(db, findings)
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

/** Notes the ids of all rows that can be read, in the order of time. @returns how many */
function orderRows(db: Database, findings: Finding[]): number {
  db.exec('CREATE TEMP TABLE walk (nth INTEGER PRIMARY KEY, id INTEGER NOT NULL)')
  const order = 'CASE WHEN timestamp_ms > 0 THEN timestamp_ms ELSE stored_at * 1000 END, id'
  const counted = () => Number(db.get`SELECT count(*) AS rows FROM walk`?.rows)
  try {
    // Looking at the end of every row tells whether all of it can be read.
    db.exec(
      `INSERT INTO walk (id) SELECT id FROM messages NOT INDEXED WHERE ifnull(length(data), 0) >= 0 ORDER BY ${order}`,
    )
    return counted()
  } catch {
    // Damaged pages: what lies before them and what lies behind them, each up to where it cannot be read.
    db.exec('DELETE FROM walk')
    db.exec('CREATE TEMP TABLE found (id INTEGER PRIMARY KEY, at INTEGER)')
    const low = gather(db, 'up')
    gather(db, 'down', low)
    db.exec('INSERT INTO walk (id) SELECT id FROM found ORDER BY at, id')
    findings.push({
      level: 'problem',
      text: `messages.db is damaged: ${counted()} of its messages can be read, the others are lost`,
      hint: 'sqlite3 with its command .recover may find more; a repaired copy can be migrated again, nothing comes twice.',
    })
    return counted()
  }
}

/** Collects row by row until a damaged page, or the row `until`. @returns the last id that was read */
function gather(db: Database, way: 'up' | 'down', until = 0): number {
  const [than, order] = way === 'up' ? ['>', 'ASC'] : ['<', 'DESC']
  let at = way === 'up' ? Number.MIN_SAFE_INTEGER : Number.MAX_SAFE_INTEGER
  for (let width = pageRows; ; ) {
    let rows: Row[]
    try {
      rows = db.all(
        `SELECT id, timestamp_ms, CAST(stored_at * 1000 AS INTEGER) AS stored_ms, length(data) AS size
           FROM messages NOT INDEXED WHERE id ${than} ? ORDER BY id ${order} LIMIT ?`,
        at,
        width,
      )
    } catch {
      if (width === 1) return at
      width = 1
      continue
    }
    for (const { id, timestamp_ms, stored_ms } of rows) {
      const time = Number(timestamp_ms) > 0 ? Number(timestamp_ms) : Number(stored_ms)
      db.run`INSERT OR IGNORE INTO found (id, at) VALUES (${Number(id)}, ${time})`
    }
    if (rows.length === 0) return at
    at = Number(rows.at(-1)!.id)
    if (way === 'down' && at <= until) return at
  }
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
