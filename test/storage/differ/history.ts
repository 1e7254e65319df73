/** Random steps of the log: what is stored, found and imported (`MessageLog`, `Intake` and `Storage.ingest`). */
import fc from 'fast-check'
import type { ImportedMessage, PolledMessage, ReceivedMessage } from '../../../src/storage/messages.ts'
import type { Intake, MessageLog } from '../../../src/storage/store.ts'
import { insert, outgoing, sending } from '../support.ts'
import {
  compare,
  eventsOf,
  filled,
  maybe,
  namesUser,
  rarely,
  received,
  renames,
  rowId,
  type Side,
  sorted,
  storeOf,
  timePasses,
  type Verb,
  verbsOf,
} from './compare.ts'

interface Notes {
  count: number
}
type Here = Side<Notes>
const verb = verbsOf<Notes>()

const session = fc.constantFrom('s', 'T', 'n')
const user = fc.constantFrom('u', 'v')
const bot = fc.constantFrom('b', 'c')
const direction = fc.constantFrom('received' as const, 'sent' as const)
const kind = fc.constantFrom('TEXT' as const, 'IMAGE' as const, 'FILE' as const)
const words = [
  'apple',
  'Apple pie',
  '苹果',
  '苹果 juice',
  'café',
  'cafe\u0301',
  'ÄPFEL',
  '100%',
  'a_b',
  'nul\0l',
  '\ud83d\ude00',
  '\ud83d',
  '',
]
const text = fc.array(fc.constantFrom(...words), { minLength: 1, maxLength: 2 }).map(some => some.join(' '))
const needle = fc.constantFrom(
  'apple',
  '苹',
  '苹果',
  '果 j',
  'café',
  'é',
  '%',
  '_',
  'äpfel',
  '\0',
  '\ud83d',
  '\ude00',
  'a',
  'l',
)
const nth = fc.nat(20)
const row = rowId(20)
const limit = fc.integer({ min: 1, max: 5 })
const characters = maybe(fc.constantFrom(1, 40, 200))
const scope = maybe(
  fc.constantFrom({}, { bots: ['b'] }, { users: ['u'] }, { bots: ['b'], users: ['v'] }, { bots: [] }),
)
const time = fc.constantFrom(0, 5, 10, 20, 40)
/** What is stored twice has the same id or the same content and time. */
const arrived = fc.record({
  ...{
    id: nth,
    text,
    from_user: user,
    msg_type: kind,
    timestamp: fc.constantFrom(5, 10, 20, 1000),
    timed: fc.boolean(),
  },
  ...{ hasId: fc.nat(5).map(one => one > 0), hasFile: rarely },
})
type Arrived = typeof arrived extends fc.Arbitrary<infer T> ? T : never

function messageOf({ id, hasId, hasFile, text, ...more }: Arrived): ReceivedMessage {
  const items = [
    { type: 1, text_item: { text } },
    ...(hasFile ? [{ type: 4, file_item: { file_name: 'plan.pdf' } }] : []),
  ]
  const { message_id, ...own } = received(text, id, {
    ...more,
    raw: JSON.stringify({ item_list: items }),
    derived_id: `derived:${id}`,
  })
  return hasId ? { ...own, message_id: message_id! } : own
}

const log = {
  getHead: verb({}, ({ store }) => store.log.getHead()),
  wait: verb({}, ({ store }) => store.log.wait(0, 1, new AbortController().signal)),
  listAfter: verb(
    { id: row, limit, characters, direction: maybe(direction), session: maybe(session), scope },
    ({ store }, { id, ...wanted }) => store.log.listAfter(id, filled(wanted)),
    2,
  ),
  getByIds: verb(
    { ids: fc.array(row, { maxLength: 4 }), characters, scope },
    ({ store }, { ids, characters, scope }) => store.log.getByIds(ids, characters, scope),
  ),
  getByMessageIds: verb(
    { ids: fc.array(nth, { maxLength: 4 }), characters, scope },
    ({ store }, { ids, characters, scope }) =>
      store.log.getByMessageIds(
        ids.map(id => `9${id}`),
        characters,
        scope,
      ),
  ),
  search: verb(
    {
      ...{
        user_id: maybe(user),
        bot_id: maybe(bot),
        session: maybe(session),
        msg_type: maybe(kind),
        has_kind: maybe(kind),
      },
      ...{
        direction: maybe(direction),
        since: maybe(time),
        until: maybe(time),
        text_contains: maybe(needle),
      },
      ...{ limit, offset: fc.constantFrom(0, 0, 1, 3), characters, before: maybe(row), scope },
    },
    ({ store }, filter) => store.log.search(filled(filter)),
    8,
  ),
  findRange: verb({ since: maybe(time), until: maybe(time) }, async ({ store }, range) => {
    const { low, high } = await store.log.findRange(range)
    return low > high ? 'none' : { low, high }
  }),
} satisfies Record<keyof MessageLog, Verb<Notes>>

const imported = fc.array(fc.record({ arrived, session, bot_id: bot, direction }), {
  minLength: 1,
  maxLength: 3,
})
const importedOf = (all: typeof imported extends fc.Arbitrary<infer T> ? T : never) =>
  all.map(({ arrived, ...more }): ImportedMessage => ({ ...messageOf(arrived), ...more }))

const intake = {
  count: verb({}, ({ store }) => store.intake.count()),
  has: verb({ imported }, ({ store }, { imported }) => store.intake.has(importedOf(imported))),
  add: verb({ imported, isOther: rarely }, (side, { imported, isOther }) =>
    storeOf(side, isOther).intake.add(importedOf(imported)),
  ),
} satisfies Record<keyof Intake, Verb<Notes>>

const around = {
  timePasses: timePasses(1000, 14_000, 16_000),
  ingest: verb(
    { messages: fc.array(arrived, { minLength: 1, maxLength: 4 }), session, bot, isOther: rarely },
    (side, { messages, session, bot, isOther }) =>
      insert(isOther ? side.other : side, messages.map(messageOf) as PolledMessage[], session, bot),
    5,
  ),
  send: verb(
    { session, to_user: user, text, msg_type: kind },
    async ({ store, notes }, { session, ...more }) => {
      const begun = await sending(
        store,
        session,
        'b',
        outgoing(`sent${++notes.count}`, { ...more, timestamp: 10 }),
      )
      await store.outbox.settle(begun, { status: 'accepted', message_id: `9${notes.count}`, spent: true })
    },
    2,
  ),
  name: namesUser(session, user),
  erase: verb({ user }, async ({ store }, { user }) => {
    await store.people.begin(user)
    return (await store.people.erase(user)).messages
  }),
  rename: renames(session, session),
}

async function state({ store }: Here) {
  const [rows, events, all] = await Promise.all([
    store.log.listAfter(0, { limit: 500 }),
    eventsOf(store),
    store.log.search({ limit: 50, offset: 0, text_contains: 'a' }),
  ])
  return {
    rows,
    events,
    all: { ...all, rows: sorted(all.rows.map(({ id }) => id)) },
  }
}

export const compareHistory = () =>
  compare({ notes: (): Notes => ({ count: 0 }), verbs: { ...around, ...log, ...intake }, state })
