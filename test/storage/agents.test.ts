/** What an engine must do for agents (`src/storage/agents.ts`). */
import { describe, expect, test } from 'bun:test'
import type { ConversationKey, NewTurn, StoredTurn } from '../../src/storage/agents.ts'
import type { Store } from '../../src/storage/store.ts'
import { failure } from '../support/failure.ts'
import { until } from '../support/until.ts'
import { onEach, onEachShared } from './engines.ts'
import { byId, insert, message, type Opened, rename } from './support.ts'

const dayMs = 24 * 60 * 60_000

const key = (more: Partial<ConversationKey> = {}): ConversationKey => ({
  ...{ agent: 'home', session: 's', user: 'u' },
  ...more,
})
const inject = (store: Store, more: Partial<NewTurn> = {}) =>
  store.agents.addTurn({ ...key(), source: 'inject', messages: [], prompt: 'go', ...more })

/** Adds a turn about new messages of the user. */
async function addTurn(t: Pick<Opened, 'storage' | 'store'>, more: Partial<NewTurn> = {}, count = 1) {
  const { session, user: from_user } = key(more)
  const all = Array.from({ length: count }, () => message('hi', { from_user }))
  const messages = (await insert(t, all, session)) as number[]
  return t.store.agents.addTurn({ ...key(), source: 'message', messages, ...more })
}

const options = [
  { id: 'yes', name: 'Yes', kind: 'allow_once' },
  { id: 'no', name: 'No', kind: 'reject_once' },
] as const

/** A question of a turn that runs, open for a minute. */
const removeTurns = ({ store }: Pick<Opened, 'store'>, before: number) =>
  store.maintenance.removeOld('turn', before)

async function ask(t: Pick<Opened, 'clock' | 'store'>, turn: number, code = 'K7QX') {
  const expires_at = t.clock.now() + 60_000
  return t.store.agents.ask({ turn, text: 'May I?', options, code, expires_at })
}
const openQuestions = async ({ store }: Pick<Opened, 'store'>) =>
  (await store.agents.listQuestions()).map(({ id }) => id)

