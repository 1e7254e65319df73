/**
 * Baseline of `ingest`: `bare-ingest.ts <folder> <upstream>`. Loops over fetch, JSON.parse, and the same rows
 * into the same tables and indexes in one transaction with synchronous=FULL. Then it writes the cursor:
 * temporary file, fsync, rename, fsync of the folder. It checks nothing, keeps no context tokens and looks
 * for no repeats. Ends when a poll is held.
 */
import { Database } from 'bun:sqlite'
import { createHash } from 'node:crypto'
import { closeSync, fsyncSync, openSync, renameSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { openDatabase } from '../../src/platform/sqlite.ts'
import { gramsOf } from '../../src/storage/sqlite/bigram-index.ts'
import { migrate } from '../../src/storage/sqlite/migrations.ts'

interface Wire {
  message_id: number
  from_user_id: string
  create_time_ms: number
  item_list: { text_item?: { text?: string } }[]
}

const [dir = '', upstream = ''] = process.argv.slice(2)
const path = join(dir, 'messages.db')
const empty = await openDatabase(path)
empty.exec('PRAGMA auto_vacuum = INCREMENTAL')
empty.exec('PRAGMA journal_mode = WAL')
migrate(empty)
empty.close()

const db = new Database(path, { strict: true })
for (const pragma of ['synchronous = FULL', 'cache_size = -16000', 'wal_autocheckpoint = 2000']) {
  db.run(`PRAGMA ${pragma}`)
}
const session = db.run("INSERT INTO session (name) VALUES ('shop')").lastInsertRowid
const insert = db.prepare(
  `INSERT INTO message (message_id, session, sent, bot_id, peer, msg_type, timestamp, stored_at, content_hash, text, raw)
   VALUES (?, ?, 0, 'bot', ?, 'TEXT', ?, ?, ?, ?, ?)`,
)
const index = db.prepare('INSERT INTO gram (rowid, body) VALUES (?, ?)')

const store = db.transaction((messages: Wire[]) => {
  const now = Date.now()
  for (const message of messages) {
    const text = message.item_list[0]?.text_item?.text ?? ''
    const hash = createHash('sha256').update(text).digest('base64url')
    const { lastInsertRowid } = insert.run(
      String(message.message_id),
      session,
      message.from_user_id,
      message.create_time_ms,
      now,
      hash,
      text,
      JSON.stringify(message),
    )
    index.run(lastInsertRowid, gramsOf(text))
  }
})

const folder = openSync(dir, 'r')
function saveCursor(cursor: string): void {
  const temporary = join(dir, 'token.json.tmp')
  const file = openSync(temporary, 'w', 0o600)
  writeSync(file, JSON.stringify({ bot_id: 'bot', token: 'token', base_url: upstream, cursor }))
  fsyncSync(file)
  closeSync(file)
  renameSync(temporary, join(dir, 'token.json'))
  fsyncSync(folder)
}

console.log('ready')
for (let cursor = ''; ; ) {
  const response = await fetch(`${upstream}/ilink/bot/getupdates`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: 'Bearer bare' },
    body: JSON.stringify({ get_updates_buf: cursor, base_info: { channel_version: '2.4.9' } }),
  })
  const reply = JSON.parse(await response.text()) as { msgs: Wire[]; get_updates_buf: string }
  if (reply.msgs.length === 0) break
  store.immediate(reply.msgs)
  cursor = reply.get_updates_buf
  saveCursor(cursor)
}
