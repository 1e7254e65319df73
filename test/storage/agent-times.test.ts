/** What an engine must do for times at which agents are to do something (`src/storage/agents.ts`). */
import { expect, test } from 'bun:test'
import { mostTimes } from '../../src/model/agent.ts'
import type { NewTime, StoredTime } from '../../src/storage/agents.ts'
import { failure } from '../support/failure.ts'
import { onEach, onEachShared } from './engines.ts'
import { bot, type Opened, open as openRules, outgoing, rename } from './support.ts'

const person = { session: 's', user_id: 'u' }
const daily = { hour: 8, minute: 0 }

/** A series that is due in a minute. */
const add = ({ clock, store }: Pick<Opened, 'clock' | 'store'>, more: Partial<NewTime> = {}) =>
  store.agents.addTime({
    ...{
      ...person,
      prompt: 'Water',
      rule: daily,
      zone: 'UTC',
      due_at: clock.now() + 60_000,
      made_by: 'owner',
    },
    ...more,
  })
const turn = { agent: 'home', prompt: 'Now: water' }
const prompts = async ({ store }: Pick<Opened, 'store'>) =>
  (await store.agents.listTurns({ limit: 99 })).map(({ prompt, source }) => [source, prompt])
const ids = async (all: Promise<StoredTime[]>) => (await all).map(({ id }) => id)

onEach(it => {
  it('they are stored as they were added, listed by their next time, and stay after a restart', async t => {
    const { clock } = t
    const later = await add(t, { due_at: clock.now() + 90_000, agent: 'home' })
    const next = await add(t, { prompt: 'Feed', rule: { at: clock.now() + 60_000 } })
    const other = await add(t, { user_id: 'v', due_at: clock.now() + 120_000 })
    expect(later).toEqual({
      ...{ ...person, id: later.id, agent: 'home', prompt: 'Water', rule: daily, zone: 'UTC' },
      ...{ due_at: clock.at + 90_000, created_at: clock.at, made_by: 'owner', isWaiting: false },
    })
    await t.reopen()
    const { agents } = t.store
    expect(await agents.listTimes({})).toEqual([next, later, other])
    expect(await ids(agents.listTimes({ user: 'u' }))).toEqual([next.id, later.id])
    expect(await ids(agents.listTimes({ session: 'S', agent: 'home' }))).toEqual([later.id])
    expect(await ids(agents.listTimes({ session: 'unknown' }))).toEqual([])
    expect(await agents.removeTime(next.id)).toEqual(next)
    expect(await agents.removeTime(next.id)).toBeUndefined()
    expect(await ids(agents.listTimes({}))).toEqual([later.id, other.id])
  })

  it('the same once more stays one; a person has at most so many', async t => {
    const first = await add(t)
    expect(await add(t, { due_at: first.due_at! + 5 })).toEqual(first)
    expect((await add(t, { agent: 'home' })).id).not.toBe(first.id)
    expect((await add(t, { zone: 'Asia/Shanghai' })).id).not.toBe(first.id)
    for (let nth = 3; nth < mostTimes; nth++) await add(t, { prompt: `${nth}` })
    expect(await failure(add(t, { prompt: 'one more' }))).toMatchObject({ code: 'invalid_arguments' })
    expect(await add(t)).toEqual(first)
    await add(t, { user_id: 'v' })
    expect(await t.store.agents.listTimes({ user: 'u' })).toHaveLength(mostTimes)
  })

  it('a time that has come goes on once, with its turn', async t => {
    const { agents } = t.store
    const time = await add(t)
    expect(await agents.listTimes({ only: 'due' })).toEqual([])
    t.clock.at += 60_000
    expect(await agents.listTimes({ only: 'due' })).toEqual([time])
    const next = t.clock.at + 1000
    await using other = await t.second()
    expect(await other.store.agents.passTime(time, { due_at: next, turn })).toBe(true)
    expect(await agents.passTime(time, { due_at: next, turn })).toBe(false)
    expect(await prompts(t)).toEqual([['time', 'Now: water']])
    expect(await agents.listTimes({})).toMatchObject([{ id: time.id, due_at: next, isWaiting: true }])
    expect(await agents.listWork('home')).toEqual([{ agent: 'home', session: 's', user: 'u' }])
    // Without a turn it is skipped.
    expect(await agents.passTime({ ...time, due_at: next }, { due_at: next + 1000 })).toBe(true)
    expect(await prompts(t)).toHaveLength(1)
  })

  it('one without a next time goes with its turn', async t => {
    const { agents } = t.store
    const time = await add(t, { rule: { at: t.clock.at + 60_000 } })
    expect(await agents.passTime(time, { turn })).toBe(true)
    expect(await agents.listTimes({})).toEqual([])
    expect(await prompts(t)).toHaveLength(1)
    expect(await agents.passTime(time, { turn })).toBe(false)
  })

  it('what was missed stays until its person was told', async t => {
    const { agents } = t.store
    const series = await add(t)
    const once = await add(t, { rule: { at: series.due_at! } })
    const next = t.clock.at + 1e6
    await agents.passTime(series, { due_at: next, missed_at: 7 })
    await agents.passTime({ ...series, due_at: next }, { due_at: next + 1, missed_at: 7 })
    await agents.passTime(once, { missed_at: 9 })
    const missed = await agents.listTimes({ only: 'missed' })
    expect(missed).toMatchObject([
      { id: series.id, missed_at: 7, due_at: next + 1 },
      { id: once.id, missed_at: 9 },
    ])
    expect(missed[1]!.due_at).toBeUndefined()
    expect(await agents.listTimes({ only: 'due' })).toEqual([])
    for (const time of missed) await agents.passTime(time, { due_at: time.due_at })
    expect(await agents.listTimes({})).toMatchObject([{ id: series.id, due_at: next + 1 }])
    expect((await agents.listTimes({}))[0]!.missed_at).toBeUndefined()
  })

  it('it waits while its newest turn is open, or the answer waits in the outbox, and for nothing else', async t => {
    const { agents, outbox } = t.store
    await t.storage.state.sessions.save('s', bot('s'))
    const time = await add(t)
    const isWaiting = async () => (await agents.listTimes({}))[0]!.isWaiting
    const queue = async (user: string) => {
      t.clock.at += 10
      const message = outgoing(`${user} ${t.clock.at}`, { to_user: user })
      const parts = [{ kind: 'text' as const, waiting: { message } }]
      const entry = {
        session: 's',
        bot_id: bot('s').bot_id,
        user,
        mode: 'queue',
        made_by: 'a',
        parts,
      } as const
      const added = await outbox.enqueue(entry, { ...openRules, quota: 0 })
      t.clock.at += 10
      return added.state === 'new' ? added.entry.id : 0
    }
    await queue('u')
    expect(await isWaiting()).toBe(false)
    await agents.passTime(time, { due_at: 5e12, turn })
    const conversation = { agent: 'home', session: 's', user: 'u' }
    const [{ id } = { id: 0 }] = (await agents.claim(conversation))!.turns
    expect(await isWaiting()).toBe(true)
    // Its agent may be gone.
    t.clock.at += 25 * 3_600_000
    expect(await isWaiting()).toBe(false)
    t.clock.at -= 25 * 3_600_000
    await agents.changeTurn(id, { status: 'running', started_at: t.clock.at })
    await queue('v')
    const answer = await queue('u')
    await agents.changeTurn(id, { status: 'answered', ended_at: t.clock.at })
    await queue('u')
    expect(await isWaiting()).toBe(true)
    await outbox.end(answer, { code: 'cancelled', detail: 'cancelled' })
    expect(await isWaiting()).toBe(false)
  })

  it('they follow their session to another name, and to that of one that was logged out', async t => {
    const { agents } = t.store
    const first = await add(t)
    const second = await add(t, { session: 'old' })
    await rename(t, 's', 'renamed')
    expect((await agents.listTimes({ session: 'renamed' })).map(({ id }) => id)).toEqual([first.id])
    await rename(t, 'renamed', 'old')
    expect(await ids(agents.listTimes({ session: 'old' }))).toEqual([first.id, second.id])
    expect(await agents.passTime(second, { turn })).toBe(true)
    expect(await agents.listWork('home')).toEqual([{ agent: 'home', session: 'old', user: 'u' }])
  })

  it('a person who was erased has none, and gets none', async t => {
    const { agents, people } = t.store
    const time = await add(t)
    await people.begin('u')
    await people.erase('u')
    expect(await agents.listTimes({})).toEqual([])
    expect(await failure(add(t))).toMatchObject({ details: { erased: true } })
    expect(await agents.passTime(time, { turn })).toBe(false)
    expect(await prompts(t)).toEqual([])
  })
})

