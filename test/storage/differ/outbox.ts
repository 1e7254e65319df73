/** Random steps of the outbox (`src/storage/outbox.ts`). */
import fc from 'fast-check'
import type { SendRules } from '../../../src/model/admission.ts'
import type { SvcError } from '../../../src/model/error.ts'
import type { BegunMessage, EndReason, OutboxStore, StoredEntry } from '../../../src/storage/outbox.ts'
import { partsPerEntry } from '../../../src/storage/outbox-limits.ts'
import { insert, message, open, outgoing } from '../support.ts'
import {
  compare,
  eventsOf,
  idle,
  maybe,
  rarely,
  type Side,
  storeOf,
  timePasses,
  type Verb,
  verbsOf,
} from './compare.ts'

interface Notes {
  /** Ids of the entries: numbers of an engine may have gaps. */
  entries: number[]
  begun: BegunMessage[]
  revision?: number
  count: number
}
type Here = Side<Notes>
const verb = verbsOf<Notes>()

const users = ['u', 'v']
const user = fc.constantFrom(...users)
const rulesOf: Record<string, SendRules> = {
  open: { ...open, quota: 6, patienceMs: 5000 },
  paced: {
    ...open,
    ...{ quota: 6, windowMs: 86_400_000, pace: { perSecond: 1, perWindow: 4, windowMs: 60_000 } },
    patienceMs: 5000,
  },
}
const rules = fc.constantFrom('open', 'paced', 'paced').map(name => rulesOf[name]!)
const nth = fc.nat(50)
const yes = fc.boolean()
const maker = fc.constantFrom('owner', 'key:a', 'panel:a', 'key:b', 'stdio')
const reason = (code: string): EndReason => ({ code, detail: code })
const sight = maybe(
  fc.record({
    scope: fc.constantFrom({}, { bots: ['b'] }, { users: ['u'] }, { bots: [], users: ['v'] }),
    made_by: maybe(fc.constantFrom(['owner'], ['key:a', 'stdio'], [])),
  }),
)

/** One of the newest entries mostly. */
const entryOf = ({ notes: { entries } }: Here, nth: number): number | undefined =>
  nth < 40 ? entries.at(-1 - (nth % 5)) : entries[nth % 5]

const idOf = ({ notes }: Here, prefix: string) => `${prefix}${++notes.count}`

/** An entry with places in place of ids. */
const shown = ({ notes }: Here, entry: StoredEntry | undefined) =>
  entry && {
    ...entry,
    id: notes.entries.indexOf(entry.id),
    parts: entry.parts.map(({ entry: _, lane: _lane, id, message, ...part }) => ({
      ...part,
      nth: id % partsPerEntry,
      hasRow: message !== undefined,
    })),
  }
const shownBegun = ({ notes }: Here, { lane: _, row: _row, parts, ...begun }: BegunMessage) => ({
  ...begun,
  parts: parts.map(id => [notes.entries.indexOf(Math.floor(id / partsPerEntry)), id % partsPerEntry]),
})

async function laneOf({ store }: Here, nth: number) {
  const { lanes } = await store.outbox.listWaiting(open)
  return lanes[nth % Math.max(1, lanes.length)]?.id
}
const shownLane = ({ id: _, ...lane }: Awaited<ReturnType<OutboxStore['listWaiting']>>['lanes'][number]) =>
  lane

