/** Random steps of webhook endpoints and their progress (`src/storage/webhooks.ts`). */
import fc from 'fast-check'
import {
  maxTries,
  tryOutcomes,
  type WebhookProgressStore,
  type WebhookStore,
} from '../../../src/storage/webhooks.ts'
import { webhook } from '../support.ts'
import {
  compare,
  filled,
  idle,
  maybe,
  renames,
  type Side,
  timePasses,
  type Verb,
  verbsOf,
} from './compare.ts'

interface Notes {
  ids: string[]
  count: number
}
type Here = Side<Notes>
const verb = verbsOf<Notes>()

const session = fc.constantFrom('s', 't')
const user = fc.constantFrom('u', 'v', '')
const nth = fc.nat(3)
const position = fc.nat(9).map(number => `at-${number}`)
const outcome = fc.constantFrom(...tryOutcomes)
const idOf = ({ notes }: Here, nth: number) => notes.ids[nth % Math.max(1, notes.ids.length)] ?? 'none'
/** A field that a change names: with a value, or as undefined. */
const given = <T>(name: string, value: fc.Arbitrary<T>): fc.Arbitrary<object> =>
  fc.oneof(
    fc.constant({}),
    fc.constant({ [name]: undefined }),
    value.map(value => ({ [name]: value })),
  )
const anyOf = (fields: Record<string, fc.Arbitrary<unknown>>) =>
  fc
    .tuple(...Object.entries(fields).map(([name, value]) => given(name, value)))
    .map(all => Object.assign({}, ...all) as object)
const health = {
  last_success_at: fc.nat(9),
  failing_since: fc.nat(9),
  last_error: fc.constantFrom('down', 'late'),
  last_error_code: fc.constantFrom('timeout', 'http_status'),
  next_try_at: fc.nat(9),
}
const tried = fc.record({
  outcome,
  event: position,
  status: maybe(fc.constantFrom(200, 500)),
  detail: maybe(fc.constant('x')),
  code: maybe(fc.constant('timeout' as const)),
  answer: maybe(fc.constant('no')),
})
const attempt = ({ notes, clock }: Here, more: object) =>
  filled({
    at: clock.at,
    type: 'message.received',
    took_ms: ++notes.count,
    event: 'at-1',
    outcome: 'done' as const,
    ...more,
  })

const webhooks = {
  list: verb({}, ({ store }) => store.webhooks.list()),
  get: verb({ nth }, (side, { nth }) => side.store.webhooks.get(idOf(side, nth))),
  add: verb(
    {
      session: maybe(session),
      user: maybe(fc.constantFrom('u', 'v')),
      made_by: maybe(fc.constantFrom('owner', 'key:a', 'key:b')),
      grant: maybe(fc.constant({ rights: ['history' as const], users: ['u'] })),
      ...{
        types: fc.subarray(['message.received', 'audit.line']),
        replies: fc.boolean(),
        position,
        created_at: fc.nat(3),
      },
    },
    async ({ store, notes }, more) => {
      const id = `w${++notes.count}`
      await store.webhooks.add(webhook(id, filled({ headers: { 'X-Key': id }, ...more })))
      notes.ids.push(id)
    },
    2,
  ),
  change: verb(
    {
      nth,
      paused: maybe(fc.boolean()),
      change: anyOf({
        ...health,
        disabled: fc.constantFrom({ reason: 'x', at: 3 }, { reason: 'gone', code: 'gone' as const, at: 4 }),
        rotation: fc.record({ secret: fc.constantFrom('whsec_BB==', 'whsec_CC=='), until: fc.nat(9) }),
      }),
    },
    (side, { nth, paused, change }) =>
      side.store.webhooks.change(idOf(side, nth), { ...(paused !== undefined && { paused }), ...change }),
    4,
  ),
  rewind: verb({ nth, position, replayed: position }, (side, { nth, position, replayed }) =>
    side.store.webhooks.rewind(idOf(side, nth), position, replayed),
  ),
  remove: verb({ nth }, (side, { nth }) => side.store.webhooks.remove(idOf(side, nth))),
} satisfies Record<Exclude<keyof WebhookStore, 'progress'>, Verb<Notes>>

