/** What the engine in memory keeps: arrays of records, walked through. Several stores over one `Tables` are as several processes. */
import { hasMessage, type Scope } from '../../src/model/access.ts'
import type { AuditLine } from '../../src/model/audit.ts'
import { SvcError } from '../../src/model/error.ts'
import { sessionKeyOf, type UserContext } from '../../src/model/session.ts'
import { nameKeyOf } from '../../src/model/user-name.ts'
import type { LoggedEvent } from '../../src/storage/events.ts'
import type { StoredKey } from '../../src/storage/keys.ts'
import type { StoredLogin } from '../../src/storage/logins.ts'
import type { StoredMessage } from '../../src/storage/messages.ts'
import type * as outbox from '../../src/storage/outbox.ts'
import type { SessionRecord } from '../../src/storage/state.ts'
import type { Webhook, WebhookLane, WebhookTry } from '../../src/storage/webhooks.ts'

export type Row = Omit<StoredMessage, 'user_name' | 'peer'> & {
  user: string
  stored_at: number
  hash?: string
}
export type Event = Omit<LoggedEvent, 'cursor'> & {
  place: number
  session?: string
  user?: string
  bot?: string
  hidden: boolean
}
export interface Consumer {
  name: string
  /** Rows up to here were there before it. */
  start: number
  /** Ids of rows that it was given, and of one that acknowledges those that are dealt with. */
  given: Set<number>
  done?: Set<number>
}
export interface Leased {
  consumer: string
  row: number
  lease: number
  until: number
  unseen?: boolean
}
export type Part = outbox.EntryPart & {
  botId: string
  beganAt: number
  maker: Pick<outbox.NewEntry, 'made_by' | 'address'>
}
export type Entry = Omit<outbox.StoredEntry, 'parts'> & {
  key?: string
  owner: object
  endedAt?: number
  parts: Part[]
}
export type Lane = outbox.OutboxLane & { owner?: object; until: number }

export type Session = Required<Pick<SessionRecord, 'name' | 'bot'>>

export class Tables {
  sessions: Session[] = []
  /** Names of those that were changed, oldest first. */
  changedSessions: string[] = []
  chosen: Session | undefined
  contexts: { session: string; user: string; context: UserContext }[] = []
  logins: { login: StoredLogin; owner?: object }[] = []
  /** Until when: codes that sign in, and sign-ins that were ended. */
  readonly links = new Map<string, number>()
  readonly signedOut = new Map<string, number>()
  rows: Row[] = []
  keys: (StoredKey & { revision: number })[] = []
  keyRevision = 0
  audit: (AuditLine & { message?: number })[] = []
  names: { session: string; user: string; name: string }[] = []
  marks: { session: string; user: string; upTo: number; reader: string | undefined }[] = []
  consumers: Consumer[] = []
  leased: Leased[] = []
  events: Event[] = []
  readonly readers = new Map<string, { cursor: string; seenAt: number }>()
  webhooks: { webhook: Webhook; lanes: WebhookLane[]; tries: WebhookTry[]; deliverer?: object }[] = []
  entries: Entry[] = []
  lanes: Lane[] = []
  slots: { session: string; user: string; at: number }[] = []
  /** Counted on for ever; `gone`: the place of the newest event that is not kept. */
  readonly last = { row: 0, lease: 0, entry: 0, lane: 0, place: 0, gone: 0, audit: 0 }
  readonly id = `memory${Math.random().toString(36).slice(2)}`
  /** Who polls. */
  holder?: object
  readonly #waiting = new Set<() => void>()

