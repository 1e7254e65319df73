/**
 * One polled batch by the inbox law: messages durably into the store, then context tokens, then the cursor
 * (`Storage.ingest`). What cannot be stored stays in memory and is tried again, so the cursor never passes what is not on
 * disk.
 */
import type { ReceivedWire, Updates } from '../ilink/api.ts'
import { derivedId, isFromUser, summary, unreadSummary } from '../ilink/decode.ts'
import type { BotInfo, Marks } from '../model/session.ts'
import { backoffMs, type Clock, turns } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { PolledMessage } from '../storage/messages.ts'
import type { PolledSessions, SessionRecord } from '../storage/state.ts'
import type { Storage } from '../storage/storage.ts'
import type { Wait } from './watchdog.ts'
import { writtenAt } from './written-at.ts'

export interface BatchPorts {
  sessions: PolledSessions
  ingest: Storage['ingest']
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
  sessions: PolledSessions,
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
    if (!message) throw new Error('it is too large')
    const told = summary(message, receivedAt)
    return { ...told, derived_id: told.message_id === undefined ? derivedId(message) : '', raw }
  } catch (error) {
    log.error('a received message cannot be read; it is stored as it is', { error })
    const told = unreadSummary(raw, receivedAt)
    return { ...told, derived_id: `derived:${told.contentHash}`, raw }
  }
}

interface Batch {
  id: string
  receivedAt: number
  messages: PolledMessage[]
}

async function batchOf({ bot, updates, clearAt, clock, log }: Polled): Promise<Batch> {
  const receivedAt = clock.now()
  // Whole milliseconds, as all times on disk; the other clock counts their parts.
  const earliest = clearAt === undefined ? undefined : Math.floor(receivedAt - (clock.monotonic() - clearAt))
  const messages: PolledMessage[] = []
  const turn = turns(clock)
  for (const one of updates.messages) {
    await turn()
    // The bot's own messages and those of other bots are not for readers (protocol notes 6, Filter).
    if (one.message && !isFromUser(one.message, bot.bot_id)) continue
    const told = toldOf(one, receivedAt, log)
    const stated = told.timed ? told.timestamp : undefined
    const written = (isNew: boolean) => writtenAt(stated, { now: receivedAt, earliest, isNew })
    messages.push({ ...told, written_at: written(true).received_at, repeated: written(false) })
  }
  return { id: crypto.randomUUID(), receivedAt, messages }
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
  const batch = await batchOf(polled)
  for (let failures = 0; ; failures++) {
    // When the service stops, a batch in hand gets one more try: upstream may not send it again.
    const last = stopping.aborted
    login.wait = { what: 'commit', dueAt: clock.monotonic() + commitGraceMs }
    try {
      return await taken(ports, login, polled, batch)
    } catch (error) {
      login.stuck = true
      log.error('batch not committed; it stays in memory and polling of this session waits', {
        ...{ error, messages: batch.messages.length },
      })
      if (last) return undefined
      await clock.sleep(backoffMs(failures, 250, 10_000), stopping)
    } finally {
      login.wait = undefined
    }
  }
}

/** Of the session, by whatever name it goes now. @returns undefined when it is gone */
async function taken(
  ports: BatchPorts,
  login: PolledLogin,
  { bot, cursor, log, marks, updates }: Polled,
  { id, messages, receivedAt }: Batch,
): Promise<string | undefined> {
  const next = updates.cursor ?? cursor
  const own = { id, token: bot.token, botId: bot.bot_id, cursorFrom: cursor, cursorTo: next }
  // Its name may have changed; not knowing that is no reason not to store.
  if (messages.length > 0) await currentSession(ports.sessions, login).catch(() => undefined)
  for (let renames = 0; renames < 10; renames++) {
    const { name } = login
    const { rows, cursor } = await ports.ingest({ ...own, session: name, messages, marks, now: receivedAt })
    const fresh = rows.filter(row => row !== 'duplicate').length
    if (rows.length > 0) log.debug('batch stored', { messages: rows.length, new: fresh })
    if (cursor === 'moved') {
      login.stuck = false
      return next
    }
    await currentSession(ports.sessions, login)
    if (login.name === name) break
  }
  return undefined
}
