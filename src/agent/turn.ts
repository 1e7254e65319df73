/** Runs one turn of a conversation: the limits, the agent, and the end of the turn. */

import { createHash } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import {
  type AgentWork,
  type ConversationKey,
  type ConversationState,
  isSvcError,
  type StoredAnswer,
  type StoredTurn,
  type Svc,
  SvcError,
  type TurnStatus,
} from '../index.ts'
import { type Clock, endsWithin } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { Permits } from '../platform/permits.ts'
import { RoomPart } from '../platform/runtime.ts'
import { linkSignals, waitForAbort } from '../platform/signals.ts'
import { toAnswer } from './answer.ts'
import { writeInlinePictures } from './answer-files.ts'
import type { Backend, SessionContext, TurnResult } from './backend.ts'
import { ClaimLost, changeTurn } from './claim.ts'
import type { AgentConfig } from './config.ts'
import { type AnswerDelivery, keyOf } from './delivery.ts'
import { formatFailure } from './failure-text.ts'
import { type TurnNotices, tellMeanwhile } from './notices.ts'
import { buildPrompt, readMessages } from './prompt.ts'
import type { Questions } from './questions.ts'
import { noteSession, toTitle } from './sessions.ts'
import type { Chat, Talkers } from './talkers.ts'
import type { Texts } from './texts.ts'
import type { Times } from './times.ts'

/** The typing sign disappears after some seconds. It is renewed this often. */
const typingEveryMs = 4500
/** How often the process looks whether somebody asked to stop the turn. */
const lookEveryMs = 1000
/** Longest wait for an agent that has to stop. */
const stopMs = 2000
/** Wait before an answer is stored again, after an error of the store. */
const storeAgainMs = 2000
const dayMs = 24 * 60 * 60_000

export interface TurnPorts {
  readonly svc: Pick<Svc, 'history'>
  readonly work: AgentWork
  readonly backend: Backend
  readonly config: AgentConfig
  readonly people: Talkers
  readonly delivery: AnswerDelivery
  readonly questions: Pick<Questions, 'ask' | 'takeAnswer'>
  readonly times: Times
  /** Folder of the working folders of all agents. */
  readonly folders: string
  /** The data directory, which an isolated agent does not see. */
  readonly dataFolder: string
  /** Limits the turns that run at the same time. */
  readonly permits: Permits
  /** Limits those of guests among them, so that others can always begin one. */
  readonly guestPermits: Permits
  readonly clock: Clock
  readonly log: Log
  /** Aborts when the process no longer runs the agent. */
  readonly over: AbortSignal
}

/**
 * user: the command /stop or /new. message: a new message interrupts. others: the panel, or a command of svc. limit: it
 * took too long.
 */
export type StoppedBy = 'user' | 'message' | 'others' | 'limit'

/** Why a turn is stopped: the reason of its signal. */
export class TurnStopped extends Error {
  override readonly name = 'TurnStopped'
  readonly by: StoppedBy
  /** The message to the user about it; absent: none, or another part of svc sends it. */
  readonly text: ((texts: Texts) => string) | undefined

  constructor(by: StoppedBy, why: string, text?: (texts: Texts) => string) {
    super(why)
    this.by = by
    this.text = text
  }
}

/** A turn among the others of its conversation. */
export interface TurnPlace {
  /** Aborts with a `TurnStopped`. */
  readonly stop: AbortController
  readonly notices: TurnNotices
  /** Whether no other turn of the conversation waits. */
  readonly isLast: boolean
}

export interface RunnerPorts extends TurnPorts {
  readonly key: ConversationKey
  /** Changes what is kept about the conversation. isChoice: a person chose that, so it has a line in the audit log. */
  change(change: (state: ConversationState) => ConversationState, isChoice?: boolean): Promise<void>
}

