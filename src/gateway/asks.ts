/**
 * Asks people on WeChat, and finds their answers in the message log. What a person chose is computed from the log, so it does
 * not matter which process stored the message, or whether the asker was there: the first who looks writes the answer down.
 */
import { type Call, createDirectCall } from '../model/call.ts'
import { SvcError } from '../model/error.ts'
import { isChineseFor } from '../model/language.ts'
import type { HistoryPage, Message, SendResult } from '../model/message.ts'
import { formatPrincipal, type Principal } from '../model/principal.ts'
import {
  type AskRequest,
  isOver,
  kindOfChoice,
  type TakenAsAnswer,
  type UserQuestion,
} from '../model/question.ts'
import { choiceOf, codeSigns, isCode, mayChoose, shownIn } from '../model/typed-answer.ts'
import { changeApart, type SetAside } from '../platform/apart.ts'
import { cutMiddle } from '../platform/format.ts'
import { randomBytes } from '../platform/lazy-crypto.ts'
import { RunningPart, type Runtime } from '../platform/runtime.ts'
import { linkSignals } from '../platform/signals.ts'
import type { Repetition } from '../platform/tasks.ts'
import type { Outbox } from '../send/outbox.ts'
import type { Sender } from '../send/send.ts'
import type { AskedChat, AskStore, NewAsk, StoredAsk } from '../storage/asks.ts'
import type { MessageLog } from '../storage/store.ts'
import type { History } from './history.ts'

export interface AskPorts {
  readonly asks: AskStore
  readonly log: Pick<MessageLog, 'getHead' | 'wait'>
  /** Returns a message by its row id, if it is there. */
  readMessage(id: number): Promise<Message | undefined>
  readonly history: Pick<History, 'page' | 'lastWords'>
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
/** Clocks of phones and WeChat may be this much behind. */
const skewMs = 5 * 60_000
/** How often messages are looked for that a process took in which then died, and how old they may be. */
const [lookBackEveryMs, lookBackMs] = [60_000, 10 * 60_000]
const mostLookedAt = 1000
const hearing = {
  name: 'questions',
  everyMs: lookEveryMs,
  failure: 'answers to questions cannot be looked up',
}
/** How long the sentence may wait that a question is over, and how many bytes of the question it has. */
const [overMs, mostQuoted] = [5 * 60_000, 200]

/** A received message that may answer a question. */
interface Heard extends AskedChat {
  /** Row id. */
  readonly id: number
  /** Unix ms; 0: now, for the first time. */
  readonly dueAt: number
}

/** A message that may answer a question, and does not count. */
interface Unclear {
  /** Row id. */
  readonly id: number
  /** It came after the question was shown once more. */
  readonly isAfterAgain: boolean
}

export class Asks extends RunningPart<AskPorts> {
  /** Looks under way, by question: all who wait for a question share one. */
  readonly #looks = new Map<number, Promise<StoredAsk | undefined>>()
  /** Open questions with the messages that were no certain answer to them, and were answered. */
  readonly #unclear = new Map<number, Set<number>>()
  /** Messages that this process has taken in, and not looked at. */
  readonly #heard: Heard[] = []
  /** Row ids of the newest that were looked at. */
  readonly #lookedAt = new Set<number>()
  #hearing: Repetition | undefined

  constructor(ports: AskPorts, runtime: Runtime) {
    super(ports, runtime)
    runtime.bus.on('committed', ({ messages, rows, session }) => {
      for (const [nth, id] of rows.entries())
        if (id !== 'duplicate') this.#heard.push({ id, session, user_id: messages[nth]!.from_user, dueAt: 0 })
      this.#hearing?.nudge()
    })
  }

