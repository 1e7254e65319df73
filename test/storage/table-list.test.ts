/** The list of tables knows every column of both engines, and tells the truth about secrets and persons. */
import { describe, expect, test } from 'bun:test'
import { connectPg } from '../../src/platform/postgres.ts'
import { sql } from '../../src/platform/sql.ts'
import { openDatabase } from '../../src/platform/sqlite.ts'
import { migrate } from '../../src/storage/sqlite/migrations.ts'
import { copiedTables, type StoreTable, storeTables } from '../../src/storage/table-list.ts'
import { tableShapes } from '../../src/storage/tables.ts'
import { newDatabase } from '../support/databases.ts'
import { isPostgresThere } from '../support/postgres.ts'
import { onEach } from './engines.ts'
import { bot, message, type Opened, open, outgoing, sending } from './support.ts'

const split = (text = '') => text.split(/\s+/).filter(word => word !== '')

type Columns = Pick<StoreTable, 'name' | 'columns'>

/** `table.column` for some columns of each table. */
const placesOf = <T extends Columns>(tables: readonly T[], columnsOf: (table: T) => readonly string[]) =>
  tables.flatMap(table => columnsOf(table).map(column => `${table.name}.${column}`)).sort()

describe('every table of an engine is in the list, and the engine has the columns of both and what a copy moves', () => {
  const check = (real: readonly string[], other: StoreTable['only'], made: readonly string[]) => {
    const tables = storeTables.filter(({ only }) => only !== other).map(({ name }) => name)
    expect([...new Set(real.map(place => place.split('.')[0]!))].sort()).toEqual(tables.sort())
    const shapes = [...tableShapes].map(([name, { columns }]) => ({ name, columns }))
    const wanted = [...shapes, ...copiedTables].flatMap(table => placesOf([table], ({ columns }) => columns))
    expect([...new Set(wanted)].filter(place => !real.includes(place))).toEqual([...made])
  }

  test('SQLite', async () => {
    const db = await openDatabase(':memory:')
    migrate(db)
    const found = db.all<{ name: string; place: string; pk: number }>`SELECT t.name, c.pk,
        t.name || '.' || c.name AS place
      FROM pragma_table_list t, pragma_table_info(t.name) c
      WHERE t.schema = 'main' AND t.type <> 'shadow' AND t.name NOT LIKE 'sqlite_%' ORDER BY t.name, c.pk`
    db.close()
    // A context has when its user was first seen.
    check(
      found.map(({ place }) => place),
      'postgres',
      ['outbox_lane.first_seen'],
    )
    const keys = found.filter(({ name, pk }) => pk > 0 && tableShapes.has(name)).map(({ place }) => place)
    const shapes = [...tableShapes].map(([name, { key }]) => ({ name, columns: key }))
    expect(keys.sort()).toEqual(placesOf(shapes, ({ columns }) => columns))
  })

  test.skipIf(!isPostgresThere())('PostgreSQL', async () => {
    await using database = await newDatabase()
    const connection = await connectPg({ url: database.url, name: 'tests', answerMs: 60_000 })
    const found = await connection.all<{ place: string; type: string }>(sql`SELECT data_type AS type,
      table_name || '.' || column_name AS place FROM information_schema.columns WHERE table_schema = 'svc'`)
    connection.destroy()
    check(
      found.map(({ place }) => place),
      'sqlite',
      [],
    )
    expect(found.filter(({ type }) => type === 'integer')).toEqual([])
  })
})

const gone = 'o-gone@im.wechat'
const [words, secret] = ['hUsH of the person', 'sEcReT']

