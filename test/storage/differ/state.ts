/** Random steps of sessions, contexts, logins, sign-ins and polled batches (`src/storage/state.ts`, `logins.ts`). */
import fc from 'fast-check'
import { type BotInfo, type Counter, currentCounterOf, type UserContext } from '../../../src/model/session.ts'
import type { LoginStore, StoredLogin } from '../../../src/storage/logins.ts'
import type {
  Contact,
  ContextStore,
  SessionRecord,
  SessionStore,
  SignInStore,
} from '../../../src/storage/state.ts'
import type { PolledBatch } from '../../../src/storage/storage.ts'
import { bot, open, outgoing, sending } from '../support.ts'
import {
  compare,
  eventsOf,
  filled,
  idle,
  maybe,
  rarely,
  received,
  type Side,
  sorted,
  timePasses,
  type Verb,
  verbsOf,
} from './compare.ts'

interface Notes {
  logins: StoredLogin[]
  batches: PolledBatch[]
  /** The sessions as someone who follows the changes has them. */
  followed: Map<string, SessionRecord>
  revision?: number
  count: number
}
type Here = Side<Notes>
const verb = verbsOf<Notes>()

const names = ['s', 'S', 't', 'Café', 'cafe\u0301']
const name = fc.constantFrom(...names)
const user = fc.constantFrom('u', 'v')
const nth = fc.nat(4)
const idOf = ({ notes }: Here, prefix: string) => `${prefix}${++notes.count}`

const credentials = fc.record({
  bot_id: fc.constantFrom('b', 'c'),
  user_id: maybe(user),
  created_at: fc.nat(3),
})
const botOf = (side: Here, more: object): BotInfo =>
  bot('x', filled({ ...more, token: idOf(side, 'token'), cursor: '' }))
const marks = fc
  .record({
    ...{ expired_at: maybe(nth), muted_at: maybe(nth), ids_at: maybe(nth), failing_since: maybe(nth) },
    ...{ poll_error: maybe(fc.constantFrom('x', 'y')), muted_because: maybe(fc.constant('no_ids')) },
  })
  .chain(all => fc.subarray(Object.entries(all)))
  .map(some => Object.fromEntries(some) as object)

const sessions = {
  list: verb({}, async ({ storage }) => sorted(await storage.state.sessions.list())),
  // Changes may be reported again.
  listChangedSince: verb({}, async ({ storage, notes }) => {
    const { changed, revision } = await storage.state.sessions.listChangedSince(notes.revision)
    notes.revision = revision
    for (const [name, record] of changed)
      if (record) notes.followed.set(name, record)
      else notes.followed.delete(name)
    return sorted(notes.followed.values())
  }),
  get: verb({ name: fc.constantFrom(...names, '', '../x') }, ({ storage }, { name }) =>
    storage.state.sessions.get(name),
  ),
  getDefaultName: verb({}, ({ storage }) => storage.state.sessions.getDefaultName()),
  mark: verb({ name, marks, isLate: rarely }, async ({ storage }, { name, marks, isLate }) => {
    const token = (await storage.state.sessions.get(name))?.bot?.token
    return token ? storage.state.sessions.mark(name, isLate ? 'of nobody' : token, marks) : idle
  }),
  save: verb(
    { name, credentials },
    (side, { name, credentials }) => side.storage.state.sessions.save(name, botOf(side, credentials)),
    4,
  ),
  remove: verb({ name }, ({ storage }, { name }) => storage.state.sessions.remove(name)),
  rename: verb(
    { from: name, to: name },
    ({ storage }, { from, to }) => storage.state.sessions.rename(from, to),
    2,
  ),
  setDefault: verb({ name }, ({ storage }, { name }) => storage.state.sessions.setDefault(name)),
  sweep: verb({}, ({ storage, clock }) => storage.state.sessions.sweep(clock.at)),
} satisfies Record<keyof SessionStore, Verb<Notes>>

/** A session as it is spelled: other names are for `get` alone. */
const spelled = async ({ storage }: Here, name: string) =>
  (await storage.state.sessions.get(name))?.name ?? 'gone'
const spellAll = async (side: Here, names: readonly string[]) => [
  ...new Set(await Promise.all(names.map(name => spelled(side, name)))),
]

/**
 * A context with its counter, as a send sees both: an engine that has them in one row has one time for them, and always a
 * counter.
 */
const joined = <C extends Omit<UserContext, 'token'>>(
  { clock }: Here,
  context: C,
  counter: Counter | undefined,
) => ({
  ...context,
  ...currentCounterOf(context, counter, clock.at),
})
const contactsOf = (side: Here, all: ReadonlyMap<string, readonly Contact[]>) =>
  new Map(
    [...all].map(([session, contacts]) => [
      session,
      sorted(contacts.map(({ context, counter, ...one }) => ({ ...one, ...joined(side, context, counter) }))),
    ]),
  )
