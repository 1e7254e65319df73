/**
 * Sends the stored answer of a turn. Each part has an idempotency key, and is counted after it was handed over. After
 * a crash a part may be handed over again with the same key: svc then answers with the result of the first time.
 */
import { basename } from 'node:path'
import type { Pace } from '../config.ts'
import {
  type AgentWork,
  type AnswerPart,
  isSvcError,
  type SendResult,
  type StoredTurn,
  type Svc,
  type SvcError,
  type TurnChange,
} from '../index.ts'
import { keptAnswers, mayUse } from '../model/answers.ts'
import { keyKnownMs } from '../model/message.ts'
import type { Clock } from '../platform/clock.ts'
import { isInside, realPathOf } from '../platform/files.ts'
import type { Log } from '../platform/log.ts'
import { RoomPart } from '../platform/runtime.ts'
import type { Tasks } from '../platform/tasks.ts'
import { ClaimLost, changeTurn } from './claim.ts'
import type { AgentConfig } from './config.ts'
import { PaceSlots, type SlotPorts } from './slots.ts'
import { type SessionNames, Talkers } from './talkers.ts'
import { type Texts, textsFor } from './texts.ts'

/** Number of answers that a message of a user allows. */
const allAnswers = 10
/** How often an answer that waits for a slot looks whether it still should. */
const lookEveryMs = 1000
/** A shorter wait causes no notice. */
const shortWaitMs = 15_000
/** How many of the newest messages of a user are searched for a text, which decides about the language. */
const messagesForLanguage = 5

export interface DeliveryPorts extends SlotPorts {
  readonly svc: Pick<Svc, 'history' | 'outbox'>
  readonly work: Pick<AgentWork, 'changeTurn' | 'getTurn'>
  readonly people: Pick<Talkers, 'findMark' | 'findOperator' | 'getSender'>
  /** Absent: nobody approves answers. */
  readonly approvals?: {
    areNeeded(turn: StoredTurn): Promise<boolean>
    propose(turn: StoredTurn, drafts: readonly number[]): Promise<void>
  }
  /** Returns the folder in which the agent worked for a user when it made a file. */
  findFolder(to: Recipient, path: string): Promise<string>
  readonly clock: Clock
  readonly log: Log
  /** Aborts when the process no longer runs the agent. */
  readonly over?: AbortSignal
}

/** A user of a session. */
type Recipient = Pick<StoredTurn, 'session' | 'user_id'>

/** What all that works for an agent needs. */
export interface AgentBase {
  readonly clock: Clock
  readonly log: Log
  /** Where the work is registered that the process repeats for its agents. */
  readonly tasks: Tasks
  /** Folder of the working folders of all agents. */
  readonly folders: string
  /** The pace of sending; absent: off. */
  readonly pace?: Pace | 'off'
  /** All agents of the process in their order, if there are several. */
  readonly agents?: readonly AgentConfig[]
  readonly names?: SessionNames
}

/** Creates what sends the answers of an agent, and what knows its people. */
export function createDelivery(
  svc: Svc,
  work: AgentWork,
  config: AgentConfig,
  { agents = [config], clock, folders, log, names, pace }: Omit<AgentBase, 'tasks'>,
  more: Pick<DeliveryPorts, 'approvals' | 'over'> = {},
): { delivery: AnswerDelivery; people: Talkers } {
  const people = new Talkers({ svc, work, config, agents, clock, names })
  const findFolder: DeliveryPorts['findFolder'] = async (to, path) => {
    const places = (await people.listFolders(to, folders)).map(({ folder }) => folder)
    const real = await Promise.all(places.map(realPathOf))
    const at = places.findIndex((folder, nth) => isInside(folder, path) || isInside(real[nth]!, path))
    return places[Math.max(0, at)]!
  }
  return {
    people,
    delivery: new AnswerDelivery({ svc, work, people, findFolder, clock, log, pace, ...more }),
  }
}

export class AnswerDelivery extends RoomPart<DeliveryPorts> {
  readonly #slots = new PaceSlots(this.ports)
  /** When the answers of turns that wait for a slot will come (Unix ms). */
  readonly #dueAt = new Map<number, number>()
  /** By user: the outbox id of the newest answer to a command, which may still wait. */
  readonly #replies = new Map<string, string>()