/** Stores something of a person in every place that the list has. */
async function fill({ clock, storage, store }: Opened): Promise<void> {
  const { sessions, logins } = storage.state
  const { bot_id, token } = { ...bot('s'), token: `${secret} of the bot` }
  await sessions.save('s', bot('s', { token, user_id: gone }))
  const qr = {
    qrcode: secret,
    qrUrl: secret,
    renewals: 0,
    state: 'waiting',
    needsCode: false,
    shown_at: 1,
  } as const
  await logins.put(
    {
      ...{ id: 'l', session: 'new', version: '', until: clock.at * 2, force: false, ended: false },
      ...{ status: 'waiting', revision: 1, told: 0, qr },
    },
    0,
  )
  const poll = async (cursorFrom: string, cursorTo: string, users: readonly string[]) => {
    const messages = users.map((from_user, nth) => ({
      ...message(from_user === gone ? words : 'text', { from_user }),
      raw: JSON.stringify({ text: from_user === gone ? words : 'text', context_token: secret }),
      contextToken: secret,
      written_at: clock.at + nth,
      repeated: { received_at: clock.at + nth },
    }))
    const batch = { id: cursorTo, session: 's', token, botId: bot_id, cursorFrom, cursorTo, messages }
    return (await storage.ingest({ ...batch, now: clock.at })).rows as number[]
  }
  const [row] = await poll('', 'c', [gone])
  // More than contexts.json has room for.
  await poll(
    'c',
    'd',
    Array.from({ length: 600 }, (_, nth) => `o-${nth}@im.wechat`),
  )
  await poll('d', 'e', ['o-0@im.wechat'])
  const rules = { ...open, pace: { perSecond: 9, perWindow: 9, windowMs: 60_000 } }
  const file = { name: 'f', file_name: words, size: 1, md5: 'x' }
  const entry = { session: 's', bot_id, user: gone, mode: 'queue', made_by: 'owner' } as const
  const waiting = { message: outgoing(words, { client_id: 'w', to_user: gone, raw: words }), file }
  await store.outbox.enqueue({ ...entry, parts: [{ kind: 'file', waiting }] }, rules)
  const error = { code: 'upstream_error', detail: words, quote: words }
  for (const status of ['unknown', 'accepted'] as const) {
    clock.at += 1000
    const begun = await sending(store, 's', bot_id, outgoing(status, { to_user: gone }), {
      rules,
      key: status,
    })
    const more = status === 'unknown' ? { error } : { message_id: 'up' }
    await store.outbox.settle(begun, { status, spent: true, ...more })
  }
  await store.names.set('s', gone, words)
  await store.conversations.markRead('s', gone, row)
  await store.conversations.markRead('s', gone, row, 'k')
  await store.consumers.claim('default', { limit: 3 })
  const grant = { rights: ['history' as const], users: [gone] }
  const endpoint = {
    ...{
      id: 'hook',
      url: 'https://example.org/',
      types: [],
      headers: { a: secret },
      link_key: secret,
      grant,
    },
    ...{ secrets: [{ secret }], allow_private: false, replies: false, created_at: 1, position: 'at-0' },
  }
  await store.webhooks.add(endpoint)
  await store.webhooks.add({ ...endpoint, id: 'own', user: gone })
  const [received] = (await store.events.listAfter('', { limit: 1 })).events
  await store.webhooks.progress.save('hook', {
    ...{ epoch: 0, position: 'at-1', lanes: [{ session: 's', user: gone, position: 'at-1' }], ended: [] },
    health: { last_error: words },
    tries: [
      {
        ...{ at: 1, event: received!.cursor, type: 'message.received', outcome: 'failed', took_ms: 1 },
        detail: words,
        answer: words,
      },
    ],
  })
  const made = { can: ['read'], made_by: 'owner', created_at: 1 }
  await store.keys.add({ id: 'k', name: `for ${gone}`, hash: secret, grant, ...made })
  await store.keys.rotate('k', secret, 5)
  await store.audit.add({ at: 1, principal: 'owner', operation: 'name_user', subject: `s ${gone}` })
  await store.events.append([
    { type: 'session.status', session: 's', data: { name: 's', user_id: gone } as never },
  ])
  const key = { agent: 'a', session: 's', user: gone }
  const turn = await store.agents.addTurn({ ...key, source: 'inject', messages: [], prompt: words })
  await store.consumers.register('agent-a', { atEnd: true })
  const allow = [gone, 'o-0@im.wechat']
  await store.agents.claimAgent('a', undefined, {
    about: 'codex exec',
    allow,
    commands: true,
    place: 0,
    group: 'home',
  })
  await store.agents.chooseAgent({ session: 's', user: gone }, { message: row!, agent: words })
  await store.agents.claim(key)
  await store.agents.saveState(key, { agent_session: words, folder: words, title: words })
  await store.agents.changeTurn(turn.id, { answer: { parts: [{ text: words }] }, error: words })
  const options = [{ id: 'yes', name: words, kind: 'allow_once' as const }]
  await store.agents.ask({ turn: turn.id, text: words, code: 'K7QX', expires_at: clock.at * 2, options })
  const time = { session: 's', user_id: gone, rule: { at: 1 }, zone: 'UTC', due_at: 1, made_by: 'owner' }
  await store.agents.addTime({ ...time, prompt: words })
  await store.asks.add({
    session: 'work',
    user_id: gone,
    text: words,
    options,
    code: 'K7QY',
    lasts_ms: 60_000,
    grants: false,
    asked_by: 'owner',
  })
  await fillTopics(store, clock)
}