onEach((it, open) => {
  describe('turns', () => {
    it('what their messages say is read by row ids, as far as it is needed', async t => {
      const long = message('x'.repeat(600), { from_user: 'u' })
      const rows = (await insert(t, [message('hi', { from_user: 'u' }), long], 's')) as number[]
      const asked = await t.store.agents.readAsked([...rows, 99])
      expect(rows.map(id => asked.get(id))).toEqual([
        { kind: 'TEXT', text: 'hi' },
        { kind: 'TEXT', text: 'x'.repeat(501) },
      ])
      expect([asked.size, (await t.store.agents.readAsked([])).size]).toEqual([2, 0])
    })

    it('turns that wait become one, with the messages of all; those that were stopped or run stay', async t => {
      const { agents } = t.store
      const [running, first, stopped, second] = [
        await addTurn(t, {}, 2),
        await addTurn(t),
        await addTurn(t),
        await addTurn(t, {}, 2),
      ] as const
      const injected = await inject(t.store)
      const all = [running, first, stopped, second, injected]
      const ids = all.map(({ id }) => id)
      const listed = async () => ((await agents.claim(key())) ?? { turns: [] }).turns
      await agents.joinTurns(ids)
      expect((await agents.listTurns({ limit: 9 })).map(({ id }) => id)).toEqual([...ids].reverse())
      expect(await listed()).toHaveLength(5)
      await agents.changeTurn(running.id, { status: 'running' })
      await agents.stopTurn(stopped.id)
      await agents.joinTurns(ids)
      await agents.joinTurns(ids)
      expect((await listed()).map(({ id, messages }) => [id, messages])).toEqual([
        [running.id, running.messages],
        [first.id, [...first.messages, ...second.messages]],
        [stopped.id, stopped.messages],
        [injected.id, []],
      ])
      // What comes again after a crash is in the joined turn.
      const again = await agents.addTurn({ ...key(), source: 'message', messages: second.messages })
      expect(again.id).toBe(first.id)
    })

    it('a turn is stored as added, waits, and stays after a restart', async t => {
      const { agents } = t.store
      const turn = await addTurn(t, {}, 3)
      const id = turn.id
      const stored = {
        ...{ id, agent: 'home', session: 's', user_id: 'u' },
        status: 'waiting',
        isFresh: false,
      }
      expect(turn).toMatchObject({
        ...stored,
        source: 'message',
        messages: [1, 2, 3].map(t.id),
        created_at: t.clock.at,
      })
      const other = await agents.addTurn({
        ...key(),
        source: 'inject',
        messages: [],
        prompt: 'go',
        isFresh: true,
      })
      expect(other).toMatchObject({ source: 'inject', messages: [], prompt: 'go', isFresh: true })
      await t.reopen()
      expect(await t.store.agents.getTurn(id)).toEqual(turn)
      expect(await t.store.agents.getTurn(other.id)).toEqual(other)
      expect(await t.store.agents.getTurn(99)).toBeUndefined()
    })

    it('messages that come again make no second turn, however they are gathered then', async t => {
      const { agents } = t.store
      const turn = await addTurn(t, {}, 3)
      const [first, second, third] = turn.messages as [number, number, number]
      const again = (...messages: number[]) => agents.addTurn({ ...key(), source: 'message', messages })
      expect(await again(first, second, third)).toEqual(turn)
      expect(await again(second)).toEqual(turn)
      expect(await again(second, third)).toEqual(turn)
      await insert(t, [message('news', { from_user: 'u' })])
      expect((await again(third, t.id(4))).messages).toEqual([t.id(4)])
      expect((await again(t.id(4))).id).not.toBe(turn.id)
      expect(await agents.listTurns({ limit: 9 })).toHaveLength(2)
      // No other agent answers them, unless the first one failed before it began. Turns without messages are never the same.
      expect((await again(first)).id).toBe(turn.id)
      const byOther = () =>
        agents.addTurn({ ...key({ agent: 'work' }), source: 'message', messages: [first, t.id(4)] })
      expect((await byOther()).id).toBe(turn.id)
      await agents.claim(key())
      await agents.changeTurn(turn.id, { status: 'failed', ended_at: 1 })
      expect((await byOther()).messages).toEqual([first])
      expect((await byOther()).agent).toBe('work')
      expect((await inject(t.store)).id).not.toBe((await inject(t.store)).id)
    })

    it('they are listed newest first, by agent, session and user, and before an id', async t => {
      const { agents } = t.store
      const added = [
        await addTurn(t),
        await addTurn(t, { user: 'v' }),
        await addTurn(t, { session: 'r' }),
        await addTurn(t, { agent: 'work' }),
      ].map(({ id }) => id)
      const [a, b, c, d] = added as [number, number, number, number]
      const found = async (filter: object) =>
        (await agents.listTurns({ limit: 9, ...filter })).map(({ id }) => id)
      expect(await found({})).toEqual([d, c, b, a])
      expect(await found({ limit: 2, before: d })).toEqual([c, b])
      expect(await found({ agent: 'home' })).toEqual([c, b, a])
      expect(await found({ session: 'S' })).toEqual([d, b, a])
      expect(await found({ user: 'u', agent: 'home' })).toEqual([c, a])
      expect(await found({ session: 'unknown' })).toEqual([])
    })

    it('only the process that has the conversation changes them', async t => {
      const { agents } = t.store
      const { id } = await addTurn(t)
      expect(await agents.changeTurn(id, { status: 'running' })).toBe(false)
      await agents.claim(key())
      await using other = await t.second()
      expect(await other.store.agents.changeTurn(id, { status: 'running' })).toBe(false)
      expect(await other.store.agents.saveState(key(), { folder: '/tmp' })).toBe(false)
      expect(await agents.changeTurn(id, { status: 'running', started_at: 7 })).toBe(true)
      const file = { path: '/f/a.png', folder: '/f', kind: 'image', name: 'a.png' } as const
      const answer = { parts: [{ text: 'Hi' }, file] }
      expect(await agents.changeTurn(id, { status: 'answering', answer })).toBe(true)
      expect(await agents.changeTurn(id, { parts_sent: 1 })).toBe(true)
      const answering = { status: 'answering', started_at: 7, parts: 2, parts_sent: 1, answer }
      expect(await other.store.agents.getTurn(id)).toMatchObject(answering)
      await agents.changeTurn(id, { status: 'failed', error: 'why', ended_at: 9 })
      expect(await agents.getTurn(id)).toMatchObject({
        ...answering,
        status: 'failed',
        error: 'why',
        ended_at: 9,
      })
    })

    it('the rest of an answer is found, the newest first', async t => {
      const { agents } = t.store
      const ids = [await addTurn(t), await addTurn(t), await addTurn(t)].map(({ id }) => id)
      await agents.claim(key())
      expect(await agents.findMore(key())).toBeUndefined()
      for (const id of ids.slice(0, 2)) await agents.changeTurn(id, { status: 'more', ended_at: 1 })
      expect((await agents.findMore(key()))?.id).toBe(ids[1])
      await agents.changeTurn(ids[1]!, { status: 'answered' })
      expect((await agents.findMore(key()))?.id).toBe(ids[0])
      expect(await agents.findMore(key({ user: 'v' }))).toBeUndefined()
    })

    it('those that began since a time are counted', async t => {
      const { agents } = t.store
      const ids = [await addTurn(t), await addTurn(t), await addTurn(t)].map(({ id }) => id)
      await agents.claim(key())
      for (const [nth, id] of ids.slice(0, 2).entries())
        await agents.changeTurn(id, { status: 'answered', started_at: 10 + nth })
      expect(await agents.countTurns('home', 10)).toBe(2)
      expect(await agents.countTurns('home', 11)).toBe(1)
      expect(await agents.countTurns('work', 0)).toBe(0)
      expect(await agents.countTurns('home', 0, 'nobody')).toBe(0)
    })

    it('one that nobody works on is stopped at once, another one by its process', async t => {
      const { agents } = t.store
      await using other = await t.second()
      const [first, second] = [await addTurn(t), await addTurn(t)]
      expect(await other.store.agents.stopTurn(first.id)).toBe(true)
      expect(await agents.getTurn(first.id)).toMatchObject({ status: 'stopped', ended_at: t.clock.at })
      expect((await agents.claim(key()))!.turns.map(({ id }) => id)).toEqual([second.id])
      expect(await other.store.agents.stopTurn(second.id)).toBe(true)
      expect(await agents.getTurn(second.id)).toMatchObject({ status: 'waiting', stopping: true })
      await agents.changeTurn(second.id, { status: 'stopped', ended_at: 5 })
      expect(await agents.getTurn(second.id)).not.toHaveProperty('stopping')
      for (const id of [first.id, second.id, 99]) expect(await agents.stopTurn(id)).toBe(false)
    })

    it('old ones go after their end, with their questions, also those whose rest waits', async t => {
      const { agents } = t.store
      const ids = [await addTurn(t), await addTurn(t), await addTurn(t), await addTurn(t)].map(({ id }) => id)
      await agents.claim(key())
      const [old, more, open, young] = ids as [number, number, number, number]
      for (const id of ids) await agents.changeTurn(id, { status: 'running', started_at: 1 })
      const question = await ask(t, old)
      await agents.changeTurn(old, { status: 'answered', ended_at: 10 })
      await agents.changeTurn(more, { status: 'more', ended_at: 10 })
      await agents.changeTurn(young, { status: 'failed', ended_at: 20 })
      expect(await removeTurns(t, 20)).toBe(false)
      expect((await agents.listTurns({ limit: 9 })).map(({ id }) => id)).toEqual([young, open])
      expect(await agents.getQuestion(question)).toBeUndefined()
      // Ids are not used again, and what the agent knows of the user stays.
      await agents.saveState(key(), { agent_session: 'a' })
      await agents.changeTurn(young, { ended_at: 5 })
      await removeTurns(t, 20)
      expect((await addTurn(t)).id).toBeGreaterThan(young)
      expect((await agents.claim(key()))!.state).toEqual({ agent_session: 'a' })
    })

    it('many old ones go in steps', async t => {
      const { agents } = t.store
      const all: StoredTurn[] = []
      // One after the other: turns of one conversation that come together make each other begin again.
      while (all.length < 350) all.push(await inject(t.store))
      await agents.claim(key())
      await Promise.all(all.map(({ id }) => agents.changeTurn(id, { status: 'answered', ended_at: 1 })))
      expect(await removeTurns(t, 2)).toBe(true)
      expect((await agents.listTurns({ limit: 1000 })).length).toBe(50)
      while (await removeTurns(t, 2));
      expect(await agents.listTurns({ limit: 1000 })).toEqual([])
    })
  })

  describe('claims', () => {
    it('one process has a conversation, and sees its open turns in order, and its state', async t => {
      const { agents } = t.store
      const turns = [await addTurn(t), await addTurn(t)]
      expect(await agents.listWork('home')).toEqual([key()])
      expect(await agents.claim(key())).toEqual({ turns, state: {} })
      await using other = await t.second()
      expect(await other.store.agents.claim(key())).toBeUndefined()
      expect(await other.store.agents.listWork('home')).toEqual([])
      expect(await agents.listWork('home')).toEqual([key()])
      expect(await agents.listWork('work')).toEqual([])
      const session = { agent_session: 'abc', folder: '/tmp/x', title: 'A "title" 标题', at: 5 }
      const state = {
        agent_session: 'abc',
        folder: '/tmp/x',
        model: 'large',
        mode: 'free',
        place: 'work',
        title: session.title,
        sessions: [session],
        shown: [session],
      }
      expect(await agents.saveState(key(), state)).toBe(true)
      await agents.changeTurn(turns[0]!.id, { status: 'answered', ended_at: 1 })
      await agents.release(key())
      expect(await other.store.agents.claim(key())).toEqual({ turns: [turns[1]!], state })
      expect(await agents.claim(key())).toBeUndefined()
      await other.store.agents.saveState(key(), {})
      await other.store.agents.release(key())
      expect((await agents.claim(key()))?.state).toEqual({})
    })

    it('a claim that is not renewed ends after a minute, and its process can change nothing then', async t => {
      const { agents } = t.store
      const { id } = await addTurn(t)
      await agents.claim(key())
      await using other = await t.second()
      t.clock.at += 50_000
      await agents.renew()
      t.clock.at += 50_000
      expect(await other.store.agents.claim(key())).toBeUndefined()
      t.clock.at += 10_001
      expect(await other.store.agents.listWork('home')).toEqual([key()])
      expect(await other.store.agents.claim(key())).toBeDefined()
      expect(await agents.changeTurn(id, { status: 'answered' })).toBe(false)
      expect(await agents.saveState(key(), { folder: '/tmp' })).toBe(false)
      await agents.renew()
      await agents.release(key())
      expect(await agents.claim(key())).toBeUndefined()
      expect(await other.store.agents.changeTurn(id, { status: 'running' })).toBe(true)
    })

    it('what waits for an agent is listed: what it has not read, or not finished', async t => {
      const { agents, consumers } = t.store
      const say = async (user: string, count = 1) =>
        insert(
          t,
          Array.from({ length: count }, () => message('hi', { from_user: user })),
          's',
        ) as Promise<number[]>
      expect(await agents.listMissed('home')).toEqual([])
      await consumers.register('agent-home', { atEnd: true })
      const [first, second] = await say('u', 2)
      const [third] = await say('o')
      const missed = [first, second, third].map(id => ({ session: 's', user: id === third ? 'o' : 'u', id }))
      expect(await agents.listMissed('home')).toEqual(missed as never)
      expect(await agents.listMissed('home', [first!, third!, 99])).toEqual([missed[0], missed[2]] as never)
      expect(await agents.listMissed('home', [])).toEqual([])
      expect(await agents.listMissed('home', undefined, 'o')).toEqual([missed[2]] as never)
      const claim = await consumers.claim('agent-home', { limit: 2 })
      expect(await agents.listMissed('home')).toEqual(missed as never)
      await consumers.ack(claim!.lease)
      expect(await agents.listMissed('home')).toEqual(missed.slice(2) as never)
    })

    it('a message is listed also at the moment when an agent gets it', async t => {
      const { agents, consumers } = t.store
      await consumers.register('agent-home', { atEnd: true })
      for (let round = 0; round < 25; round++) {
        const [id] = (await insert(t, [message('hi', { from_user: 'u' })], 's')) as number[]
        const claiming = consumers.claim('agent-home', { limit: 1 })
        const listed = await Promise.all(Array.from({ length: 8 }, () => agents.listMissed('home', [id!])))
        expect([round, ...listed.map(one => one.length)]).toEqual([round, 1, 1, 1, 1, 1, 1, 1, 1])
        await consumers.ack((await claiming)!.lease)
      }
    })

    it('agents tell each other who may use them, once they read; and who of them runs', async t => {
      const { agents, consumers } = t.store
      const entry = { about: 'codex exec', allow: ['u', 'v'], commands: true, place: 0, group: 'home' }
      await agents.claimAgent('new', undefined, entry)
      expect(await agents.listAgents()).toEqual([])
      for (const agent of ['new', 'home']) await consumers.register(`agent-${agent}`, { atEnd: true })
      const [row] = (await insert(t, [message('hi', { from_user: 'u' })], 's')) as number[]
      await using other = await t.second()
      const home = { ...entry, about: 'a model', allow: 'everyone', users: ['u'], operator: 'v' } as const
      expect(await other.store.agents.claimAgent('home', 's', home)).toBe(true)
      await agents.claimAgent('new', undefined, entry)
      const [ofNew, ofHome] = await agents.listAgents()
      expect([ofNew, ofHome]).toEqual([
        { ...entry, name: 'new', isRunning: true, since: expect.any(Number) },
        { ...home, name: 'home', session: 's', isRunning: true, since: expect.any(Number) },
      ])
      expect(ofNew!.since).toBeLessThan(row!)
      // A claim alone changes nothing of it; the place from which it reads stays.
      await consumers.ack((await consumers.claim('agent-new', { limit: 9 }))!.lease)
      await agents.claimAgent('new')
      await agents.claimAgent('new', undefined, { ...entry, place: 1 })
      await rename(t, 's', 'shop')
      await other.store.agents.releaseAgent('home')
      expect(await agents.listAgents()).toEqual([
        { ...ofNew!, place: 1 },
        { ...ofHome!, session: 'shop', isRunning: false },
      ])
      await agents.releaseAgent('new')
      t.clock.at += 31 * dayMs
      expect((await agents.listAgents()).map(({ name }) => name)).toEqual([])
      await agents.claimAgent('new', undefined, entry)
      expect((await agents.listAgents()).map(({ name }) => name)).toEqual(['new'])
    })

    it('an erased person is in nothing that agents tell each other', async t => {
      const { agents, consumers } = t.store
      await consumers.register('agent-home', { atEnd: true })
      const entry = {
        ...{
          about: 'x',
          allow: ['u', 'v'],
          users: ['u'],
          operator: 'u',
          commands: true,
          place: 0,
          group: 'home',
        },
        besides: { users: ['v', 'u'], sessions: [] },
      }
      await agents.claimAgent('home', undefined, entry)
      await t.store.people.erase('u')
      expect(await agents.listAgents()).toEqual([])
      await agents.claimAgent('home', undefined, entry)
      expect(await agents.listAgents()).toMatchObject([
        { allow: ['v'], users: [], operator: '', besides: { users: ['v'] } },
      ])
    })

    it('a person chooses agents: each message once, in the order of the messages, and the newest fifty stay', async t => {
      const { agents } = t.store
      const person = { session: 's', user: 'u' }
      const rows = (await insert(
        t,
        Array.from({ length: 52 }, () => message('/use', { from_user: 'u' })),
        's',
      )) as number[]
      const choose = (nth: number, agent: string, store = t.store) =>
        store.agents.chooseAgent(person, { message: rows[nth]!, agent })
      const listed = async () => (await agents.listChoices(person)).map(({ agent }) => agent)
      expect(await listed()).toEqual([])
      await using other = await t.second()
      expect(await choose(3, 'c')).toBe(true)
      const both = [choose(2, 'b'), choose(2, 'b', other.store), choose(1, 'a', other.store), choose(3, 'x')]
      expect((await Promise.all(both)).filter(Boolean)).toHaveLength(2)
      expect(await listed()).toEqual(['a', 'b', 'c'])
      expect(await agents.listChoices({ ...person, user: 'v' })).toEqual([])
      // It is no conversation, and shows in that of the agent.
      expect(await agents.listConversations({ limit: 9 })).toEqual([])
      await inject(t.store, { agent: 'c' })
      await inject(t.store, { agent: 'a' })
      const chosen = (await agents.listConversations({ limit: 9 })).map(one => [one.agent, one.isChosen])
      expect(chosen).toEqual([
        ['a', false],
        ['c', true],
      ])
      for (let nth = 4; nth < rows.length; nth++) await choose(nth, `n${nth}`)
      expect(await listed()).toHaveLength(50)
      expect(await choose(0, 'too old')).toBe(false)
      await rename(t, 's', 'shop')
      const shop = await agents.listChoices({ ...person, session: 'shop' })
      expect([shop[0]!.agent, shop.length]).toEqual(['b', 50])
      await t.store.people.erase('u')
      expect(await agents.listChoices({ ...person, session: 'shop' })).toEqual([])
    })

    it('two processes that take the same messages at once make one turn of each', async t => {
      await using other = await t.second()
      const sides = [
        [t.store, 'home'],
        [other.store, 'work'],
      ] as const
      const messages: number[] = []
      for (let round = 0; round < 8; round++) {
        const rows = (await insert(
          t,
          [message('a', { from_user: 'u' }), message('b', { from_user: 'u' })],
          's',
        )) as number[]
        messages.push(...rows)
        const groups = round % 2 === 0 ? [rows, rows.slice(1)] : [rows.slice(0, 1), rows]
        await Promise.all(
          sides.map(([{ agents }, agent], nth) =>
            agents.addTurn({ ...key({ agent }), source: 'message', messages: groups[nth]! }),
          ),
        )
      }
      const turns = await t.store.agents.listTurns({ limit: 99 })
      expect(turns.flatMap(turn => turn.messages).sort((a, b) => a - b)).toEqual(messages)
    })

    it('one process runs an agent', async t => {
      const { agents } = t.store
      await using other = await t.second()
      await addTurn(t)
      expect(await agents.claimAgent('home')).toBe(true)
      expect(await agents.claimAgent('home')).toBe(true)
      expect(await other.store.agents.claimAgent('home')).toBe(false)
      expect(await other.store.agents.claimAgent('work')).toBe(true)
      expect(await agents.listRunning()).toEqual(['home', 'work'])
      expect(await agents.claimAgent('home', 's')).toBe(true)
      expect(await agents.listRunning('s')).toEqual(['home', 'work'])
      expect(await agents.listRunning('t')).toEqual(['work'])
      await agents.claim(key())
      t.clock.at += 50_000
      await agents.renew()
      t.clock.at += 50_000
      expect(await other.store.agents.claimAgent('home')).toBe(false)
      await agents.releaseAgent('home')
      // The lease of the other one, which was not renewed, is over.
      expect(await agents.listRunning()).toEqual([])
      expect(await other.store.agents.claimAgent('home')).toBe(true)
      expect(await other.store.agents.claim(key())).toBeDefined()
      // The agent itself is no conversation.
      expect(await agents.listConversations({ limit: 9 })).toHaveLength(1)
    })

    it('nothing is made for a session that nobody knows', async t => {
      expect(await t.store.agents.claim(key({ session: 'typo' }))).toBeUndefined()
      expect(await t.store.agents.listConversations({ limit: 9 })).toEqual([])
    })
  })

  describe('conversations', () => {
    it('they say what each agent does now, the newest turn first', async t => {
      const { agents, names } = t.store
      const list = async () =>
        (await agents.listConversations({ limit: 9 })).map(({ isAsking, open, user }) => [
          user,
          open,
          isAsking,
        ])
      const first = await addTurn(t)
      t.clock.at += 1
      await addTurn(t, { user: 'v' })
      expect(await list()).toEqual([
        ['v', 'waiting', false],
        ['u', 'waiting', false],
      ])
      await agents.claim(key())
      await agents.changeTurn(first.id, { status: 'running' })
      t.clock.at += 1
      const last = await addTurn(t)
      expect((await list())[0]).toEqual(['u', 'running', false])
      await ask(t, first.id)
      expect((await list())[0]).toEqual(['u', 'running', true])
      for (const { id } of [first, last])
        await agents.changeTurn(id, { status: 'failed', error: `e${id}`, ended_at: 1 })
      expect((await list())[0]).toEqual(['u', undefined, false])
      const chosen = { model: 'large', mode: 'free', place: 'work', title: 'Garden' }
      const sessions = [{ agent_session: 'a', folder: '/f', at: 1 }]
      await agents.saveState(key(), {
        ...chosen,
        agent_session: 'a',
        folder: '/f',
        sessions,
        shown: sessions,
      })
      await names.set('s', 'u', 'Anna')
      const [one] = await agents.listConversations({ limit: 1, user: 'u' })
      expect(one).toEqual({
        ...key(),
        ...{
          user_name: 'Anna',
          agent_session: 'a',
          folder: '/f',
          turns: 2,
          isAsking: false,
          isChosen: false,
          ...chosen,
        },
        ...{ last_turn_at: t.clock.at, last_error: `e${last.id}` },
      })
    })

    it('they follow their session when it is renamed, and no turn is made twice', async t => {
      const { agents } = t.store
      const turn = await addTurn(t)
      await agents.claim(key())
      await agents.saveState(key(), { agent_session: 'a' })
      await agents.release(key())
      await rename(t, 's', 'shop')
      const shop = key({ session: 'shop' })
      expect(await agents.listWork('home')).toEqual([shop])
      expect(await agents.claim(shop)).toMatchObject({
        state: { agent_session: 'a' },
        turns: [{ id: turn.id }],
      })
      expect((await agents.getTurn(turn.id))!.session).toBe('shop')
      // A message that was read before, under either name.
      for (const own of [key(), shop]) {
        const { messages } = turn
        expect((await agents.addTurn({ ...own, source: 'message', messages })).id).toBe(turn.id)
      }
      const late = await insert(t, [message('late', { from_user: 'u' })], 'shop')
      const added = await agents.addTurn({ ...key(), source: 'message', messages: late as number[] })
      expect(added.session).toBe('shop')
      expect(await agents.listConversations({ limit: 9 })).toHaveLength(1)
    })

    it('those of a logged-out session go on in the session that gets its name', async t => {
      const { agents, names } = t.store
      const turns = [await addTurn(t, { session: 'shop' }), await addTurn(t)]
      const other = await addTurn(t, { session: 'shop', user: 'v' })
      for (const [session, user, name] of [
        ['s', 'u', 'Ann'],
        ['shop', 'u', 'Anna'],
        ['shop', 'v', 'ann'],
        ['shop', 'w', 'Wei'],
      ] as const)
        await names.set(session, user, name)
      await rename(t, 's', 'shop')
      const listed = await agents.listConversations({ limit: 9 })
      expect(listed.map(({ session, user, turns }) => [session, user, turns])).toEqual([
        ['shop', 'v', 1],
        ['shop', 'u', 2],
      ])
      const ofBoth = await agents.listTurns({ session: 'shop', user: 'u', limit: 9 })
      expect(ofBoth.map(({ id }) => id).reverse()).toEqual(turns.map(({ id }) => id))
      expect((await agents.claim(key({ session: 'shop', user: 'v' })))?.turns).toMatchObject([
        { id: other.id },
      ])
      expect([...(await names.list('shop'))].sort()).toEqual([
        ['u', 'Ann'],
        ['w', 'Wei'],
      ])
      expect(await names.find('Ann')).toEqual([{ session: 'shop', user_id: 'u' }])
    })

    it('a rename in the middle of a turn leaves it with who works on it', async t => {
      const { agents } = t.store
      const { id } = await addTurn(t)
      await agents.claim(key())
      await agents.changeTurn(id, { status: 'running' })
      await rename(t, 's', 'shop')
      const shop = key({ session: 'shop' })
      const next = await addTurn(t, { session: 'shop' })
      expect(await agents.claim(shop)).toBeUndefined()
      await agents.release(shop)
      expect((await agents.claim(key()))?.turns).toMatchObject([{ id }, { id: next.id, session: 'shop' }])
      for (const one of [key(), shop]) expect(await agents.saveState(one, { agent_session: 'a' })).toBe(true)
      expect(await agents.changeTurn(id, { status: 'answered', ended_at: 1 })).toBe(true)
      expect(await agents.claim(shop)).toBeUndefined()
      await agents.release(key())
      expect(await agents.claim(shop)).toMatchObject({
        turns: [{ id: next.id }],
        state: { agent_session: 'a' },
      })
      expect(await agents.claim(key())).toBeUndefined()
    })

    it('what waited in a session that was logged out joins the one that gets its name', async t => {
      const { agents } = t.store
      const before = await addTurn(t, { session: 'shop' })
      const only = await addTurn(t, { session: 'shop', user: 'v' })
      const own = await addTurn(t)
      await rename(t, 's', 'shop')
      const shop = key({ session: 'shop' })
      expect((await agents.claim(shop))!.turns.map(({ id }) => id)).toEqual([before.id, own.id])
      expect((await agents.claim({ ...shop, user: 'v' }))!.turns.map(({ id }) => id)).toEqual([only.id])
      expect(await agents.listConversations({ limit: 9, session: 'shop' })).toHaveLength(2)
      const { messages } = before
      expect((await agents.addTurn({ ...shop, source: 'message', messages })).id).toBe(before.id)
    })

    test('they stay when their messages are removed', async () => {
      await using t = await open({ maxCount: 1 })
      const turn = await addTurn(t)
      await addTurn(t)
      await t.store.maintenance.prune()
      const { messages } = turn
      expect(await byId(t.store, messages[0]!)).toBeUndefined()
      expect([...(await t.store.agents.readAsked([...messages, t.id(2)])).keys()]).toEqual([t.id(2)])
      expect(await t.store.agents.addTurn({ ...key(), source: 'message', messages })).toEqual(turn)
      expect(await t.store.agents.listTurns({ limit: 9 })).toHaveLength(2)
    })
  })

  describe('questions', () => {
    /** A turn that runs. */
    async function running(t: Opened, more: Partial<NewTurn> = {}) {
      const turn = await addTurn(t, more)
      await t.store.agents.claim(key(more))
      await t.store.agents.changeTurn(turn.id, { status: 'running', started_at: 1 })
      return turn
    }

    it('a question is open until it is answered, once, with one of its options', async t => {
      const { agents } = t.store
      const turn = await running(t)
      const id = await ask(t, turn.id)
      const stored = {
        id,
        turn: turn.id,
        agent: 'home',
        session: 's',
        user_id: 'u',
        text: 'May I?',
        code: 'K7QX',
      }
      expect(await agents.listQuestions()).toMatchObject([{ ...stored, options: [...options] }])
      expect(await agents.listQuestions('work')).toEqual([])
      expect(await agents.answer(id, 'maybe', 'owner')).toBe(false)
      expect(await agents.answer(id, 'yes', 'owner')).toBe(true)
      expect(await agents.answer(id, 'no', 'panel')).toBe(false)
      expect(await agents.closeQuestion(id, 'no')).toBe(false)
      expect(await agents.getQuestion(id)).toMatchObject({ answer: 'yes', answered_by: 'owner' })
      expect(await agents.listQuestions('home')).toEqual([])
      expect(await agents.answer(99, 'yes', 'owner')).toBe(false)
      expect(await agents.getQuestion(99)).toBeUndefined()
    })

    it('it ends with its time, and then takes what the agent says', async t => {
      const { agents } = t.store
      const id = await ask(t, (await running(t)).id)
      t.clock.at += 60_000
      expect(await openQuestions(t)).toEqual([])
      expect(await agents.answer(id, 'yes', 'owner')).toBe(false)
      expect(await agents.closeQuestion(id, 'no')).toBe(true)
      const closed = await agents.getQuestion(id)
      expect(closed).toMatchObject({ answer: 'no' })
      expect(closed?.answered_by).toBeUndefined()
    })

    it('it ends with what its turn does: nobody waits for its answer any more', async t => {
      const { agents } = t.store
      const turn = await running(t)
      const id = await ask(t, turn.id)
      await agents.changeTurn(turn.id, { parts_sent: 0 })
      expect(await openQuestions(t)).toEqual([id])
      await agents.changeTurn(turn.id, { status: 'running' })
      expect(await openQuestions(t)).toEqual([])
      const next = await ask(t, turn.id)
      await agents.changeTurn(turn.id, { status: 'stopped', ended_at: 1 })
      for (const one of [id, next]) expect(await agents.answer(one, 'yes', 'owner')).toBe(false)
    })

    it('no two open questions have the same code', async t => {
      const turns = [await running(t), await running(t, { agent: 'work', user: 'v' })]
      await ask(t, turns[0]!.id)
      expect(await failure(ask(t, turns[1]!.id))).toMatchObject({ code: 'invalid_arguments' })
      const other = await ask(t, turns[1]!.id, 'K7QY')
      t.clock.at += 60_000
      const id = await ask(t, turns[1]!.id)
      expect(id).toBeGreaterThan(other)
      expect(await openQuestions(t)).toEqual([id])
    })

    it('where it is shown is kept, also with a new time, until somebody answers', async t => {
      const { agents } = t.store
      const id = await ask(t, (await running(t)).id)
      expect(await agents.changeQuestion(id, { entry: 7 })).toBe(true)
      const expires_at = t.clock.now() + 120_000
      expect(await agents.changeQuestion(id, { message_id: 'm', sent_at: 5, expires_at })).toBe(true)
      t.clock.at += 60_000
      expect(await agents.listQuestions()).toMatchObject([
        { id, entry: 7, message_id: 'm', sent_at: 5, expires_at },
      ])
      await agents.answer(id, 'no', 'owner')
      expect(await agents.changeQuestion(id, { sent_at: 6 })).toBe(false)
      expect(await agents.getQuestion(id)).toMatchObject({ sent_at: 5, answer: 'no' })
    })

    it('one about drafts outlives its turn, is no question of the agent, and has a code of its own', async t => {
      const { agents } = t.store
      const turn = await running(t)
      const draft = { text: '', options: [], code: 'K7QX', expires_at: t.clock.now() + dayMs }
      const id = await agents.ask({ ...draft, turn: turn.id, drafts: [3, 4] })
      await agents.changeTurn(turn.id, { status: 'answered', ended_at: 1 })
      expect(await agents.listDrafts()).toMatchObject([{ id, turn: turn.id, code: 'K7QX', drafts: [3, 4] }])
      expect(await agents.listQuestions()).toEqual([])
      expect(await agents.listConversations({ limit: 1 })).toMatchObject([{ isAsking: false }])
      const next = await running(t)
      expect(await failure(ask(t, next.id))).toMatchObject({ code: 'invalid_arguments' })
      expect(await agents.closeQuestion(id, 'sent')).toBe(true)
      expect(await agents.listDrafts()).toEqual([])
      expect(await agents.listDrafts([turn.id, next.id])).toMatchObject([{ id, answer: 'sent' }])
      expect(await agents.listDrafts([next.id])).toEqual([])
      await ask(t, next.id)
    })
  })
})

