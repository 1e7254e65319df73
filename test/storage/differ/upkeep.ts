/** Random steps of retention, and of what an inspection shows (`StoreMaintenance`, `src/storage/inspection.ts`). */
import fc from 'fast-check'
import type { Inspection } from '../../../src/storage/inspection.ts'
import type { BegunMessage } from '../../../src/storage/outbox.ts'
import { PgInspection } from '../../../src/storage/postgres/inspection.ts'
import { createInspection } from '../../../src/storage/sqlite/inspection.ts'
import type { StoreMaintenance } from '../../../src/storage/store.ts'
import { bot, insert, open, outgoing, webhook } from '../support.ts'
import {
  compare,
  eventsOf,
  filled,
  idle,
  maybe,
  rarely,
  received,
  type Side,
  settles,
  sorted,
  timePasses,
  type Verb,
  verbsOf,
} from './compare.ts'

interface Notes {
  begun: BegunMessage[]
  entries: number[]
  count: number
}
type Here = Side<Notes> & { dir?: string; url?: string }
const verb = verbsOf<Notes>()
const idOf = ({ notes }: Side<Notes>, prefix: string) => `${prefix}${++notes.count}`

const session = fc.constantFrom('s', 't')
const user = fc.constantFrom('u', 'v')
const hourMs = 3_600_000
const dayMs = 24 * hourMs

const maintenance = {
  prune: verb({}, ({ store }) => store.maintenance.prune(), 4),
  removeOld: verb(
    { kind: fc.constantFrom('key of send', 'send', 'notice', 'bulletin', 'invitation', 'session') },
    async ({ clock, storage, store }, { kind }) => {
      const kept = (await storage.state.sessions.list()).map(({ name }) => name)
      return store.maintenance.removeOld(kind, clock.at, kept)
    },
    6,
  ),
  noteRetention: verb(
    { subject: fc.constantFrom('days=1', 'days=2') },
    async ({ clock, store }, { subject }) => {
      await store.maintenance.noteRetention({
        at: clock.at,
        principal: 'owner',
        operation: 'set_retention',
        outcome: 'done',
        subject,
      })
      return (await store.audit.list({ limit: 5 })).map(({ operation, subject }) => `${operation} ${subject}`)
    },
  ),
  noteClock: verb({}, ({ store }) => store.maintenance.noteClock()),
  shrink: verb({}, ({ store }) => store.maintenance.shrink()),
  isClockTrusted: verb({}, ({ store }) => store.maintenance.isClockTrusted()),
  checkWritable: verb({}, ({ store }) => store.maintenance.checkWritable()),
} satisfies Record<keyof StoreMaintenance, Verb<Notes>>

const inspectionOf = ({ dir, url }: Here): Inspection =>
  url === undefined ? createInspection(dir!) : new PgInspection(url)

const inspection = {
  listSessions: verb({}, async side => {
    const { sessions, lostDefault } = await inspectionOf(side).listSessions()
    // Tokens are sealed on one side, and only one has a file of contexts.
    const shown = sessions.map(({ bot, contexts: _, ...one }) => ({
      ...one,
      bot: bot && { ...bot, token: '' },
      users: [...one.users.keys()].sort(),
    }))
    return { sessions: shown, lostDefault }
  }),
  readStoreStats: verb({}, async side => {
    const {
      form: _,
      newest: _newest,
      sizeBytes: _size,
      walBytes: _wal,
      webhooks,
      ...stats
    } = (await inspectionOf(side).readStoreStats())!
    return { ...stats, webhooks: sorted(webhooks ?? []) }
  }),
  readNames: verb({}, async side => {
    const { users, webhooks, keys } = await inspectionOf(side).readNames()
    return [users, webhooks, keys].map(sorted)
  }),
} satisfies Record<Exclude<keyof Inspection, 'readSecrets' | 'checkPolling' | 'readCluster'>, Verb<Notes>>

