/**
 * Asks people on WeChat, and finds their answers in the message log. What a person chose is computed from the log, so it does
 * not matter which process stored the message, or whether the asker was there: the first who looks writes the answer down.
 */
import type { QuestionOption } from '../model/agent.ts'
import { type Call, createDirectCall } from '../model/call.ts'
import { SvcError } from '../model/error.ts'
import type { HistoryPage, Message, SendResult } from '../model/message.ts'
import { formatPrincipal, type Principal } from '../model/principal.ts'
import {
  type AskRequest,
  isOver,
  kindOfChoice,
  type TakenAsAnswer,
  type UserQuestion,
} from '../model/question.ts'
import {
  bareOf,
  chooseOption,
  codeSigns,
  findNamed,
  isCode,
  readAnswer,
  saidIn,
} from '../model/typed-answer.ts'
import { randomBytes } from '../platform/lazy-crypto.ts'
import { RunningPart } from '../platform/runtime.ts'
import { linkSignals } from '../platform/signals.ts'
import type { Outbox } from '../send/outbox.ts'
import type { Sender } from '../send/send.ts'
import type { AskedChat, AskStore, NewAsk, StoredAsk } from '../storage/asks.ts'
import type { MessageLog } from '../storage/store.ts'
import type { History } from './history.ts'

export interface AskPorts {
  readonly asks: AskStore
  readonly log: Pick<MessageLog, 'getHead' | 'wait'>
  readonly history: Pick<History, 'page'>
  readonly sender: Pick<Sender, 'send'>
  readonly outbox: Pick<Outbox, 'get' | 'cancel'>
  /** Resolves a user in the scope to an id, and the session that sends to that user. */
  findChat(to: string, session: string | undefined, by: Principal): Promise<AskedChat>
  /** The user who scanned the code of a session; not one who joined by an invitation. */
  findOwner(session: string): Promise<string | undefined>
  /** Polls WeChat until disposed, where no process does so permanently. */
  poll?(): Promise<AsyncDisposable | undefined>
}

/** A plain choice counts only if nothing else comes within this time: people write in bits. */
const pauseMs = 1500
/** How often a question is looked at that waits for the end of this time. */
const lookEveryMs = 1000
/** Least time between two looks, in a log that grows all the time. */
const restMs = 200
/** Messages read at a time, and at most, to find an answer. */
const pageRows = 100
const mostPages = 10
/** Longest message that may be a choice, in characters: longer ones take long to compare, and choices have up to 100. */
const longestChoice = 200
/** Clocks of phones and WeChat may be this much behind. */
const skewMs = 5 * 60_000

export class Asks extends RunningPart<AskPorts> {
  /** Looks under way, by question: all who wait for a question share one. */
  readonly #looks = new Map<number, Promise<StoredAsk | undefined>>()
  /** Open questions that were shown once more, with the message because of which. */
  readonly #shownAgain = new Map<number, number>()

  /**
   * Asks a person. With the `idempotency_key` of an earlier call of the same caller, returns that question.
   *
   * @throws SvcError the errors of `Sender.send`; `idempotency_conflict` if the earlier question was another one
   */
  async ask({ idempotency_key, ...request }: AskRequest, call: Call): Promise<UserQuestion> {
    const { by } = call
    const { asks } = this.ports
    const options = request.choices.map((name, nth) => ({
      id: String(nth + 1),
      name,
      kind: kindOfChoice(name),
    }))
    const asked_key = idempotency_key === undefined ? undefined : `${formatPrincipal(by)}/${idempotency_key}`
    const chat = await this.ports.findChat(request.to, request.session, by)
    const question = {
      ...chat,
      text: request.text,
      options,
      asked_by: formatPrincipal(by),
      asked_key,
      lasts_ms: request.timeout * 1000,
      grants: request.grants === true,
    }
    let ask: StoredAsk | undefined
    while (!ask) ask = await asks.add({ ...question, code: newCode() })
    if (!isSameQuestion(ask, question))
      throw new SvcError('idempotency_conflict', 'this key belongs to another question', {
        hint: 'Use a new key for each question.',
      })
    // An earlier call with the key may have ended before its message was handed over. Sending knows its key, too.
    const isHandedOver = ask.entry !== undefined || ask.sent_at !== undefined || isOver(ask)
    return toQuestion(isHandedOver ? ask : await this.#send(ask, request, call))
  }

  async #send(ask: StoredAsk, { when_closed }: AskRequest, call: Call): Promise<StoredAsk> {
    const { asks, sender } = this.ports
    const { clock } = this.runtime
    const { code, id, lasts_ms, session, user_id: to } = ask
    let sent: SendResult
    try {
      const key = `svc:question:${id}:${code}`
      const until = ask.expires_at
      sent = await sender.send(
        { to, session, text: formatAsk(ask), media: [], idempotency_key: key, when_closed, until },
        call,
      )
      if (sent.status === 'refused')
        throw new SvcError('upstream_error', 'WeChat refused the question', {
          hint: 'See history for the reason.',
        })
    } catch (error) {
      await asks.remove(id)
      throw error
    }
    const now = clock.now()
    const message_id = sent.status === 'accepted' && !sent.suspect ? sent.message_id : undefined
    await asks.change(
      id,
      sent.status === 'queued'
        ? { entry: Number(sent.outbox_id) }
        : { sent_at: now, expires_at: now + lasts_ms, ...(message_id !== undefined && { message_id }) },
    )
    return (await asks.get(id)) ?? ask
  }

