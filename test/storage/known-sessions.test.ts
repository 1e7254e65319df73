import { expect, test } from 'bun:test'
import type { BotInfo } from '../../src/model/session.ts'
import { KnownSessions } from '../../src/storage/known-sessions.ts'
import type { SessionRecord } from '../../src/storage/state.ts'

const bot = (token: string): BotInfo => ({
  ...{ bot_id: token, token, base_url: '', cursor: '', created_at: 1 },
})

/** Names, by what a look finds that the one before did not. */
function looker() {
  const known = new KnownSessions()
  return (records: readonly SessionRecord[]) => {
    const changes = known.changes(records)
    for (const record of records) expect(known.get(record.name)).toBe(record)
    return changes.map(({ before, now }) => `${before?.name ?? ''}>${now?.name ?? ''}`).sort()
  }
}

test('a look tells what is new, gone and changed, wherever it stands', () => {
  const look = looker()
  const [a, b, c, d] = ['a', 'b', 'c', 'd'].map(name => ({ name, bot: bot(name) })) as [
    SessionRecord,
    SessionRecord,
    SessionRecord,
    SessionRecord,
  ]
  expect(look([a, b, c])).toEqual(['>a', '>b', '>c'])
  expect(look([a, b, c])).toEqual([])
  expect(look([a, b, c, d])).toEqual(['>d'])
  expect(look([a, { ...b, bot: bot('again') }, c, d])).toEqual(['b>b'])
  expect(look([{ name: 'a', damaged: true }, c])).toEqual(['a>a', 'b>', 'd>'])
  expect(look([b, a, c])).toEqual(['>b', 'a>a'])
  expect(look([{ ...c, name: 'renamed' }])).toEqual(['>renamed', 'a>', 'b>', 'c>'])
  expect(look([])).toEqual(['renamed>'])
  expect(look([d])).toEqual(['>d'])
})

test('another order, and other objects with the same credentials, are no change', () => {
  const look = looker()
  const records = ['a', 'b', 'c', 'd', 'e'].map(name => ({ name, bot: bot(name) }))
  look(records)
  expect(look(records.toReversed())).toEqual([])
  expect(look(records.map(record => ({ ...record })))).toEqual([])
  const [first, ...others] = records
  expect(look([...others, first!])).toEqual([])
})
