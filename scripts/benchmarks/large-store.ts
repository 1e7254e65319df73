/**
 * Makes a store of millions of rows as fast as SQLite can, and on request keeps it in the temporary folder
 * between runs.
 */

import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Database, openDatabase } from '../../src/platform/sqlite.ts'
import { gramsOf } from '../../src/storage/sqlite/bigram-index.ts'
import { migrate } from '../../src/storage/sqlite/migrations.ts'
import { botId } from './process.ts'
import { createMessage, createRandom, toWireText } from './texts.ts'

export interface LargeStore extends AsyncDisposable {
  /** A data directory with this store and no sessions. */
  readonly dir: string
}

/** Texts repeat after this many rows: making them would cost more than storing them. */
const distinct = 100_000
const users = 5000
const session = 'shop'

/**
 * Opens a store of `rows` received messages. On disposal, added rows are removed, and without `keep` the
 * whole store.
 */
export async function openLargeStore(
  rows: number,
  keep: boolean,
  note: (text: string) => void,
): Promise<LargeStore> {
  const dir = join(tmpdir(), `svc-bench-store-${rows}-form${await readStoreForm()}`)
  if (!existsSync(dir)) {
    const from = performance.now()
    const partial = `${dir}.part`
    rmSync(partial, { recursive: true, force: true })
    mkdirSync(partial, { recursive: true, mode: 0o700 })
    await build(join(partial, 'messages.db'), rows)
    renameSync(partial, dir)
    note(
      `store of ${rows.toLocaleString('en-US')} rows: made in ${((performance.now() - from) / 1000).toFixed(0)} s, ${(Bun.file(join(dir, 'messages.db')).size / 1e9).toFixed(2)} GB`,
    )
  }
  await restore(dir, rows)
  return {
    dir,
    async [Symbol.asyncDispose]() {
      if (keep) await restore(dir, rows)
      else rmSync(dir, { recursive: true, force: true })
    },
  }
}

/** Returns the number of the newest migration, with a hash of the tables' definitions. */
async function readStoreForm(): Promise<string> {
  const db = await openDatabase(':memory:')
  migrate(db)
  const tables = db.all`SELECT sql FROM sqlite_master ORDER BY name`
  const form = `${db.get`PRAGMA user_version`?.user_version}-${Bun.hash(JSON.stringify(tables)).toString(36)}`
  db.close()
  return form
}

async function build(path: string, rows: number): Promise<void> {
  const db = await openDatabase(path)
  db.exec('PRAGMA auto_vacuum = INCREMENTAL')
  db.exec('PRAGMA journal_mode = OFF')
  db.exec('PRAGMA synchronous = OFF')
  db.exec('PRAGMA cache_size = -400000')
  migrate(db)
  const indexes = db.all`SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql NOT NULL`
  const ofMessages = indexes.filter(({ sql }) => / ON message\b/i.test(String(sql)))
  for (const { name } of ofMessages) db.exec(`DROP INDEX ${name}`)
  // One large write per several ten thousand rows instead of many merges.
  db.exec(`INSERT INTO gram (gram, rank) VALUES ('hashsize', 100000000)`)
  const fill = createFiller(db, rows)
  const grown = Math.floor(rows / 50)
  fill(rows - grown, distinct)
  db.exec(`INSERT INTO gram (gram, rank) VALUES ('hashsize', 1048576)`)
  // A store that grew slowly has small segments; large writes leave large ones, which each batch would
  // continue to merge. So they are merged into one, as old rows usually are, and the newest rows come in
  // batches, as usual.
  db.exec(`INSERT INTO gram (gram) VALUES ('optimize')`)
  for (const { sql } of ofMessages) db.exec(String(sql))
  db.exec('PRAGMA journal_mode = WAL')
  fill(rows, 100)
  db.close()
}

/** Returns a function that fills the store up to a number of rows, with a number of rows per transaction. */
function createFiller(db: Database, rows: number): (upTo: number, batch: number) => void {
  const next = createRandom(1)
  const bot = botId(session)
  const messages = Array.from({ length: Math.min(rows, distinct) }, (_, n) => {
    const message = createMessage(0, n, bot, users, next)
    return { ...message, raw: toWireText(message), grams: gramsOf(message.text) }
  })
  const key = db.run`INSERT INTO session (name) VALUES (${session})`.lastInsertRowid
  const storedAt = Date.now()
  let n = 0
  return (upTo, batch) => {
    while (n < upTo) {
      db.transaction(() => {
        for (const end = Math.min(upTo, n + batch); n < end; n++) {
          const { from: peer, text, raw, grams } = messages[n % distinct]!
          const { messageId, at } = createMessage(0, n, bot, 1, () => 0)
          const hash = Bun.hash(messageId).toString(36).padEnd(12, 'x').slice(0, 12)
          const { lastInsertRowid } = db.run`INSERT INTO message
            (message_id, session, sent, bot_id, peer, msg_type, timestamp, stored_at, content_hash, text, raw)
            VALUES (${messageId}, ${key}, 0, ${bot}, ${peer}, 'TEXT', ${at}, ${storedAt}, ${hash}, ${text}, ${raw})`
          db.run`INSERT INTO gram (rowid, body) VALUES (${lastInsertRowid}, ${grams})`
        }
      })
    }
  }
}

/** Removes what benchmarks added. */
async function restore(dir: string, rows: number): Promise<void> {
  rmSync(join(dir, session), { recursive: true, force: true })
  const db = await openDatabase(join(dir, 'messages.db'))
  db.exec('PRAGMA synchronous = OFF')
  db.transaction(() => {
    db.run`DELETE FROM gram WHERE rowid > ${rows}`
    db.run`DELETE FROM message WHERE id > ${rows}`
    db.run`UPDATE sqlite_sequence SET seq = ${rows} WHERE name = 'message'`
    // Rows behind this position are read one by one, and the next write indexes them.
    db.run`UPDATE gram_position SET position = ${rows}`
    for (const table of ['consumer', 'consumer_ahead', 'lease']) db.exec(`DELETE FROM ${table}`)
  })
  db.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  db.close()
}