onEachShared(newPlace => {
  test('of many that claim at once one has the conversation, and what it had is free when it is killed', async () => {
    const place = newPlace()
    await using storage = await place.open()
    const t = { storage, store: storage.store }
    const { id } = await addTurn(t)
    const own = JSON.stringify(key())
    const body = `const claimed = await store.agents.claim(${own})
      if (claimed) await store.agents.changeTurn(${id}, { status: 'running', started_at: Date.now() })
      if (claimed) await store.agents.claimAgent('home')
      console.log(claimed !== undefined)
      await hold()`
    const others = await Promise.all(
      Array.from({ length: 4 }, async () => {
        const child = place.start(body)
        const { value } = await child.stdout.getReader().read()
        return { child, has: new TextDecoder().decode(value).trim() === 'true' }
      }),
    )
    expect(others.filter(({ has }) => has)).toHaveLength(1)
    expect(await t.store.agents.claim(key())).toBeUndefined()
    expect(await t.store.agents.claimAgent('home')).toBe(false)
    expect(await t.store.agents.listRunning()).toEqual(['home'])
    expect(await t.store.agents.changeTurn(id, { status: 'answered' })).toBe(false)
    const { child } = others.find(({ has }) => has)!
    child.kill('SIGKILL')
    await child.exited
    await until('its claims are free', 10_000, async () => (await t.store.agents.listWork('home')).length > 0)
    expect(await t.store.agents.listWork('home')).toEqual([key()])
    expect(await t.store.agents.claim(key())).toMatchObject({ turns: [{ id, status: 'running' }] })
    expect(await t.store.agents.claimAgent('home')).toBe(true)
  })

  test('what a killed process was told is stored is there, and its question is not open', async () => {
    const place = newPlace()
    await using storage = await place.open()
    const t = { storage, store: storage.store }
    const turn = await addTurn(t)
    const child = place.start(`const { agents } = store
      await agents.claim(${JSON.stringify(key())})
      await agents.changeTurn(${turn.id}, { status: 'running', started_at: 5 })
      await agents.saveState(${JSON.stringify(key())}, { agent_session: 'a' })
      const question = { turn: ${turn.id}, text: 'May I?', code: 'K7QX', expires_at: Date.now() + 60000 }
      await agents.ask({ ...question, options: ${JSON.stringify(options)} })
      console.log('ready')
      await hold()`)
    await child.stdout.getReader().read()
    child.kill('SIGKILL')
    await child.exited
    const { agents } = t.store
    expect(await openQuestions(t)).toHaveLength(1)
    const claimed = await until('its claim is free', 10_000, () => agents.claim(key()))
    expect(claimed).toMatchObject({
      state: { agent_session: 'a' },
      turns: [{ status: 'running', started_at: 5 }],
    })
    await agents.changeTurn(turn.id, { status: 'interrupted', ended_at: 6 })
    expect(await openQuestions(t)).toEqual([])
  })

  test('a turn is made once, and a question answered once, whoever comes first', async () => {
    const place = newPlace()
    await using storage = await place.open()
    const t = { storage, store: storage.store }
    await addTurn(t, { agent: 'other' })
    const body = `const turn = await store.agents.addTurn(${JSON.stringify({ ...key(), source: 'message', messages: [1] })})
      console.log(turn.id)
      for await (const line of console) {
        console.log(await store.agents.answer(Number(line), 'yes', 'key:' + process.pid))
        break
      }
      await storage.close()`
    const others = Array.from({ length: 4 }, () => {
      const child = place.start(body)
      return { child, reader: child.stdout.pipeThrough(new TextDecoderStream()).getReader() }
    })
    const read = async () =>
      Promise.all(others.map(async ({ reader }) => (await reader.read()).value?.trim()))
    const ids = new Set(await read())
    expect(ids.size).toBe(1)
    const turn = Number([...ids][0])
    await t.store.agents.claim(key())
    await t.store.agents.changeTurn(turn, { status: 'running' })
    const expires_at = Date.now() + dayMs
    const question = await t.store.agents.ask({ turn, text: 'May I?', options, code: 'K7QX', expires_at })
    for (const { child } of others) {
      child.stdin.write(`${question}\n`)
      await child.stdin.flush()
    }
    expect((await read()).sort()).toEqual(['false', 'false', 'false', 'true'])
    expect(await t.store.agents.getQuestion(question)).toMatchObject({ answer: 'yes' })
  })
})