const outbox = {
  enqueue: verb(
    {
      ...{ user, rules, by: maker, parts: fc.integer({ min: 1, max: 3 }), isOther: rarely },
      ...{ mode: fc.constantFrom('queue' as const, 'queue' as const, 'fail' as const) },
      ...{
        first: fc.nat(3).map(one => one > 0),
        key: maybe(fc.constantFrom('k', 'l')),
        asked: maybe(fc.constantFrom('queue', 'fail')),
        inMs: maybe(fc.constantFrom(1000, 61_000)),
      },
      file: rarely,
    },
    async (side, { user, rules, by: made_by, parts, mode, first, key, asked, file, inMs, isOther }) => {
      const { notes } = side
      const text = idOf(side, 'text')
      const sent = (text: string) => outgoing(text, { to_user: user })
      const kept = (name: string) => ({ name, file_name: 'f', size: 3, md5: 'ab', source: 'disk' })
      const result = await storeOf(side, isOther).outbox.enqueue(
        {
          ...{ session: 's', bot_id: 'b', user, mode, made_by },
          parts: Array.from({ length: parts }, (_, nth) => ({
            kind: file ? 'file' : 'text',
            ...(mode === 'queue' && {
              waiting: { message: sent(`${text}-${nth}`), ...(file && { file: kept(`${text}-${nth}`) }) },
            }),
          })),
          ...(key !== undefined && { key, content: 'c' }),
          ...(asked && mode === 'queue' && { asked: asked as 'queue' | 'fail' }),
          ...(inMs !== undefined && mode === 'queue' && { send_at: side.clock.at + inMs }),
        },
        rules,
        first && mode === 'fail' ? sent(`${text}-first`) : undefined,
      )
      if (result.state === 'closed') return result
      if (result.state === 'known') return { state: 'known', entry: shown(side, result.entry) }
      const { entry, begun, verdict } = result
      notes.entries.push(entry.id)
      if (begun) notes.begun.push(begun)
      return { verdict, entry: shown(side, entry), begun: begun && shownBegun(side, begun) }
    },
    5,
  ),
  findByKey: verb({ key: fc.constantFrom('k', 'l', 'none') }, async (side, { key }) =>
    shown(side, await side.store.outbox.findByKey(key)),
  ),
  checkAdmission: verb(
    { user, count: fc.integer({ min: 1, max: 4 }), rules },
    ({ store }, { user, count, rules }) => store.outbox.checkAdmission('s', user, count, rules),
  ),
  begin: verb(
    {
      nth,
      part: fc.nat(2),
      joins: rarely,
      bot: fc.constantFrom('b', 'b', 'b', 'b', 'c'),
      rules,
      isOther: rarely,
    },
    async (side, { nth, part, joins, bot, rules, isOther }) => {
      const id = entryOf(side, nth)
      if (id === undefined) return idle
      const to_user = (await side.store.outbox.getEntry(id))?.user ?? 'u'
      const first = id * partsPerEntry + part
      const sent = outgoing(idOf(side, 'begun'), { to_user })
      const result = await storeOf(side, isOther).outbox.begin(
        joins ? [first, first + 1] : [first],
        bot,
        rules,
        sent,
      )
      if (result.go !== 'begun') return result
      side.notes.begun.push(result.begun)
      return shownBegun(side, result.begun)
    },
    5,
  ),
  settle: verb(
    {
      ...{ nth, spent: yes, unseen: yes, rest: rarely, isOther: rarely },
      status: fc.constantFrom('accepted', 'queued', 'queued', 'refused', 'unknown', 'suspect'),
      hold: maybe(fc.constantFrom('set', 'end')),
      id: rarely,
    },
    async (side, { nth, status, spent, unseen, rest, hold, isOther, id }) => {
      const { notes, clock } = side
      const [begun] = notes.begun.splice(nth % Math.max(1, notes.begun.length), 1)
      if (!begun) return idle
      const entry = await side.store.outbox.getEntry(Math.floor(begun.parts[0]! / partsPerEntry))
      const wanted = status === 'queued' && entry?.mode !== 'queue' ? 'refused' : status
      const settled = await storeOf(side, isOther).outbox.settle(begun, {
        status: wanted as 'accepted',
        spent,
        // Upstream may give an id that another message has.
        ...(wanted === 'accepted' && { message_id: id ? 'same' : idOf(side, 'up') }),
        ...(wanted !== 'accepted' && { error: reason('upstream_error') }),
        ...(unseen && !spent && { unseen }),
        ...(rest && { rest: reason('cancelled') }),
        ...(hold && {
          hold: hold === 'end' ? null : { since: clock.at, until: clock.at + 60_000, count: 1 },
        }),
      })
      return { entries: settled.entries.map(entry => shown(side, entry)), files: settled.files }
    },
    5,
  ),
  end: verb(
    { nth, only: maybe(fc.constantFrom('queue' as const, 'fail' as const)), by: maybe(maker) },
    async (side, { nth, only, by }) => {
      const id = entryOf(side, nth)
      if (id === undefined) return idle
      const options = { ...(only && { only }), ...(by && { by }) }
      const ended = await side.store.outbox.end(id, reason('cancelled'), options)
      return ended && { ...ended, entry: shown(side, ended.entry) }
    },
  ),
  listWaiting: verb(
    { rules, users: maybe(fc.subarray(users)), since: yes },
    async ({ store, notes }, { rules, users, since }) => {
      const { lanes, revision } = await store.outbox.listWaiting(rules, {
        ...(users && { of: { session: 's', users } }),
        ...(since && notes.revision !== undefined && { since: notes.revision }),
      })
      notes.revision = revision
      return lanes.map(shownLane)
    },
    2,
  ),
  claim: verb({ nth, isOther: yes }, async (side, { nth, isOther }) => {
    const id = await laneOf(side, nth)
    if (id === undefined) return idle
    const claimed = await storeOf(side, isOther).outbox.claim(id)
    return claimed && { ...claimed, id: 0, parts: claimed.parts.map(({ id }) => id % partsPerEntry) }
  }),
  release: verb(
    { nth, isOther: yes },
    async (side, { nth, isOther }) => {
      const id = await laneOf(side, nth)
      return id === undefined ? idle : storeOf(side, isOther).outbox.release(id)
    },
    2,
  ),
  holdBack: verb({ nth, hold: yes, refuse: yes }, async (side, { nth, hold, refuse }) => {
    const id = await laneOf(side, nth)
    if (id === undefined) return idle
    const { at } = side.clock
    const refused = refuse
      ? (await side.store.outbox.claim(id))?.parts.slice(0, 1).map(({ id }) => id)
      : undefined
    return side.store.outbox.holdBack(id, {
      ...(hold && { hold: { since: 0, until: at + 60_000, count: 2 } }),
      ...(refused && { refused }),
      pause: { not_before: at + 1000, failures: 1 },
    })
  }),
  getEntry: verb({ nth, sight }, async (side, { nth, sight }) =>
    shown(side, await side.store.outbox.getEntry(entryOf(side, nth) ?? 9, sight)),
  ),
  list: verb({ user_id: maybe(user), sight }, async (side, { user_id, sight }) => {
    const found = await side.store.outbox.list({ ...(user_id && { user_id }), ...(sight && { sight }) })
    return found.map(entry => shown(side, entry))
  }),
  getDepth: verb({}, ({ store }) => store.outbox.getDepth()),
  getCounters: verb({ user: maybe(user) }, ({ store }, { user }) => store.outbox.getCounters('s', user)),
  fileOf: verb({ nth, sight }, async (side, { nth, sight }) => {
    const id = entryOf(side, nth)
    const row = id && (await side.store.outbox.getEntry(id))?.parts[0]?.message
    return row ? ((await side.store.outbox.fileOf(row, sight)) ?? 'none') : idle
  }),
  listFiles: verb({}, async ({ store }) => (await store.outbox.listFiles()).sort()),
  approve: verb(
    { nth, rules, by: fc.constantFrom('owner', 'owner', 'key:a'), edit: rarely },
    async (side, { nth, rules, by, edit }) => {
      const id = entryOf(side, nth)
      if (id === undefined) return idle
      const result = await side.store.outbox.approve(
        id,
        rules,
        by,
        edit ? { text: 'edited', raw: '{}' } : undefined,
      )
      return result?.state === 'approved' ? 'approved' : result
    },
    3,
  ),
  renew: verb({ nth }, async (side, { nth }) => {
    const id = entryOf(side, nth)
    return id === undefined ? idle : side.store.outbox.renew(id)
  }),
  expire: verb({ doubted: rarely }, async (side, { doubted }) => {
    const ended = await side.store.outbox.expire(
      doubted ? undefined : { late: reason('window_closed'), unasked: reason('forbidden') },
    )
    return ended.map(({ entry, ...rest }) => ({ ...rest, entry: shown(side, entry) }))
  }),
  reap: verb({ before: fc.constantFrom(0, 600_000) }, ({ store, clock }, { before }) =>
    store.outbox.reap(before === 0 ? 0 : clock.at - before),
  ),
} satisfies Record<keyof OutboxStore, Verb<Notes>>

