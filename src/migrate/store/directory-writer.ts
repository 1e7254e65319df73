/** Writes a copy into a data directory. */
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { dataFiles } from '../../model/data-files.ts'
import type { UserContext } from '../../model/session.ts'
import { openFolderBelow } from '../../platform/below.ts'
import { syncDir, writeDurably } from '../../platform/files.ts'
import { requireOwnName } from '../../platform/own-names.ts'
import type { Sealer } from '../../platform/sealing.ts'
import { type Database, openDatabase } from '../../platform/sqlite.ts'
import { mapToken } from '../../storage/sealed-places.ts'
import { BigramIndex } from '../../storage/sqlite/bigram-index.ts'
import { removeClosedMark, writeClosedMark } from '../../storage/sqlite/closed-mark.ts'
import { readContents, sessionFolders } from '../../storage/sqlite/directory-claim.ts'
import { migrate } from '../../storage/sqlite/migrations.ts'
import { addAuditLine } from '../../storage/sqlite/routines.ts'
import { toJsonText } from '../../storage/sqlite/state/token-file.ts'
import type { StoreRow } from '../../storage/table-list.ts'
import { keyOf, quoted } from './directory-rows.ts'
import type { CopiedAccount, CopySide, CopyTarget, TargetState } from './side.ts'

/** Number of users in a contexts.json, who wrote last. The others are in their lanes. */
const fileUsers = 500

interface Writing {
  dir: string
  from: { place: string }
  sealer: Sealer
  state: TargetState
}

type Writer = Omit<CopyTarget, keyof CopySide>

/** Returns what writes a copy into a directory that no process uses. */
export function writerOf(db: Database, { dir, from, sealer, state }: Writing): Writer {
  const grams = new BigramIndex({ db })
  const mark = (verified: boolean) => writeClosedMark(dir, { why: 'copy', from: from.place, verified })
  return {
    state,
    seal: (value, place) => sealer.seal(sealer.open(value, place), place),
    async begin({ id, hash_key, events_removed }) {
      await mark(false)
      db.transaction(() => {
        // They would add events and lines for each message.
        for (const name of triggersOf(db).keys()) db.exec(`DROP TRIGGER "${name}"`)
        db.run`UPDATE store_id SET id = ${id}, hash_key = ${hash_key}, events_removed = ${events_removed}`
      })
    },
    async readLast({ key, name }) {
      const columns = key.map(column => `${quoted(column)} AS "${column}"`).join()
      const order = key.map(column => `${quoted(column)} DESC`).join()
      return db.get<StoreRow>(`SELECT ${columns} FROM ${name} ORDER BY ${order} LIMIT 1`)
    },
    async clear({ name }) {
      db.transaction(() => {
        db.run(`DELETE FROM ${name}`)
        if (name !== 'message') return
        db.exec(`INSERT INTO gram (gram) VALUES ('delete-all')`)
        db.exec('UPDATE gram_position SET position = 0')
      })
    },
    async write(table, rows) {
      const { columns, name } = table
      const own = name === 'outbox_lane' ? laneColumnsOf(columns) : columns
      const insert = `INSERT INTO ${name} (${own.map(quoted).join()}) VALUES (${own.map(() => '?').join()})`
      db.transaction(() => {
        for (const row of rows) {
          const values = name === 'outbox_lane' ? toLane(row) : row
          db.run(insert, ...own.map(column => values[column]))
          if (name === 'message') grams.add(Number(row.id), String(row.text))
        }
      })
    },
    async writeState({ accounts }) {
      for (const folder of sessionFolders(await readContents(dir)))
        await rm(join(dir, folder), { recursive: true, force: true })
      for (const account of accounts) await writeAccount(db, { account, dir, sealer })
      const chosen = accounts.find(account => account.chosen)
      const path = join(dir, dataFiles.defaultSession)
      await (chosen ? writeDurably(path, `${chosen.name}\n`) : rm(path, { force: true }))
      await syncDir(dir)
    },
    async complete(numbers) {
      using expected = await openDatabase(':memory:')
      migrate(expected)
      db.transaction(() => {
        for (const [table, number] of numbers) setNumber(db, table, number)
        const there = triggersOf(db)
        for (const [name, text] of triggersOf(expected)) if (!there.has(name)) db.exec(text)
      })
    },
    markVerified: () => mark(true),
    async release(line) {
      if (line) addAuditLine(db, line)
      await removeClosedMark(dir)
    },
  }
}

const triggersOf = (db: Database): Map<string, string> =>
  new Map(
    db.all<{ name: string; sql: string }>`SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'`.map(
      ({ name, sql }) => [name, sql],
    ),
  )

const laneColumnsOf = (columns: readonly string[]): string[] =>
  [...columns, 'context'].filter(column => column !== 'token' && column !== 'first_seen')

/** The context stands in the row at first; `writeAccount` moves the newest ones to contexts.json. */
function toLane({ token, first_seen, ...row }: StoreRow): StoreRow {
  if (first_seen === undefined) return row
  // The lane counts.
  const context = { token, received_at: row.received_at, used: 0, first_seen }
  return { ...row, context: JSON.stringify(context) }
}

/** Only tables whose numbers never return have a row there. */
function setNumber(db: Database, table: string, number: number): void {
  const { changes } = db.run`UPDATE sqlite_sequence SET seq = max(seq, ${number}) WHERE name = ${table}`
  const isCounted = db.get`SELECT 1 FROM sqlite_schema WHERE name = ${table} AND sql LIKE '%AUTOINCREMENT%'`
  if (changes === 0 && isCounted !== undefined && number > 0)
    db.run`INSERT INTO sqlite_sequence (name, seq) VALUES (${table}, ${number})`
}

interface AccountWriting {
  account: CopiedAccount
  dir: string
  sealer: Sealer
}

async function writeAccount(db: Database, { account, dir, sealer }: AccountWriting): Promise<void> {
  const { bot_id, created_at, cursor, info, name, token } = account
  await using held = await openFolderBelow(dir, requireOwnName('session', name), { create: true })
  const folder = held.path
  const lanes = db.all<{
    id: number
    peer: string
    context: string
  }>`SELECT id, peer, context FROM outbox_lane
    WHERE session = ${keyOf(db, name) ?? 0} AND context IS NOT NULL
    ORDER BY context ->> 'received_at' DESC, id LIMIT ${fileUsers}`
  const contexts = lanes.map(({ context, peer }) => [peer, JSON.parse(context) as UserContext])
  if (contexts.length > 0)
    await writeDurably(join(folder, dataFiles.contexts), toJsonText(Object.fromEntries(contexts)))
  db.transaction(() => {
    for (const { id } of lanes) db.run`UPDATE outbox_lane SET context = NULL WHERE id = ${id}`
  })
  const fields = { bot_id, token, ...(JSON.parse(info) as object), cursor, created_at }
  const text = toJsonText(mapToken(mapToken(fields, sealer.open), sealer.seal))
  await writeDurably(join(folder, dataFiles.token), text)
}
