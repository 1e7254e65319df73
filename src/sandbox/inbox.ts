/**
 * Messages from users to bots: the queue that getupdates reads, and what an old cursor returns (protocol
 * notes 2.4).
 */
import { SvcError } from '../model/error.ts'
import { RoomPart } from '../platform/runtime.ts'
import type { Core } from './core.ts'
import type { Bot, SandboxUser, UsersAndBots } from './people.ts'
import { type Fields, fieldsOf, messageIdOf, newContextToken, parseWire, textOf, toWire } from './wire.ts'

/** A user's message that is in the queue. */
export interface QueuedMessage {
  seq: number
  message_id: string
  bot_id: string
  user_id: string
}

/** Messages that users sent and bots fetch. */
export class SandboxInbox extends RoomPart<{ core: Core; people: UsersAndBots }> {
  /** Newest poll of each bot; with `kick_older` it ends the previous poll. */
  readonly #newestPolls = new Map<string, AbortController>()

  /** Sends these items from the user. Opens the bot's window and resets its quota. */
  addMessage(
    from: string | undefined,
    to: string | undefined,
    items: Fields[],
    extra: Fields = {},
  ): QueuedMessage {
    const { bot, user } = this.#findPair(from, to)
    const entry = this.ports.core.db.transaction(() =>
      this.#insert(bot.id, user.id, items, this.ports.people.recordMessage(bot.id, user.id), extra),
    )
    this.#notifyArrival(bot.id)
    this.#duplicateLater(entry)
    return entry
  }

