/**
 * Polls every session at once and commits what arrives by the inbox law: messages durably into the store, then
 * context tokens, then the cursor; a later step never happens without the earlier ones.
 *
 * Sessions are independent loops: one that errs backs off alone. A batch that cannot be stored stays in memory and
 * is stored before that session polls again, so the cursor never passes what is not on disk.
 */

import type { Api, Updates } from '../ilink/api.ts'
import { derivedId, isFromUser, summary } from '../ilink/decode.ts'
import { isILinkError } from '../ilink/http.ts'
import type { BotInfo } from '../model/session.ts'
import { backoffMs, type Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { SessionRecord, Sessions } from '../state/sessions.ts'
import type { BatchCommit } from '../state/state.ts'
import type { ReceivedMessage, Store } from '../store/store.ts'

export interface PollerPorts {
  api: Api
  sessions: Sessions
  store: Store
  /** Context tokens, then the cursor, in one hold of the data lock. */
  commit(batch: BatchCommit): Promise<'moved' | 'gone'>
  account(bot: BotInfo): { base_url: string; token: string }
  clock: Clock
  log: Log
}

/** Upstream holds a poll about 35 s unless it says otherwise (protocol notes 2.4). */
const defaultHoldMs = 35_000
/** An expired token is tried again this often. */
const probeEveryMs = 30 * 60_000
/** Changes made by other processes are seen after this at the latest. */
const lookEveryMs = 1000
/** Answers without messages that come faster than this, three in a row, slow the loop down. */
const briskMs = 1000
/** The starts of many loops are spread by this, so that handshakes do not pile up. */
const staggerMs = 2

interface Follower {
  token: string
  stop: AbortController
  ended: Promise<void>
}

export class Poller {
  readonly #ports: PollerPorts
  readonly #followers = new Map<string, Follower>()
  readonly #lastPollAt = new Map<string, number>()
  #nudge = new AbortController()

  constructor(ports: PollerPorts) {
    this.#ports = ports
  }

  /** Unix ms of the last answer to a poll of that session. */
  lastPollAt(name: string): number | undefined {
    return this.#lastPollAt.get(name)
  }

  /** Looks at the session files now: something changed. */
  changed(): void {
    this.#nudge.abort()
  }

  /** Polls until `signal` aborts; then waits for the batches in hand to be committed. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log, sessions } = this.#ports
    signal.addEventListener('abort', () => this.#nudge.abort(), { once: true })
    while (!signal.aborted) {
      this.#nudge = new AbortController()
      try {
        this.#adjust(await sessions.list(), signal)
      } catch (error) {
        log.error('session files cannot be read', { error })
      }
      if (!signal.aborted) await clock.sleep(lookEveryMs, this.#nudge.signal)
    }
    for (const follower of this.#followers.values()) follower.stop.abort()
    await Promise.all([...this.#followers.values()].map(follower => follower.ended))
    this.#followers.clear()
  }

  #adjust(records: readonly SessionRecord[], signal: AbortSignal): void {
    const wanted = new Map(records.flatMap(({ name, bot }) => (bot ? [[name, bot.token]] : [])))
    for (const [name, follower] of this.#followers) {
      if (wanted.get(name) === follower.token) continue
      follower.stop.abort()
      this.#followers.delete(name)
      this.#lastPollAt.delete(name)
    }
    let started = 0
    for (const [name, token] of wanted) {
      if (this.#followers.has(name) || signal.aborted) continue
      const stop = new AbortController()
      const ended = this.#follow(name, token, stop.signal, started++ * staggerMs).catch(error => {
        // Only a bug ends here; the next look starts the loop again.
        this.#ports.log.error('poll loop failed', { session: name, error })
        if (this.#followers.get(name)?.token === token) this.#followers.delete(name)
      })
      this.#followers.set(name, { token, stop, ended })
    }
  }

  async #follow(name: string, token: string, signal: AbortSignal, delayMs: number): Promise<void> {
    const { api, clock, sessions, account } = this.#ports
    const log = this.#ports.log.child('', { session: name })
    if (delayMs > 0) await clock.sleep(delayMs, signal)
    const record = await sessions.get(name)
    if (signal.aborted || record?.bot?.token !== token) return
    const { bot } = record
    let expired = bot.expired_at !== undefined
    let cursor = bot.cursor
    let holdMs = defaultHoldMs
    let failures = 0
    let brisk = 0
    let greeted = false

    while (!signal.aborted) {
      if (expired) {
        await clock.sleep(probeEveryMs, signal)
        if (signal.aborted) break
      }
      if (!greeted && !expired) {
        greeted = true
        // Best effort, as the official client does; never a reason to wait with the first poll.
        api.notifyStart(account(bot)).catch(error => log.debug('notifystart failed', { error }))
      }
      const askedAt = clock.monotonic()
      let updates: Updates
      try {
        updates = await api.getUpdates(account(bot), cursor, holdMs, signal)
      } catch (error) {
        if (signal.aborted) break
        if (isILinkError(error, 'expired')) {
          if (!expired) log.warn('session expired: WeChat refuses its token; log it in again')
          expired = true
          await this.#mark(name, token, clock.now())
          continue
        }
        failures += 1
        const waitMs = backoffMs(failures - 1)
        log.warn('poll failed', { error, failures, retryInMs: Math.round(waitMs) })
        await clock.sleep(waitMs, signal)
        continue
      }
      this.#lastPollAt.set(name, clock.now())
      if (failures > 0) log.info('polling again', { failures })
      failures = 0
      if (expired) {
        expired = false
        log.info('session works again')
        await this.#mark(name, token, undefined)
      }
      holdMs = updates.nextHoldMs ?? holdMs

      if (updates.messages.length > 0 || (updates.cursor !== undefined && updates.cursor !== cursor)) {
        const committed = await this.#commit(name, bot, cursor, updates, log, signal)
        if (committed === undefined) return
        cursor = committed
        brisk = 0
      } else {
        brisk = clock.monotonic() - askedAt < briskMs ? brisk + 1 : 0
        if (brisk >= 3) await clock.sleep(Math.min(briskMs * (brisk - 2), 10_000), signal)
      }
    }
    if (greeted && !expired) {
      await api.notifyStop(account(bot)).catch(error => log.debug('notifystop failed', { error }))
    }
  }

  /**
   * Stores a batch, then moves the cursor.
   *
   * @returns the cursor to poll with, or undefined when this loop must end: the session was logged out, renamed or
   *   logged in anew meanwhile, or the service stops with the batch unstored (then the cursor stands before it)
   */
  async #commit(
    name: string,
    bot: BotInfo,
    cursor: string,
    updates: Updates,
    log: Log,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { clock, commit, store } = this.#ports
    const receivedAt = clock.now()
    const rows: ReceivedMessage[] = []
    const inbound: BatchCommit['inbound'] = []
    for (const { raw, message } of updates.messages) {
      // The bot's own messages and those of other bots are not for readers (protocol notes 6, Filter).
      if (!isFromUser(message, bot.bot_id)) continue
      const told = summary(message, receivedAt)
      rows.push({ ...told, derived_id: told.message_id === undefined ? derivedId(message) : '', raw })
      if (told.from_user) {
        const { from_user: user_id, contextToken: token } = told
        inbound.push({ user_id, received_at: receivedAt, ...(token && { token }) })
      }
    }
    let stored = rows.length === 0
    for (let failures = 0; ; failures++) {
      try {
        if (!stored) {
          const results = store.insertReceived(name, bot.bot_id, rows)
          stored = true
          log.debug('batch stored', {
            messages: rows.length,
            new: results.filter(result => result !== 'duplicate').length,
          })
        }
        const next = updates.cursor ?? cursor
        const outcome = await commit({
          session: name,
          token: bot.token,
          cursorFrom: cursor,
          cursorTo: next,
          inbound,
        })
        return outcome === 'moved' ? next : undefined
      } catch (error) {
        log.error('batch not committed; it stays in memory and polling of this session waits', {
          error,
          messages: rows.length,
          stored,
        })
        await clock.sleep(backoffMs(failures, 250, 10_000), signal)
        if (signal.aborted) return undefined
      }
    }
  }

  async #mark(name: string, token: string, expiredAt: number | undefined): Promise<void> {
    try {
      await this.#ports.sessions.markExpired(name, token, expiredAt)
    } catch (error) {
      this.#ports.log.error('state of session not written', { session: name, error })
    }
  }
}