const around = {
  timePasses: timePasses(300, 1000, 4000, 61_000, 700_000, 90_000_000),
  /** The user writes, which restarts the counter. */
  wrote: verb({ user }, async (side, { user: from_user }) => {
    const { at } = side.clock
    const [row] = await insert(side, [
      message(idOf(side, 'wrote'), {
        ...{ message_id: idOf(side, '9'), from_user, raw: '{}' },
        written_at: at,
        timestamp: at,
      }),
    ])
    return typeof row
  }),
  revoke: verb({ id: fc.constantFrom('a', 'b') }, ({ store, clock }, { id }) =>
    store.keys.revoke(id, clock.at),
  ),
  /** Several calls at a time share a write. */
  enqueueAtOnce: verb(
    { user, rules, mode: fc.constantFrom('queue' as const, 'fail' as const) },
    async (side, { user, rules, mode }) => {
      const calls = [mode, 'queue' as const, 'queue' as const].map(mode => {
        const sent = outgoing(idOf(side, 'at-once'), { to_user: user })
        const part = { kind: 'text' as const, ...(mode === 'queue' && { waiting: { message: sent } }) }
        const entry = { session: 's', bot_id: 'b', user, mode, made_by: 'owner', parts: [part] }
        return side.store.outbox.enqueue(entry, rules).catch((error: SvcError) => ({ state: error.code }))
      })
      const results = await Promise.all(calls)
      for (const one of results) if ('entry' in one) side.notes.entries.push(one.entry.id)
      return results.map(one => ('verdict' in one ? [one.state, one.verdict] : one.state))
    },
  ),
}

