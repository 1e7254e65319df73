/** Random steps of conversations, names and the erasure of people (`src/storage/people.ts`, `store.ts`). */
import fc from 'fast-check'
import type { BegunMessage } from '../../../src/storage/outbox.ts'
import type { PeopleStore } from '../../../src/storage/people.ts'
import type { ConversationStore, UserNameStore } from '../../../src/storage/store.ts'
import { bot, insert, open, outgoing, webhook } from '../support.ts'
import {
  compare,
  eventsOf,
  filled,
  idle,
  maybe,
  rarely,
  received,
  renames,
  rowId,
  type Side,
  settles,
  sorted,
  storeOf,
  timePasses,
  type Verb,
  verbsOf,
} from './compare.ts'

interface Notes {
  /** Users between `begin` and `erase`: a send that they have a lane for is stored until `erase` removes it. */
  leaving: Set<string>
  /** Epochs of each webhook so far: an erasure takes one or several, by its steps. */
  epochs: Map<string, number[]>
  begun: BegunMessage[]
  count: number
}
type Here = Side<Notes>
const verb = verbsOf<Notes>()

const users = ['u', 'v', 'w@im.wechat']
const user = fc.constantFrom(...users)
const sessions = ['s', 't']
const session = fc.constantFrom(...sessions)
const name = fc.constantFrom('Ann', 'ANN', 'Bob', 'Zoë')
const nth = fc.nat(6)
const row = rowId(6)
const scope = maybe(
  fc.constantFrom({}, { bots: ['b'] }, { users: ['u'] }, { bots: ['c'], users: ['v'] }, { bots: [] }),
)
const agoMs = fc.constantFrom(0, 1000, 60_000, 90_000_000)

const conversations = {
  listThreads: verb(
    {
      ...{
        session: maybe(session),
        user: maybe(user),
        before: maybe(row),
        limit: fc.integer({ min: 1, max: 4 }),
        scope,
      },
      sessions: maybe(fc.constantFrom(['s'], ['s', 't'])),
      reader: maybe(fc.constantFrom('k')),
    },
    ({ store }, { sessions, ...query }) =>
      store.conversations.listThreads(filled({ ...query, sessions: sessions && new Map([['u', sessions]]) })),
    3,
  ),
  sessionsOf: verb({ user }, async ({ store }, { user }) =>
    sorted(await store.conversations.sessionsOf(user)),
  ),
  // With a weight that leaves the sequences of the other verbs as they are.
  listAlike: verb(
    {},
    async ({ store }) =>
      sorted(await Promise.all(['U', 'W@IM.wechat'].map(id => store.conversations.listAlike(id)))),
    0,
  ),
  markRead: verb(
    { session, user, upTo: maybe(row), reader: maybe(fc.constantFrom('k')) },
    ({ store }, { session, user, upTo, reader }) => store.conversations.markRead(session, user, upTo, reader),
    3,
  ),
  countMessages: verb(
    { agoMs, spanMs: fc.constantFrom(1000, 60_000), scope },
    async ({ store, clock }, { agoMs, spanMs, scope }) =>
      sorted(await store.conversations.countMessages(clock.at - agoMs, spanMs, scope)),
  ),
  // What another process wrote may count a second later: only this one sends here.
  countSuspects: verb({ agoMs }, ({ store, clock }, { agoMs }) =>
    store.conversations.countSuspects(clock.at - agoMs),
  ),
} satisfies Record<keyof ConversationStore, Verb<Notes>>

const names = {
  list: verb({ session }, ({ store }, { session }) => store.names.list(session)),
  find: verb({ name }, async ({ store }, { name }) => sorted(await store.names.find(name))),
  set: verb(
    { session, user, name: maybe(name), isOther: rarely },
    (side, { session, user, name, isOther }) => storeOf(side, isOther).names.set(session, user, name),
    3,
  ),
} satisfies Record<keyof UserNameStore, Verb<Notes>>

const people = {
  countErasures: verb({}, ({ store }) => store.people.countErasures()),
  begin: verb({ user }, ({ store, notes }, { user }) => {
    notes.leaving.add(user)
    return store.people.begin(user)
  }),
  listFiles: verb({ user }, async ({ store }, { user }) => sorted(await store.people.listFiles(user))),
  erase: verb({ user }, async ({ store, notes }, { user }) => {
    await store.people.begin(user)
    notes.leaving.delete(user)
    const { webhooks, keys, files, ...rest } = await store.people.erase(user)
    return { ...rest, webhooks: sorted(webhooks), keys: sorted(keys), files: sorted(files) }
  }),
  // Each store has a key of its own for it.
  hashOf: verb({ user }, async ({ store }, { user }) => (await store.people.hashOf(user)).length),
  scrub: verb({}, ({ store }) => store.people.scrub()),
  // Words about each engine.
  listRemains: verb({}, async ({ store }) => Array.isArray(await store.people.listRemains(false))),
} satisfies Record<keyof PeopleStore, Verb<Notes>>

const idOf = ({ notes }: Here, prefix: string) => `${prefix}${++notes.count}`

