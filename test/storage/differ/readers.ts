/** Random steps of the readers of the log: consumers, acknowledgements and what waits for them (`src/storage/store.ts`). */
import fc from 'fast-check'
import type { Acknowledgements, Backlog, ConsumerClaim, Consumers } from '../../../src/storage/store.ts'
import { insert, open, outgoing, sending } from '../support.ts'
import {
  compare,
  filled,
  idle,
  maybe,
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
  claims: ConsumerClaim[]
  /** Leases of programs. */
  leases: number[]
  /** What `readAfter` returned: only that is handed out. */
  read: { consumer: string; session?: string | undefined; upTo: number }[]
  count: number
}
type Here = Side<Notes>
const verb = verbsOf<Notes>()

const names = ['default', 'k/default', 'a', 'b']
const acknowledging = ['y', 'y/default', 'b']
const consumer = fc.constantFrom(...names)
const session = maybe(fc.constantFrom('s', 't', 'S'))
const scope = maybe(
  fc.constantFrom({}, { bots: ['b'] }, { users: ['u'] }, { bots: ['b'], users: ['v'] }, { bots: [] }),
)
const limit = fc.integer({ min: 1, max: 4 })
const wanted = { session, scope, limit, characters: maybe(fc.constantFrom(1, 60)) }
const shown = ({ rows, redelivered }: Pick<ConsumerClaim, 'rows' | 'redelivered'>) => ({ rows, redelivered })

/** One of the newest leases. */
const claimOf = ({ notes: { claims } }: Here, nth: number) => claims.at(-1 - (nth % 4))
const nth = fc.nat(20)

/** A verb about a lease. */
const ofLease = (work: (side: Here, claim: ConsumerClaim, isOther: boolean) => unknown) =>
  verb({ nth, isOther: rarely }, (side, { nth, isOther }) => {
    const claim = claimOf(side, nth)
    return claim ? work(side, claim, isOther) : idle
  })

const consumers = {
  claim: verb(
    { consumer, ...wanted, isOther: rarely },
    async (side, { consumer, isOther, ...wanted }) => {
      const claim = await storeOf(side, isOther).consumers.claim(consumer, filled(wanted))
      if (!claim) return 'none'
      side.notes.claims.push(claim)
      return shown(claim)
    },
    5,
  ),
  register: verb(
    { consumer: fc.constantFrom(...names, 'c'), atEnd: maybe(fc.boolean()) },
    ({ store }, { consumer, atEnd }) => store.consumers.register(consumer, filled({ atEnd })),
  ),
  giveBack: verb({ nth, from: fc.nat(3), isOther: rarely }, (side, { nth, from, isOther }) => {
    const claim = claimOf(side, nth)
    const row = claim?.rows[from % Math.max(1, claim.rows.length)]
    return claim && row ? storeOf(side, isOther).consumers.giveBack(claim, row.id) : idle
  }),
  ack: ofLease((side, { lease }, isOther) => storeOf(side, isOther).consumers.ack(lease)),
  nack: ofLease((side, { lease }, isOther) => storeOf(side, isOther).consumers.nack(lease)),
  recordHandOut: ofLease((side, { lease }, isOther) => storeOf(side, isOther).consumers.recordHandOut(lease)),
  remove: verb({ consumer: fc.constantFrom(...names, ...acknowledging, 'new') }, ({ store }, { consumer }) =>
    store.consumers.remove(consumer),
  ),
  renew: ofLease((side, { lease }, isOther) => storeOf(side, isOther).consumers.renew(lease)),
  lease: verb(
    { consumer, session, scope, limit, isOther: rarely },
    async (side, { consumer, isOther, ...wanted }) => {
      const { expiresAt, rows } = await storeOf(side, isOther).consumers.lease(consumer, filled(wanted))
      side.notes.leases.push(...rows.map(({ lease }) => lease))
      return [expiresAt, rows.map(({ lease: _, ...row }) => row)]
    },
    5,
  ),
  renewLeases: verb(
    { consumer, back: fc.nat(5), isOther: rarely },
    async (side, { consumer, back, isOther }) => {
      const leases = side.notes.leases.slice(-back)
      if (leases.length === 0) return idle
      const renewed = await storeOf(side, isOther).consumers.renewLeases(consumer, leases)
      return renewed.leases.map(lease => leases.indexOf(lease)).sort()
    },
  ),
  settleLeases: verb(
    {
      consumer,
      back: fc.nat(5),
      as: fc.constantFrom('read' as const, 'unread' as const, 'unseen' as const),
      isOther: rarely,
    },
    async (side, { as, consumer, back, isOther }) => {
      const leases = side.notes.leases.slice(-back)
      if (leases.length === 0) return idle
      const settled = await storeOf(side, isOther).consumers.settleLeases(consumer, leases, as)
      return settled.map(lease => leases.indexOf(lease)).sort()
    },
    4,
  ),
} satisfies Record<keyof Consumers, Verb<Notes>>