onEachShared(newPlace => {
  test('of several processes that see a time come one begins its turn, again and again', async () => {
    const place = newPlace()
    await using storage = await place.open()
    const { agents } = storage.store
    const time = { ...person, prompt: 'Water', zone: 'UTC', made_by: 'owner' }
    for (let nth = 0; nth < 30; nth++) await agents.addTime({ ...time, rule: { at: nth }, due_at: 1 + nth })
    await agents.addTime({ ...time, rule: daily, due_at: 1 })
    const body = `
      let won = 0
      for (const time of await store.agents.listTimes({ only: 'due' }))
        if (await store.agents.passTime(time, { due_at: 'at' in time.rule ? undefined : 5e12,
          turn: { agent: 'home', prompt: JSON.stringify(time.rule) } })) won++
      console.log(won)
      await storage.close()`
    const told = await Promise.all([1, 2, 3].map(() => new Response(place.start(body).stdout).text()))
    expect(told.reduce((sum, text) => sum + Number(text), 0)).toBe(31)
    const turns = await agents.listTurns({ limit: 99 })
    expect(new Set(turns.map(({ prompt }) => prompt)).size).toBe(31)
    expect(turns).toHaveLength(31)
    expect(await agents.listTimes({})).toMatchObject([{ due_at: 5e12 }])
  })

  test('of a process that is killed at any moment each turn begins once', async () => {
    const place = newPlace()
    await using storage = await place.open()
    const { agents } = storage.store
    for (let nth = 0; nth < mostTimes; nth++)
      await agents.addTime({
        ...person,
        prompt: `${nth}`,
        rule: { at: 1 },
        zone: 'UTC',
        due_at: 1,
        made_by: 'owner',
      })
    const body = `
      console.log('ready')
      for (const time of await store.agents.listTimes({ only: 'due' }))
        await store.agents.passTime(time, { turn: { agent: 'home', prompt: time.prompt } })
      await hold()`
    for (let round = 0; round < 4; round++) {
      const child = place.start(body)
      await child.stdout.getReader().read()
      const before = (await agents.listTurns({ limit: 99 })).length
      while ((await agents.listTurns({ limit: 99 })).length < Math.min(before + 3 + round, mostTimes));
      child.kill('SIGKILL')
      await child.exited
    }
    for (const time of await agents.listTimes({ only: 'due' }))
      await agents.passTime(time, { turn: { agent: 'home', prompt: time.prompt } })
    const done = (await agents.listTurns({ limit: 99 })).map(({ prompt }) => Number(prompt))
    expect(done.sort((one, other) => one - other)).toEqual(Array.from({ length: mostTimes }, (_, nth) => nth))
  })
})
