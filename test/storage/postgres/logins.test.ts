/** Logins that several nodes take part in. */
import { describe, expect, test } from 'bun:test'
import { connectPg } from '../../../src/platform/postgres.ts'
import { createSealer, noSealer } from '../../../src/platform/sealing.ts'
import { constantSql, sql } from '../../../src/platform/sql.ts'
import type { StoredLogin } from '../../../src/storage/logins.ts'
import { isPostgresThere } from '../../support/postgres.ts'
import { bot } from '../support.ts'
import { openPostgres } from './support.ts'

const login: StoredLogin = {
  id: 'one',
  session: 's',
  version: '',
  until: Date.now() + 600_000,
  force: false,
  ended: false,
  status: 'waiting',
  revision: 0,
  told: 0,
}
const qr = {
  qrcode: 'the code to poll with',
  qrUrl: 'http://q',
  renewals: 0,
  state: 'waiting',
  needsCode: true,
  shown_at: 7,
} as const

describe.skipIf(!isPostgresThere())('logins on PostgreSQL', () => {
  test('a login begins on one node, is verified on another, and ends on a third', async () => {
    await using test = await openPostgres()
    await using second = await test.second()
    await using third = await test.second()
    const [a, b, c] = [test.storage, second.storage, third.storage]
    const now = Date.now()
    const begun = (await a.state.logins.put({ ...login, qr }, now))!
    expect(await a.state.logins.claim(begun)).toBe(true)
    const { signal } = new AbortController()
    const seen = a.state.logins.wait(begun, signal)

    const found = (await b.state.logins.get('S', now))!
    expect(found).toEqual(begun)
    expect(await b.state.logins.claim(found)).toBe(false)
    const verified = (await b.state.logins.put({ ...found, code: '12', status: 'scaned' }, now))!
    await seen
    expect(await a.state.logins.get('s', now)).toEqual(verified)

    await a.state.logins.release(verified)
    expect(await c.state.logins.claim(verified)).toBe(true)
    const end = { ...verified, ended: true, status: 'confirmed' } as const
    const ends = await Promise.all([c, b].map(({ state }) => state.logins.finish(end, bot('b'), now)))
    expect(ends.filter(Boolean)).toHaveLength(1)
    for (const { state } of [a, b, c]) {
      expect(await state.sessions.get('s')).toEqual({ name: 's', bot: bot('b') })
      expect(await state.logins.listRunning(now)).toEqual([])
    }
  })

  test('a login of a node that left or died is free for another one', async () => {
    await using test = await openPostgres()
    const a = test.storage
    const { storage: gone } = await test.second()
    const begun = (await gone.state.logins.put(login, Date.now()))!
    expect([await gone.state.logins.claim(begun), await a.state.logins.claim(begun)]).toEqual([true, false])
    await gone.close()
    expect(await a.state.logins.claim(begun)).toBe(true)
  })

  test('many waits end with the write of another node', async () => {
    await using test = await openPostgres()
    await using second = await test.second()
    const [a, b] = [test.storage, second.storage]
    const now = Date.now()
    const all = await Promise.all(
      Array.from(
        { length: 100 },
        async (_, nth) => (await a.state.logins.put({ ...login, session: `s${nth}` }, now))!,
      ),
    )
    const { signal } = new AbortController()
    const waits = all.map(one => a.state.logins.wait(one, signal))
    for (const one of all) expect(await b.state.logins.put({ ...one, told: 1 }, now)).toBeDefined()
    await Promise.all(waits)
  })

  test('the database has no code, token or link that could be used', async () => {
    await using test = await openPostgres()
    const a = test.storage
    await a.state.logins.put({ ...login, qr }, Date.now())
    await a.state.sessions.save('s', bot('b', { token: 'the token' }))
    await a.state.signIns.addLink('the link', Date.now() + 60_000, Date.now())
    expect(await a.state.signIns.takeLink('the link', Date.now())).toBe(true)
    await a.state.signIns.addLink('the link', Date.now() + 60_000, Date.now())
    const connection = await connectPg({ url: test.url, name: 'test', answerMs: 5000 })
    for (const table of ['login_flow', 'account', 'sign_in_link']) {
      const rows = await connection.all(constantSql(`SELECT t::text FROM ${table} t`))
      expect(rows).toHaveLength(1)
      expect(JSON.stringify(rows)).not.toMatch(/the (code|token|link)/)
    }
    // Nor can whoever writes to the database make one.
    const use = 'link to sign in chosen'
    const makers = [noSealer, createSealer('another secret key of the test, long enough')]
    for (const code of [
      ...makers.map(one => one.derive(use)),
      new Bun.CryptoHasher('sha256').update('chosen').digest('base64url'),
    ])
      await connection.all(
        sql`INSERT INTO sign_in_link (code, until, shared) VALUES (${code}, ${Date.now() + 60_000}, 0)`,
      )
    expect(await a.state.signIns.takeLink('chosen', Date.now())).toBe(false)
    expect(await a.state.signIns.takeLink('the link', Date.now())).toBe(true)
    connection.destroy()
    expect(await a.state.sessions.get('s')).toMatchObject({ bot: { token: 'the token' } })
  })
})