  /**
   * Sends as many parts as the user's answers allow, and keeps one answer in reserve. The turn ends as `answered`, or
   * as `more` if parts are left.
   *
   * @param isStopped returns whether to end after the part that is being sent
   * @throws SvcError `store_unavailable`, `shutting_down`; ClaimLost
   */
  async deliver(turn: StoredTurn, isStopped = () => false): Promise<void> {
    const { approvals, log } = this.ports
    const parts = turn.answer?.parts ?? []
    const isDraft = (await approvals?.areNeeded(turn)) === true
    const drafts: number[] = []
    // All drafts of an answer have one code, so a repeated delivery starts with the first part. Their keys find those
    // that an earlier process made.
    let nth = isDraft && turn.status !== 'more' && !this.#isLate(turn) ? 0 : (turn.parts_sent ?? 0)
    // A draft does not wait for a slot here: it first waits for its approval.
    if (!isDraft && turn.status !== 'more') await this.#awaitSlot(turn, isStopped)
    else if (!isDraft && (await this.#isTooEarly(turn))) return
    const end = this.#isLate(turn) ? nth : nth + (await this.#countFitting(turn, parts.slice(nth)))
    const mark = end < parts.length ? await this.ports.people.findMark(turn) : undefined
    const more = end < parts.length ? (await this.textsFor(turn)).more(parts.length - end, mark) : undefined
    // A file has no room for a line, so the last text has it.
    const last = more || isDraft ? -1 : parts.findLastIndex(part => 'text' in part)
    try {
      while (nth < end && !isStopped()) {
        const line = nth === last ? await this.#sayLeft(turn, end - nth) : nth + 1 === end ? more : undefined
        const sent = await this.#sendPart(turn, nth, parts[nth]!, line, isDraft)
        if (sent?.waits_for === 'approval') drafts.push(Number(sent.outbox_id))
        nth += 1
        await this.#change(turn, { parts_sent: nth })
      }
      if (drafts.length > 0) await approvals?.propose(turn, drafts)
    } catch (error) {
      if (!isFinal(error)) throw error
      log.warn('answer of an agent not sent', { turn: turn.id, part: nth, error })
      return this.#change(turn, { status: 'more', error: error.message, ended_at: this.ports.clock.now() })
    }
    const status = nth < parts.length ? 'more' : 'answered'
    await this.#change(turn, { status, ended_at: this.ports.clock.now() })
  }

  /**
   * Sends a text that is no part of an answer. What cannot be sent at all is logged.
   *
   * @param to with an agent, the text is about its turn: it begins with the name where that has to be said
   * @param key makes it unique, so that it is sent once
   * @throws SvcError `store_unavailable`, `shutting_down`
   */
  async tell(
    to: Recipient & { agent?: string },
    text: (texts: Texts) => string,
    key: string,
    how?: 'common',
  ): Promise<void> {
    const mark = to.agent === undefined ? undefined : await this.ports.people.findMark(to)
    const marked = mark ? (texts: Texts) => `[${mark}] ${text(texts)}` : text
    await this.show(to, marked, key, { saysLeft: true, how })
  }

  /**
   * Answers a command. Cancels an answer to an earlier command that still waits, since it is no longer true. Those about a
   * time stay true.
   */
  async reply(to: Recipient, text: (texts: Texts) => string, key: string): Promise<void> {
    const chat = `${to.session}\0${to.user_id}`
    if (/:(at|cancel)$/.test(key)) return void (await this.show(to, text, key, { how: 'common' }))
    const earlier = this.#replies.get(chat)
    this.#replies.delete(chat)
    if (earlier !== undefined) await this.ports.svc.outbox.cancel(earlier).catch(ignoreFinal)
    const sent = await this.show(to, text, key, { how: 'common' })
    if (sent?.status === 'queued' && sent.outbox_id) this.#replies.set(chat, sent.outbox_id)
  }

  /** Returns how long the answer of a turn still waits for a slot, in minutes; undefined if it does not. */
  minutesToWait({ id }: Pick<StoredTurn, 'id'>): number | undefined {
    const dueAt = this.#dueAt.get(id)
    return dueAt === undefined ? undefined : this.#minutesTo(dueAt)
  }

  /** Whether an optional message may go now. It may not take the last answer or the last slot. */
  async hasRoom(to: Recipient): Promise<boolean> {
    return mayUse('agent', { remaining: await this.countLeft(to) }) && (await this.#slots.look(to)).free > 1
  }

  /**
   * Same as `tell`.
   *
   * @param saysLeft whether one of the last two answers says how many are left; a question does not
   * @returns the result; undefined if it cannot be sent, or was sent before with other words
   */
  async show(
    to: Recipient,
    text: (texts: Texts) => string,
    key: string,
    { saysLeft = false, how }: { saysLeft?: boolean; how?: 'common' | undefined } = {},
  ): Promise<SendResult | undefined> {
    const { log } = this.ports
    try {
      const texts = await this.textsFor(to)
      const { free, freeAt } = await this.#slots.look(to)
      // The message in the last slot says when the next one can come.
      const next = free === 1 ? texts.nextIn(this.#minutesTo(freeAt(2))) : undefined
      const left = saysLeft && !next ? await this.#sayLeft(to, 1) : undefined
      return await this.#send(to, { text: text(texts) }, key, next ?? left, how)
    } catch (error) {
      if (!isFinal(error)) throw error
      if (error.code !== 'idempotency_conflict' && !error.details?.erased)
        log.warn('user of an agent not told', { ...to, error })
      return undefined
    }
  }

  /** Tells the operator something about another user, unless only the answer in reserve is left. */
  async tellOwner(
    { session, user_id }: Recipient,
    text: (texts: Texts) => string,
    key: string,
  ): Promise<void> {
    const to = await this.ports.people.findOperator(session)
    if (to === undefined || to.user_id === user_id) return
    if (await this.hasRoom(to)) await this.tell(to, text, key)
  }

  /** Returns the texts in the language of the user. */
  async textsFor({ session, user_id }: Recipient): Promise<Texts> {
    const wanted = { session, user_id, direction: 'received', limit: messagesForLanguage } as const
    const { messages } = await this.ports.svc.history(wanted).catch(error => {
      if (!isFinal(error)) throw error
      return { messages: [] }
    })
    return textsFor(...messages.map(({ text }) => text))
  }

  /** Whether the delivery began so long ago that svc may no longer know the key of the part that was being sent. */
  #isLate({ started_at = 0, status }: StoredTurn): boolean {
    return status === 'answering' && this.ports.clock.now() - started_at > keyKnownMs
  }

  /** Returns how many of these parts are sent now. */
  async #countFitting(turn: StoredTurn, parts: readonly AnswerPart[]): Promise<number> {
    // With no answer left, the parts wait until the user writes, and then have all answers.
    const left = await this.countLeft(turn)
    const { free } = left === 0 ? { free: allAnswers } : await this.#slots.look(turn)
    const fits = Math.max(1, Math.min(left || allAnswers, free) - keptAnswers('agent'))
    if (fits >= parts.length) return parts.length
    // After a file, the line about the rest is a message of its own.
    return 'path' in parts[fits - 1]! ? Math.max(1, fits - 1) : fits
  }

  /**
   * Waits before a turn begins until its answer will find a slot.
   *
   * @returns whether it waited
   * @throws same as `deliver`
   */
  async awaitTurn(turn: StoredTurn, isStopped: () => boolean): Promise<boolean> {
    return (await this.ports.approvals?.areNeeded(turn)) !== true && this.#awaitSlot(turn, isStopped)
  }

  /**
   * Waits until the answer of a turn may take a slot, since the last slots are kept for other messages. Tells the
   * user first when that will be. With no answer left, the parts wait in the outbox instead.
   *
   * @returns whether it waited
   * @throws ClaimLost if the user was erased; the reason of the signal
   */
  async #awaitSlot(turn: StoredTurn, isStopped: () => boolean): Promise<boolean> {
    const { clock, over, work } = this.ports
    let dueAt = 0
    try {
      for (; !isStopped(); await clock.sleep(lookEveryMs, over)) {
        over?.throwIfAborted()
        if (clock.now() < dueAt) {
          const current = await work.getTurn(turn.id)
          if (!current) throw new ClaimLost('the user of the turn was erased')
          if (current.stopping) break
          continue
        }
        const { free, freeAt } = await this.#slots.look(turn)
        if (free > this.#slots.kept || (await this.countLeft(turn)) === 0) break
        const isFirst = dueAt === 0
        dueAt = freeAt(this.#slots.kept + 1)
        this.#dueAt.set(turn.id, dueAt)
        if (isFirst && free > 0 && dueAt - clock.now() > shortWaitMs)
          await this.tell(turn, texts => texts.ready(this.#minutesTo(dueAt)), `${keyOf(turn)}:ready`)
      }
    } finally {
      this.#dueAt.delete(turn.id)
    }
    return dueAt > 0
  }

  /** Tells a user who asks for the rest of an answer if it cannot come now. */
  async #isTooEarly(turn: StoredTurn): Promise<boolean> {
    const { free, freeAt } = await this.#slots.look(turn)
    if (free > 1 || (await this.countLeft(turn)) === 0) return false
    const minutes = this.#minutesTo(freeAt(this.#slots.kept + 1))
    // Without a free slot nothing is sent: the last message has already said when.
    if (free === 1)
      await this.#send(
        turn,
        { text: (await this.textsFor(turn)).moreIn(minutes) },
        `${keyOf(turn)}:more:${this.ports.clock.now()}`,
      )
    return true
  }

  #minutesTo(time: number): number {
    return Math.max(1, Math.ceil((time - this.ports.clock.now()) / 60_000))
  }

  /** Counts the answers that are left to a user, without those that waiting messages will use. */
  async countLeft({ session, user_id }: Recipient): Promise<number> {
    const { people, svc } = this.ports
    const [user] = await (await people.getSender()).users({ session, user_id })
    const waiting = await svc.outbox.list({ session, user_id })
    const used = waiting.flatMap(({ parts }) => parts).filter(({ status }) => status === 'queued').length
    return Math.max(0, (user?.remaining ?? 0) - used)
  }

  /**
   * Returns the line that ends the last two answers. With no answer left there is none: what is sent then waits until
   * the user writes.
   *
   * @param takes how many answers go out now
   */
  async #sayLeft(to: Recipient, takes: number): Promise<string | undefined> {
    const left = await this.countLeft(to)
    const after = Math.max(0, left - takes)
    return left > 0 && after < 2 ? (await this.textsFor(to)).left(after) : undefined
  }

  async #sendPart(
    turn: StoredTurn,
    nth: number,
    part: AnswerPart,
    more: string | undefined,
    isDraft: boolean,
  ): Promise<SendResult | undefined> {
    const key = `${keyOf(turn)}:${nth}`
    const send = (one: AnswerPart, own: string) =>
      this.#send(turn, one, own, more, isDraft ? 'draft' : undefined)
    try {
      return await send(part, key)
    } catch (error) {
      if (!isFinal(error)) throw error
      // The key is known with other content: the part was sent before the file, or the line at its end, changed.
      if (error.code === 'idempotency_conflict') return undefined
      if (!('path' in part)) throw error
      this.ports.log.warn('file of an agent not sent', { turn: turn.id, path: part.path, error })
      const { noFile } = await this.textsFor(turn)
      return send({ text: noFile(part.name ?? basename(part.path)) }, `${key}:lost`)
    }
  }

