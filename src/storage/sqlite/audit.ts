/** The audit log in SQLite. Triggers write the lines of sends, in the transaction that writes the message. */
import type { AuditLine } from '../../model/audit.ts'
import type { AuditFilter, NewAuditLine } from '../audit.ts'
import { EnginePart, type SqliteContext } from './engine-part.ts'
import { withoutErased } from './erased-users.ts'
import type { SqliteEventLog } from './events.ts'
import { keyNameOf } from './messages.ts'

/**
 * `message.sent_by` is the principal and the address of its call, separated by a space. A queued message has
 * its row, and so its line, from then on.
 */
export const auditTables = `
  CREATE TABLE audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    principal TEXT NOT NULL,
    operation TEXT NOT NULL,
    subject TEXT,
    outcome TEXT,
    address TEXT,
    count INTEGER,
    message INTEGER
  );
  -- Most lines are of the owner, who needs no index to be found.
  CREATE INDEX audit_principal ON audit (principal) WHERE principal <> 'owner';
  CREATE INDEX audit_message ON audit (message) WHERE message IS NOT NULL;
  ALTER TABLE message ADD COLUMN sent_by TEXT;
  -- The address of the call, for rows in message that are written later.
  ALTER TABLE outbox ADD COLUMN address TEXT;
  CREATE TRIGGER message_audited AFTER INSERT ON message WHEN new.sent = 1 AND new.sent_by IS NOT NULL
  BEGIN
    INSERT INTO audit (at, principal, operation, subject, outcome, address, message)
      VALUES (new.stored_at, substr(new.sent_by, 1, instr(new.sent_by || ' ', ' ') - 1), 'send',
        (SELECT name FROM session WHERE key = new.session) || ' ' || new.peer, new.status,
        nullif(substr(new.sent_by, instr(new.sent_by || ' ', ' ') + 1), ''), new.id);
  END;
  CREATE TRIGGER message_audited_status AFTER UPDATE OF status ON message
    WHEN new.status IS NOT old.status AND new.sent_by IS NOT NULL
  BEGIN
    UPDATE audit SET outcome = new.status WHERE message = new.id;
  END;
`

/** Maximum number of lines removed in one step. */
const pruneStep = 1000

export class SqliteAudit extends EnginePart {
  readonly #events: SqliteEventLog

  constructor(ground: SqliteContext, events: SqliteEventLog) {
    super(ground)
    this.#events = events
  }

  add({ at, principal, operation, subject, outcome, address, count }: NewAuditLine): number {
    return this.db.transaction(() => {
      const { lastInsertRowid: id } = this.db.run`INSERT INTO audit (at, principal, operation, subject,
        outcome, address, count)
        VALUES (${at}, ${principal}, ${operation}, ${withoutErased(this.db, subject)}, ${outcome}, ${address}, ${count})`
      if (outcome !== undefined) this.#announce(id)
      return id
    })
  }

  settle(id: number, outcome: string, subject?: string): void {
    this.db.transaction(() => {
      this.db
        .run`UPDATE audit SET outcome = ${outcome}, subject = coalesce(${withoutErased(this.db, subject)}, subject)
          WHERE id = ${id}`
      this.#announce(id)
    })
  }

  /** Adds the event of a line. */
  #announce(id: number): void {
    const [line] = this.#select('id = ?', [id], 1)
    if (line) this.#events.append([{ type: 'audit.line', data: line }])
  }

  list({ after, before, since, principals, operation, limit }: AuditFilter): AuditLine[] {
    // Ids grow with time, so one walk from the end finds the start.
    const older =
      since === undefined
        ? undefined
        : this.db.get<{ id: number }>`SELECT id FROM audit WHERE at < ${since} ORDER BY id DESC LIMIT 1`
    const parts: [sql: string, value: string | number][] = [
      ['id > ?', Math.max(after ?? 0, older?.id ?? 0)],
      ...(before === undefined ? [] : [['id < ?', before] as [string, number]]),
      ...(operation === undefined ? [] : [['operation = ?', operation] as [string, string]]),
    ]
    const order = after === undefined ? 'DESC' : 'ASC'
    const where = parts.map(([sql]) => sql).join(' AND ')
    const values = parts.map(([, value]) => value)
    if (principals === undefined) return this.#select(`${where} ORDER BY id ${order}`, values, limit)
    return principals
      .flatMap(principal => {
        const own = `principal = ?${principal === 'owner' ? '' : ` AND principal <> 'owner'`}`
        return this.#select(`${own} AND ${where} ORDER BY id ${order}`, [principal, ...values], limit)
      })
      .sort((a, b) => (after === undefined ? b.id - a.id : a.id - b.id))
      .slice(0, limit)
  }

  #select(where: string, values: readonly (string | number)[], limit: number): AuditLine[] {
    return this.db.all<AuditLine>(
      `SELECT id, at, principal, ${keyNameOf('principal')} AS name, operation, subject, outcome, address, count
       FROM audit WHERE ${where} LIMIT ?`,
      ...values,
      limit,
    )
  }

  prune(before: number): boolean {
    const { changes } = this.db.run`DELETE FROM audit WHERE id IN (SELECT id FROM
      (SELECT id, at FROM audit ORDER BY id LIMIT ${pruneStep}) WHERE at < ${before})`
    return changes === pruneStep
  }
}
