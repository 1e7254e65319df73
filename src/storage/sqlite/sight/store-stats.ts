/** The message store, read beside the process that has it open: no lock that a writer waits for, and no file made or changed. */
import { join } from 'node:path'
import { dataFiles } from '../../../model/data-files.ts'
import { suspectSpanMs } from '../../../model/message.ts'
import { errorCodeOf, statOf } from '../../../platform/files.ts'
import { type Database, openDatabase } from '../../../platform/sqlite.ts'
import type { StoreStats, WebhookTrouble } from '../../sight.ts'
import { suspectsOf } from '../conversations.ts'
import { newestForm } from '../migrations.ts'

const failingMs = 60_000
const busyMs = 2000
const lines = 5

/** As of `Sight.store`. */
export async function readStoreStats(
  dir: string,
  options: { check?: boolean } = {},
): Promise<StoreStats | undefined> {
  const path = join(dir, dataFiles.store)
  const file = await statOf(path)
  if (!file) return undefined
  const wal = () => statOf(`${path}-wal`)
  // Without a -wal file nobody has it open. An ordinary reader would make one.
  const isOpen = await wal()
  const reads = () => read(path, { readonly: true }, options.check)
  const seen = isOpen
    ? await reads()
    : await read(path, { immutable: true }, options.check).catch(async error => {
        if (await wal()) return reads()
        throw error
      })
  // Somebody has opened it meanwhile: what was read is not to be trusted.
  const sure = !isOpen && (await wal()) ? await reads() : seen
  return { sizeBytes: file.size, walBytes: (await wal())?.size ?? 0, ...sure }
}

type Read = Omit<StoreStats, 'sizeBytes' | 'walBytes'>

async function read(
  path: string,
  how: { readonly?: boolean; immutable?: boolean },
  check = false,
): Promise<Read> {
  const db = await openDatabase(path, how)
  try {
    db.exec(`PRAGMA busy_timeout = ${busyMs}`)
    const form = db.one<{ user_version: number }>`PRAGMA user_version`.user_version
    const sight: Read = {
      ...{ form, newest: newestForm, messages: 0 },
      ...{ outbox: { sends: 0, messages: 0, users: 0 }, suspects: new Map() },
    }
    if (check) sight.damage = damageOf(db)
    // The tables of a newer version are not ours to judge.
    if (form === 0 || form > newestForm || sight.damage?.length) return sight
    return {
      ...sight,
      messages: db.one<{ n: number }>`SELECT count(*) AS n FROM message`.n,
      ...(form >= 2 && { outbox: outboxOf(db) }),
      ...webhooksOf(db, Date.now()),
      ...(form >= 6 && { suspects: suspectsOf(db, Date.now() - suspectSpanMs) }),
    }
  } finally {
    db.close()
  }
}

function damageOf(db: Database): string[] {
  try {
    const found = db.all(`PRAGMA quick_check(${lines})`)
    const said = found.flatMap(row => String(Object.values(row)[0]).split('\n'))
    return said.filter(line => line !== 'ok' && line.trim() !== '').slice(0, lines)
  } catch (error) {
    // Pages so broken that the check itself cannot go on.
    if (/^SQLITE_(CORRUPT|NOTADB)/.test(errorCodeOf(error) ?? ''))
      return [error instanceof Error ? error.message : String(error)]
    throw error
  }
}

function outboxOf(db: Database): StoreStats['outbox'] {
  return db.one<StoreStats['outbox']>`SELECT count(*) AS messages, count(DISTINCT part.entry) AS sends,
    count(DISTINCT part.lane) AS users,
    min(outbox.created_at) AS oldestAt,
    min(outbox.expires_at) AS firstExpiryAt
    FROM outbox_part AS part JOIN outbox ON outbox.id = part.entry
    WHERE part.status = 'queued' AND part.message IS NOT NULL`
}

/** The paused ones are somebody's wish. */
function webhooksOf(db: Database, now: number): Pick<StoreStats, 'webhooks'> {
  if (!db.get`SELECT 1 FROM sqlite_schema WHERE name = 'webhook'`) return {}
  const webhooks = db.all<WebhookTrouble>`SELECT id, iif(disabled IS NULL, 'failing', 'disabled') AS status,
    coalesce(disabled, last_error, '') AS why, iif(disabled IS NULL, failing_since, disabled_at) AS since
    FROM webhook WHERE disabled IS NOT NULL OR (paused = 0 AND failing_since < ${now - failingMs})
    ORDER BY created_at`
  return webhooks.length > 0 ? { webhooks } : {}
}