const progress = {
  takeOver: verb({ held: maybe(fc.boolean()) }, ({ store, notes }, { held }) =>
    store.webhooks.progress.takeOver(held === undefined ? undefined : new Set(held ? notes.ids : [])),
  ),
  listLanes: verb({ nth }, (side, { nth }) => side.store.webhooks.progress.listLanes(idOf(side, nth))),
  save: verb(
    {
      nth,
      position,
      isLate: fc.nat(9).map(one => one === 0),
      lanes: fc.uniqueArray(
        fc.record({
          session,
          user,
          position,
          trouble: maybe(
            fc.record({ event: position, tries: fc.nat(3), failed_at: fc.nat(9), retry_at: fc.nat(9) }),
          ),
        }),
        { maxLength: 3, selector: ({ session, user }) => `${session} ${user}` },
      ),
      ended: fc.array(fc.record({ session, user }), { maxLength: 2 }),
      tries: fc.array(tried, { maxLength: 3 }),
      health: anyOf(health),
    },
    async (side, { nth, isLate, tries, lanes, ended, ...rest }) => {
      const id = idOf(side, nth)
      const { epoch = 0 } = (await side.store.webhooks.get(id)) ?? {}
      const isLane = (one: { session: string; user: string }) =>
        lanes.some(({ session, user }) => session === one.session && user === one.user)
      return side.store.webhooks.progress.save(id, {
        ...rest,
        lanes: lanes.map(filled),
        ended: ended.filter(one => !isLane(one)),
        epoch: isLate ? epoch - 1 : epoch,
        tries: tries.map(one => attempt(side, one)),
      })
    },
    4,
  ),
  addTry: verb({ nth, tried }, (side, { nth, tried }) =>
    side.store.webhooks.progress.addTry(idOf(side, nth), attempt(side, tried)),
  ),
  listTries: verb(
    { nth, limit: fc.integer({ min: 1, max: 5 }), outcome: maybe(outcome), event: maybe(position) },
    (side, { nth, limit, outcome, event }) =>
      side.store.webhooks.progress.listTries(idOf(side, nth), limit, outcome, event),
  ),
} satisfies Record<keyof WebhookProgressStore, Verb<Notes>>

const around = {
  timePasses: timePasses(1, 1000),
  /** So many that older ones are removed. */
  manyTries: verb(
    { nth, outcome: fc.constantFrom('done' as const, 'failed' as const) },
    async (side, { nth, outcome }) => {
      const id = idOf(side, nth)
      const { epoch } = (await side.store.webhooks.get(id)) ?? {}
      if (epoch === undefined) return idle
      const tries = Array.from({ length: maxTries[outcome] - 1 }, () => attempt(side, { outcome }))
      return side.store.webhooks.progress.save(id, {
        epoch,
        position: 'at-1',
        lanes: [],
        ended: [],
        tries,
        health: {},
      })
    },
  ),
  revoke: verb({ id: fc.constantFrom('a', 'b') }, ({ store, clock }, { id }) =>
    store.keys.revoke(id, clock.at),
  ),
  rename: renames(),
}

async function addKeys({ store }: Here) {
  for (const id of ['a', 'b'])
    await store.keys.add({
      ...{ id, name: id, hash: id.repeat(64), grant: { rights: ['webhooks'] }, can: ['webhooks'] },
      ...{ made_by: 'owner', created_at: 5 },
    })
}

async function state({ store, notes: { ids } }: Here) {
  const { webhooks } = store
  const { progress } = webhooks
  return {
    webhooks: await webhooks.list(),
    events: (await store.events.listAfter('', { limit: 1000, types: ['endpoint.disabled'] })).events.map(
      ({ cursor: _, ...event }) => event,
    ),
    progress: await Promise.all(
      ids.map(async id => ({
        lanes: (await progress.listLanes(id)).sort(byConversation),
        tries: await progress.listTries(id, 9),
      })),
    ),
  }
}
const byConversation = (one: { session: string; user: string }, other: { session: string; user: string }) =>
  `${one.session} ${one.user}` < `${other.session} ${other.user}` ? -1 : 1

export const compareWebhooks = () =>
  compare({
    notes: (): Notes => ({ ids: [], count: 0 }),
    verbs: { ...webhooks, ...progress, ...around },
    ...{ state, given: addKeys },
    // Where several processes deliver, an engine spreads the endpoints over them.
    isAlone: true,
  })