  /**
   * Returns a question of the caller, at the latest after `ms` or when it is over.
   *
   * @throws SvcError `not_found` for a question of another caller, unless the caller is the owner
   */
  async wait(
    id: number,
    ms: number,
    { by, signal: left }: Pick<Call, 'by' | 'signal'>,
  ): Promise<UserQuestion> {
    const { asks, log, poll } = this.ports
    const { clock, closing } = this.runtime
    const isOwn = (ask: StoredAsk | undefined): ask is StoredAsk =>
      ask !== undefined && (!by.grant || ask.asked_by === formatPrincipal(by))
    const missing = new SvcError('not_found', `there is no question ${id}`)
    // Before anything is looked up for it: one of another caller is as if it did not exist.
    if (!isOwn(await asks.get(id))) throw missing
    using either = linkSignals(left, closing)
    const { signal } = either
    const endsAt = clock.monotonic() + ms
    await using _ = ms > 0 ? await poll?.() : undefined
    for (;;) {
      const head = await log.getHead()
      const now = await this.#look(id)
      if (!isOwn(now)) throw missing
      const leftMs = endsAt - clock.monotonic()
      if (isOver(now) || leftMs <= 0 || signal.aborted) return toQuestion(now)
      await clock.sleep(Math.min(restMs, leftMs), signal)
      await log.wait(head, Math.min(lookEveryMs, leftMs), signal)
    }
  }

  /** Ends a question of the caller without an answer. Its message is not sent if it still waits. @throws as `wait` */
  async cancel(id: number, by: Principal): Promise<UserQuestion> {
    const asked = await this.wait(id, 0, { by, signal: this.runtime.closing })
    const ask = await this.ports.asks.get(id)
    if (!ask || isOver(ask)) return asked
    return toQuestion(await this.#end(ask, { answer: '', answered_by: formatPrincipal(by) }))
  }

  /**
   * Tells whether a message of a user answers a question, so that no agent may get it. One with the code of a question is
   * taken, also if it is not clear; so is one after which a question was shown again.
   */
  async takes(message: Message): Promise<TakenAsAnswer> {
    const text = saidIn(message)
    const { from_user: user_id, session } = message
    const all = await this.ports.asks.listIn({ session, user_id })
    if (all.length === 0) return 'no'
    const said = readAnswer(text, code => all.some(one => one.code === code))
    const coded = all.find(({ code }) => code === said?.code)
    if (coded) {
      const { answer, answered_in } = await this.#settle(coded)
      return isOver({ answer }) && answered_in !== message.id ? 'over' : 'taken'
    }
    const about = all.filter(one => one.asked_at < message.timestamp + skewMs && choiceOf(one, text))
    let isLater = false
    for (const ask of about) {
      const { answered_in } = await this.#settle(ask)
      if (answered_in === message.id || this.#shownAgain.get(ask.id) === message.id) return 'taken'
      const isFresh = this.runtime.clock.now() - message.timestamp <= pauseMs
      if (answered_in === undefined && isFresh && !isOver(ask)) isLater = true
    }
    const isOpen = all.some(one => !isOver(one) && this.runtime.clock.now() < one.expires_at)
    return isLater ? 'later' : isOpen ? 'open' : 'no'
  }

  /** Returns a question as it is now, or as it was found while this waited for the look of another caller. */
  #look(id: number): Promise<StoredAsk | undefined> {
    const look = async () => {
      const ask = await this.ports.asks.get(id)
      return ask && this.#settle(ask)
    }
    const known = this.#looks.get(id)
    if (known) return known
    const looking = look().finally(() => this.#looks.delete(id))
    this.#looks.set(id, looking)
    return looking
  }

  /** Looks what became of the message of a question, and whether it was answered or is over. */
  async #settle(asked: StoredAsk): Promise<StoredAsk> {
    if (isOver(asked)) return asked
    const ask = await this.#noteSent(asked)
    if (isOver(ask)) return ask
    if (ask.sent_at !== undefined) {
      const found = await this.#findAnswer(ask)
      if (found) return this.#end(ask, found)
    }
    // Who chose in the last moment has the pause.
    const over = ask.expires_at + (ask.sent_at === undefined ? 0 : pauseMs)
    return this.runtime.clock.now() < over ? ask : this.#end(ask, { answer: '' })
  }

  async #end(
    ask: StoredAsk,
    end: { answer: string; answered_by?: string; answered_in?: number },
  ): Promise<StoredAsk> {
    const { asks, outbox } = this.ports
    this.#shownAgain.delete(ask.id)
    await asks.end(ask.id, { ...end, answered_at: this.runtime.clock.now() })
    const now = (await asks.get(ask.id)) ?? ask
    if (now.answer === '' && now.entry !== undefined && now.sent_at === undefined)
      await outbox.cancel(ownerOf, now.entry).catch(ignoreLate)
    return now
  }