async function fillTopics({ topics }: Opened['store'], clock: Opened['clock']): Promise<void> {
  const person = { session: 's', user_id: gone }
  await topics.add({
    people: [person],
    name: 'home',
    min_priority: 'min',
    max_priority: 'high',
    digest: false,
    answers: 5,
    keep_ms: 1000,
    template: words,
    secret,
    attach_private: false,
    made_by: 'owner',
    created_at: 1,
  })
  const media = { kind: 'image', url: words } as const
  const notice = { title: words, text: words, priority: 'high', tags: [words], click: words, media } as const
  await topics.accept('home', [{ ...notice, unread: { severity: words } }], { id: 'key a' })
  clock.at += 2000
  await topics.expire()
  await topics.accept('home', [notice], { id: 'key a' })
  const [found] = await topics.listPersons()
  const counts = { [words]: 1 }
  const bulletin = {
    id: 'b',
    answers: 1,
    priority: 'high' as const,
    notices: [],
    doubts: [],
    names: counts,
    media: [media],
  }
  const missed = { 1: { more: counts, expired: {} } }
  expect(await topics.claim({ ...person, ...bulletin, missed, text: words }, found!.version)).toBe(true)
}

/** Returns the columns with a text that matches. */
async function columnsWith(t: Opened, pattern: RegExp): Promise<string[]> {
  const tables = JSON.parse(await t.dump()) as [string, Record<string, unknown>[]][]
  const found = tables.flatMap(([name, rows]) =>
    rows.flatMap(row =>
      Object.entries(row).flatMap(([column, value]) =>
        pattern.test(String(value)) ? `${name}.${column}` : [],
      ),
    ),
  )
  return [...new Set(found)].filter(place => !/^gram_/.test(place)).sort()
}

onEach(
  it => {
    /** The columns that the engine of the test has, of those in the list. */
    const listed = async (t: Opened, columnsOf: (table: StoreTable) => readonly string[]) => {
      const there = new Set((JSON.parse(await t.dump()) as [string, object[]][]).map(([name]) => name))
      return placesOf(
        storeTables.filter(({ name }) => there.has(name)),
        columnsOf,
      )
    }

    it('the list has the columns with something of a person; after an erasure no column has any', async t => {
      await fill(t)
      const pattern = new RegExp(`${gone}|${words}`, 'i')
      expect(await columnsWith(t, pattern)).toEqual(await listed(t, ({ people }) => split(people)))
      const { people } = t.store
      await people.begin(gone)
      await t.storage.state.forgetUser(gone)
      await people.erase(gone)
      expect(await columnsWith(t, pattern)).toEqual([])
    })

    it('the list has the columns with secrets', async t => {
      await fill(t)
      const [plain, sealed] = [await columnsWith(t, new RegExp(secret)), await columnsWith(t, /svc-sealed:/)]
      expect(plain.length === 0 || sealed.length === 0).toBe(true)
      const found = [...plain, ...sealed]
      const known = await listed(t, ({ secrets }) => Object.keys(secrets?.columns ?? {}))
      expect(found.filter(place => !known.includes(place))).toEqual([])
      // A file has the token of a lane by now; in a database no lane has a context.
      const unused = known.filter(place => !found.includes(place))
      expect(['outbox_lane.token', 'outbox_lane.context']).toContain(unused.join())
    })
  },
  { sealed: true },
)
