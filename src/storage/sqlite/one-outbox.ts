/**
 * The migration from version 0.1, which had four tables for sending (in flight, queued, keys and lanes), to
 * entries.
 */
import type { Database, Row } from '../../platform/sqlite.ts'

const tables = `
  -- mode: 'fail' entries belong to owner and end with it; 'queue' entries wait for the user.
  -- key: the caller's key, for a day; content: what it stands for. used, received_at: the answer counter at the end.
  -- answer: the result of a call of version 0.1, unchanged.
  ALTER TABLE outbox ADD COLUMN mode TEXT NOT NULL DEFAULT 'queue';
  ALTER TABLE outbox ADD COLUMN owner TEXT;
  ALTER TABLE outbox ADD COLUMN key TEXT;
  ALTER TABLE outbox ADD COLUMN content TEXT;
  ALTER TABLE outbox ADD COLUMN ended_at INTEGER;
  ALTER TABLE outbox ADD COLUMN used INTEGER;
  ALTER TABLE outbox ADD COLUMN received_at INTEGER;
  ALTER TABLE outbox ADD COLUMN answer TEXT;
  CREATE UNIQUE INDEX outbox_key ON outbox (key) WHERE key IS NOT NULL;
  CREATE INDEX outbox_open_call ON outbox (id) WHERE mode = 'fail' AND ended_at IS NULL;

  -- received_at: time of the message whose answers are counted. holds: number of unexplained refusals in a row; nothing
  -- is sent before held_until, unless the user writes after held_at.
  ALTER TABLE outbox_lane ADD COLUMN received_at INTEGER;
  ALTER TABLE outbox_lane ADD COLUMN used INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE outbox_lane ADD COLUMN last_sent_at INTEGER;
  ALTER TABLE outbox_lane ADD COLUMN held_until INTEGER;
  ALTER TABLE outbox_lane ADD COLUMN holds INTEGER NOT NULL DEFAULT 0;
  UPDATE outbox_lane SET held_until = held_at + 1800000 WHERE held_at IS NOT NULL;

  -- message: its row, absent until a part of mode 'fail' begins. slot: by the pace, Unix ms. error: JSON.
  CREATE TABLE part (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    entry INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    kind TEXT NOT NULL,
    msg_type TEXT NOT NULL,
    status TEXT NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0,
    message INTEGER,
    message_id TEXT,
    error TEXT,
    slot REAL,
    owner TEXT,
    began_at INTEGER,
    file TEXT,
    text TEXT NOT NULL,
    raw TEXT NOT NULL
  );
  INSERT INTO part (id, entry, lane, kind, msg_type, status, tries, message, file, text, raw)
    SELECT id, entry, lane, kind, msg_type, status, tries, message, file, text, raw FROM outbox_part;
  -- The process that was sending has ended, or has lost its tables now.
  UPDATE part SET status = 'unknown' WHERE status = 'sending';
  UPDATE message SET status = 'unknown', reason = 'svc was stopped while it was sent'
    WHERE id IN (SELECT message FROM in_flight) AND status = 'sending';
  DROP TABLE in_flight;
  DROP TABLE outbox_part;
  ALTER TABLE part RENAME TO outbox_part;
  CREATE INDEX outbox_part_entry ON outbox_part (entry);
  CREATE INDEX outbox_part_waiting ON outbox_part (lane) WHERE status = 'queued';
  CREATE INDEX outbox_part_sending ON outbox_part (began_at) WHERE status = 'sending';
  DELETE FROM outbox WHERE NOT EXISTS
    (SELECT 1 FROM outbox_part WHERE entry = outbox.id AND status = 'queued');
  DELETE FROM outbox_part WHERE entry NOT IN (SELECT id FROM outbox);
`

export function migrateToOneOutbox(db: Database): void {
  db.exec(tables)
  for (const row of db.all`SELECT * FROM idempotency`) adoptKey(db, row)
  db.exec('DROP TABLE idempotency')
}

/** Keeps the answer of a key: its result, what the log says about a call that died, or none. */
function adoptKey(db: Database, row: Row): void {
  const { key, content, created_at, outbox, result } = row
  const waits =
    outbox !== undefined && db.get`SELECT 1 AS found FROM outbox WHERE id = ${outbox}` !== undefined
  if (waits) {
    db.run`UPDATE outbox SET key = ${key}, content = ${content} WHERE id = ${outbox}`
    if (result !== undefined) db.run`UPDATE outbox SET answer = ${result} WHERE id = ${outbox}`
    return
  }
  const ids: number[] = JSON.parse(String(row.messages))
  const rows = ids.map(id => db.get`SELECT message_id, status, session, peer FROM message WHERE id = ${id}`)
  const nothing = rows.every(message => message?.status === 'refused') && outbox === undefined
  if (result === undefined && nothing) return
  const first = rows.find(message => message !== undefined)
  const lane = first ? ensureLane(db, Number(first.session), String(first.peer)) : 0
  const { lastInsertRowid: entry } = db.run`INSERT INTO outbox (lane, mode, key, content, created_at,
    expires_at, ended_at, used, answer)
    VALUES (${lane}, 'fail', ${key}, ${content}, ${created_at}, ${created_at}, ${created_at}, 0, ${result})`
  const plan: { kinds?: string[] } | null = JSON.parse(String(row.plan ?? 'null'))
  const kinds = plan?.kinds ?? []
  for (const [nth, kind] of kinds.entries()) {
    const message = rows[nth]
    // If retention removed the row, or the queued part is gone, the result is not known.
    const status = message
      ? String(message.status)
      : nth < rows.length || outbox !== undefined
        ? 'unknown'
        : 'refused'
    const local = message === undefined || String(message.message_id).startsWith('local:')
    db.run`INSERT INTO outbox_part (entry, lane, kind, msg_type, status, message_id, text, raw)
      VALUES (${entry}, ${lane}, ${kind}, 'TEXT', ${status}, ${local ? undefined : String(message.message_id)},
      '""', '')`
  }
}

function ensureLane(db: Database, session: number, peer: string): number {
  const found = db.get`SELECT id FROM outbox_lane WHERE session = ${session} AND peer = ${peer}`
  if (found) return Number(found.id)
  return db.run`INSERT INTO outbox_lane (session, peer) VALUES (${session}, ${peer})`.lastInsertRowid
}
