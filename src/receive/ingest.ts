/**
 * Stores one polled batch in this order: messages (durable), context tokens, cursor (`Storage.ingest`). A
 * batch that cannot be stored stays in memory and is tried again, so the cursor never passes a message that
 * is not on disk.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Updates, WireMessage } from '../ilink/api.ts'
import { derivedIdOf, isFromUser, summaryOf, unreadSummaryOf } from '../ilink/decode.ts'
import { isSvcError } from '../model/error.ts'
import type { BotInfo, Marks } from '../model/session.ts'
import { backoffMs, type Clock, createYield } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { PolledMessage } from '../storage/messages.ts'
import type { PolledSessions, SessionRecord } from '../storage/state.ts'
import type { Storage } from '../storage/storage.ts'
import type { Wait } from './watchdog.ts'
import { resolveWrittenAt } from './written-at.ts'

export interface BatchPorts {
  sessions: PolledSessions
  ingest: Storage['ingest']
}

/** A login that is polled. Identified by its token, so renaming its session interrupts nothing. */
export interface PolledLogin {
  /** Last known name of the session. */
  name: string
  readonly token: string
  /** Whether a batch in memory cannot be committed. */
  isCommitStuck?: boolean
  /** What its loop is waiting for. */
  wait?: Wait
}

/** The result of a poll. */
export interface PollResult {
  bot: BotInfo
  /** The cursor that was sent with the poll. */
  cursor: string
  updates: Updates
  /** Monotonic time at which upstream held no message back. */
  clearAt?: number | undefined
  /** The state of the session after the poll; written together with the cursor. */
  marks?: Marks | undefined
  clock: Clock
  log: Log
}

/** One attempt to commit is overdue after this time. */
const commitGraceMs = 60_000

/** Returns the session that has this login now, also after a rename. */
export async function currentSession(
  sessions: PolledSessions,
  login: PolledLogin,
): Promise<SessionRecord | undefined> {
  const named = await sessions.get(login.name)
  if (named?.bot?.token === login.token) return named
  const moved = (await sessions.list()).find(record => record.bot?.token === login.token)
  if (moved) login.name = moved.name
  return moved
}

/** A session that a reader waits for: the name that it has now, and its account. */
interface FollowedSession {
  session: string
  bot?: string | undefined
}
export type SessionFollower = () => Promise<FollowedSession>

/** The list of sessions may be some seconds older than a single one: it is read again until this time is over. */
const listLag = { tries: 50, everyMs: 50 }

/**
 * Returns a function that returns the name that a session has now. A reader waits for one session: after a rename
 * it does not read another account that got the name. After a logout the session keeps its name, and a login of
 * another account under it is the same session.
 */
export function followSession(sessions: Pick<PolledSessions, 'get' | 'list'>, name: string): SessionFollower {
  const now: FollowedSession = { session: name }
  return async () => {
    for (let tries = listLag.tries; ; tries--) {
      const found = (await sessions.get(now.session))?.bot?.bot_id
      now.bot ??= found
      if (found === now.bot) break
      const moved = (await sessions.list()).find(({ bot }) => bot?.bot_id === now.bot)
      if (!moved || tries === 0) {
        now.bot = found ?? now.bot
        break
      }
      if (moved.name === now.session) await sleep(listLag.everyMs)
      now.session = moved.name
    }
    return { ...now }
  }
}

/**
 * Returns a message as it is stored. An unreadable message is stored too, and does not hold up its batch.
 */
function toStoredMessage({ raw, message }: WireMessage, receivedAt: number, log: Log) {
  try {
    if (!message) throw new Error('it is too large')
    const columns = summaryOf(message, receivedAt)
    return { ...columns, derived_id: columns.message_id === undefined ? derivedIdOf(message) : '', raw }
  } catch (error) {
    log.error('a received message cannot be read; it is stored as it is', { error })
    const columns = unreadSummaryOf(raw, receivedAt)
    return { ...columns, derived_id: `derived:${columns.contentHash}`, raw }
  }
}

