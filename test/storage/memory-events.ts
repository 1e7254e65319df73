/** The event log and the webhook endpoints of the engine in memory. */
import { badArgument, SvcError } from '../../src/model/error.ts'
import type { Clock } from '../../src/platform/clock.ts'
import {
  cursorNumberOf,
  type EventLog,
  isEventInScope,
  maxReaders,
  readerIdleMs,
} from '../../src/storage/events.ts'
import {
  hasFailures,
  maxTries,
  rotateSecrets,
  type WebhookConversation,
  type WebhookStore,
  type WebhookTry,
} from '../../src/storage/webhooks.ts'
import { type Event, isOf, type Tables } from './memory-tables.ts'

const tooMany = (waitMs: number) =>
  new SvcError('rate_limited', 'too many readers', { retryAfter: Math.ceil(waitMs / 1000) })

export function memoryEvents(db: Tables, clock: Clock): EventLog {
  const cursorOf = (place: number) => `${db.id}-${place}`
  const place = (cursor: string) => {
    const found = cursor === '' ? 0 : Number(/^\w{1,40}-(\d{1,16})$/.exec(cursor)?.[1])
    if (!Number.isSafeInteger(found)) throw badArgument('after', 'no cursor')
    return isOwn(cursor) ? found : 0
  }
  const isOwn = (cursor: string) => cursor.startsWith(`${db.id}-`)
  const lost = 'lost-0'
  const makeRoom = (reader: string) => {
    const keyOf = (name: string) => name.slice(0, name.indexOf('/') + 1)
    const kept = [...db.readers].filter(
      ([name, { cursor }]) => cursor !== lost && keyOf(name) === keyOf(reader),
    )
    const [name, longest] = kept.sort(([, a], [, b]) => b.seenAt - a.seenAt)[maxReaders - 1] ?? []
    if (name === undefined || !longest) return
    if (clock.now() - longest.seenAt < readerIdleMs)
      throw tooMany(longest.seenAt + readerIdleMs - clock.now())
    longest.cursor = lost
    const forgotten = [...db.readers].filter(([, { cursor }]) => cursor === lost)
    for (const [old] of forgotten.sort(([, a], [, b]) => b.seenAt - a.seenAt).slice(maxReaders))
      db.readers.delete(old)
  }
  return {
    async listAfter(cursor, { limit, scope, session, types, user, hidden }) {
      const [given, end] = [place(cursor), db.last.place]
      const asked = given > end ? 0 : given
      const found = db.events
        .filter(isOf(session, user))
        .filter(one => !scope || isEventInScope(scope, one.type, botOf(one), one.user))
        .filter(
          one =>
            one.place > asked &&
            (hidden || !one.hidden) &&
            (types?.includes(one.type) ?? (hidden || one.type !== 'audit.line')),
        )
      const shown = found.slice(0, limit)
      return {
        events: shown.map(({ hidden: _, place, session: _of, user: _by, bot: _bot, ...event }) => ({
          ...event,
          cursor: cursorOf(place),
        })),
        cursor: cursorOf(shown.length < found.length ? shown.at(-1)!.place : end),
        ...((given > end || (cursor !== '' && (asked < db.last.gone || !isOwn(cursor)))) && { gone: true }),
      }
    },
    async getHead(before) {
      if (before === undefined) return cursorOf(db.last.place)
      return cursorOf(db.events.findLast(({ at }) => at < before)?.place ?? 0)
    },
    async wait(seen, ms, signal) {
      if (!signal.aborted && cursorOf(db.last.place) === seen) await db.sleep(ms, signal)
    },
    async append(events, seen) {
      const since = db.events.filter(
        one => seen !== undefined && one.place > place(seen) && one.type.startsWith('session.'),
      )
      if (events.some(event => 'session' in event && since.some(isOf(event.session)))) return false
      for (const event of events) db.happened({ ...event, at: clock.now(), hidden: false })
      return true
    },
    async getPosition(reader) {
      const known = db.readers.get(reader)
      if (known) known.seenAt = clock.now()
      return known?.cursor
    },
    async setPosition(reader, cursor) {
      const to = cursorOf(place(cursor))
      if ((db.readers.get(reader)?.cursor ?? lost) === lost) makeRoom(reader)
      db.readers.set(reader, { cursor: to, seenAt: clock.now() })
    },
  }
}

