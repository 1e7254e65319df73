/** What every engine must do for invitations (`src/storage/invitations.ts`), and for logins that come by one. */
import { expect, test } from 'bun:test'
import type { BotInfo } from '../../src/model/session.ts'
import { shares } from '../../src/model/shares.ts'
import type { NewInvitation } from '../../src/storage/invitations.ts'
import type { StoredLogin } from '../../src/storage/logins.ts'
import { failure } from '../support/failure.ts'
import { onEach } from './engines.ts'
import { openSqlite } from './sqlite/support.ts'
import type { Opened } from './support.ts'

const invitation = (id: string, more: Partial<NewInvitation> = {}): NewInvitation => ({
  ...{
    id,
    name: `name of ${id}`,
    hash: `hash of ${id}`,
    trusted: false,
    turns_per_day: 20,
    max_uses: 1,
    made_by: 'owner',
  },
  ...{ created_at: 5, expires_at: Number.MAX_SAFE_INTEGER, ...more },
})

const bot = (user_id: string, token = `${user_id}:secret`): BotInfo => ({
  ...{ bot_id: `bot of ${token}`, token, user_id, base_url: 'https://x', cursor: '', created_at: 7 },
})

let count = 0
/** Stores a login of an invitation, as it is once its person has confirmed it. */
async function confirmed(t: Opened, id: string, session: string): Promise<StoredLogin> {
  const login: StoredLogin = {
    ...{ id: `login ${++count}`, session, version: '', until: Number.MAX_SAFE_INTEGER, force: false },
    ...{ ended: false, status: 'waiting', revision: 0, told: 0, invitation: { id, browser: 'b' } },
  }
  const kept = (await t.storage.state.logins.put(login, 1))!
  return { ...kept, ended: true, status: 'confirmed', revision: 1, bot_id: 'bot' }
}
const join = async (t: Opened, id: string, session: string, who: BotInfo) =>
  t.storage.state.logins.finish(await confirmed(t, id, session), who, t.clock.now())
const records = async (t: Opened) =>
  new Map((await t.storage.state.sessions.list()).map(({ bot, name }) => [name, bot]))
const used = async (t: Opened, id: string) => (await t.store.invitations.get(id))?.used