export class TurnRunner extends RoomPart<RunnerPorts> {
  /**
   * Brings a turn to its end, whatever state it was left in.
   *
   * @throws SvcError `store_unavailable`, `shutting_down`; ClaimLost
   */
  async run(turn: StoredTurn, place: TurnPlace): Promise<void> {
    const { config, delivery, people } = this.ports
    const { isLast, stop } = place
    if (turn.status === 'answering') return delivery.deliver(turn, () => isByUser(stop))
    if (!(await people.mayTalk(turn.session, turn.user_id))) return this.#refuse(turn)
    const reason: unknown = stop.signal.reason
    if (reason instanceof TurnStopped) return this.#end(turn, reason)
    if (turn.stopping) return this.#end(turn, byOthers())
    if (turn.status === 'running' && !config.resumeTurns)
      return this.#endAs(turn, 'interrupted', 'its process ended', texts => texts.interrupted)
    if (await this.#isDayOver(turn)) return this.#endByDay(turn, isLast)
    const answer = await this.#answer(turn, place)
    if (!answer) return
    await delivery.deliver({ ...turn, status: 'running', answer }, () => isByUser(stop))
  }

  /** Ends the turn of a user who may not talk with the agent, and tells the owner. */
  async #refuse(turn: StoredTurn): Promise<void> {
    const { delivery, log } = this.ports
    const { session, user_id } = turn
    log.info('a user who may not talk with the agent wrote', { session, user: user_id })
    if (turn.source === 'message')
      await delivery.tellOwner(turn, texts => texts.stranger, `${keyOf(turn)}:stranger`)
    await this.#endAs(turn, 'failed', 'the user may not talk with the agent')
  }