  wake(): void {
    for (const end of [...this.#waiting]) end()
  }

  /** Until `wake`. */
  sleep(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise<void>(resolve => {
      const end = () => {
        clearTimeout(timer)
        this.#waiting.delete(end)
        signal.removeEventListener('abort', end)
        resolve()
      }
      const timer = setTimeout(end, ms)
      this.#waiting.add(end)
      signal.addEventListener('abort', end)
    })
  }

  insert(row: Omit<Row, 'id'>): Row {
    const whole = { ...row, id: ++this.last.row }
    this.rows.push(whole)
    const { bot_id: bot, direction, past, session, status, stored_at: at, user } = row
    const hidden = past === true || status === 'accepted'
    if (direction === 'received' || hidden)
      this.happened({ type: 'message.received', at, message: whole.id, session, user, bot, hidden })
    return whole
  }

  happened(event: Omit<Event, 'place'>): void {
    this.events.push({ ...event, place: ++this.last.place })
    this.wake()
  }

  /** That of a user, made where there is none. */
  lane(session: string, user: string): Lane {
    const found = this.lanes.find(isOf(session, user))
    if (found) return found
    const lane = { id: ++this.last.lane, session, user, counter: { used: 0 }, not_before: 0, failures: 0 }
    this.lanes.push({ ...lane, until: 0, busy: false })
    return this.lanes.at(-1)!
  }

  /** That a principal acts with. */
  keyOf(principal: string | undefined): StoredKey | undefined {
    return this.keys.find(({ id }) => id === principal?.split(':')[1])
  }

  row(id: number | undefined): Row | undefined {
    return this.rows.find(row => row.id === id)
  }

  called(messageId: string): Row | undefined {
    return this.rows.find(row => row.message_id === messageId)
  }

  rename(from: string, to: string): void {
    // What a session that was logged out under the new name left behind joins this one's.
    for (const { id, user } of this.lanes.filter(isOf(to))) {
      const own = this.lanes.find(isOf(from, user)) ?? { id }
      for (const part of this.entries.flatMap(({ parts }) => parts)) if (part.lane === id) part.lane = own.id
      if (own.id !== id) this.lanes = this.lanes.filter(lane => lane.id !== id)
    }
    const names = this.names.filter(isOf(from)).map(({ name }) => nameKeyOf(name))
    const isLost = (one: { session: string; name: string }) =>
      isOf(to)(one) && names.includes(nameKeyOf(one.name))
    this.names = this.names.filter(
      one => !isLost(one) && !this.names.some(own => isOf(from, one.user)(own) && isOf(to)(one)),
    )
    const of = [this.contexts, this.rows, this.names, this.marks, this.lanes, this.slots, this.entries].flat()
    const events = this.events.filter(({ message }) => message !== undefined)
    const webhooks = this.webhooks.flatMap(({ webhook, lanes }) => [webhook, ...lanes])
    for (const one of [...of, ...events, ...webhooks]) if (isOf(from)(one)) one.session = to
    for (const { webhook } of this.webhooks) webhook.epoch += 1
  }
}

/** Whether a record is of that session, and that user if one is given; undefined is anybody. */
export function isOf(session: string | undefined, user?: string) {
  const key = session === undefined ? undefined : sessionKeyOf(session)
  const isIt = (name: string | undefined) =>
    key === undefined || name === session || (name !== undefined && sessionKeyOf(name) === key)
  return (one: { session?: string; user?: string }) =>
    (user === undefined || one.user === user) && isIt(one.session)
}

/** Whether a row is in a scope, if one is given. */
export const isIn = (scope: Scope | undefined) => (row: Pick<Row, 'bot_id' | 'user'>) =>
  !scope || hasMessage(scope, row.bot_id, row.user)

export const closed = () => new SvcError('shutting_down', 'the message store is closed')

const apart = <T>(value: T): T => (value instanceof AbortSignal ? value : structuredClone(value))

/** Verbs as callers have them: refused once closed; what goes in and out is a copy. */
export const verbs = <T extends object>(part: T, isClosed = () => false): T =>
  new Proxy(part, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name)
      if (typeof member !== 'function') return member instanceof Object ? verbs(member, isClosed) : member
      return async (...args: unknown[]) => {
        if (isClosed()) throw closed()
        return apart(await member.apply(target, args.map(apart)))
      }
    },
  })

/** Texts are kept as what can be searched. */
export const wellFormed = (text: string): string => text.toWellFormed().replaceAll('\0', '\ufffd')
