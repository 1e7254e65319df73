/** Who waits for received messages is woken by what concerns it, and by nothing else. */
import { expect, test } from 'bun:test'
import { Waiters, type WaitTarget } from '../../src/receive/waits.ts'
import { openSqlite } from '../storage/sqlite/support.ts'
import { insert, message, type Running } from '../storage/support.ts'

const minute = 60_000

async function watching() {
  const t = await openSqlite()
  const waits = new Waiters(t.store)
  let seen = await t.store.log.getHead()
  const signal = new AbortController()
  const woken: string[] = []
  const start = (name: string, wanted: WaitTarget, ms = minute) =>
    waits.wait(signal.signal, ms, seen, wanted).then(() => void woken.push(name))
  return {
    ...{ storage: t.storage, store: t.store, waits, signal, woken, start },
    /** Waits that start from now on know what there is now. */
    async look() {
      seen = await t.store.log.getHead()
    },
    async [Symbol.asyncDispose]() {
      waits.end()
      await t[Symbol.asyncDispose]()
    },
  }
}

const say = async (t: Pick<Running, 'storage'>, session: string, text: string) =>
  await insert(t, [message(text)], session, `${session}@im.bot`)

test('a message wakes those who read its session or all, and of several that claim the same only one', async () => {
  await using t = await watching()
  const [first] = [
    t.start('all, first', { consumer: 'c' }),
    t.start('all, second', { consumer: 'c' }),
    t.start('other', { consumer: 'c', session: 'other' }),
  ]
  const same = t.start('same', { consumer: 'c', session: 'Shop' })
  const plain = [t.start('plain', {}), t.start('plain', {})]
  await say(t, 'shop', 'hello')
  await Promise.all([first, same, ...plain])
  expect(t.woken.sort()).toEqual(['all, first', 'plain', 'plain', 'same'])
})

test('a message that comes while a wait begins wakes it', async () => {
  await using t = await openSqlite()
  let looks = 0
  const look = async () => {
    const last = await t.store.log.getHead()
    if (++looks === 1) await say(t, 'shop', 'just now')
    return last
  }
  const log = { ...t.store.log, getHead: look }
  await new Waiters({ log, backlog: t.store.backlog }).wait(new AbortController().signal, 10 * minute, 0, {})
  expect(looks).toBeGreaterThan(0)
})

test('of calls for many sessions those of the ones with messages are woken; of more messages than are looked at, all', async () => {
  await using t = await watching()
  const waits = Array.from({ length: 300 }, (_, i) => t.start(`s${i}`, { session: `s${i}` }))
  await say(t, 's7', 'hello')
  await say(t, 's9', 'hello')
  await Promise.all([waits[7], waits[9]])
  expect(t.woken.sort()).toEqual(['s7', 's9'])
  await insert(
    t,
    Array.from({ length: 200 }, (_, i) => message(`many ${i}`)),
    'elsewhere',
  )
  await Promise.all(waits)
  expect(t.woken).toHaveLength(300)
})

test('one that was woken and does not read passes it on to the next of the same claim', async () => {
  await using t = await watching()
  const [first, second] = [t.start('first', { consumer: 'c' }), t.start('second', { consumer: 'c' })]
  void t.start('other', { consumer: 'd', session: 'other' })
  await say(t, 'shop', 'hello')
  await first
  t.waits.notifyNext({ consumer: 'c' })
  await second
  expect(t.woken).toEqual(['first', 'second'])
})

test('a wait ends at once when there is something already, or nobody wants it any more; and when its time is over', async () => {
  await using t = await watching()
  const seen = await t.store.log.getHead()
  await say(t, 'shop', 'hello')
  await t.waits.wait(t.signal.signal, minute, seen, {})
  await t.look()
  await t.start('time', {}, 1)
  const last = t.start('aborted', {})
  t.signal.abort()
  await last
  await t.start('late', {})
  expect(t.woken).toEqual(['time', 'aborted', 'late'])
})

test('calls with a scope are woken by the messages in it, and by no others', async () => {
  await using t = await watching()
  const users = Array.from({ length: 1000 }, (_, i) => `user${i}`)
  const waits = users.map(user => t.start(user, { scope: { users: [user] } }))
  const ofBot = t.start('bot', { scope: { bots: ['shop@im.bot'] } })
  void t.start('other bot', { scope: { bots: ['other@im.bot'] } })
  void t.start('nothing', { scope: { bots: [] } })
  await insert(t, [message('foreign', { from_user: 'nobody' })], 'home', 'home@im.bot')
  await insert(t, [message('own', { from_user: 'user7' })], 'shop', 'shop@im.bot')
  await Promise.all([waits[7], ofBot])
  await new Promise(resolve => setImmediate(resolve))
  expect(t.woken.sort()).toEqual(['bot', 'user7'])
  await t.look()
  void t.start('other bot, session', { session: 'shop', scope: { bots: ['other@im.bot'] } })
  const session = t.start('session', { session: 'shop', scope: { users: ['user8'] } })
  const everything = t.start('everything', {})
  await insert(t, [message('own', { from_user: 'user8' })], 'shop', 'shop@im.bot')
  await Promise.all([waits[8], session, everything])
  await new Promise(resolve => setImmediate(resolve))
  expect(t.woken.sort()).toEqual(['bot', 'everything', 'session', 'user7', 'user8'])
})