  /** Looks whether a question that waited in the outbox was sent. The time to answer begins then. */
  async #noteSent(ask: StoredAsk): Promise<StoredAsk> {
    const { asks, history, outbox } = this.ports
    const { entry, id, lasts_ms, sent_at, session, user_id } = ask
    if (entry === undefined || sent_at !== undefined) return ask
    const now = await outbox.get(ownerOf, entry).catch(ignoreLate)
    const [{ message_id, status } = {}] = now?.parts ?? []
    if (now && !now.ended) return ask
    if (status !== 'accepted' && status !== 'unknown') return this.#end(ask, { answer: '' })
    const { messages } = await history.page({
      session,
      user_id,
      direction: 'sent',
      limit: pageRows,
      offset: 0,
    })
    const at = messages.find(one => one.message_id === message_id)?.timestamp ?? this.runtime.clock.now()
    await asks.change(id, {
      sent_at: at,
      expires_at: at + lasts_ms,
      ...(status === 'accepted' && message_id !== undefined && { message_id }),
    })
    return (await asks.get(id)) ?? ask
  }

  /** Reads the chat from the question on, and returns the first message that chooses. */
  async #findAnswer(ask: StoredAsk) {
    const messages = await this.#readChat(ask)
    let unclear: number | undefined
    for (const [nth, message] of messages.entries()) {
      const { direction, from_user, id, timestamp } = message
      if (direction !== 'received' || timestamp >= ask.expires_at) continue
      const choice = choiceOf(ask, saidIn(message))
      if (choice?.option && (choice.hasCode || (await this.#isPlain(ask, messages, nth))))
        return { answer: choice.option.id, answered_by: `user:${from_user}`, answered_in: id }
      const isNew = ask.sent_at !== undefined && timestamp > ask.sent_at
      if (choice && isNew && this.runtime.clock.now() - timestamp > pauseMs) unclear ??= id
    }
    if (unclear !== undefined) await this.#askAgain(ask, unclear)
    return undefined
  }

  /** Shows a question once more, after a message that may be an answer to it, and does not count. */
  async #askAgain(ask: StoredAsk, message: number): Promise<void> {
    const { asks, sender } = this.ports
    const { code, expires_at: until, id, session, user_id: to } = ask
    if (this.#shownAgain.has(id)) return
    const request = { to, session, text: formatAsk(ask), media: [], until }
    const idempotency_key = `svc:question:${id}:${code}:again`
    try {
      const sent = await sender.send({ ...request, idempotency_key }, createDirectCall({ by: ownerOf }))
      this.#shownAgain.set(id, message)
      if (sent.status === 'accepted' && !sent.suspect && sent.message_id !== undefined)
        await asks.change(id, { message_id: sent.message_id })
    } catch (error) {
      if (!(error instanceof SvcError)) throw error
      // No answer is left for it.
      if (error.code !== 'rate_limited') this.#shownAgain.set(id, 0)
    }
  }

  /** Returns the messages of a chat since a question was asked, oldest first. */
  async #readChat({ asked_at, session, user_id }: StoredAsk): Promise<Message[]> {
    const found: Message[] = []
    let before: number | undefined
    for (let page = 0; page < mostPages; page++) {
      const { messages, next_before }: HistoryPage = await this.ports.history.page({
        session,
        user_id,
        since: asked_at - skewMs,
        limit: pageRows,
        offset: 0,
        ...(before !== undefined && { before }),
      })
      found.push(...messages)
      if (next_before === undefined || messages.length < pageRows) break
      before = next_before
    }
    return found.toReversed()
  }

  /**
   * Whether a choice without the code counts: it is a text alone, written after the question, which was the last thing that
   * the bot sent, and was the only open one of the chat. One that allows a program something counts from the owner alone.
   */
  async #isPlain(ask: StoredAsk, messages: readonly Message[], nth: number): Promise<boolean> {
    const { grants, id, message_id, sent_at = Number.POSITIVE_INFINITY, session, user_id } = ask
    const { items, msg_type, ref_msg, timestamp } = messages[nth]!
    const isText = msg_type === 'TEXT' && items.length === 1 && ref_msg === undefined
    if (!isText || message_id === undefined || timestamp <= sent_at) return false
    const last = messages.slice(0, nth).findLast(({ direction }) => direction === 'sent')
    const isNear = (one: Message) =>
      one !== messages[nth] && one.direction === 'received' && Math.abs(timestamp - one.timestamp) <= pauseMs
    if (last?.message_id !== message_id || messages.some(isNear)) return false
    if (this.runtime.clock.now() - timestamp <= pauseMs) return false
    if (grants && (await this.ports.findOwner(session)) !== user_id) return false
    // Others may have left the outbox since they were looked at, and are open longer then.
    const others = await this.ports.asks.listIn({ session, user_id })
    for (const one of others) if (!isOver(one)) await this.#noteSent(one)
    return this.ports.asks.wasOnlyOne(id, timestamp)
  }
}

