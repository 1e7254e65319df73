/**
 * Messages from bots to users: which sends are accepted, and which of them the user sees (protocol notes
 * 5).
 */

import { isObject } from '../platform/fields.ts'
import { RoomPart } from '../platform/runtime.ts'
import type { Core } from './core.ts'
import type { SandboxMedia } from './media.ts'
import type { Bot, SandboxPeer, UsersAndBots } from './people.ts'
import { type Fields, fieldsOf, messageIdOf, textOf, toWire } from './wire.ts'

const fiveMinutes = 300_000
const perFiveMinutes = 12
const perSecond = 2
/**
 * WeChat's own refusal text. WeChat gives the same text for each cause of -2, so the sandbox does as well.
 */
const refusal = { ret: -2, errmsg: 'prepare failed' }
const silentSuccess = { ret: 0 }

/** Messages that bots send. */
export class SandboxOutbox extends RoomPart<{ core: Core; people: UsersAndBots; media: SandboxMedia }> {
  /** Handles sendmessage and returns its answer. */
  send(bot: Bot, body: Fields): Fields {
    const answer = this.ports.core.db.transaction(() => this.#judge(bot, fieldsOf(body.msg)))
    const { sends } = this.ports.core.stats
    if (answer.ret !== 0) sends.refused++
    else if (answer === silentSuccess) sends.dropped++
    else sends.accepted++
    this.ports.core.notifyChange()
    const { send_reply, ret } = this.ports.core.switches
    if (answer.ret !== 0) return answer
    if (send_reply === 'empty') return {}
    const { message_id } = answer
    return {
      ...(ret === 'present' && { ret: 0 }),
      ...(send_reply === 'message_id' && message_id !== undefined && { message_id }),
    }
  }

  #judge(bot: Bot, msg: Fields): Fields {
    const { switches } = this.ports.core
    const to = textOf(msg.to_user_id)
    // Ids are case-sensitive and bare; any other form names no user.
    if (!this.ports.people.findUser(to)) return { ret: -3, errmsg: 'invalid arguments' }
    const peer = this.ports.people.loadPeer(bot.id, to)
    const now = this.ports.core.now()
    const tooFast = this.#recordAttempt(peer, now)
    this.ports.people.savePeer(peer)
    if (switches.burst === 'on' && tooFast) return refusal

    if (bot.stopped && switches.notifystop === 'refuse_sends') return refusal
    if (bot.stopped && switches.notifystop === 'drop_sends') return silentSuccess

    const items = Array.isArray(msg.item_list) ? msg.item_list.filter(isObject) : []
    if (items.length === 0) return { ret: -2 }
    if (items.some(item => byteLengthOf(textOf(fieldsOf(item.text_item).text)) > switches.text_limit))
      return refusal
    if (!textOf(msg.context_token)) {
      if (switches.missing_context_token === 'refuse') return refusal
      if (switches.missing_context_token === 'drop') return silentSuccess
      this.ports.core.log.info('send without context token accepted', { bot: bot.id })
    }
    const open = peer.last_inbound_at !== undefined && now - peer.last_inbound_at <= switches.window_ms
    if (!open && switches.window === 'refuse') return refusal
    if (!open && switches.window === 'silent_drop') return silentSuccess
    if (switches.quota > 0 && peer.used >= switches.quota) return { ret: -2 }

    peer.used += 1
    peer.typing_until = 0
    this.ports.people.savePeer(peer)
    return { ret: 0, message_id: this.#store(bot, to, msg, items, now) }
  }

  /**
   * Counts an attempt; refused ones count too. Returns true if the bot sends too fast. Over 12 in five
   * minutes block the peer until it is quiet for five minutes.
   */
  #recordAttempt(peer: SandboxPeer, now: number): boolean {
    const last = peer.attempts.at(-1) ?? 0
    if (peer.blocked && now - last >= fiveMinutes) peer.blocked = false
    const recent = peer.attempts.filter(at => now - at < fiveMinutes)
    const burst = recent.filter(at => now - at < 1000).length >= perSecond
    if (recent.length >= perFiveMinutes && this.ports.core.switches.burst === 'on') peer.blocked = true
    // Keeps only as many times as the rule needs, so that a client that sends constantly does not make the
    // row grow.
    peer.attempts = [...recent, now].slice(-(perFiveMinutes + 1))
    return burst || peer.blocked
  }

  #store(bot: Bot, to: string, msg: Fields, items: Fields[], now: number): string {
    const seq = this.ports.core.takeSeq()
    const messageId = messageIdOf(now, seq)
    const clientId = textOf(msg.client_id)
    const note = this.#hiddenReasonOf(bot, to, clientId, items)
    const wire = toWire({
      ...msg,
      seq,
      message_id: messageId,
      from_user_id: bot.id,
      create_time_ms: now,
      item_list: items,
    })
    this.ports.core.db
      .run`INSERT INTO message (seq, message_id, bot_id, user_id, direction, at, client_id, wire,
      shown, note)
      VALUES (${seq}, ${messageId}, ${bot.id}, ${to}, 'out', ${now}, ${clientId || undefined}, ${wire},
      ${note ? 0 : 1}, ${note})`
    return messageId
  }

  /** Returns why WeChat does not display an accepted message; undefined if it displays it. */
  #hiddenReasonOf(bot: Bot, to: string, clientId: string, items: Fields[]): string | undefined {
    const { client_id_reuse, voice_out } = this.ports.core.switches
    if (clientId && client_id_reuse === 'first_only') {
      const first = this.ports.core.db.get`SELECT 1 FROM message WHERE user_id = ${to}
        AND client_id = ${clientId} AND bot_id = ${bot.id} AND direction = 'out' LIMIT 1`
      if (first) return 'client_id used before: only the first content is shown'
    }
    const kinds = items.map(item => item.type)
    if (kinds.includes(3) && voice_out === 'not_rendered') return 'WeChat does not show voice sent by a bot'
    if (items.length > 1) return 'more than one item in a message is not shown'
    for (const item of items) {
      const why = this.ports.media.hiddenReasonOf(item)
      if (why) return why
    }
    return undefined
  }
}

const byteLengthOf = (text: string) => Buffer.byteLength(text)