async function findContext(side: Here, session: string, user: string) {
  const context = await side.storage.state.contexts.find(session, user)
  return context && (await withCounter(side, context, session, user))
}
const withCounter = async (side: Here, context: UserContext, session: string, user: string) =>
  joined(side, context, (await side.store.outbox.getCounters(session, user)).get(user))

const contexts = {
  find: verb({ name, user }, async (side, { name, user }) =>
    findContext(side, await spelled(side, name), user),
  ),
  listUsers: verb({ some: fc.subarray(names) }, async (side, { some }) => {
    const all = await side.storage.state.contexts.listUsers(await spellAll(side, some))
    return contactsOf(side, all)
  }),
  countWriters: verb({ some: fc.subarray(names) }, async (side, { some }) =>
    side.storage.state.contexts.countWriters(await spellAll(side, some)),
  ),
  findKnowing: verb({ user }, async (side, { user }) => {
    const found = await side.storage.state.contexts.findKnowing(user)
    return sorted(
      await Promise.all(
        found.map(async ({ record, context }) => ({
          record,
          context: await withCounter(side, context, record.name, user),
        })),
      ),
    )
  }),
} satisfies Record<keyof ContextStore, Verb<Notes>>

const loginOf = (side: Here, session: string): StoredLogin => ({
  ...{
    id: idOf(side, 'login'),
    session,
    version: '',
    until: side.clock.at + 5000,
    force: false,
    ended: false,
  },
  ...{ status: 'waiting', revision: 1, told: 0 },
  qr: {
    qrcode: 'q',
    qrUrl: 'https://q',
    renewals: 0,
    state: 'waiting',
    needsCode: false,
    shown_at: side.clock.at,
  },
})
/** Versions are made by the engine. */
const shown = (login: StoredLogin | undefined) =>
  login && { ...login, version: login.version === '' ? 'none' : 'some' }
const noted = ({ notes }: Here, login: StoredLogin | undefined) => {
  if (login) notes.logins.push(login)
  return shown(login)
}
const someLogin = ({ notes: { logins } }: Here, nth: number) => logins.at(-1 - (nth % 3))

/** One that has not expired: one that has may be gone or not, since `claim` knows no time. */
function freshLogin(side: Here, nth: number) {
  const login = someLogin(side, nth)
  return login && login.until > side.clock.at ? login : undefined
}

const logins = {
  listLogins: verb({}, async ({ storage, clock }) =>
    sorted((await storage.state.logins.list(clock.at)).map(shown)),
  ),
  listRunning: verb({}, async ({ storage, clock }) =>
    sorted((await storage.state.logins.listRunning(clock.at)).map(shown)),
  ),
  getLogin: verb({ name }, async ({ storage, clock }, { name }) =>
    shown(await storage.state.logins.get(name, clock.at)),
  ),
  put: verb(
    { name, nth, isNew: fc.nat(2).map(one => one > 0), ends: rarely, told: nth },
    async (side, { name, nth, isNew, ends, told }) => {
      const before = isNew ? loginOf(side, name) : someLogin(side, nth)
      if (!before) return idle
      const { qr: _, ...rest } = before
      return noted(
        side,
        await side.storage.state.logins.put(
          { ...(ends ? { ...rest, ended: true } : before), told },
          side.clock.at,
        ),
      )
    },
    4,
  ),
  finish: verb({ nth, credentials }, async (side, { nth, credentials }) => {
    const before = someLogin(side, nth)
    if (!before) return idle
    const { qr: _, ...rest } = before
    const bot = botOf(side, credentials)
    const ended = { ...rest, ended: true, status: 'confirmed' as const, bot_id: bot.bot_id }
    return noted(side, await side.storage.state.logins.finish(ended, bot, side.clock.at))
  }),
  claim: verb({ nth, isOther: fc.boolean() }, (side, { nth, isOther }) => {
    const login = freshLogin(side, nth)
    return login ? (isOther ? side.other : side).storage.state.logins.claim(login) : idle
  }),
  release: verb({ nth, isOther: fc.boolean() }, (side, { nth, isOther }) => {
    const login = freshLogin(side, nth)
    return login ? (isOther ? side.other : side).storage.state.logins.release(login) : idle
  }),
  wait: verb({ nth }, (side, { nth }) => {
    const login = someLogin(side, nth)
    return login ? side.storage.state.logins.wait(login, AbortSignal.timeout(1)) : idle
  }),
} satisfies Record<'listLogins' | 'getLogin' | Exclude<keyof LoginStore, 'list' | 'get'>, Verb<Notes>>