/** Every principal that is not a key sees all entries of the outbox. */
const ownerOf: Principal = { kind: 'open' }

/**
 * Returns what a text chooses, and whether it does so with the code.
 *
 * @returns undefined if it is no choice; without an option if it is not clear which
 */
function choiceOf(
  { code, options }: StoredAsk,
  text: string,
): { option?: QuestionOption | undefined; hasCode: boolean } | undefined {
  if (text.length > longestChoice) return undefined
  const said = readAnswer(text, one => one === code)
  if (said?.code !== undefined && said.code !== code) return undefined
  const numbered = said && chooseOption(said, options)
  const named = findNamed(text, code, options)
  if (said?.code === code)
    return { option: numbered ?? (named.length === 1 ? named[0] : undefined), hasCode: true }
  // A choice may be called 2, and not be the second one.
  const [option, ...others] = new Set(numbered ? [...named, numbered] : named)
  const isOfNumbers = said?.number !== undefined && options.some(({ name }) => /^\D?\d+$/.test(name.trim()))
  const isOther = isOfNumbers && bareOf(option?.name ?? '') !== String(said.number)
  if (option) return { option: others.length > 0 || isOther ? undefined : option, hasCode: false }
  const isMeant = said?.number !== undefined || (said && options.some(({ kind }) => kind !== 'other'))
  return isMeant ? { hasCode: false } : undefined
}

const isSameQuestion = (
  ask: StoredAsk,
  { grants, options, text, user_id }: Pick<NewAsk, 'grants' | 'options' | 'text' | 'user_id'>,
): boolean =>
  ask.text === text &&
  ask.user_id === user_id &&
  ask.grants === grants &&
  JSON.stringify(ask.options) === JSON.stringify(options)

/** How a question reads in a chat: in no language but its own. */
const formatAsk = ({ code, options, text }: StoredAsk): string =>
  [text, '', ...options.map(({ name }, nth) => `${code} ${nth + 1} = ${name}`)].join('\n')

function toQuestion(ask: StoredAsk): UserQuestion {
  const {
    answer,
    answered_at,
    answered_by,
    asked_at,
    expires_at,
    id,
    options,
    sent_at,
    session,
    text,
    user_id,
  } = ask
  const choice = options.find(one => one.id === answer)?.name
  const ended = choice !== undefined ? 'answered' : answered_by === undefined ? 'unanswered' : 'cancelled'
  const state = answer !== undefined ? ended : sent_at === undefined ? 'waiting' : 'open'
  return {
    id,
    state,
    session,
    user_id,
    text,
    choices: options.map(({ name }) => name),
    asked_at,
    ...(sent_at !== undefined && { sent_at }),
    ...(state === 'open' && { expires_at }),
    ...(choice !== undefined && { choice }),
    ...(answered_at !== undefined && choice !== undefined && { answered_at }),
  }
}

function newCode(): string {
  for (;;) {
    const code = [...randomBytes(4)].map(byte => codeSigns[byte % codeSigns.length]).join('')
    if (isCode(code)) return code
  }
}

/** It left the outbox meanwhile. @throws other errors */
function ignoreLate(error: unknown): undefined {
  if (error instanceof SvcError && error.code === 'not_found') return undefined
  throw error
}
