/** Random steps of keys, of the audit log and of what is known about backups (`src/storage/keys.ts`, `audit.ts`, `backups.ts`). */
import fc from 'fast-check'
import type { AuditStore } from '../../../src/storage/audit.ts'
import type { BackupStore } from '../../../src/storage/backups.ts'
import type { KeyStore } from '../../../src/storage/keys.ts'
import { open, outgoing, webhook } from '../support.ts'
import {
  compare,
  eventsOf,
  filled,
  idle,
  maybe,
  rarely,
  type Side,
  sorted,
  storeOf,
  timePasses,
  type Verb,
  verbsOf,
} from './compare.ts'

interface Notes {
  keys: string[]
  lines: number[]
  revision: number
  count: number
}
type Here = Side<Notes>
const verb = verbsOf<Notes>()

const nth = fc.nat(4)
/** One of the newest keys. */
const keyOf = ({ notes: { keys } }: Here, nth: number) =>
  keys.at(-1 - (nth % Math.max(1, keys.length))) ?? 'none'
/** The principal of a key, or another one. */
const maker = fc.oneof(nth, fc.constantFrom('owner', 'stdio', 'panel', 'webhook:w1'))
function makerOf(side: Here, wanted: number | string): string {
  if (typeof wanted === 'string') return wanted
  return `${wanted % 2 === 0 ? 'key' : 'panel'}:${keyOf(side, wanted)}`
}
const agoMs = fc.constantFrom(-60_000, -1000, 0, 1000)
const path = fc.constantFrom('/b/1', '/b/2', '/b/3')

const keys = {
  hasAny: verb({}, ({ store }) => store.keys.hasAny()),
  list: verb({}, ({ store }) => store.keys.list()),
  listScans: verb({}, async ({ store }) => sorted([...(await store.keys.listScans()).keys()])),
  get: verb({ nth }, (side, { nth }) => side.store.keys.get(keyOf(side, nth))),
  listChangedSince: verb({}, async ({ store, notes }) => {
    const { keys, revision } = await store.keys.listChangedSince(notes.revision)
    notes.revision = revision
    return sorted(keys)
  }),
  add: verb(
    {
      name: fc.constantFrom('agent', 'panel', 'Agent'),
      users: maybe(fc.constantFrom(['u'], ['u', 'v'], [])),
      made_by: maker,
      expiresInMs: maybe(fc.constantFrom(500, 30_000, 100_000)),
    },
    async (side, { name, users, made_by, expiresInMs }) => {
      const { notes, clock, store } = side
      const id = `k${++notes.count}`
      await store.keys.add({
        ...{ id, name, hash: `${notes.count}`.padStart(64, '0'), can: ['send'], created_at: clock.at },
        grant: filled({ rights: ['send'] as const, users }),
        made_by: makerOf(side, made_by),
        ...(expiresInMs !== undefined && { expires_at: clock.at + expiresInMs }),
      })
      notes.keys.push(id)
    },
    4,
  ),
  rotate: verb({ nth, keptMs: fc.constantFrom(0, 1000) }, (side, { nth, keptMs }) =>
    side.store.keys.rotate(
      keyOf(side, nth),
      `${++side.notes.count}`.padStart(64, '1'),
      side.clock.at + keptMs,
    ),
  ),
  revoke: verb({ nth }, async (side, { nth }) =>
    sorted(await side.store.keys.revoke(keyOf(side, nth), side.clock.at)),
  ),
  endExpired: verb({}, async ({ store, clock }) => sorted(await store.keys.endExpired(clock.at))),
  noteUse: verb({ nth, address: maybe(fc.constantFrom('::1', '10.0.0.1')) }, (side, { nth, address }) =>
    side.store.keys.noteUse(keyOf(side, nth), side.clock.at, address),
  ),
  // Only one engine counts for several processes: nothing comes back on either while there is one.
  shareUse: verb({ nth }, (side, { nth }) =>
    side.store.keys.shareUse([{ key: keyOf(side, nth), calls: 1, open: 1, bytes: 5, dayAgeMs: 0 }]),
  ),
  removeKeys: verb({ agoMs }, ({ store, clock }, { agoMs }) =>
    store.maintenance.removeOld('key', clock.at - agoMs),
  ),
} satisfies Record<'removeKeys' | keyof KeyStore, Verb<Notes>>