  /** Returns the sender and the receiving bot. Default: the phone's first user and that user's bot. */
  #findPair(from: string | undefined, to: string | undefined): { bot: Bot; user: SandboxUser } {
    const user = this.ports.people.getUser(from, 'from')
    const bot = to ? this.ports.people.findBot(to) : this.ports.people.findBotFor(user.id)
    if (bot) return { bot, user }
    throw new SvcError('not_found', to ? 'to: no such bot' : 'this user has no bot to write to', {
      hint: 'Log a session in and scan its QR code first (POST /phone/scan), or name a bot in "to".',
    })
  }

  /**
   * Sends `count` texts in one transaction; `{n}` in `text` becomes 1, 2, 3 …. Benchmarks use it to make a
   * backlog.
   */
  addMany(from: string | undefined, to: string | undefined, count: number, text: string) {
    const { bot, user } = this.#findPair(from, to)
    this.ports.core.db.transaction(() => {
      const token = this.ports.people.recordMessage(bot.id, user.id)
      for (let n = 1; n <= count; n++) {
        const item = { type: 1, text_item: { text: text.replaceAll('{n}', String(n)) } }
        this.#insert(bot.id, user.id, [item], token, {})
      }
    })
    this.#notifyArrival(bot.id)
    return { count, bot_id: bot.id }
  }

  /** Puts exactly this JSON text into the queue, valid or not. */
  addRaw(wire: string, to: string | undefined): QueuedMessage {
    const message = fieldsOf(parseWire(wire))
    const { bot } = this.#findPair(undefined, to ?? (textOf(message.to_user_id) || undefined))
    const userId = textOf(message.from_user_id)
    const entry = this.ports.core.db.transaction(() => {
      if (userId && userId !== bot.id && message.message_type !== 2) {
        this.ports.people.ensureUser(userId)
        this.ports.people.recordMessage(bot.id, userId, textOf(message.context_token) || undefined)
      }
      const id = message.message_id
      const text = typeof id === 'string' || typeof id === 'number' ? String(id) : ''
      const entry = { seq: this.ports.core.takeSeq(), message_id: text, bot_id: bot.id, user_id: userId }
      this.#store(entry, this.ports.core.now(), wire)
      return entry
    })
    this.#notifyArrival(bot.id)
    return entry
  }

  #insert(
    botId: string,
    userId: string,
    items: Fields[],
    contextToken: string,
    extra: Fields,
  ): QueuedMessage {
    const at = this.ports.core.now()
    const created = createTimeOf(at, this.ports.core.switches.create_time)
    const seq = this.ports.core.takeSeq()
    const id = textOf(extra.message_id) || messageIdOf(at, seq)
    const wire = toWire({
      seq,
      message_id: id,
      from_user_id: userId,
      to_user_id: botId,
      client_id: `sandbox-phone:${at}-${seq.toString(16).padStart(8, '0')}`,
      create_time_ms: created,
      update_time_ms: created,
      delete_time_ms: 0,
      session_id: `${userId}#${botId}`,
      group_id: '',
      message_type: 1,
      message_state: 2,
      item_list: items.map(item => ({
        create_time_ms: created,
        update_time_ms: created,
        is_completed: true,
        ...item,
      })),
      context_token: contextToken,
      ...extra,
    })
    const entry = { seq, message_id: id, bot_id: botId, user_id: userId }
    this.#store(entry, at, wire)
    return entry
  }

  #store(entry: QueuedMessage, at: number, wire: string): void {
    this.ports.core.db.run`INSERT INTO message (seq, message_id, bot_id, user_id, direction, at, wire)
      VALUES (${entry.seq}, ${entry.message_id}, ${entry.bot_id}, ${entry.user_id}, 'in', ${at}, ${wire})`
  }

  #notifyArrival(botId: string): void {
    this.ports.core.waiters.notifyNewest(`bot ${botId}`)
    this.ports.core.notifyChange()
  }

  #duplicateLater(entry: QueuedMessage): void {
    const { duplicate, duplicate_after_ms } = this.ports.core.switches
    if (duplicate === 'off') return
    const { clock, closing } = this.ports.core
    void clock.sleep(duplicate_after_ms, closing).then(() => {
      if (!closing.aborted) this.repeat(entry.seq, duplicate)
    })
  }

  /**
   * Sends a message again as WeChat sometimes does: unchanged, with a new id, or with a new context token
   * as well.
   */
  repeat(seq: number, how: 'same_id' | 'new_id' | 'new_token'): QueuedMessage {
    const row = this.ports.core.db.get`SELECT * FROM message WHERE seq = ${seq} AND direction = 'in'`
    if (!row) throw new SvcError('message_not_found', 'no such message from the user')
    const botId = String(row.bot_id)
    const userId = String(row.user_id)
    const message = fieldsOf(parseWire(String(row.wire)))
    if (how !== 'same_id') delete message.message_id
    if (how === 'new_token') message.context_token = newContextToken()
    const entry = this.ports.core.db.transaction(() => {
      this.ports.people.recordMessage(botId, userId, textOf(message.context_token) || undefined)
      const { item_list, seq: _seq, ...rest } = message
      return this.#insert(
        botId,
        userId,
        Array.isArray(item_list) ? item_list : [],
        textOf(message.context_token),
        rest,
      )
    })
    this.#notifyArrival(botId)
    return entry
  }

  /** Returns why a living bot receives nothing, from the switch `receive`; undefined if it receives. */
  #receiveFaultOf(botId: string): 'expired' | 'lapsed' | undefined {
    const { receive, receive_heals_after } = this.ports.core.switches
    if (receive === 'open') return undefined
    const { answers, started } = this.ports.core.receiving.get(botId) ?? { answers: 0, started: false }
    if (receive.endsWith('_until_start') && started) return undefined
    if (receive_heals_after > 0 && answers >= receive_heals_after) return undefined
    return receive.startsWith('expired') ? 'expired' : 'lapsed'
  }

  /** Records that the bot called notifystart, or that an answer told it that its receive side is not open. */
  recordReceiveStep(botId: string, what: 'start' | 'answer'): void {
    const { receiving } = this.ports.core
    const { answers, started } = receiving.get(botId) ?? { answers: 0, started: false }
    receiving.set(botId, {
      answers: answers + Number(what === 'answer'),
      started: started || what === 'start',
    })
  }

  /**
   * Waits for what getupdates answers: messages immediately if there are any, else at the end of the hold.
   *
   * @returns undefined if the client disconnected (nothing is consumed then); `expired` if the bot's token
   * is no longer valid; `lapsed` and `cut` as the switches demand
   */
  async poll(
    bot: Bot,
    cursor: string,
    signal: AbortSignal,
  ): Promise<{ wires: string[]; cursor: string } | 'expired' | 'lapsed' | 'cut' | undefined> {
    const { clock, waiters, switches, closing } = this.ports.core
    const mine = new AbortController()
    // Signals are joined only with this switch. Joining costs time, and a thousand idle polls should not
    // pay for it.
    const kicking = switches.pollers === 'kick_older'
    const ended = kicking ? AbortSignal.any([signal, mine.signal]) : signal
    if (kicking) {
      this.#newestPolls.get(bot.id)?.abort()
      this.#newestPolls.set(bot.id, mine)
    }
    try {
      const presented = this.#acknowledge(bot.id, cursor)
      const cutMs = switches.hold_cut === 'off' ? Number.POSITIVE_INFINITY : switches.hold_cut_after_ms
      const deadline = clock.monotonic() + Math.min(switches.hold_ms, cutMs)
      const { aheadMs } = this.ports.core
      for (let round = 0; round < 10_000; round++) {
        const now = this.ports.people.findBot(bot.id)
        const shut = now?.live ? this.#receiveFaultOf(bot.id) : 'expired'
        if (!now?.live || shut === 'expired') {
          this.recordReceiveStep(bot.id, 'answer')
          return 'expired'
        }
        if (signal.aborted) {
          // This poll was woken, but its client is gone and the message is still queued: wake the next
          // poll.
          waiters.notifyNewest(`bot ${bot.id}`)
          return undefined
        }
        const none = mine.signal.aborted || shut === 'lapsed'
        const { wires, last } = none ? { wires: [], last: 0 } : this.#take(now, presented)
        // If the time was moved, answer now: svc reads the sandbox's clock from the answer.
        const left = aheadMs === this.ports.core.aheadMs ? deadline - clock.monotonic() : 0
        if (wires.length === 0 && left <= 0) {
          if (cutMs < switches.hold_ms) return 'cut'
          if (shut === 'lapsed') {
            this.recordReceiveStep(bot.id, 'answer')
            return 'lapsed'
          }
        }
        if (wires.length > 0 || left <= 0 || mine.signal.aborted || closing.aborted) {
          return { wires, cursor: cursorOf(bot.id, Math.max(last, presented, now.confirmed_seq)) }
        }
        await waiters.wait(`bot ${bot.id}`, left, clock, ended)
      }
      return { wires: [], cursor: '' }
    } finally {
      if (this.#newestPolls.get(bot.id) === mine) this.#newestPolls.delete(bot.id)
    }
  }

  /**
   * Marks all messages up to the cursor as confirmed. Returns its `seq`, or 0 for an empty or foreign
   * cursor.
   */
  #acknowledge(botId: string, cursor: string): number {
    const seq = seqOf(botId, cursor)
    if (seq > 0) {
      this.ports.core.db
        .run`UPDATE bot SET confirmed_seq = ${seq} WHERE id = ${botId} AND confirmed_seq < ${seq}`
    }
    return seq
  }

  #take(bot: Bot, presented: number): { wires: string[]; last: number } {
    const { replay, empty_cursor, batch } = this.ports.core.switches
    const undelivered =
      replay === 'never' ? Math.max(bot.confirmed_seq, bot.delivered_seq) : bot.confirmed_seq
    const all = presented === 0 && empty_cursor === 'replay_all'
    const from = all ? 0 : replay === 'always' && presented > 0 ? presented : undelivered
    const rows = this.ports.core.db.all`SELECT seq, wire FROM message WHERE bot_id = ${bot.id}
      AND direction = 'in' AND seq > ${from} ORDER BY seq LIMIT ${batch}`
    const last = Number(rows.at(-1)?.seq ?? 0)
    if (last > bot.delivered_seq) {
      this.ports.core.db.run`UPDATE bot SET delivered_seq = ${last} WHERE id = ${bot.id}`
    }
    return { wires: rows.map(row => String(row.wire)), last }
  }
}

/**
 * Returns the creation time of a message. In milliseconds it is never a whole second, so that 1 in 1000 is
 * not taken for coarse.
 */
const createTimeOf = (at: number, form: 'milliseconds' | 'whole_seconds') =>
  form === 'whole_seconds' ? at - (at % 1000) : at % 1000 === 0 ? at + 1 : at

// Cursors are opaque to clients and belong to one bot. The cursor of another bot counts as no cursor.
const cursorOf = (botId: string, seq: number) => Buffer.from(`cursor of ${botId} ${seq}`).toString('base64')

function seqOf(botId: string, cursor: string): number {
  const match = /^cursor of (\S+) (\d+)$/.exec(Buffer.from(cursor, 'base64').toString())
  return match?.[1] === botId ? Number(match[2]) : 0
}
