/** Searches find the same on both engines, whatever the messages and the filters are. */
import { describe, expect, test } from 'bun:test'
import type { MessageKind } from '../../../src/model/message.ts'
import { silentLog } from '../../../src/platform/log.ts'
import { PgDatabase } from '../../../src/storage/postgres/database.ts'
import { GramIndexer } from '../../../src/storage/postgres/grams.ts'
import { isPostgresThere } from '../../support/postgres.ts'
import { openSqlite } from '../sqlite/support.ts'
import { insert, message, outgoing, type Running, sending } from '../support.ts'
import { openPostgres } from './support.ts'

const kinds: MessageKind[] = ['TEXT', 'IMAGE', 'VOICE', 'FILE', 'VIDEO']
const alphabet = [
  ...'aAbBzI09 %_\\"\'-$\0\n\ufffd中文好，👍🏽éáe\u0301ıİ\u212a\u{f0025}',
  '\ud83d',
  '\udc4d',
  'word',
  '$$',
  '\\\\',
]
/** Payloads of items, and what must not be taken for one. */
const items = [
  '{"image_item":{}}',
  '{"voice_item":{"a":"\\u0000\\ud800"}}',
  '{"file_item":null}',
  '{"x":"\\"video_item\\""}',
  '{"text_item":{"text":"image_item"}}',
  '[]',
  '7',
]

/** Numbers that are the same in each run. */
function dice(seed: number) {
  let state = seed
  const below = (limit: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * limit)
  }
  const pick = <T>(list: readonly T[]): T => list[below(list.length)]!
  const text = (longest: number) => Array.from({ length: below(longest + 1) }, () => pick(alphabet)).join('')
  return { below, pick, text, rarely: <T>(value: () => T) => (below(4) === 0 ? value() : undefined) }
}

function rawOf({ below, pick, text }: ReturnType<typeof dice>): string {
  if (below(20) === 0)
    return pick([
      '',
      '{}',
      '[]',
      'null',
      '{"item_list":{"image_item":{}}}',
      `${'['.repeat(9000)}"image_item"`,
    ])
  return `{"text":${JSON.stringify(text(5))},"item_list":[${Array.from({ length: below(4) }, () => pick(items)).join()}]}`
}

/** Stores the same on an engine as on the other one. */
async function fill(t: Running, seed: number, count: number): Promise<string[]> {
  const random = dice(seed)
  const { below, pick, text } = random
  const texts: string[] = []
  for (let nth = 0; nth < count; nth++) {
    const own = below(200) === 0 ? text(9).repeat(700) : text(9)
    texts.push(own)
    const [bot, session, peer] = [`b${below(2)}`, `s${below(3)}`, `u${below(4)}`]
    const common = { msg_type: pick(kinds), timestamp: 1_000 + below(50), raw: rawOf(random) }
    if (below(5) === 0)
      await sending(t.store, session, bot, outgoing(own, { ...common, client_id: `c${nth}`, to_user: peer }))
    else
      await insert(
        t,
        [message(own, { ...common, message_id: `m${nth}`, from_user: peer, timed: false })],
        session,
        bot,
      )
  }
  return texts
}

describe.skipIf(!isPostgresThere())('PostgreSQL', () => {
  test('random searches of random messages find what SQLite finds', async () => {
    const seed = 35
    const count = 100
    await using sqlite = await openSqlite()
    await using postgres = await openPostgres()
    const texts = await fill(sqlite, seed, count)
    await fill(postgres, seed, count)
    const random = dice(seed + 1)
    const { below, pick, rarely, text } = random
    const db = new PgDatabase({ url: postgres.url, clock: postgres.clock, log: silentLog, node: 'test' })
    const indexer = new GramIndexer({ clock: postgres.clock, db, log: silentLog })
    for (let nth = 0; nth < count; nth++) {
      if (nth === count >> 2 || nth === count >> 1) await indexer.step(1, nth)
      const some = pick(texts)
      const start = below(some.length + 1)
      const filter = {
        limit: 1 + below(20),
        offset: pick([0, 0, 0, below(9), count]),
        user_id: rarely(() => pick(['u0', 'u1', 'U1', '', 'nobody', "u'"])),
        bot_id: rarely(() => pick(['b0', 'b1', 'b9'])),
        session: rarely(() => pick(['s0', 'S1', 's2', 's9'])),
        msg_type: rarely(() => pick(kinds)),
        has_kind: rarely(() => pick(kinds)),
        direction: rarely(() => pick(['sent', 'received'] as const)),
        since: rarely(() => 1_000 + below(60)),
        until: rarely(() => 1_000 + below(60)),
        text_contains: below(2) === 0 ? undefined : pick([text(3), some.slice(start, start + 1 + below(4))]),
        characters: rarely(() => below(3000)),
        before: rarely(() => pick([0, 1, below(count), count + 9, Number.MAX_SAFE_INTEGER])),
        scope: rarely(() => ({
          ...(below(2) && { bots: pick([[], ['b0'], ['b0', 'b1']]) }),
          ...(below(2) && { users: pick([[], ['u1'], ['u2', 'u3', 'u2']]) }),
        })),
      }
      const wanted = Object.fromEntries(
        Object.entries(filter).filter(([, value]) => value !== undefined),
      ) as typeof filter & object
      const find = async ({ store }: Running) => {
        const { rows, ...page } = await store.log.search(wanted as Parameters<typeof store.log.search>[0])
        return {
          filter: wanted,
          ...page,
          rows: rows.map(({ id, message_id, text: own, raw, msg_type }) => ({
            id,
            message_id,
            own,
            raw,
            msg_type,
          })),
        }
      }
      expect(await find(postgres)).toEqual(await find(sqlite))
    }
    await db.close()
  }, 60_000)
})