  /** Whether the agent, or the guest, has had as many turns as a day allows. */
  async #isDayOver({ session, user_id }: StoredTurn): Promise<boolean> {
    const { clock, config, people, work } = this.ports
    const { name, turnsPerDay } = config
    const since = clock.now() - dayMs
    if (turnsPerDay !== undefined && (await work.countTurns(name, since)) >= turnsPerDay) return true
    const guest = await people.findGuest(session)
    return guest !== undefined && (await work.countTurns(name, since, user_id)) >= guest.turnsPerDay
  }

  /**
   * Ends a turn above the limit of the day. Tells the user, once for all turns that wait, and the owner of the account
   * once a day.
   */
  async #endByDay(turn: StoredTurn, isLast: boolean): Promise<void> {
    const { clock, delivery, people } = this.ports
    const text = ({ dayIsOver }: Texts) => dayIsOver
    const day = Math.floor(clock.now() / dayMs)
    if (isLast) await delivery.tell(turn, text, `${keyOf(turn)}:day`)
    // Many guests may reach theirs on one day: notices of it would use up the answers to the operator.
    if (!(await people.findGuest(turn.session)))
      await delivery.tellOwner(turn, text, `agent:day:${day}:${turn.session}:owner`)
    await this.#endAs(turn, 'failed', 'the limit of turns per day is reached')
  }

  /** Runs the agent, and stores what it answers. @returns undefined if there is no answer and the turn has ended */
  async #answer(turn: StoredTurn, { notices, stop }: TurnPlace): Promise<StoredAnswer | undefined> {
    const { clock, config, delivery, guestPermits, log, over, people, permits, work } = this.ports
    using either = linkSignals(stop.signal, over)
    const { signal } = either
    await using _telling = tellMeanwhile(turn, notices, this.ports, signal)
    try {
      const isGuest = (await people.findGuest(turn.session)) !== undefined
      using _share = isGuest ? await guestPermits.take(signal) : undefined
      using _permit = await permits.take(signal)
      await changeTurn(work, turn.id, { status: 'running', started_at: clock.now() })
      const { state } = (await work.claim(this.ports.key)) ?? {}
      if (!state) throw new ClaimLost('another process works on the conversation')
      const place = await findPlace(this.ports, turn, state)
      const { folder } = place
      if (state.folder !== folder)
        await this.ports.change(now => (now.place === state.place ? { ...now, folder } : now))
      const result = await this.#watched(turn, stop, () =>
        this.#runBackend(turn, { ...place, signal }, notices),
      )
      signal.throwIfAborted()
      const { early, files = [] } = result
      const { text, ...inline } = await writeInlinePictures(result.text, folder)
      const leftOut = inline.leftOut + (result.leftOut ?? 0)
      const texts = await delivery.textsFor(turn)
      const notes = [leftOut > 0 && texts.leftOut(leftOut), early && texts.early[early]].filter(
        note => typeof note === 'string',
      )
      // Who approves an answer must see all of it.
      const long = config.approve ? 'split' : config.long
      const said = await toAnswer(text, { files, folder, long, notes })
      const full = said.parts.length === 0 ? await toAnswer(texts.silent, { folder }) : said
      const answer = markAnswer(full, await people.findMark(turn))
      await this.#untilStored(() => changeTurn(work, turn.id, { status: 'answering', answer }))
      return answer
    } catch (error) {
      if (over.aborted || error instanceof ClaimLost) throw error
      const reason: unknown = stop.signal.reason
      if (reason instanceof TurnStopped) await this.#end(turn, reason)
      else {
        log.warn('turn of an agent failed', { turn: turn.id, error })
        await this.#fail(turn, error)
      }
      return undefined
    }
  }

  /** Ends a turn that failed. The person who decides for the agent gets the reason, others a sentence without it. */
  async #fail(turn: StoredTurn, error: unknown): Promise<void> {
    const { clock, delivery, people } = this.ports
    const why = error instanceof Error ? error.message : String(error)
    const reason = ({ failure }: Texts) => formatFailure(error, failure)
    const { session, user_id } = (await people.findOperator(turn.session)) ?? {}
    const isOwn = session === turn.session && user_id === turn.user_id
    await this.#endAs(turn, 'failed', why, isOwn ? reason : texts => texts.failed)
    if (isOwn) return
    // The key allows one message a day for the same reason. The user is not named: the name must not stay in the chat
    // of the owner.
    const key = createHash('sha256')
      .update(`${Math.floor(clock.now() / dayMs)} ${why}`)
      .digest('hex')
    await delivery.tellOwner(turn, texts => texts.ofOther(reason(texts)), `agent:failed:${key.slice(0, 16)}`)
  }

  /** Repeats a write while the store fails: the answer of an agent exists nowhere else yet. */
  async #untilStored(write: () => Promise<void>): Promise<void> {
    const { clock, log, over } = this.ports
    for (;;) {
      try {
        return await write()
      } catch (error) {
        if (over.aborted || !isSvcError(error, 'store_unavailable')) throw error
        log.warn('answer of an agent not stored yet', { error })
        await clock.sleep(storeAgainMs, over)
      }
    }
  }

  async #runBackend(turn: StoredTurn, place: SessionContext, notices: TurnNotices): Promise<TurnResult> {
    const { backend, clock, config, log, people, questions, svc, times } = this.ports
    const { transcribe } = config
    const { folder, isolatedFrom, signal } = place
    const isOwn = await people.decides(turn.session, turn.user_id)
    const { download } = await people.getSender()
    const ports = { svc, name: config.name, download, folder, isolatedFrom, transcribe, signal, log }
    const prompt =
      turn.prompt === undefined
        ? await buildPrompt(await readMessages(svc, turn), ports)
        : { text: turn.prompt, files: [] }
    signal.throwIfAborted()
    if (!prompt.text && prompt.files.length === 0)
      throw new SvcError('no_media', 'the messages contain nothing that an agent can read')
    let session = place.agentSession
    const title = toTitle(prompt.text)
    const keepSession = async (agent_session: string) => {
      // After /new, the old session must not come back.
      if (turn.isFresh || signal.aborted) return
      const before = session
      session = agent_session
      const note = (now: ConversationState) =>
        noteSession(now, { agent_session, folder, title }, before, clock.now())
      await this.ports.change(note)
    }
    const running = backend.run(prompt, {
      ...place,
      agentSession: turn.isFresh ? undefined : session,
      ask: request => {
        const answer = questions.ask(turn, request, signal)
        return isOwn ? notices.whileAsking(answer) : answer
      },
      noteStarting: () => notices.noteStarting(),
      propose: (when, prompt) => times.propose(turn, when, prompt),
      keepSession: id =>
        void keepSession(id).catch(error => log.warn("agent's session not kept", { turn: turn.id, error })),
    })
    try {
      await Promise.race([running, waitForAbort(signal)])
      signal.throwIfAborted()
      const result = await running
      if (result.agentSession) await keepSession(result.agentSession)
      return result
    } finally {
      // The next turn must not begin beside it.
      if (signal.aborted)
        await endsWithin(
          stopMs,
          running.catch(() => undefined),
        )
    }
  }

  /**
   * Runs `work`. Meanwhile shows that the bot is typing, and stops the turn at the limit or when somebody asks for
   * that.
   */
  async #watched<T>(turn: StoredTurn, stop: AbortController, work: () => Promise<T>): Promise<T> {
    const ended = new AbortController()
    using either = linkSignals(stop.signal, this.ports.over, ended.signal)
    const watching = this.#watch(turn, stop, either.signal)
    try {
      return await work()
    } finally {
      ended.abort()
      await watching
    }
  }

  async #watch(turn: StoredTurn, stop: AbortController, over: AbortSignal): Promise<void> {
    const { clock, config, log, people, work } = this.ports
    const { session, user_id } = turn
    const show = async (typing: boolean) => {
      const sender = await people.getSender()
      await sender.showTyping(user_id, { session, typing })
    }
    const endsAt = clock.monotonic() + config.minutesPerTurn * 60_000
    for (let typesAt = 0; !over.aborted; await clock.sleep(lookEveryMs, over)) {
      if (clock.monotonic() >= typesAt) {
        typesAt = clock.monotonic() + typingEveryMs
        show(true).catch(error => log.debug('typing not shown', { error }))
      }
      const current = await work.getTurn(turn.id).catch(() => turn)
      if (!current) stop.abort(new TurnStopped('others', 'its user was erased'))
      else if (current.stopping) stop.abort(byOthers())
      if (clock.monotonic() > endsAt) stop.abort(tooLong(config.minutesPerTurn))
    }
    // Not awaited: it must not delay the answer.
    show(false).catch(error => log.debug('typing not ended', { error }))
  }

  async #end(turn: StoredTurn, { by, message, text }: TurnStopped): Promise<void> {
    await this.#endAs(turn, by === 'limit' ? 'failed' : 'stopped', message, text)
    if (by === 'limit' && text) {
      const { delivery, people } = this.ports
      const who = await people.nameOf(turn.session, turn.user_id)
      await delivery.tellOwner(turn, texts => texts.ofUser(who, text(texts)), `${keyOf(turn)}:owner`)
    }
  }

  /** Ends a turn. First tells its user, unless the user was erased. @throws ClaimLost then */
  async #endAs(
    turn: StoredTurn,
    status: TurnStatus,
    error: string,
    text?: (texts: Texts) => string,
  ): Promise<void> {
    const { clock, delivery, work } = this.ports
    if (!(await work.getTurn(turn.id))) throw new ClaimLost('the user of the turn was erased')
    if (text) await delivery.tell(turn, text, `${keyOf(turn)}:${status}`)
    await changeTurn(work, turn.id, { status, error, ended_at: clock.now() })
  }
}