/** Two keys, so that one of them ends before the other. */
async function addKeys({ store }: Here) {
  for (const id of ['a', 'b'])
    await store.keys.add({
      ...{ id, name: id, hash: id.repeat(64), grant: { rights: ['send'] }, can: ['send'] },
      ...{ made_by: 'owner', created_at: 5 },
    })
}

/** The rows of the log, their events, and all that the outbox shows. */
async function state(side: Here) {
  const { store, notes } = side
  const { outbox } = store
  const limit = 1000
  const [waiting, depth, counters, entries, files, rows, events, ...verdicts] = await Promise.all([
    outbox.listWaiting(rulesOf.paced!),
    outbox.getDepth(),
    outbox.getCounters('s'),
    Promise.all(notes.entries.map(async id => shown(side, await outbox.getEntry(id)))),
    outbox.listFiles(),
    store.log.listAfter(0, { limit }),
    eventsOf(store),
    ...users.map(user => outbox.checkAdmission('s', user, 1, rulesOf.paced!)),
  ])
  const places = new Map(rows.map(({ id }, nth) => [id, nth]))
  return {
    lanes: waiting.lanes.map(shownLane),
    ...{ depth, counters, entries, verdicts, files: files.sort() },
    // A row that waits again is named by the id of its part, which may have gaps.
    rows: rows.map(({ id: _, message_id, sent_with, ...row }) => ({
      ...row,
      message_id: message_id.replace(/queued-\d+/, 'queued'),
      sent_with: sent_with?.replace(/queued-\d+/, 'queued'),
    })),
    events: events.map(({ message, ...event }) => ({
      ...event,
      message: message && places.get(message),
    })),
  }
}

export const compareOutbox = () =>
  compare({
    notes: (): Notes => ({ entries: [], begun: [], count: 0 }),
    verbs: { ...around, ...outbox },
    state,
    given: addKeys,
  })