const around = {
  timePasses: timePasses(1000, hourMs, dayMs, 12 * dayMs),
  /** Somebody sets the clock. Each engine looks at it now: it may look at other times. */
  clockIsSet: verb({ byMs: fc.constantFrom(40 * dayMs, -40 * dayMs, 0) }, ({ clock, store }, { byMs }) => {
    clock.off = byMs
    return store.maintenance.isClockTrusted()
  }),
  arrive: verb(
    { session, from_user: user, count: fc.integer({ min: 1, max: 5 }) },
    (side, { session, from_user, count }) => {
      const timestamp = side.clock.now()
      const batch = Array.from({ length: count }, () =>
        received(idOf(side, 'm'), side.notes.count, { from_user, timestamp }),
      )
      return insert(side, batch, session)
    },
    5,
  ),
  send: verb(
    {
      session,
      to_user: user,
      mode: fc.constantFrom('queue' as const, 'fail' as const),
      asked: rarely,
      key: maybe(fc.constantFrom('k', 'l')),
    },
    async (side, { session, to_user, mode, asked, key }) => {
      const sent = outgoing(idOf(side, 'sent'), { to_user, timestamp: side.clock.now() })
      const part = { kind: 'text' as const, ...(mode === 'queue' && { waiting: { message: sent } }) }
      const entry = { session, bot_id: 'b', user: to_user, mode, made_by: 'owner', parts: [part] }
      const more = filled({ key, asked: asked && mode === 'queue' ? mode : undefined })
      const result = await side.store.outbox.enqueue(
        { ...entry, ...more },
        open,
        mode === 'fail' ? sent : undefined,
      )
      if (result.state === 'new') side.notes.entries.push(result.entry.id)
      if (result.state === 'new' && result.begun) side.notes.begun.push(result.begun)
      return result.state
    },
    3,
  ),
  settle: settles,
  end: verb({ nth: fc.nat(3) }, async ({ store, notes }, { nth }) => {
    const id = notes.entries.at(-1 - nth)
    return id === undefined ? idle : (await store.outbox.end(id, { code: 'cancelled', detail: 'c' }))?.ended
  }),
  claim: verb(
    { consumer: fc.constantFrom('default', 'a'), acks: fc.boolean() },
    async ({ store }, { consumer, acks }) => {
      const claim = await store.consumers.claim(consumer, { limit: 3 })
      if (claim && acks) await store.consumers.ack(claim.lease)
      return claim?.rows.map(({ id }) => id) ?? 'none'
    },
  ),
  announce: verb(
    { session, status: fc.constantFrom('connected', 'expired') },
    ({ store }, { session, status }) =>
      store.events.append([{ type: 'session.status', session, data: { name: session, status } }]),
  ),
  login: verb({ session, bot_id: fc.constantFrom('b', 'c') }, ({ storage }, { session, bot_id }) =>
    storage.state.sessions.save(session, bot(session, { bot_id })),
  ),
  logout: verb({ session }, ({ storage }, { session }) => storage.state.sessions.remove(session)),
  name: verb({ session, user }, ({ store }, { session, user }) =>
    store.names.set(session, user, `Name of ${user}`),
  ),
  addKey: verb({}, side => {
    const id = idOf(side, 'k')
    const made = { made_by: 'owner', created_at: side.clock.now() }
    return side.store.keys.add({
      ...made,
      id,
      name: id,
      hash: id.padStart(64, '0'),
      can: ['send'],
      grant: { rights: ['send'] },
    })
  }),
  addWebhook: verb({ reason: maybe(fc.constant('gone')) }, async (side, { reason }) => {
    const id = idOf(side, 'w')
    await side.store.webhooks.add(webhook(id, { position: '' }))
    if (reason) await side.store.webhooks.change(id, { disabled: { reason, at: 5 } })
  }),
  backUp: verb({ fails: fc.boolean() }, ({ store, clock }, { fails }) =>
    fails
      ? store.backups.fail({ at: clock.at, error: 'full' })
      : store.backups.add({ path: '/b', created_at: clock.at, size: 1, took_ms: 2 }),
  ),
  runAgent: verb({}, ({ store }) => store.agents.claimAgent('home')),
}

async function state({ store, notes }: Side<Notes>) {
  const [rows, events, waiting, counts, entries, keyed] = await Promise.all([
    store.log.listAfter(0, { limit: 500 }),
    eventsOf(store),
    Promise.all(['default', 'a', 'new'].map(name => store.backlog.countWaiting(name, { limit: 99 }))),
    store.intake.count(),
    Promise.all(notes.entries.map(id => store.outbox.getEntry(id))),
    store.outbox.findByKey('k'),
  ])
  return {
    rows: rows.map(({ message_id: _, ...row }) => row),
    events,
    ...{ waiting, counts },
    entries: entries.map(
      entry =>
        entry && { ended: entry.ended, mode: entry.mode, parts: entry.parts.map(({ status }) => status) },
    ),
    keyed: keyed && notes.entries.indexOf(keyed.id),
  }
}

export const compareUpkeep = () =>
  compare({
    notes: (): Notes => ({ begun: [], entries: [], count: 0 }),
    verbs: { ...around, ...maintenance, ...inspection },
    ...{ state, isAlone: true, limits: { maxAgeDays: 30, maxCount: 12 } },
  })