/** Returns where and how the agent works for a user; makes the folder if needed. */
export async function findPlace(
  { config, dataFolder, folders, people }: TurnPorts,
  chat: Chat,
  { agent_session: agentSession, mode, model, place }: ConversationState,
): Promise<Omit<SessionContext, 'signal'>> {
  const places = await people.listFolders(chat, folders)
  const { folder } = places.find(({ name }) => name === place) ?? places[0]!
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const guest = await people.findGuest(chat.session)
  const isolatedFrom = config.isolate || (guest && !guest.trusted) ? dataFolder : undefined
  // Another person may decide since.
  const decides = await people.decides(chat.session, chat.user_id)
  const canPropose = decides && config.commands
  return { folder, isolatedFrom, agentSession, canPropose, ...(decides && { mode, model }) }
}

/** Returns an answer whose first text begins with a name. */
function markAnswer({ parts }: StoredAnswer, name: string | undefined): StoredAnswer {
  const first = name === undefined ? undefined : parts.find(part => 'text' in part)
  return { parts: parts.map(part => (part === first ? { text: `[${name}]\n${first.text}` } : part)) }
}

const isByUser = ({ signal }: AbortController) =>
  signal.reason instanceof TurnStopped && signal.reason.by === 'user'

const byOthers = () => new TurnStopped('others', 'a person stopped it', texts => texts.stopped(0))

const tooLong = (minutes: number) =>
  new TurnStopped('limit', `it took more than ${minutes} min`, texts => texts.tooLong(minutes))
