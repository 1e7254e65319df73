/**
 * One polled batch by the inbox law: messages durably into the store, then context tokens, then the cursor; a later
 * step never happens without the earlier ones. What cannot be stored stays in memory and is tried again, so the cursor
 * never passes what is not on disk.
 */
import type { ReceivedWire, Updates } from '../ilink/api.ts'
import { derivedId, isFromUser, summary, unreadSummary } from '../ilink/decode.ts'
import type { BotInfo, Marks } from '../model/session.ts'
import { backoffMs, type Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { ReceivedMessage } from '../storage/messages.ts'
import type { BatchCommit, SessionRecord, Sessions } from '../storage/state.ts'
import type { Intake } from '../storage/store.ts'
import type { Wait } from './watchdog.ts'
import { writtenAt } from './written-at.ts'

export interface BatchPorts {
  sessions: Sessions
  intake: Pick<Intake, 'insertReceived'>
  /** Context tokens, then the cursor, in one hold of the data lock. */
  commit(batch: BatchCommit): Promise<'moved' | 'gone'>
}

/** A login that is polled. It goes by its token, so renaming its session interrupts nothing. */
export interface PolledLogin {
  /** Of the session, as far as known. */
  name: string
  readonly token: string
  /** A batch in hand cannot be committed. */
  stuck?: boolean
  /** What its loop waits for. */
  wait?: Wait
}

/** What a poll brought. */
export interface Polled {
  bot: BotInfo
  /** That it was polled with. */
  cursor: string
  updates: Updates
  /** Monotonic: upstream held nothing back then. */
  clearAt?: number | undefined
  /** How the session is by it; written with the cursor. */
  marks?: Marks | undefined
  clock: Clock
  log: Log
}

/** One try to commit is overdue after this. */
const commitGraceMs = 60_000

/** The session that has this login now, whatever it is called. */
export async function currentSession(
  sessions: Sessions,
  login: PolledLogin,
): Promise<SessionRecord | undefined> {
  const named = await sessions.get(login.name)
  if (named?.bot?.token === login.token) return named
  const moved = (await sessions.list()).find(record => record.bot?.token === login.token)
  if (moved) login.name = moved.name
  return moved
}

/** A message as it is stored. One that cannot be read is stored all the same, and holds none of its batch up. */
function toldOf({ raw, message }: ReceivedWire, receivedAt: number, log: Log) {
  try {
    const told = summary(message, receivedAt)
    return { ...told, derived_id: told.message_id === undefined ? derivedId(message) : '', raw }
  } catch (error) {
    log.error('a received message cannot be read; it is stored as it is', { error })
    const told = unreadSummary(raw, receivedAt)
    return { ...told, derived_id: `derived:${told.contentHash}`, raw }
  }
}

/** Rows of a batch, and who wrote each. */
interface Batch {
  receivedAt: number
  /** Unix ms before which none of it can have been written, where that is known. */
  earliest: number | undefined
  rows: ReceivedMessage[]
  senders: { row: number; user_id: string; token?: string }[]
  inbound: BatchCommit['inbound']
  stored: boolean
}

function batchOf({ bot, updates, clearAt, clock, log }: Polled): Batch {
  const receivedAt = clock.now()
  // Whole milliseconds, as all times on disk; the other clock counts their parts.
  const earliest = clearAt === undefined ? undefined : Math.floor(receivedAt - (clock.monotonic() - clearAt))
  const rows: ReceivedMessage[] = []
  const senders: Batch['senders'] = []
  for (const one of updates.messages) {
    // The bot's own messages and those of other bots are not for readers (protocol notes 6, Filter).
    if (!isFromUser(one.message, bot.bot_id)) continue
    const told = toldOf(one, receivedAt, log)
    const { timed, timestamp } = told
    const arrival = { now: receivedAt, earliest, isNew: true }
    rows.push({ ...told, written_at: writtenAt(timed ? timestamp : undefined, arrival).received_at })
    if (told.from_user) {
      const { from_user: user_id, contextToken: token } = told
      senders.push({ row: rows.length - 1, user_id, ...(token && { token }) })
    }
  }
  return { receivedAt, earliest, rows, senders, inbound: [], stored: rows.length === 0 }
}

/**
 * Stores a batch, then moves the cursor.
 *
 * @param stopping aborts when the service stops, or the right to poll is lost. Not the loop's own signal: messages of a
 *   session that is logged out meanwhile are to be stored all the same
 * @returns the cursor to poll with, or undefined when this loop must end: the session was logged out or logged in
 *   anew meanwhile, or the service stops with the batch unstored (then the cursor stands before it)
 */
export async function ingest(
  ports: BatchPorts,
  login: PolledLogin,
  polled: Polled,
  stopping: AbortSignal,
): Promise<string | undefined> {
  const { clock, log } = polled
  const batch = batchOf(polled)
  for (let failures = 0; ; failures++) {
    // When the service stops, a batch in hand gets one more try: upstream may not send it again.
    const last = stopping.aborted
    login.wait = { what: 'commit', dueAt: clock.monotonic() + commitGraceMs }
    try {
      if (!batch.stored) await store(ports, login, polled, batch)
      return await moved(ports, login, polled, batch)
    } catch (error) {
      login.stuck = true
      log.error('batch not committed; it stays in memory and polling of this session waits', {
        ...{ error, messages: batch.rows.length, stored: batch.stored },
      })
      if (last) return undefined
      await clock.sleep(backoffMs(failures, 250, 10_000), stopping)
    } finally {
      login.wait = undefined
    }
  }
}

async function store(ports: BatchPorts, login: PolledLogin, polled: Polled, batch: Batch): Promise<void> {
  const { bot, log } = polled
  const { earliest, receivedAt, rows, senders } = batch
  // Its name may have changed; not knowing that is no reason not to store.
  await currentSession(ports.sessions, login).catch(() => undefined)
  const results = await ports.intake.insertReceived(login.name, bot.bot_id, rows)
  batch.stored = true
  for (const { row, ...sender } of senders) {
    const { timed, timestamp } = rows[row]!
    const arrival = { now: receivedAt, earliest, isNew: results[row] !== 'duplicate' }
    batch.inbound.push({ ...sender, ...writtenAt(timed ? timestamp : undefined, arrival) })
  }
  const fresh = results.filter(result => result !== 'duplicate').length
  log.debug('batch stored', { messages: rows.length, new: fresh })
}

/** Moves the cursor of the session, by whatever name it goes now. @returns undefined when it is gone */
async function moved(
  ports: BatchPorts,
  login: PolledLogin,
  { bot, cursor, marks, updates }: Polled,
  { inbound, receivedAt }: Batch,
): Promise<string | undefined> {
  const next = updates.cursor ?? cursor
  const batch = { token: bot.token, cursorFrom: cursor, cursorTo: next, inbound, marks, now: receivedAt }
  for (let renames = 0; renames < 10; renames++) {
    const { name } = login
    if ((await ports.commit({ ...batch, session: name })) === 'moved') {
      login.stuck = false
      return next
    }
    await currentSession(ports.sessions, login)
    if (login.name === name) break
  }
  return undefined
}
