/** Sign-ins to the panel, which any node may serve. */
import { nodeCrypto } from '../../platform/lazy-crypto.ts'
import { sql } from '../../platform/sql.ts'
import type { SignInStore } from '../state.ts'
import { PgPart } from './part.ts'

/** If more sign-ins were ended, those that would have expired first are forgotten. */
const maxEnded = 1000

/** The database has no code that could be used. */
const hashOf = (code: string) => nodeCrypto().createHash('sha256').update(code).digest('base64url')

export class PgSignIns extends PgPart implements SignInStore {
  async addLink(code: string, until: number): Promise<void> {
    await this.db.run(sql`INSERT INTO sign_in_link (code, until) VALUES (${hashOf(code)}, ${until})
      ON CONFLICT (code) DO UPDATE SET until = excluded.until`)
  }

  async takeLink(code: string, now: number): Promise<boolean> {
    const [[taken] = []] = await this.db.script([
      sql`DELETE FROM sign_in_link WHERE code = ${hashOf(code)} RETURNING until > ${now} AS is_valid`,
      sql`DELETE FROM sign_in_link WHERE until <= ${now}`,
    ])
    return (taken as { is_valid: boolean } | undefined)?.is_valid === true
  }

  async filterEnded(names: readonly string[]): Promise<ReadonlySet<string>> {
    if (names.length === 0) return new Set()
    const rows = await this.db.all<{ name: string }>(
      sql`SELECT name FROM ended_sign_in WHERE name = ANY (${names}::text[])`,
    )
    return new Set(rows.map(({ name }) => name))
  }

  async end(names: readonly string[], until: number): Promise<void> {
    await this.durably(() =>
      this.db.retry(queries =>
        queries.script([
          sql`INSERT INTO ended_sign_in (name, until) SELECT DISTINCT name, ${until}::bigint
            FROM unnest(${names}::text[]) AS name ON CONFLICT (name) DO UPDATE SET until = excluded.until`,
          // None is forgotten because of its time: a clock that is ahead may come back.
          sql`DELETE FROM ended_sign_in WHERE name IN (
            SELECT name FROM ended_sign_in ORDER BY until DESC OFFSET ${maxEnded})`,
        ]),
      ),
    )
  }
}