const answers = fc.constantFrom('all' as const, 'called' as const, 5)

const relays = {
  addClient: verb({ nth, answers }, async (side, { nth, answers }) => {
    const key = keyOf(side, nth)
    const { keys, relays } = side.store
    // Only a key that exists, once.
    if (!(await keys.get(key)) || (await relays.get(key))) return idle
    return relays.add({ key, session: 's', answers, created_at: side.clock.at })
  }),
  getClient: verb({ nth }, (side, { nth }) => side.store.relays.get(keyOf(side, nth))),
  note: verb(
    { nth, source: maybe(fc.constant('a')), refusal: maybe(fc.constant('window_closed')) },
    (side, { nth, ...note }) =>
      side.store.relays.note(keyOf(side, nth), filled({ ...note, polled_at: side.clock.at })),
  ),
}

const lineOf = ({ notes: { lines } }: Here, nth: number) => lines.at(-1 - nth) ?? 0
const operation = fc.constantFrom('send', 'rename')

const audit = {
  addLine: verb(
    {
      principal: maker,
      operation,
      ...{ subject: maybe(fc.constantFrom('s', 'u')), outcome: maybe(fc.constantFrom('done', 'denied')) },
      ...{ address: maybe(fc.constant('::1')), count: maybe(fc.constant(3)) },
    },
    async (side, { principal, ...more }) => {
      const line = filled({ at: side.clock.at, principal: makerOf(side, principal), ...more })
      side.notes.lines.push(await side.store.audit.add(line))
    },
    3,
  ),
  settle: verb(
    { nth, outcome: fc.constantFrom('done', 'internal'), subject: maybe(fc.constant('t')) },
    (side, { nth, outcome, subject }) => side.store.audit.settle(lineOf(side, nth), outcome, subject),
    2,
  ),
  listLines: verb(
    {
      ...{
        after: maybe(nth),
        before: maybe(nth),
        agoMs: maybe(agoMs),
        operations: maybe(fc.array(operation, { minLength: 1, maxLength: 2 })),
      },
      outcome: maybe(fc.constantFrom('done', 'open', 'denied', 'failed')),
      principals: maybe(fc.array(maker, { maxLength: 3 })),
      limit: fc.integer({ min: 1, max: 5 }),
    },
    async (side, { after, before, agoMs, principals, ...more }) => {
      const lines = await side.store.audit.list(
        filled({
          ...more,
          after: after === undefined ? undefined : lineOf(side, after),
          before: before === undefined ? undefined : lineOf(side, before),
          since: agoMs === undefined ? undefined : side.clock.at - agoMs,
          principals: principals?.map(one => makerOf(side, one)),
        }),
      )
      return lines.map(one => shownLine(side, one))
    },
    2,
  ),
  removeLines: verb({ agoMs }, ({ store, clock }, { agoMs }) =>
    store.maintenance.removeOld('line', clock.at - agoMs),
  ),
} satisfies Record<
  'addLine' | 'settle' | 'listLines' | 'removeLines' | Exclude<keyof AuditStore, 'add' | 'list' | 'settle'>,
  Verb<Notes>
>

/** Numbers of lines may have gaps. Those of sends are made by the store. */
const shownLine = ({ notes }: Here, { id, ...line }: Awaited<ReturnType<AuditStore['list']>>[number]) => ({
  ...line,
  nth: notes.lines.indexOf(id),
})