  /** Looks at what comes in while this process polls, until the gateway closes: it may be late, or nobody waits for it. */
  start(isPolling: () => boolean): void {
    const { clock, closing: signal, log, tasks } = this.runtime
    let lookBackAt = 0
    this.#hearing = tasks.repeat({ ...hearing, log, signal }, async setAside => {
      if (isPolling() && clock.monotonic() >= lookBackAt) {
        await this.#lookBack()
        lookBackAt = clock.monotonic() + lookBackEveryMs
      }
      await this.#hear(setAside)
    })
  }

  /** Resolves when nothing is looked at any more. Abort `closing` first. */
  async waitUntilClosed(): Promise<void> {
    await this.#hearing?.done
  }

  /** Notes what a process took in that may have died before it looked. */
  async #lookBack(): Promise<void> {
    const since = this.runtime.clock.now() - lookBackMs
    const page = await this.ports.history.page({ direction: 'received', since, limit: pageRows, offset: 0 })
    for (const { from_user: user_id, id, session } of page.messages)
      if (!this.#lookedAt.has(id)) this.#heard.push({ id, session, user_id, dueAt: 0 })
  }

  /** Looks at what this process took in, where none polls permanently. */
  async hear(): Promise<void> {
    const { closing, log, tasks } = this.runtime
    if (this.#heard.length === 0) return
    using task = tasks.register({ ...hearing, log })
    await task.run(setAside => this.#hear(setAside), closing)
  }

  /** Looks at the messages that were noted; once more at those to which the next one may belong. */
  async #hear(setAside: SetAside): Promise<void> {
    const { clock } = this.runtime
    /** Whether chats have questions. */
    const asked = new Map<string, boolean>()
    const nameOf = ({ id }: Heard) => `message ${id}`
    for (const one of this.#heard.splice(0)) {
      if (one.dueAt > clock.now()) this.#heard.push(one)
      else setAside(...(await changeApart([one], nameOf, () => this.#lookAt(one, asked))))
    }
  }

  async #lookAt(one: Heard, asked: Map<string, boolean>): Promise<void> {
    const { asks, readMessage } = this.ports
    const chat = `${one.session}\0${one.user_id}`
    if (!asked.has(chat)) asked.set(chat, (await asks.listIn(one)).length > 0)
    const message = asked.get(chat) && (await readMessage(one.id))
    const isDone = !message || (await this.#answer(message, one.dueAt > 0))
    const now = this.runtime.clock.now()
    const waitMs = message ? Math.min(Math.max(0, message.timestamp - now), skewMs) + pauseMs + 1 : 0
    if (!isDone) return void this.#heard.push({ ...one, dueAt: now + waitMs })
    this.#lookedAt.add(one.id)
    const [oldest] = this.#lookedAt
    if (this.#lookedAt.size > mostLookedAt) this.#lookedAt.delete(oldest!)
  }

  /** Says that a question is over, if a message answers that. @returns whether the message needs no further look */
  async #answer(message: Message, isSecond: boolean): Promise<boolean> {
    const { over } = await this.#judge(message)
    const now = this.runtime.clock.now()
    if (!over) return isSecond || now - message.timestamp > pauseMs
    return (
      (await this.#tell(
        over,
        formatOver(over, await this.#isChinese(over)),
        `late:${message.id}`,
        now + overMs,
      )) !== 'later'
    )
  }

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
    return (await this.#judge(message)).taken
  }

  /** Same as `takes`. @returns also the question that is over */
  async #judge(message: Message): Promise<{ taken: TakenAsAnswer; over?: StoredAsk }> {
    const { from_user: user_id, id, session, timestamp } = message
    const now = this.runtime.clock.now()
    const all: StoredAsk[] = []
    for (const one of await this.ports.asks.listIn({ session, user_id }))
      all.push(isOver(one) ? one : ((await this.#look(one.id)) ?? one))
    const about = all.flatMap(one => {
      const choice = one.asked_at < timestamp + skewMs ? choiceOf(one, message) : undefined
      return choice ? [{ one, ...choice }] : []
    })
    const named = about.find(({ isNamed }) => isNamed)?.one
    if (named) return isLate(named, message) ? { taken: 'over', over: named } : { taken: 'taken' }
    if (about.some(({ one }) => one.answered_in === id || this.#unclear.get(one.id)?.has(id)))
      return { taken: 'taken' }
    if (now - timestamp <= pauseMs && about.some(({ one }) => !isOver(one))) return { taken: 'later' }
    if (all.some(one => !isOver(one) && now < one.expires_at)) return { taken: 'open' }
    const [newest] = about
    if (!newest || newest.one !== all[0]) return { taken: 'no' }
    const isPlain = await this.#isPlainlyLate(newest.one, newest.option?.id, message)
    return isPlain ? { taken: 'over', over: newest.one } : { taken: 'no' }
  }

  /** Whether a plain choice comes after the end of a question, which is the last thing that the bot had sent in the chat. */
  async #isPlainlyLate(ask: StoredAsk, option: string | undefined, message: Message): Promise<boolean> {
    const { answer, code, sent_at = message.timestamp, session, user_id } = ask
    const isOther = option !== undefined && option !== answer && message.timestamp > sent_at
    if (!isOther || !isLate(ask, message)) return false
    const sent = { session, user_id, direction: 'sent', before: message.id, limit: 1, offset: 0 } as const
    const { messages } = await this.ports.history.page(sent)
    return shownIn(messages[0]?.text) === code
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
    this.#unclear.delete(ask.id)
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
    const unclear: Unclear[] = []
    let shown = 0
    for (const [nth, message] of messages.entries()) {
      const { direction, from_user, id, timestamp } = message
      if (direction === 'sent' && shownIn(message.text) === ask.code) shown += 1
      if (direction !== 'received' || timestamp >= ask.expires_at) continue
      const choice = choiceOf(ask, message)
      if (choice?.option && (choice.isNamed || (await this.#isPlain(ask, messages, nth))))
        return { answer: choice.option.id, answered_by: `user:${from_user}`, answered_in: id }
      const isNew = ask.sent_at !== undefined && timestamp > ask.sent_at
      if (!isNew || this.runtime.clock.now() - timestamp <= pauseMs) continue
      const isNext = unclear.length === 0 && shownIn(lastSent(messages, nth)?.text) === ask.code
      if (choice || (isNext && mayChoose(ask, message))) unclear.push({ id, isAfterAgain: shown > 1 })
    }
    await this.#answerUnclear(ask, unclear)
    return undefined
  }

  async #isChinese(ask: StoredAsk): Promise<boolean> {
    return isChineseFor(await this.ports.history.lastWords(ask), ask.text)
  }

  /** Shows a question once more after the first of these messages, and says how to answer it after the newest of those after that. */
  async #answerUnclear(ask: StoredAsk, messages: readonly Unclear[]): Promise<void> {
    const { code, expires_at, id } = ask
    const answered = this.#unclear.get(id) ?? new Set()
    const newest = messages.findLast(({ isAfterAgain }) => isAfterAgain)
    for (const one of [messages[0], newest]) {
      if (!one || answered.has(one.id)) continue
      const [text, key] =
        one === newest ? [howTo(ask, await this.#isChinese(ask)), one.id] : [formatAsk(ask), 'again']
      const sent = await this.#tell(ask, text, `${id}:${code}:${key}`, expires_at)
      if (sent === 'later') return
      this.#unclear.set(id, answered.add(one.id))
      if (sent?.status === 'accepted' && !sent.suspect && sent.message_id !== undefined)
        await this.ports.asks.change(id, { message_id: sent.message_id })
    }
    for (const one of messages) answered.add(one.id)
  }

  /** Says something about a question. @returns later: to be tried again; undefined: no answer is left for it */
  async #tell({ session, user_id: to }: StoredAsk, text: string, key: string, until: number) {
    const request = { to, session, text, media: [], until, idempotency_key: `svc:question:${key}` }
    try {
      return await this.ports.sender.send(request, createDirectCall({ by: ownerOf }))
    } catch (error) {
      if (!(error instanceof SvcError)) throw error
      return error.code === 'rate_limited' ? 'later' : undefined
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
    const isNear = (one: Message) =>
      one !== messages[nth] && one.direction === 'received' && Math.abs(timestamp - one.timestamp) <= pauseMs
    if (lastSent(messages, nth)?.message_id !== message_id || messages.some(isNear)) return false
    if (this.runtime.clock.now() - timestamp <= pauseMs) return false
    if (grants && (await this.ports.findOwner(session)) !== user_id) return false
    // Others may have left the outbox since they were looked at, and are open longer then.
    const others = await this.ports.asks.listIn({ session, user_id })
    for (const one of others) if (!isOver(one)) await this.#noteSent(one)
    return this.ports.asks.wasOnlyOne(id, timestamp)
  }
}

/** Every principal that is not a key sees all entries of the outbox. */
const ownerOf: Principal = { kind: 'question' }

/** Whether a message came when a question was over. */
function isLate(
  { answer, answered_at, answered_in, expires_at }: StoredAsk,
  { id, timestamp }: Pick<Message, 'id' | 'timestamp'>,
): boolean {
  if (answer === undefined) return false
  return answered_in === undefined
    ? timestamp >= Math.min(expires_at, answered_at ?? expires_at)
    : id > answered_in
}

/** Returns the last message of the bot before one of a chat. */
const lastSent = (messages: readonly Message[], nth: number): Message | undefined =>
  messages.slice(0, nth).findLast(({ direction }) => direction === 'sent')

const isSameQuestion = (
  ask: StoredAsk,
  { grants, options, text, user_id }: Pick<NewAsk, 'grants' | 'options' | 'text' | 'user_id'>,
): boolean =>
  ask.text === text &&
  ask.user_id === user_id &&
  ask.grants === grants &&
  JSON.stringify(ask.options) === JSON.stringify(options)

/** How a question reads in a chat: in no language but its own. */
const formatAsk = ({ text, ...ask }: StoredAsk): string => [text, '', ...linesOf(ask)].join('\n')

const linesOf = ({ code, options }: Pick<StoredAsk, 'code' | 'options'>): string[] =>
  options.map(({ name }, nth) => `${code} ${nth + 1} = ${name}`)

/** What a person reads whose answers were not clear, also after the question was shown once more. */
const howTo = (ask: StoredAsk, isChinese: boolean): string =>
  [
    isChinese
      ? '没有看懂，还没有作出选择。请回复下面的一行：'
      : 'That was not clear, so nothing was chosen. Send one of these lines:',
    ...linesOf(ask),
  ].join('\n')

/** What a person reads who answers too late. */
const formatOver = (ask: StoredAsk, isChinese: boolean): string => {
  const text = cutMiddle(ask.text.replace(/\s+/g, ' '), mostQuoted)
  return isChinese
    ? `这个问题已经结束，你的回答没有被采用：${text}`
    : `This question is over, so your answer was not used: ${text}`
}

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
  const status = answer !== undefined ? ended : sent_at === undefined ? 'waiting' : 'open'
  return {
    id,
    status,
    session,
    user_id,
    text,
    choices: options.map(({ name }) => name),
    asked_at,
    ...(sent_at !== undefined && { sent_at }),
    ...(status === 'open' && { expires_at }),
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