interface Batch {
  id: string
  receivedAt: number
  messages: PolledMessage[]
}

async function batchOf({ bot, updates, clearAt, clock, log }: PollResult): Promise<Batch> {
  const receivedAt = clock.now()
  // Whole milliseconds, like all times on disk; the monotonic clock has fractions.
  const earliest = clearAt === undefined ? undefined : Math.floor(receivedAt - (clock.monotonic() - clearAt))
  const messages: PolledMessage[] = []
  const turn = createYield(clock)
  for (const received of updates.messages) {
    await turn()
    // Skips messages from bots, also this one (protocol notes 6, Filter).
    if (received.message && !isFromUser(received.message, bot.bot_id)) continue
    const stored = toStoredMessage(received, receivedAt, log)
    const stated = stored.timed ? stored.timestamp : undefined
    const writtenAtOf = (isNew: boolean) => resolveWrittenAt(stated, { now: receivedAt, earliest, isNew })
    messages.push({ ...stored, written_at: writtenAtOf(true).received_at, repeated: writtenAtOf(false) })
  }
  return { id: crypto.randomUUID(), receivedAt, messages }
}

/**
 * Stores a batch, then moves the cursor.
 *
 * @param run.stopping aborts when the service stops or the right to poll is lost. Not the loop's own signal:
 *   the messages of a session that is being logged out are stored all the same.
 * @param run.closing same as `PollRun.closing`
 * @returns the cursor for the next poll; undefined if this loop must end: the session was logged out or
 *   logged in again, or the service stops before the batch is stored (then the cursor stays before it)
 */
export async function ingest(
  ports: BatchPorts,
  login: PolledLogin,
  polled: PollResult,
  { stopping, closing }: { stopping: AbortSignal; closing: AbortSignal },
): Promise<string | undefined> {
  const { clock, log } = polled
  const batch = await batchOf(polled)
  for (let failures = 0; ; failures++) {
    // Then a batch in memory gets one more try: upstream may not send it again.
    const isStopping = stopping.aborted
    const isClosing = closing.aborted
    login.wait = { what: 'commit', dueAt: clock.monotonic() + commitGraceMs }
    try {
      return await commitBatch(ports, login, polled, batch)
    } catch (error) {
      login.isCommitStuck = true
      log.error('batch not committed; it stays in memory and polling of this session waits', {
        error,
        messages: batch.messages.length,
      })
      const isAway = isSvcError(error, 'store_unavailable')
      if (isClosing || (isStopping && !isAway)) return undefined
      await clock.sleep(backoffMs(failures, 250, 10_000), isStopping ? closing : stopping)
    } finally {
      login.wait = undefined
    }
  }
}

/** Stores the batch under the session's current name. @returns undefined if the session is gone */
async function commitBatch(
  ports: BatchPorts,
  login: PolledLogin,
  { bot, cursor, log, marks, updates }: PollResult,
  { id, messages, receivedAt }: Batch,
): Promise<string | undefined> {
  const next = updates.cursor ?? cursor
  const ids = { id, token: bot.token, botId: bot.bot_id, cursorFrom: cursor, cursorTo: next }
  // The session may have been renamed. If that cannot be read, store the messages all the same.
  if (messages.length > 0) await currentSession(ports.sessions, login).catch(() => undefined)
  for (let renames = 0; renames < 10; renames++) {
    const { name } = login
    const { rows, cursor } = await ports.ingest({ ...ids, session: name, messages, marks, now: receivedAt })
    const newRows = rows.filter(row => row !== 'duplicate').length
    if (rows.length > 0) log.debug('batch stored', { messages: rows.length, new: newRows })
    if (cursor === 'moved') {
      login.isCommitStuck = false
      return next
    }
    await currentSession(ports.sessions, login)
    if (login.name === name) break
  }
  return undefined
}