const around = {
  timePasses: timePasses(1000, 60_000, 30_000_000),
  arrive: verb(
    { session, bot: fc.constantFrom('b', 'c'), from_user: user, writes: fc.boolean() },
    (side, { session, bot, from_user, writes }) => {
      const { at } = side.clock
      const own = received(idOf(side, 'm'), side.notes.count, { from_user, timestamp: at })
      return insert(
        side,
        [writes ? { ...own, written_at: at, contextToken: `token${at}` } : own],
        session,
        bot,
      )
    },
    5,
  ),
  send: verb(
    {
      session,
      to_user: user,
      mode: fc.constantFrom('queue' as const, 'fail' as const),
      file: rarely,
      asked: rarely,
    },
    async (side, { session, to_user, mode, file, asked }) => {
      if (side.notes.leaving.has(to_user)) return idle
      const sent = outgoing(idOf(side, 'sent'), { to_user, timestamp: side.clock.at })
      const kept = { name: sent.text, file_name: 'f', size: 3, md5: 'ab' }
      const waiting = mode === 'queue' && { waiting: { message: sent, ...(file && { file: kept }) } }
      const result = await side.store.outbox.enqueue(
        {
          ...{ session, bot_id: 'b', user: to_user, mode, made_by: 'owner' },
          parts: [{ kind: 'text', ...waiting }],
          ...(asked && mode === 'queue' && { asked: mode }),
        },
        open,
        mode === 'fail' ? sent : undefined,
      )
      if (result.state === 'new' && result.begun) side.notes.begun.push(result.begun)
      return result.state
    },
    3,
  ),
  settle: settles,
  cancel: verb({ nth }, async ({ store }, { nth }) => {
    const all = await store.outbox.list()
    const one = all[nth % Math.max(1, all.length)]
    return one ? (await store.outbox.end(one.id, { code: 'cancelled', detail: 'c' }))?.ended : idle
  }),
  addWebhook: verb(
    { session: maybe(session), user: maybe(user), users: maybe(user) },
    (side, { session, user, users }) => {
      const id = idOf(side, 'w')
      const grant = users ? { rights: ['history' as const], users: [users] } : undefined
      return side.store.webhooks.add(webhook(id, filled({ position: '', session, user, grant })))
    },
  ),
  deliver: verb({ session, user }, async ({ store }, { session, user }) => {
    const [webhook] = await store.webhooks.list()
    if (!webhook) return idle
    const lanes = [{ session, user, position: 'at-1' }]
    return store.webhooks.progress.save(webhook.id, {
      epoch: webhook.epoch,
      position: 'at-1',
      lanes,
      ended: [],
      tries: [],
      health: {},
    })
  }),
  addKey: verb({ user }, (side, { user }) => {
    const id = idOf(side, 'k')
    return side.store.keys.add({
      ...{ id, name: id, hash: id.padStart(64, '0'), can: ['history'], made_by: 'owner', created_at: 1 },
      grant: { rights: ['history'], users: [user, 'always'] },
    })
  }),
  audit: verb({ user, settles: fc.boolean() }, async ({ store, clock }, { user, settles }) => {
    const own = { at: clock.at, principal: 'owner', operation: 'name' }
    const id = await store.audit.add({ ...own, ...(!settles && { subject: `s ${user}`, outcome: 'done' }) })
    if (settles) await store.audit.settle(id, 'done', user)
  }),
  addTurn: verb({ session, user }, async ({ store }, { session, user }) => {
    await store.agents.addTurn({ agent: 'home', session, user, source: 'inject', messages: [], prompt: 'go' })
  }),
  login: verb({ session, user_id: user }, ({ storage }, { session, user_id }) =>
    storage.state.sessions.save(session, bot(session, { bot_id: 'b', user_id })),
  ),
  /** As callers do it: an engine that has context and counter in one row erases both with the first step. */
  forgetUser: verb({ user }, async ({ store, storage, notes }, { user }) => {
    notes.leaving.delete(user)
    await store.people.begin(user)
    await storage.state.forgetUser(user)
    return (await store.people.erase(user)).messages
  }),
  rename: renames(),
}

/** The id of an erased user is told by a hash, for which each store has a key of its own. */
const withoutHash = (value: unknown) =>
  JSON.parse(JSON.stringify(value ?? null).replaceAll(/user:[0-9a-f]{16}/g, 'user:hash'))

async function state({ store, storage, notes: { epochs } }: Here) {
  const limit = 500
  const { conversations } = store
  const { sessions: accounts, contexts } = storage.state
  const [threads, rows, events, entries, webhooks, keys, lines, turns, agents, records, contacts, ...more] =
    await Promise.all([
      conversations.listThreads({ limit }),
      store.log.listAfter(0, { limit }),
      eventsOf(store),
      store.outbox.list(),
      store.webhooks.list(),
      store.keys.list(),
      store.audit.list({ limit }),
      store.agents.listTurns({ limit }),
      store.agents.listConversations({ limit }),
      accounts.list(),
      contexts.listUsers(sessions),
      ...sessions.map(one => store.outbox.getCounters(one)),
      ...sessions.map(one => store.names.list(one)),
      ...users.flatMap(user => sessions.map(one => contexts.find(one, user))),
    ])
  for (const { id, epoch } of webhooks) {
    const before = epochs.get(id) ?? []
    if (before.at(-1) !== epoch) epochs.set(id, [...before, epoch])
  }
  const lanes = await Promise.all(webhooks.map(({ id }) => store.webhooks.progress.listLanes(id)))
  return {
    ...{ threads, rows, keys, more, turns: turns.length, agents },
    webhooks: webhooks.map(one => ({ ...one, epoch: epochs.get(one.id)?.length })),
    contacts: new Map([...contacts].map(([session, list]) => [session, sorted(list)])),
    lanes: lanes.map(sorted),
    records: sorted(records),
    events: events.map(({ data, ...event }) => ({
      ...event,
      data: data && withoutHash({ ...data, id: 0 }),
    })),
    entries: entries.map(({ user, session, mode, parts }) => ({
      user,
      session,
      mode,
      parts: parts.map(({ status, file }) => [status, file]),
    })),
    lines: lines.map(({ id: _, ...line }) => withoutHash(line)),
  }
}

export const comparePeople = () =>
  compare({
    notes: (): Notes => ({ leaving: new Set(), epochs: new Map(), begun: [], count: 0 }),
    verbs: { ...around, ...conversations, ...names, ...people },
    state,
  })