onEach(it => {
  it('is found by its id and by the hash of its secret, and lists in order', async t => {
    const { invitations } = t.store
    const one = invitation('one', { agent: 'home', trusted: true, inviter: 'Anna', max_uses: 3 })
    await invitations.add(one)
    await invitations.add(invitation('two', { created_at: 6 }))
    expect(await invitations.get('one')).toEqual({ ...one, used: 0 })
    expect(await invitations.findByHash('hash of one')).toEqual({ ...one, used: 0 })
    expect(await invitations.findByHash('other')).toBeUndefined()
    expect((await invitations.list()).map(({ id }) => id)).toEqual(['one', 'two'])
  })

  it('each person who joins gets the topic of the invitation', async t => {
    await t.store.invitations.add(invitation('one', { name: 'mum', topic: 'home' }))
    await t.store.invitations.add(invitation('many', { name: 'shop', topic: 'shop', max_uses: 9 }))
    await join(t, 'one', 'mum', bot('u1'))
    await join(t, 'many', 'shop-1', bot('u2'))
    await join(t, 'many', 'shop-2', bot('u3'))
    const all = await t.store.topics.list()
    expect(all.flatMap(({ name, people }) => people.map(one => [name, one.session, one.user_id]))).toEqual([
      ['home', 'mum', 'u1'],
      ['shop-1', 'shop-1', 'u2'],
      ['shop-2', 'shop-2', 'u3'],
    ])
    await t.store.topics.leave({ session: 'mum' })
    expect(await t.store.topics.find('home')).toBeUndefined()
  })

  it('a person who joins by the name of a topic that there is becomes one of its people', async t => {
    const { invitations, topics } = t.store
    await invitations.add(invitation('one', { name: 'mum', topic: 'home' }))
    await invitations.add(invitation('many', { name: 'kid', topic: 'home', max_uses: 5 }))
    await join(t, 'one', 'mum', bot('u1'))
    await join(t, 'many', 'kid-1', bot('u2'))
    await join(t, 'many', 'kid-2', bot('u3'))
    const [home, ...others] = await topics.list()
    expect(others).toEqual([])
    expect(home?.people.map(({ session, user_id }) => [session, user_id])).toEqual([
      ['mum', 'u1'],
      ['kid-1', 'u2'],
      ['kid-2', 'u3'],
    ])
    expect(await failure(invitations.add(invitation('all', { topic: 'home', max_uses: 18 })))).toMatchObject({
      code: 'invalid_arguments',
    })
    await topics.leave({ session: 'kid-1' })
    expect((await topics.find('home'))?.people).toHaveLength(2)
  })

  it('a use is counted with the credentials, which say that the person is a guest', async t => {
    await t.store.invitations.add(invitation('mum'))
    expect(await join(t, 'mum', 'mum', bot('u1'))).toMatchObject({
      status: 'confirmed',
      joined: { outcome: 'joined', session: 'mum' },
    })
    expect((await records(t)).get('mum')).toMatchObject({ user_id: 'u1', invitation: 'mum' })
    expect(await used(t, 'mum')).toBe(1)
    const [line] = await t.store.audit.list({ limit: 1, operations: ['join'] })
    expect(line).toMatchObject({ principal: 'open', subject: 'mum mum', outcome: 'done' })
    const joined = { types: ['session.joined' as const], limit: 9 }
    const { events } = await t.store.events.listAfter('', { ...joined, session: 'mum' })
    expect(events.map(({ data }) => data)).toEqual([
      {
        name: 'mum',
        bot_id: 'bot of u1:secret',
        user_id: 'u1',
        invitation: 'mum',
        invitation_name: 'name of mum',
      },
    ])
    // Readers must name it.
    expect((await t.store.events.listAfter('', { limit: 9 })).events).toEqual([])
  })

  it('nobody joins by one that is used up, expired or revoked; the login says so', async t => {
    const { invitations } = t.store
    await invitations.add(invitation('used'))
    await join(t, 'used', 'first', bot('u1'))
    await invitations.add(invitation('old', { expires_at: t.clock.now() }))
    await invitations.add(invitation('revoked'))
    expect(await invitations.revoke('revoked', 9)).toBe(true)
    expect(await invitations.revoke('revoked', 10)).toBe(false)
    for (const [nth, id] of ['used', 'old', 'revoked', 'unknown'].entries()) {
      const over = await join(t, id, `late${nth}`, bot(`late${nth}`))
      expect(over).toMatchObject({ status: 'expired', ended: true, joined: { outcome: 'over' } })
      expect(over).not.toHaveProperty('bot_id')
    }
    expect([...(await records(t)).keys()]).toEqual(['first'])
    const lines = await t.store.audit.list({ limit: 10, operations: ['join'] })
    expect(lines.map(({ outcome }) => outcome)).toEqual(['denied', 'denied', 'denied', 'denied', 'done'])
  })

  it('a person who is known gets the account back, as what the person was, and counts no use', async t => {
    await t.storage.state.sessions.save('default', bot('owner'))
    await t.store.invitations.add(invitation('shop', { max_uses: 2 }))
    await t.store.invitations.add(invitation('other', { max_uses: 2 }))
    const back = await join(t, 'shop', 'shop-9', bot('owner', 'new:1'))
    expect(back?.joined).toEqual({ outcome: 'back', session: 'default' })
    await join(t, 'shop', 'shop-1', bot('u1'))
    expect((await join(t, 'other', 'other-1', bot('u1', 'new:2')))?.joined?.session).toBe('shop-1')
    const kept = await records(t)
    expect([...kept.keys()].sort()).toEqual(['default', 'shop-1'])
    expect(kept.get('default')).toMatchObject({ token: 'new:1' })
    expect(kept.get('default')?.invitation).toBeUndefined()
    expect(kept.get('shop-1')).toMatchObject({ token: 'new:2', invitation: 'shop' })
    expect([await used(t, 'shop'), await used(t, 'other')]).toEqual([1, 0])
  })

  it('a plain login of another person ends the standing of a guest, one of the same person does not', async t => {
    await t.store.invitations.add(invitation('mum'))
    await join(t, 'mum', 'mum', bot('u1'))
    await t.storage.state.sessions.save('mum', bot('u1', 'new:1'))
    expect((await records(t)).get('mum')).toMatchObject({ token: 'new:1', invitation: 'mum' })
    await t.storage.state.sessions.save('mum', bot('u2'))
    expect((await records(t)).get('mum')?.invitation).toBeUndefined()
  })

  it('a name that another person has got meanwhile gets a number', async t => {
    await t.store.invitations.add(invitation('mum'))
    const login = await confirmed(t, 'mum', 'mum')
    await t.storage.state.sessions.save('MUM', bot('u2'))
    const joined = await t.storage.state.logins.finish(login, bot('u1'), t.clock.now())
    expect(joined?.joined?.session).toBe('mum-2')
    expect((await records(t)).get('MUM')).toMatchObject({ user_id: 'u2' })
  })

  it('logins that end at the same time take no more uses than there are, and one person takes one', async t => {
    await t.store.invitations.add(invitation('few', { max_uses: 2 }))
    const logins = []
    for (const nth of [1, 2, 3, 4]) logins.push(await confirmed(t, 'few', `few-${nth}`))
    const now = t.clock.now()
    const ends = logins.map((login, nth) => t.storage.state.logins.finish(login, bot(`u${nth}`), now))
    const outcomes = (await Promise.all(ends)).map(one => one?.joined?.outcome)
    expect(outcomes.sort()).toEqual(['joined', 'joined', 'over', 'over'])
    expect(await used(t, 'few')).toBe(2)
    await t.store.invitations.add(invitation('twice', { max_uses: 3 }))
    const same = [await confirmed(t, 'twice', 'twice-1'), await confirmed(t, 'twice', 'twice-2')]
    const twice = same.map((login, nth) =>
      t.storage.state.logins.finish(login, bot('one', `one:${nth}`), now),
    )
    const joined = (await Promise.all(twice)).map(one => one?.joined)
    expect(joined.map(one => one?.outcome).sort()).toEqual(['back', 'joined'])
    expect(new Set(joined.map(one => one?.session)).size).toBe(1)
    expect(await used(t, 'twice')).toBe(1)
  })

  it('the same login counts once, as after a crash of the process that stored it', async t => {
    await t.store.invitations.add(invitation('mum', { max_uses: 2 }))
    const login = await confirmed(t, 'mum', 'mum-1')
    expect((await t.storage.state.logins.finish(login, bot('u1'), 1))?.joined?.outcome).toBe('joined')
    expect(await t.storage.state.logins.finish(login, bot('u1'), 1)).toBeUndefined()
    expect(await used(t, 'mum')).toBe(1)
  })

  it('one that a key made ends with the key, and a key that has ended makes none', async t => {
    const key = { name: 'k', hash: 'aa', grant: { rights: [] }, can: [], created_at: 1 }
    await t.store.keys.add({ ...key, id: 'top', made_by: 'owner' })
    await t.store.keys.add({ ...key, id: 'below', name: 'l', made_by: 'key:top' })
    await t.store.invitations.add(invitation('of top', { made_by: 'panel:top' }))
    await t.store.invitations.add(invitation('of below', { made_by: 'key:below' }))
    await t.store.invitations.add(invitation('of owner'))
    await t.store.keys.revoke('top', 77)
    const ends = (await t.store.invitations.list()).map(({ id, revoked_at }) => [id, revoked_at])
    expect(ends.sort()).toEqual([
      ['of below', 77],
      ['of owner', undefined],
      ['of top', 77],
    ] as never)
    expect(
      await failure(t.store.invitations.add(invitation('late', { made_by: 'key:below' }))),
    ).toMatchObject({
      code: 'unauthorized',
    })
  })

  it('old ones are removed with their uses, but not while somebody who joined has an account', async t => {
    const { invitations } = t.store
    const at = t.clock.now()
    for (const id of ['left', 'stays', 'unused', 'young', 'active'])
      await invitations.add(invitation(id, { max_uses: 2 }))
    for (const id of ['left', 'stays']) await join(t, id, `${id}-1`, bot(id))
    for (const id of ['left', 'stays', 'unused']) await invitations.revoke(id, at - 2)
    await invitations.revoke('young', at)
    await invitations.add(invitation('over', { expires_at: at - 2 }))
    expect(await t.store.maintenance.removeOld('invitation', at - 1, ['stays'])).toBe(false)
    expect((await invitations.list()).map(({ id }) => id).sort()).toEqual(['active', 'stays', 'young'])
    expect(await used(t, 'stays')).toBe(1)
    await t.store.maintenance.removeOld('invitation', at - 1)
    expect(await t.dump()).not.toContain('"invitation":"left"')
    expect(await t.dump()).not.toContain('"invitation":"stays"')
  })
})

// The rule is the same SQL on every engine.
test('a key and those below it have half of the active ones', async () => {
  await using t = await openSqlite()
  const key = { hash: 'aa', grant: { rights: [] }, can: [], created_at: 1 }
  await t.store.keys.add({ ...key, id: 'top', name: 'top', made_by: 'owner' })
  for (let nth = 0; nth < shares.invitations.each; nth++)
    await t.store.invitations.add(invitation(`i${nth}`, { made_by: 'key:top' }))
  const more = t.store.invitations.add(invitation('more', { made_by: 'key:top' }))
  expect(await failure(more)).toMatchObject({ code: 'invalid_arguments' })
  await t.store.invitations.revoke('i0', 1)
  await t.store.invitations.add(invitation('more', { made_by: 'key:top' }))
  await t.store.invitations.add(invitation('of owner'))
})