const botOf = ({ bot, data = {} }: Event) => bot ?? ('bot_id' in data ? String(data.bot_id) : undefined)

/** What was before the oldest message goes, but for the newest of each type of each session. */
export function pruneEvents(db: Tables): void {
  const from = db.rows[0]?.stored_at ?? Number.POSITIVE_INFINITY
  const isNewest = (one: Event) =>
    one.type.startsWith('session.') &&
    db.events.findLast(other => other.type === one.type && isOf(one.session)(other)) === one
  db.last.gone = db.events.findLast(({ at }) => at < from)?.place ?? db.last.gone
  db.events = db.events.filter(one => one.at >= from || isNewest(one))
}

export function memoryWebhooks(db: Tables): WebhookStore {
  const of = (id: string) => db.webhooks.find(({ webhook }) => webhook.id === id)
  const me = {}
  const isLane = ({ session, user }: WebhookConversation) => isOf(session, user)
  const change = (id: string, work: (kept: Tables['webhooks'][number]) => void) => {
    const kept = of(id)
    if (kept) work(kept)
    db.wake()
    return kept !== undefined
  }
  return {
    list: async () => db.webhooks.map(({ webhook }) => webhook),
    get: async id => of(id)?.webhook,
    async add(given) {
      const fresh = { paused: false, epoch: 0, tries: { done: 0, failed: 0, gave_up: 0 } }
      db.webhooks.push({ webhook: { ...given, ...fresh }, lanes: [], tries: [] })
      db.wake()
    },
    change: async (id, { rotation, ...wanted }) =>
      change(id, kept => {
        const { webhook } = kept
        const retries = wanted.paused === false && hasFailures(webhook, kept.lanes)
        Object.assign(webhook, wanted, rotation && { secrets: rotateSecrets(webhook.secrets, rotation) })
        if (!retries) return
        Object.assign(webhook, { epoch: webhook.epoch + 1, next_try_at: undefined })
        kept.lanes = kept.lanes.map(lane =>
          lane.trouble ? { ...lane, trouble: { ...lane.trouble, retry_at: 0 } } : lane,
        )
      }),
    rewind: async (id, position, replayed) =>
      change(id, kept => {
        kept.lanes = kept.lanes.filter(lane => cursorNumberOf(lane.position) < cursorNumberOf(position))
        const again = { epoch: kept.webhook.epoch + 1, next_try_at: undefined }
        Object.assign(kept.webhook, { replayed, position, ...again })
      }),
    remove: async id =>
      change(id, kept => {
        db.webhooks = db.webhooks.filter(one => one !== kept)
      }),
    progress: {
      async takeOver() {
        for (const kept of db.webhooks) {
          const { epoch } = kept.webhook
          Object.assign(kept.webhook, {
            epoch: kept.deliverer === me ? epoch : epoch + 1,
            next_try_at: undefined,
          })
          kept.deliverer = me
        }
      },
      listLanes: async id => of(id)?.lanes ?? [],
      async save(id, { epoch, position, lanes, ended, tries, health }) {
        const kept = of(id)
        if (kept?.webhook.epoch !== epoch) return false
        const { last_success_at = kept.webhook.last_success_at } = health
        const cleared = { failing_since: undefined, last_error: undefined, last_error_code: undefined }
        Object.assign(kept.webhook, {
          position,
          ...cleared,
          next_try_at: undefined,
          ...health,
          last_success_at,
        })
        const isOver = (lane: WebhookConversation) => [...lanes, ...ended].some(isLane(lane))
        kept.lanes = [...kept.lanes.filter(lane => !isOver(lane)), ...lanes]
        putTries(kept, tries)
        return true
      },
      addTry: async (id, one) => change(id, kept => putTries(kept, [one])),
      listTries: async (id, limit, outcome) =>
        (of(id)?.tries ?? [])
          .filter(one => outcome === undefined || one.outcome === outcome)
          .reverse()
          .slice(0, limit),
    },
  }
}

function putTries(kept: Tables['webhooks'][number], tries: readonly WebhookTry[]): void {
  const counts = { ...kept.webhook.tries }
  for (const { outcome } of tries) counts[outcome] += 1
  kept.webhook.tries = counts
  const all = [...kept.tries, ...tries]
  kept.tries = all.filter(
    (one, nth) =>
      all.slice(nth + 1).filter(({ outcome }) => outcome === one.outcome).length < maxTries[one.outcome],
  )
}
