/** What the tests of every engine share: they know its public verbs alone. */
import { createHash } from 'node:crypto'
import type { SendRules } from '../../src/model/admission.ts'
import type { BotInfo } from '../../src/model/session.ts'
import { type Clock, systemClock } from '../../src/platform/clock.ts'
import type { Sql } from '../../src/platform/sql.ts'
import { lastRowId } from '../../src/storage/log-rows.ts'
import type { ReceivedMessage, SentMessage } from '../../src/storage/messages.ts'
import type { BegunMessage } from '../../src/storage/outbox.ts'
import type { Ingested, Storage } from '../../src/storage/storage.ts'
import type { Store } from '../../src/storage/store.ts'
import type { NewWebhook } from '../../src/storage/webhooks.ts'

/** The storage of one process. */
export interface Running {
  storage: Storage
  /** Its store. */
  readonly store: Store
}

/** A storage with the clock that it goes by. */
export interface Opened extends Running, AsyncDisposable {
  /** `at` moves with the time that passes, `off` is how far the clock on the wall was set ahead. */
  readonly clock: Clock & { at: number; off: number }
  /** Log lines so far. */
  readonly lines: string[]
  /** The id of the nth row of the log or of another table, from 1. Tests name ids by it, so that they hold for high ones too. */
  id(nth: number): number
  /** Closes and opens it again, as a restarted service does. */
  reopen(): Promise<void>
  /** The log of an empty store goes on after this row id, as after years, and so do the ids of other tables. */
  continueAfter(id: number): Promise<void>
  /** All rows of all tables: pairs of a table and its rows, as JSON. */
  dump(): Promise<string>
  /** Executes a statement on the tables, which no method of svc does. @returns its rows */
  query(statement: Sql): Promise<Record<string, unknown>[]>
  /** The same content once more, as another process has it. */
  second(): Promise<Running & AsyncDisposable>
}

/** As after years: ids are past 2^31, and places of events near 2^53. */
export const lateId = lastRowId - 1_000_000

/** Which row of its table an id is, from 1: 7 for `t.id(7)`. What is no number stays, such as `duplicate`. */
export const nthOf = <T>(id: T): T => (typeof id === 'number' && id > lateId ? ((id - lateId) as T) : id)

/** Where an engine keeps what several processes share. */
export interface Place {
  /** The storage of this process, closed at the end of its block. */
  open(): Promise<Storage & AsyncDisposable>
  /**
   * Another process that runs `body`, with the storage by the clock of the system, its `store`, `insert` of the tests, and `hold`,
   * which does not end, at hand. It ends with the test at the latest. Call `open` before it.
   */
  start(body: string): Bun.Subprocess<'pipe', 'pipe', 'inherit'>
  /** Every process that had the place open was killed: resolves when the engine knows, which else takes it seconds. */
  noticeDeaths(): Promise<void>
}

export function testClock(): Opened['clock'] {
  const clock = {
    ...systemClock,
    at: 1_800_000_000_000,
    off: 0,
    now: () => clock.at + clock.off,
    monotonic: () => clock.at + performance.now(),
  }
  return clock
}

/** The row of that id, if there is one. */
export const byId = async ({ log }: Store, id: number) => (await log.getByIds([id]))[0]
export const byMessageId = async ({ log }: Store, id: string) => (await log.getByMessageIds([id])).rows[0]

/** Everything may go. */
export const open: SendRules = { quota: 1e9, windowMs: 1e15, pace: 'off', patienceMs: 30_000 }

/** A call of send whose message is on its way. */
export async function sending(
  store: Store,
  session: string,
  bot_id: string,
  message: SentMessage,
  more: { key?: string; rules?: SendRules; made_by?: string } = {},
): Promise<BegunMessage> {
  const { rules = open, key, made_by = 'owner' } = more
  const entry = {
    session,
    bot_id,
    user: message.to_user,
    mode: 'fail',
    made_by,
    parts: [{ kind: 'text' }],
  } as const
  const enqueued = await store.outbox.enqueue(key === undefined ? entry : { ...entry, key }, rules, message)
  if (enqueued.state !== 'new' || !enqueued.begun)
    throw new Error(`not on its way: ${JSON.stringify(enqueued)}`)
  return enqueued.begun
}

let count = 0

/** A received message; unlike every other one unless told otherwise. */
export function message(text: string, more: Partial<ReceivedMessage> = {}): ReceivedMessage {
  count += 1
  return {
    message_id: String(9_300_000_000_000_000_000n + BigInt(count)),
    derived_id: '',
    from_user: 'u@im.wechat',
    msg_type: 'TEXT',
    text,
    // Never a whole second, in which two equal messages are both real.
    timestamp: 1_800_000_000_001 + 2 * count,
    timed: true,
    contentHash: createHash('sha256').update(text).digest('base64url'),
    raw: JSON.stringify({ text, count }),
    ...more,
  }
}

/** A text to send, which is its id too unless told otherwise. */
export const outgoing = (text: string, more: Partial<SentMessage> = {}): SentMessage => ({
  client_id: text,
  to_user: 'u',
  msg_type: 'TEXT',
  text,
  timestamp: 1,
  raw: '{}',
  ...more,
})

/**
 * Takes in a polled batch of a bot that is not logged in, as what comes late of one that was.
 *
 * @returns the row ids of its messages
 */
export async function insert(
  { storage }: Pick<Running, 'storage'>,
  messages: readonly ReceivedMessage[],
  session = 's',
  botId = 'b',
): Promise<Ingested['rows']> {
  const { rows } = await storage.ingest({
    id: crypto.randomUUID(),
    session,
    token: 'of nobody',
    botId,
    cursorFrom: '',
    cursorTo: '',
    messages: messages.map(one => ({ ...one, repeated: { received_at: one.timestamp } })),
    now: 1_800_000_000_000,
  })
  return rows
}

/** A webhook endpoint. */
export const webhook = (id: string, more: Partial<NewWebhook> = {}): NewWebhook => ({
  id,
  url: `https://example.org/${id}`,
  types: [],
  headers: {},
  secrets: [{ secret: 'whsec_AA==' }],
  link_key: 'k',
  allow_private: false,
  replies: false,
  created_at: 1,
  position: 'at-7',
  ...more,
})

/** Credentials of a bot. */
export const bot = (name: string, more: Partial<BotInfo> = {}): BotInfo => ({
  bot_id: `${name}@im.bot`,
  token: `${name}@im.bot:secret`,
  base_url: 'https://upstream.example',
  cursor: '',
  created_at: 1000,
  ...more,
})

/** Gives a session another name, and logs it in before if nobody did; one that has the new name is logged out. */
export async function rename({ storage }: Pick<Running, 'storage'>, from: string, to: string): Promise<void> {
  const { sessions } = storage.state
  if (!(await sessions.get(from))) await sessions.save(from, bot(from, { bot_id: 'b' }))
  if (await sessions.get(to)) await sessions.remove(to)
  await sessions.rename(from, to)
}

/** One without an upstream id. */
export const nameless = (derived: string, text = 'x') => {
  const { message_id: _, ...rest } = message(text, { derived_id: `derived:${derived}` })
  return rest
}

/** A text may be written in several forms: what is looked for is found in each. */
export const formsOf = (needle: string): string[] => [
  needle,
  needle.normalize('NFC'),
  needle.normalize('NFD'),
]