const backups = {
  addBackup: verb({ path, size: nth }, ({ store, clock }, { path, size }) =>
    store.backups.add({ path, created_at: clock.at, size, took_ms: 3 }),
  ),
  removeBackups: verb({ paths: fc.uniqueArray(path, { maxLength: 2 }) }, ({ store }, { paths }) =>
    store.backups.remove(paths),
  ),
  fail: verb({ error: fc.constantFrom('full', 'slow') }, ({ store, clock }, { error }) =>
    store.backups.fail({ at: clock.at, error }),
  ),
  listBackups: verb({}, ({ store }) => store.backups.list()),
  getFailure: verb({}, ({ store }) => store.backups.getFailure()),
} satisfies Record<
  'addBackup' | 'removeBackups' | 'listBackups' | Exclude<keyof BackupStore, 'add' | 'remove' | 'list'>,
  Verb<Notes>
>

const around = {
  timePasses: timePasses(500, 1000, 60_000),
  addWebhook: verb(
    { made_by: maker },
    (side, { made_by }) => {
      const id = `w${++side.notes.count}`
      const more = { position: '', created_at: side.clock.at, made_by: makerOf(side, made_by) }
      return side.store.webhooks.add(webhook(id, more))
    },
    2,
  ),
  resumeWebhook: verb({ nth }, async ({ store }, { nth }) => {
    const all = await store.webhooks.list()
    const one = all[nth % Math.max(1, all.length)]
    return one ? store.webhooks.change(one.id, { disabled: undefined, paused: false }) : idle
  }),
  send: verb(
    {
      made_by: maker,
      mode: fc.constantFrom('queue' as const, 'fail' as const),
      asked: rarely,
      isOther: rarely,
    },
    async (side, { made_by, mode, asked, isOther }) => {
      const sent = outgoing(`sent${++side.notes.count}`)
      const part = { kind: 'text' as const, ...(mode === 'queue' && { waiting: { message: sent } }) }
      const entry = {
        session: 's',
        bot_id: 'b',
        user: 'u',
        mode,
        made_by: makerOf(side, made_by),
        address: '::2',
        parts: [part],
      }
      const { state } = await storeOf(side, isOther).outbox.enqueue(
        { ...entry, ...(asked && mode === 'queue' && { asked: mode }) },
        open,
        mode === 'fail' ? sent : undefined,
      )
      return state
    },
    2,
  ),
  approve: verb(
    { by: maker },
    async (side, { by }) => {
      const entry = (await side.store.outbox.list()).find(one => one.asked)
      return entry ? (await side.store.outbox.approve(entry.id, open, makerOf(side, by)))?.state : idle
    },
    3,
  ),
}

async function state(side: Here) {
  const { store } = side
  const [keys, clients, consumers, lines, backups, failure, webhooks, entries, events, rows] =
    await Promise.all([
      store.keys.list(),
      store.relays.list(),
      store.backlog.listLags(50),
      store.audit.list({ limit: 500 }),
      store.backups.list(),
      store.backups.getFailure(),
      store.webhooks.list(),
      store.outbox.list(),
      eventsOf(store),
      store.log.listAfter(0, { limit: 500 }),
    ])
  return {
    ...{ keys, clients, consumers, backups, failure, webhooks },
    rows: rows.map(({ message_id: _, ...row }) => row),
    lines: lines.map(one => shownLine(side, one)),
    entries: entries.map(({ asked, expires_at, made_by, made_by_name, parts }) => [
      { asked, expires_at, made_by, made_by_name },
      parts.map(({ status, error }) => [status, error?.code]),
    ]),
    events: events.map(({ data, ...event }) => ({
      ...event,
      data: data && { ...data, id: undefined },
    })),
  }
}

export const compareKeys = () =>
  compare({
    notes: (): Notes => ({ keys: [], lines: [], revision: 0, count: 0 }),
    verbs: { ...around, ...keys, ...relays, ...audit, ...backups },
    ...{ state, isAlone: true },
  })
