/** The message log in SQLite: its log lines, failures, other processes. */
import { expect } from 'bun:test'
import { openDatabase } from '../../../src/platform/sqlite.ts'
import { failure } from '../../support/failure.ts'
import { given } from '../../support/given.ts'
import { byMessageId, insert, message, rename } from '../support.ts'
import { inOtherProcess, openSqlite } from './support.ts'

const it = given(openSqlite)

const again = (first: ReturnType<typeof message>, id: string) => ({ ...first, message_id: id })

it("another bot's other message under the same id is kept under its bot's name, and warned of", async t => {
  const id = '18446744073709551615'
  await insert(t, [message('one', { message_id: id })], 's', 'bot1')
  const two = message('two', { message_id: id })
  expect(await insert(t, [two], 's2', 'bot2')).toEqual([2])
  expect(await insert(t, [two], 's2', 'bot2')).toEqual(['duplicate'])
  expect((await byMessageId(t.store, id))?.text).toBe('one')
  expect((await byMessageId(t.store, `bot2:${id}`))?.text).toBe('two')
  expect(t.lines.filter(line => line.includes('WARNING') && line.includes(id))).toHaveLength(1)
  // The same content is the same message.
  expect(await insert(t, [message('one', { message_id: id })], 's3', 'bot3')).toEqual(['duplicate'])
})

it('a repeat under a new id is known after a restart, and when another process stored the first', async t => {
  const one = message('hello')
  await insert(t, [one])
  await t.reopen()
  expect(await insert(t, [again(one, '5')])).toEqual(['duplicate'])

  const two = { ...message('from afar'), timestamp: 42 }
  t.clock.at = Date.now()
  const told = await inOtherProcess(
    t.dir,
    `console.log(JSON.stringify(await insert({ storage }, [${JSON.stringify(two)}])))`,
  )
  expect(JSON.parse(told)).toEqual([2])
  expect(await insert(t, [again(two, '6')])).toEqual(['duplicate'])
})

it('a batch that fails in the middle leaves nothing, and its messages are stored at the next try', async t => {
  const batch = [message('a'), message('b'), message('c')]
  const db = await openDatabase(t.path)
  db.exec(
    `CREATE TRIGGER stop BEFORE INSERT ON message WHEN NEW.text = 'c' BEGIN SELECT RAISE(ABORT, 'no'); END`,
  )
  expect(await failure(insert(t, batch))).toMatchObject({ message: 'no' })
  expect(await t.store.log.getHead()).toBe(0)
  expect((await t.store.log.search({ text_contains: 'a', limit: 5, offset: 0 })).total).toBe(0)
  db.exec('DROP TRIGGER stop')
  db.close()
  expect(await insert(t, batch)).toEqual([1, 2, 3])
})

it('a killed process leaves a whole batch or none of it', async t => {
  const body = `
    for (let n = 0; ; n++) { if (n === 20) console.log('ready'); await 0; await insert({ storage }, Array.from({ length: 10 }, (_, i) => ({ message_id: 'm' + (n * 10 + i), derived_id: '', from_user: 'u', msg_type: 'TEXT', text: 't' + i, timestamp: n, timed: true, contentHash: 'h' + n + i, raw: '{}' }))) }`
  await inOtherProcess(t.dir, body, 'SIGKILL')
  const rows = await t.store.log.listAfter(0, { limit: 100_000 })
  expect(rows.length).toBeGreaterThanOrEqual(200)
  expect(rows.length % 10).toBe(0)
  expect(rows.map(row => row.message_id)).toEqual(rows.map((_, i) => `m${i}`))
})

it('which user wrote to which session is known immediately, whichever process stored it', async t => {
  const from = { from_user: 'u@im.wechat' }
  expect([...(await t.store.conversations.sessionsOf('u@im.wechat'))]).toEqual([])
  await insert(t, [message('1', from)], 'one')
  expect([...(await t.store.conversations.sessionsOf('u@im.wechat'))]).toEqual(['one'])
  const other = JSON.stringify(message('2', from))
  await inOtherProcess(t.dir, `await insert({ storage }, [${other}], 'two', 'b2')`)
  expect([...(await t.store.conversations.sessionsOf('u@im.wechat'))].sort()).toEqual(['one', 'two'])
  await rename(t, 'one', 'three')
  expect([...(await t.store.conversations.sessionsOf('u@im.wechat'))].sort()).toEqual(['three', 'two'])
})
