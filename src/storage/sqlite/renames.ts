import { EnginePart, type Ground } from './engine-part.ts'
import type { Webhooks } from './webhooks.ts'

export class Renames extends EnginePart {
  readonly #webhooks: Webhooks

  constructor(ground: Ground, webhooks: Webhooks) {
    super(ground)
    this.#webhooks = webhooks
  }

  intendRename(session: string, newName: string | undefined): void {
    this.db.transaction(() => {
      const key = this.messages.keyOf(session)
      this.db.run`UPDATE session SET renaming = ${newName} WHERE key = ${key}`
    })
  }

  intendedRenames(): { from: string; to: string }[] {
    return this.db.all`SELECT name AS "from", renaming AS "to" FROM session WHERE renaming IS NOT NULL`
  }

  renameSession(oldName: string, newName: string): void {
    this.db.transaction(() => {
      const messages = this.messages
      const key = messages.keyOf(oldName)
      const own = messages.sessionKeys(oldName)
      const others = [...own, ...messages.sessionKeys(newName)].filter(other => other !== key)
      messages.renameSession(own, newName)
      if (others.length > 0) this.#join(key, JSON.stringify(others))
      this.#webhooks.renameSession(oldName, newName)
    })
  }

  /** A session that was logged out bore that name: what waits there, and what its users are called, is the session's now. */
  #join(key: number, others: string): void {
    const lane = `SELECT own.id FROM outbox_lane own JOIN outbox_lane other ON other.peer = own.peer
      WHERE own.session = ? AND other.session IN (SELECT value FROM json_each(?)) AND other.id = lane`
    for (const table of ['outbox', 'outbox_part'])
      this.db.run(`UPDATE ${table} SET lane = coalesce((${lane}), lane)`, key, others)
    this.db.run`UPDATE OR IGNORE outbox_lane SET session = ${key}
      WHERE session IN (SELECT value FROM json_each(${others}))`
    this.db.run`DELETE FROM user_name WHERE session IN (SELECT value FROM json_each(${others}))
      AND folded IN (SELECT folded FROM user_name WHERE session = ${key})`
    this.db.run`INSERT OR REPLACE INTO user_name SELECT value, peer, name, folded
      FROM user_name, json_each(${others}) WHERE session = ${key}`
    this.db.run`INSERT OR IGNORE INTO user_name SELECT ${key}, peer, name, folded
      FROM user_name WHERE session IN (SELECT value FROM json_each(${others}))`
  }
}