const acknowledgements = {
  readAfter: verb(
    {
      consumer: fc.constantFrom(...acknowledging),
      ack: fc.oneof(fc.constant(0), rowId(12)),
      ...wanted,
      isOther: rarely,
    },
    async (side, { consumer, ack, isOther, ...wanted }) => {
      const page = await storeOf(side, isOther).acknowledgements.readAfter(consumer, ack, filled(wanted))
      for (const { id: upTo } of page.rows) side.notes.read.push({ consumer, session: wanted.session, upTo })
      return shown(page)
    },
    4,
  ),
  markHandedOut: verb(
    { nth },
    ({ store, notes: { read } }, { nth }) => {
      const one = read.at(-1 - (nth % 5))
      return one ? store.acknowledgements.markHandedOut(one.consumer, one.upTo, one.session) : idle
    },
    3,
  ),
} satisfies Record<keyof Acknowledgements, Verb<Notes>>

const backlog = {
  countWaiting: verb(
    { from: fc.oneof(fc.constantFrom(...names, ...acknowledging, 'new'), rowId(12)), limit, session, scope },
    ({ store }, { from, ...wanted }) => store.backlog.countWaiting(from, wanted),
  ),
  listLags: verb({}, async ({ store }) => sorted(await store.backlog.listLags(99))),
  countEvents: verb({ back: fc.nat(5) }, async ({ store }, { back }) => {
    const { events } = await store.events.listAfter('', { limit: 1000 })
    return store.backlog.countEvents(events.at(-1 - back)?.cursor ?? '')
  }),
  listReaderLags: verb({ most: limit }, async ({ store }, { most }) =>
    sorted(await store.backlog.listReaderLags(most)),
  ),
  findConsumersToRedeliver: verb({}, ({ store }) => store.backlog.findConsumersToRedeliver()),
  listRecent: verb(
    {
      limit,
      session,
      scope,
      direction: maybe(fc.constantFrom('received' as const, 'sent' as const)),
      agoMs: fc.constantFrom(0, 1000, 31_000),
    },
    ({ store, clock }, { agoMs, ...wanted }) => store.backlog.listRecent(clock.at - agoMs, filled(wanted)),
  ),
} satisfies Record<keyof Backlog, Verb<Notes>>

const around = {
  timePasses: timePasses(1000, 29_999, 30_001, 61_000),
  arrive: verb(
    {
      session: fc.constantFrom('s', 't'),
      bot: fc.constantFrom('b', 'c'),
      user: fc.constantFrom('u', 'v'),
      count: limit,
    },
    async (side, { session, bot, user: from_user, count }) => {
      const batch = Array.from({ length: count }, () => {
        const nth = ++side.notes.count
        return received(`m${nth}`, nth, { from_user })
      })
      return insert(side, batch, session, bot)
    },
    4,
  ),
  send: verb({ session: fc.constantFrom('s', 't') }, async ({ store, notes }, { session }) => {
    await sending(store, session, 'b', outgoing(`sent${++notes.count}`), { rules: open })
  }),
  rename: renames(),
  moveReader: verb(
    { reader: fc.constantFrom('r', 'q'), back: fc.nat(5) },
    async ({ store }, { reader, back }) => {
      const { events } = await store.events.listAfter('', { limit: 1000 })
      return store.events.setPosition(reader, events.at(-1 - back)?.cursor ?? '')
    },
  ),
}

async function state({ store: { backlog, log } }: Here) {
  const [lags, readers, redelivered, ...waiting] = await Promise.all([
    backlog.listLags(99),
    backlog.listReaderLags(9),
    backlog.findConsumersToRedeliver(),
    ...[...names, ...acknowledging].map(name => backlog.countWaiting(name, { limit: 99 })),
    backlog.countWaiting('a', { limit: 99, session: 's' }),
  ])
  return { lags: sorted(lags), readers: sorted(readers), redelivered, waiting, head: await log.getHead() }
}

export const compareReaders = () =>
  compare({
    notes: (): Notes => ({ claims: [], leases: [], read: [], count: 0 }),
    verbs: { ...around, ...consumers, ...acknowledgements, ...backlog },
    state,
  })