  async #send(
    { session, user_id }: Recipient,
    part: AnswerPart,
    key: string,
    more?: string,
    how?: 'common' | 'draft',
  ): Promise<SendResult> {
    const sender = await this.ports.people.getSender(how)
    const text = [...('text' in part ? [part.text] : []), ...(more ? [more] : [])].join('\n\n')
    const input = {
      to: user_id,
      session,
      ...(text && { text }),
      ...('path' in part && {
        media: [{ kind: part.kind, path: part.path, ...(part.name && { file_name: part.name }) }],
      }),
      when_closed: 'queue',
      idempotency_key: key,
    } as const
    // The agent may have replaced the file by a link to one that it may not read, and a store that comes from elsewhere may
    // name any file.
    const below = 'path' in part ? await this.ports.findFolder({ session, user_id }, part.path) : undefined
    return sender.send(input, { ...(below !== undefined && { below }) })
  }

  #change({ id }: StoredTurn, change: TurnChange): Promise<void> {
    return changeTurn(this.ports.work, id, change)
  }
}

function ignoreFinal(error: unknown): void {
  if (!isFinal(error)) throw error
}

/** Whether trying again does not help. */
const isFinal = (error: unknown): error is SvcError =>
  isSvcError(error) && error.code !== 'store_unavailable' && error.code !== 'shutting_down'

/** Returns the prefix of the idempotency keys of everything that is sent for a turn. */
export const keyOf = ({ id, messages }: Pick<StoredTurn, 'id' | 'messages'>): string =>
  `agent:${messages[0] ?? `t${id}`}`