const code = fc.constantFrom('c1', 'c2')
const signIn = fc.constantFrom('i1', 'i2', 'i3')
const signIns = {
  addLink: verb({ code, inMs: fc.constantFrom(500, 60_000) }, ({ storage, clock }, { code, inMs }) =>
    storage.state.signIns.addLink(code, clock.at + inMs, clock.at),
  ),
  takeLink: verb({ code }, ({ storage, clock }, { code }) => storage.state.signIns.takeLink(code, clock.at)),
  filterEnded: verb({ all: fc.uniqueArray(signIn) }, ({ storage }, { all }) =>
    storage.state.signIns.filterEnded(all),
  ),
  end: verb({ all: fc.uniqueArray(signIn) }, ({ storage, clock }, { all }) =>
    storage.state.signIns.end(all, clock.at + 90_000_000),
  ),
} satisfies Record<keyof SignInStore, Verb<Notes>>

const around = {
  timePasses: timePasses(1000, 6000, 61_000),
  ingest: verb(
    {
      name,
      ...{ isLate: rarely, isOldToken: rarely, marks: maybe(marks) },
      messages: fc.array(
        fc.record({
          from_user: user,
          writes: fc.boolean(),
          hasToken: fc.boolean(),
          agoMs: fc.constantFrom(0, 0, 5000, 70_000),
          again: rarely,
        }),
        { maxLength: 2 },
      ),
    },
    async (side, { name, isLate, isOldToken, marks, messages }) => {
      const { bot, name: session } = (await side.storage.state.sessions.get(name)) ?? {}
      if (!bot || session === undefined) return idle
      const { at } = side.clock
      // A late message of the same bot restarts the counter and not the context: one of the engines has one time for both.
      const isOther = isLate || isOldToken
      const batch: PolledBatch = {
        ...{
          id: idOf(side, 'batch'),
          session,
          token: isOldToken ? 'of nobody' : bot.token,
          botId: isOther ? 'former' : bot.bot_id,
        },
        ...{ cursorFrom: isLate ? 'other' : bot.cursor, cursorTo: idOf(side, 'cursor'), marks, now: at },
        messages: messages.map(({ from_user, writes, hasToken, agoMs, again }) => ({
          ...received(idOf(side, 'm'), side.notes.count, { from_user, timestamp: at - agoMs }),
          ...(writes && { written_at: at - agoMs }),
          ...(hasToken && { contextToken: `right${side.notes.count}` }),
          repeated: { received_at: at - agoMs, ...(again && { again }) },
        })),
      }
      side.notes.batches.push(batch)
      return side.storage.ingest(batch)
    },
    6,
  ),
  /** The same batch comes once more, in another try or from upstream. An engine may know the rows of an earlier try, or not. */
  ingestAgain: verb(
    { nth, isTry: fc.boolean() },
    async (side, { nth, isTry }) => {
      const batch = side.notes.batches.at(-1 - nth)
      if (!batch) return idle
      if (!isTry) return side.storage.ingest({ ...batch, id: idOf(side, 'batch') })
      return (await side.storage.ingest(batch)).cursor
    },
    2,
  ),
  send: verb({ name, to_user: user, spent: fc.boolean() }, async (side, { name, to_user, spent }) => {
    const record = await side.storage.state.sessions.get(name)
    if (!record?.bot) return idle
    const text = idOf(side, 'sent')
    const begun = await sending(side.store, record.name, record.bot.bot_id, outgoing(text, { to_user }), {
      rules: open,
    })
    await side.store.outbox.settle(
      begun,
      spent ? { status: 'accepted', message_id: text, spent } : { status: 'refused', spent },
    )
    return begun.token
  }),
  nameUser: verb({ name, user, as: maybe(fc.constantFrom('Ann', 'Bob')) }, async (side, { name, user, as }) =>
    side.store.names.set(await spelled(side, name), user, as),
  ),
  forgetUser: verb({ user }, async ({ store, storage }, { user }) => {
    await store.people.begin(user)
    await storage.state.forgetUser(user)
    return (await store.people.erase(user)).messages
  }),
}

async function state(side: Here) {
  const { storage, store, clock } = side
  const all = await spellAll(side, names)
  const { sessions, contexts, logins } = storage.state
  const [records, chosen, started, users, writers, rows, events] = await Promise.all([
    sessions.list(),
    sessions.getDefaultName(),
    logins.list(clock.at),
    contexts.listUsers(all),
    contexts.countWriters(all),
    store.log.listAfter(0, { limit: 500 }),
    eventsOf(store),
  ])
  const [counters, found] = await Promise.all([
    Promise.all(all.map(name => store.outbox.getCounters(name))),
    Promise.all(all.flatMap(name => ['u', 'v'].map(user => findContext(side, name, user)))),
  ])
  return {
    ...{ records: sorted(records), chosen, writers, rows, found },
    counters: counters.map(one => sorted(one)),
    started: sorted(started.map(shown)),
    users: contactsOf(side, users),
    events,
  }
}

export const compareState = () =>
  compare({
    notes: (): Notes => ({ logins: [], batches: [], followed: new Map(), count: 0 }),
    verbs: { ...around, ...sessions, ...contexts, ...logins, ...signIns },
    state,
    // What another process wrote may be seen up to two seconds later.
    isAlone: true,
  })
