/** messages.db and the session files, looked at from outside while svc runs. */
import { Database } from 'bun:sqlite'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Injected } from './world.ts'

export interface LoggedRow {
  id: number
  messageId: string
  text: string
  sent: boolean
  status: string | null
}

export class LogFile implements Disposable {
  readonly #db: Database
  readonly #dir: string
  readonly #known = new Set<string>()
  #last = 0

  constructor(dir: string) {
    this.#dir = dir
    this.#db = new Database(join(dir, 'messages.db'), { readonly: true })
    this.#db.run('PRAGMA busy_timeout = 5000')
  }

  rows(after = 0): LoggedRow[] {
    return this.#db
      .query<{ id: number; message_id: string; text: string; sent: number; status: string | null }, [number]>(
        'SELECT id, message_id, text, sent, status FROM message WHERE id > ? ORDER BY id',
      )
      .all(after)
      .map(row => ({
        id: row.id,
        messageId: row.message_id,
        text: row.text,
        sent: row.sent === 1,
        status: row.status,
      }))
  }

  /** Received messages by upstream's id, as far as stored now. */
  receivedIds(): ReadonlySet<string> {
    for (const row of this.rows(this.#last)) {
      this.#last = row.id
      if (!row.sent) this.#known.add(row.messageId)
    }
    return this.#known
  }

  /** What is handed out and not confirmed, in words. */
  leases(): string[] {
    return this.#db
      .query<{ consumer: string; ids: string; owner: string; expires_at: number }, []>(
        'SELECT consumer, ids, owner, expires_at FROM lease',
      )
      .all()
      .map(({ consumer, ids, owner, expires_at }) => `${consumer} ${ids} of ${owner} until ${expires_at}`)
  }

  integrity(): string {
    return this.#db.query<{ integrity_check: string }, []>('PRAGMA integrity_check').all()[0]!.integrity_check
  }

  /** Messages that a cursor on disk covers and the store does not have: there must be none at any moment. */
  passedOver(injected: readonly Injected[]): Injected[] {
    // The cursors first: what they cover was stored before they moved.
    const cursors = cursorsIn(this.#dir)
    const stored = this.receivedIds()
    return injected.filter(one => one.seq <= (cursors.get(one.bot) ?? 0) && !stored.has(one.messageId))
  }

  [Symbol.dispose](): void {
    this.#db.close()
  }
}

/** By bot, how far the cursor in token.json covers the sandbox's messages. @throws when a file does not parse */
export function cursorsIn(dir: string): Map<string, number> {
  const cursors = new Map<string, number>()
  for (const path of sessionFiles(dir, 'token.json')) {
    const { bot_id, cursor } = JSON.parse(readFileSync(path, 'utf8'))
    const seq = /^cursor of \S+ (\d+)$/.exec(Buffer.from(cursor ?? '', 'base64').toString())?.[1]
    cursors.set(bot_id, Number(seq ?? 0))
  }
  return cursors
}

/** The answers used to a user of the only session. The lane may know a newer message than contexts.json. */
export function usedIn(dir: string, user: string): number {
  const [path] = sessionFiles(dir, 'contexts.json')
  const context = path === undefined ? undefined : JSON.parse(readFileSync(path, 'utf8'))[user]
  using db = new Database(join(dir, 'messages.db'), { readonly: true })
  const row = db
    .query<{ received_at: number | null; used: number }, [string]>(
      'SELECT received_at, used FROM outbox_lane WHERE peer = ?',
    )
    .get(user)
  return row && (row.received_at ?? 0) >= (context?.received_at ?? 0) ? row.used : 0
}

/** Paths of that file in every session's folder. */
export function sessionFiles(dir: string, name: string): string[] {
  return readdirSync(dir, { withFileTypes: true })
    .filter(entry => entry.isDirectory() && !['media', 'sandbox'].includes(entry.name))
    .flatMap(entry => readdirSync(join(dir, entry.name)).map(file => [entry.name, file] as const))
    .filter(([, file]) => file === name)
    .map(([folder, file]) => join(dir, folder, file))
}
