/** Random steps of the event log (`src/storage/events.ts`). */
import fc from 'fast-check'
import {
  cursorNumberOf,
  type EventFilter,
  type EventLog,
  type NewEvent,
} from '../../../src/storage/events.ts'
import type { BegunMessage } from '../../../src/storage/outbox.ts'
import { insert, outgoing, sending } from '../support.ts'
import {
  compare,
  eventsOf,
  filled,
  maybe,
  rarely,
  received,
  renames,
  type Side,
  settles,
  storeOf,
  timePasses,
  type Verb,
  verbsOf,
} from './compare.ts'

interface Notes {
  cursors: string[]
  begun: BegunMessage[]
  count: number
}
type Here = Side<Notes>
const verb = verbsOf<Notes>()

const session = fc.constantFrom('s', 't')
const user = fc.constantFrom('u', 'v')
const nth = fc.nat(9)
const types = [
  'message.received',
  'message.status',
  'session.status',
  'session.muted',
  'endpoint.disabled',
  'audit.line',
  'backup.failed',
] as const
const scope = fc.constantFrom(
  {},
  { bots: ['b'] },
  { users: ['u'] },
  { bots: ['c'], users: ['v'] },
  { bots: [] },
)
const filter: fc.Arbitrary<EventFilter> = fc
  .record({
    limit: fc.integer({ min: 1, max: 6 }),
    types: maybe(fc.subarray([...types])),
    session: maybe(fc.constantFrom('s', 'T', 'n')),
    user: maybe(user),
    scope: maybe(scope),
    hidden: maybe(fc.constant(true as const)),
  })
  .map(filter => filled(filter) as EventFilter)

/** A cursor as the place of its event, since the numbers of an engine may have gaps, and each store has a name of its own. */
async function placesOf(side: Here) {
  const { events } = await side.store.events.listAfter('', { limit: 1000, hidden: true })
  const all = events.map(({ cursor }) => cursorNumberOf(cursor))
  return (cursor: string | undefined) =>
    cursor && [all.filter(number => number <= cursorNumberOf(cursor)).length, cursor.startsWith('other-')]
}

/** A cursor that was seen, the start, or one of another store. */
const cursor = fc.oneof({ weight: 5, arbitrary: nth }, fc.constantFrom('', 'other-3', 'nonsense', 'beyond'))
function cursorOf({ notes: { cursors } }: Here, wanted: number | string): string {
  const newest = cursors.at(-1) ?? ''
  if (wanted === 'beyond') return newest.replace(/-\d+$/, '-9007199254740000')
  return typeof wanted === 'string' ? wanted : (cursors.at(-1 - wanted) ?? '')
}

const isNoteworthy = (side: Here, cursor: string) => !side.notes.cursors.includes(cursor)

const events = {
  listAfter: verb(
    { cursor, filter },
    async (side, { cursor, filter }) => {
      const page = await side.store.events.listAfter(cursorOf(side, cursor), filter)
      const placeOf = await placesOf(side)
      for (const one of [...page.events.map(({ cursor }) => cursor), page.cursor])
        if (isNoteworthy(side, one)) side.notes.cursors.push(one)
      return {
        ...page,
        cursor: placeOf(page.cursor),
        events: page.events.map(event => ({ ...event, cursor: placeOf(event.cursor) })),
      }
    },
    5,
  ),
  getHead: verb({ agoMs: maybe(fc.constantFrom(0, 1, 1000, 60_000)) }, async (side, { agoMs }) => {
    const head = await side.store.events.getHead(agoMs === undefined ? undefined : side.clock.at - agoMs)
    if (isNoteworthy(side, head)) side.notes.cursors.push(head)
    return (await placesOf(side))(head)
  }),
  wait: verb({ cursor: nth }, (side, { cursor }) =>
    side.store.events.wait(cursorOf(side, cursor), 1, new AbortController().signal),
  ),
  append: verb(
    {
      seen: maybe(cursor),
      isOther: rarely,
      news: fc.array(
        fc.record({ type: fc.constantFrom(...types.slice(2)), session, bot_id: fc.constantFrom('b', 'c') }),
        { minLength: 1, maxLength: 3 },
      ),
    },
    (side, { news, seen, isOther }) =>
      storeOf(side, isOther).events.append(
        news.map(({ type, session, bot_id }): NewEvent => {
          const data = { bot_id, name: session, nth: ++side.notes.count }
          return type === 'session.status' || type === 'session.muted'
            ? { type, session, data }
            : { type: type as 'audit.line', data }
        }),
        seen === undefined ? undefined : cursorOf(side, seen),
      ),
    4,
  ),
  getPosition: verb({ reader: fc.constantFrom('r', 'k/r', 'none') }, async (side, { reader }) =>
    (await placesOf(side))(await side.store.events.getPosition(reader)),
  ),
  setPosition: verb({ reader: fc.constantFrom('r', 'k/r'), cursor }, (side, { reader, cursor }) =>
    side.store.events.setPosition(reader, cursorOf(side, cursor)),
  ),
} satisfies Record<keyof EventLog, Verb<Notes>>

const around = {
  timePasses: timePasses(1, 1000, 60_000),
  arrive: verb(
    { session, bot: fc.constantFrom('b', 'c'), from_user: user },
    (side, { session, bot, from_user }) => {
      const nth = ++side.notes.count
      return insert(side, [received(`m${nth}`, nth, { from_user })], session, bot)
    },
  ),
  import: verb(
    { session, from_user: user, direction: fc.constantFrom('received' as const, 'sent' as const) },
    ({ store, notes }, one) => {
      const nth = ++notes.count
      return store.intake.add([{ ...received(`m${nth}`, nth), ...one, bot_id: 'b' }])
    },
  ),
  send: verb(
    { session, to_user: user },
    async ({ store, notes }, { session, to_user }) => {
      notes.begun.push(await sending(store, session, 'b', outgoing(`sent${++notes.count}`, { to_user })))
    },
    2,
  ),
  settle: settles,
  rename: renames(),
}

async function state(side: Here) {
  const placeOf = await placesOf(side)
  const published = await Promise.all(
    ['', ...side.notes.cursors.slice(-2)].map(cursor => side.store.backlog.countEvents(cursor)),
  )
  const positions = await Promise.all(['r', 'k/r'].map(reader => side.store.events.getPosition(reader)))
  return {
    events: await eventsOf(side.store),
    published,
    positions: positions.map(placeOf),
  }
}

export const compareEvents = () =>
  compare({
    notes: (): Notes => ({ cursors: [], begun: [], count: 0 }),
    verbs: { ...around, ...events },
    state,
  })
