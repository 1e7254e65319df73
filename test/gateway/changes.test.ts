/** What listeners are told of, as it happens. */
import { describe, expect } from 'bun:test'
import type { ChangeListener } from '../../src/gateway/changes.ts'
import { withGateway } from '../support/gateway.ts'
import { given } from '../support/given.ts'

const it = given(withGateway)

/** What was told, in order: `received hi`, `sent hello sending`, `sent hello accepted`; sessions as `name/users`. */
function ear() {
  const messages: string[] = []
  const sessions: string[] = []
  const listener: ChangeListener = {
    message: ({ text, status }, news) => void messages.push([news, text, status].filter(Boolean).join(' ')),
    sessions: now =>
      void sessions.push(now.map(({ name, users }) => `${name}/${users.length}`).join(' ') || 'none'),
  }
  return { listener, messages, sessions }
}

describe('messages', () => {
  it('a send that waits is told of when it begins to wait, and again when it goes out', async t => {
    await t.sandbox.say('hi')
    await t.receive(1)
    t.clock.advance(25 * 3600_000)
    await t.sandbox.advance(25 * 3600_000)
    const { listener, messages } = ear()
    const early = t.gateway.changes.subscribe(listener)
    await t.send({ text: 'late', when_closed: 'queue' })
    await t.until('it waits', () => messages.includes('sent late queued'))
    early()
    // Who begins to listen now knows of what waits.
    const again = ear()
    t.gateway.changes.subscribe(again.listener)
    await t.sandbox.say('back')
    await t.until('it went out', () => again.messages.includes('sent late accepted'))
    expect(messages.at(-1)).toBe('sent late queued')
  })

  it('old messages of another program are told of as such', async t => {
    const { listener, messages } = ear()
    t.gateway.changes.subscribe(listener)
    await t.sandbox.say('hi')
    await t.until('heard', () => messages.length === 1)
    const { openSqliteStore } = await import('../../src/storage/sqlite/store.ts')
    const { silentLog } = await import('../../src/platform/log.ts')
    const store = await openSqliteStore({
      ...{ path: `${t.dir}/messages.db`, clock: t.clock, log: silentLog, maxAgeDays: 0, maxCount: 0 },
    })
    const raw = JSON.stringify({ item_list: [{ type: 1, text_item: { text: 'long ago' } }] })
    await store.intake.add([
      {
        ...{ session: 'default', bot_id: t.bots.get('default')!.bot_id, direction: 'received' },
        ...{ message_id: 'old', derived_id: '', from_user: 'u@im.wechat', msg_type: 'TEXT' },
        ...{ text: 'long ago', timestamp: 1, timed: true, contentHash: 'a'.repeat(64), raw },
      },
    ])
    await store.maintenance.close()
    await t.until('heard of it', () => messages.includes('past long ago'))
    expect(messages).toEqual(['received hi', 'past long ago'])
  })
})

describe('sessions', () => {
  it('that they were polled is told every 15 s only', async t => {
    const { listener, sessions } = ear()
    const began = t.clock.monotonic()
    t.gateway.changes.subscribe(listener)
    await t.sandbox.say('hi')
    await t.receive(1)
    await t.until('the user shows, and that there was a poll', () => {
      t.clock.advance(1000)
      return sessions.at(-1) === 'default/1'
    })
    const told = sessions.length
    await t.until('told again', () => {
      t.clock.advance(1000)
      return sessions.length > told
    })
    expect(t.clock.monotonic() - began).toBeGreaterThan(15_000)
  })

  it('a send, a name that another process gives, and a window that closes are told of a user', async t => {
    const users: string[] = []
    t.gateway.changes.subscribe({
      sessions: now =>
        void users.push(now[0]?.users.map(({ name, remaining }) => `${name} ${remaining}`).join() ?? ''),
    })
    const told = (what: string) =>
      t.until(what, () => {
        t.clock.advance(1000)
        return users.at(-1) === what
      })
    await t.sandbox.say('hi')
    await t.receive(1)
    await told('undefined 10')
    await t.send({ text: 'answer' })
    await told('undefined 9')
    const { openSqliteStore } = await import('../../src/storage/sqlite/store.ts')
    const { silentLog } = await import('../../src/platform/log.ts')
    const store = await openSqliteStore({
      ...{ path: `${t.dir}/messages.db`, clock: t.clock, log: silentLog, maxAgeDays: 0, maxCount: 0 },
    })
    const { user_id } = t.bots.get('default')!
    await store.names.set('default', user_id, 'Ann')
    await told('Ann 9')
    await store.names.set('default', user_id, undefined)
    await store.maintenance.close()
    await told('undefined 9')
    t.clock.advance(24 * 3600_000)
    await told('undefined 0')
  })

  it('logins, another default, renames and logouts are told, each with how it was before', async t => {
    const told: string[] = []
    const text = (sessions: readonly { name: string; is_default: boolean }[]) =>
      sessions.map(({ is_default, name }) => `${name}${is_default ? '*' : ''}`).join(' ')
    let looks = 0
    t.gateway.changes.subscribe({
      sessions: (now, before) => {
        if (text(now) !== text(before)) told.push(`${text(before)} > ${text(now)}`)
        looks++
      },
    })
    const after = async (work: () => Promise<unknown>, wanted: string) => {
      await work()
      await t.until(wanted, () => {
        t.clock.advance(1000)
        return told.at(-1) === wanted
      })
    }
    // The first look tells nobody; that of the next 15 s does.
    await t.until('a look', () => {
      t.clock.advance(1000)
      return looks > 0
    })
    const bot = { ...t.bots.get('default')!, token: 'x', base_url: 'http://127.0.0.1:1', cursor: '' }
    const { accounts } = t.gateway
    await after(
      () => t.other.sessions.save('b', { ...bot, bot_id: 'b@im.bot', created_at: t.clock.now() }),
      'default* > default* b',
    )
    await after(() => accounts.setDefault('b'), 'default* b > b* default')
    await after(() => accounts.rename('b', 'c'), 'b* default > c* default')
    await after(() => accounts.logout('c'), 'c* default > default*')
  })

  it('a listener that fails keeps nobody from hearing', async t => {
    const { listener, messages } = ear()
    t.gateway.changes.subscribe({
      message() {
        throw new Error('deaf')
      },
    })
    t.gateway.changes.subscribe(listener)
    await t.sandbox.say('hi')
    await t.until('heard', () => messages.includes('received hi'))
    expect(t.lines.join('')).toContain('a listener failed')
  })
})
