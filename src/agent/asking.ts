/**
 * Asks the operator of an agent, usually the owner of the account, what the agent wants to do, and waits for the answer.
 * It comes from a chat, from the panel or from a command, in any process, through the store. Without an answer the option
 * that rejects is taken, never one that allows. Nobody else is asked.
 */

import {
  type AgentWork,
  isSvcError,
  type QuestionOption,
  type SendResult,
  type StoredQuestion,
  type StoredTurn,
  type Svc,
  SvcError,
} from '../index.ts'
import { codeSigns, findRejection, isCode } from '../model/typed-answer.ts'
import type { Clock } from '../platform/clock.ts'
import { randomBytes } from '../platform/lazy-crypto.ts'
import type { Log } from '../platform/log.ts'
import { createMutex, type RunAlone } from '../platform/one-at-a-time.ts'
import { RoomPart } from '../platform/runtime.ts'
import { linkSignals } from '../platform/signals.ts'
import type { PermissionRequest } from './backend.ts'
import type { AnswerDelivery } from './delivery.ts'
import { formatQuestion, questionLength, toOneLine } from './question-text.ts'
import type { Chat, Talkers } from './talkers.ts'
import type { Texts } from './texts.ts'

/** Time to answer a question, from when it was sent. */
const expiresMs = 5 * 60_000
/** Longest wait of a question in the outbox. */
const longestWaitMs = 60 * 60_000
/** How often the store is read for an answer. */
const lookEveryMs = 500
/** Maximum number of questions of a turn that wait while one is asked. Further ones are rejected. */
const maxWaiting = 20
const maxOptions = 10
const optionLength = 100
/** Longest id of an option that the operation takes. */
const optionIdLength = 200
export interface AskingPorts {
  readonly svc: Pick<Svc, 'outbox'>
  readonly work: AgentWork
  readonly people: Pick<Talkers, 'findOperator' | 'nameOf'>
  readonly delivery: Pick<AnswerDelivery, 'countLeft' | 'show' | 'tell'>
  readonly clock: Clock
  readonly log: Log
}

export class Asking<Ports extends AskingPorts = AskingPorts> extends RoomPart<Ports> {
  /** The open requests of each turn, by its id. They are asked one after another. */
  readonly #lines = new Map<number, { count: number; runAlone: RunAlone }>()
  /** Questions are sent one after another, so that each sees how many answers the one before left. */
  readonly #sendAlone = createMutex()

  /**
   * Asks the operator, and waits for the answer, or five minutes after the question was sent.
   *
   * @returns the id of the chosen option, or of one that rejects
   * @throws SvcError `forbidden` without an answer if no option rejects; the reason of a signal
   */
  async ask(turn: StoredTurn, request: PermissionRequest, signal: AbortSignal): Promise<string> {
    const line = this.#lines.get(turn.id) ?? { count: 0, runAlone: createMutex() }
    if (line.count > maxWaiting) {
      this.ports.log.warn('an agent asks too much at the same time; rejected', { turn: turn.id })
      return rejectionOf(request.options)
    }
    this.#lines.set(turn.id, line)
    line.count += 1
    try {
      return await line.runAlone(() => this.#askNext(turn, request, signal))
    } finally {
      line.count -= 1
      if (line.count === 0) this.#lines.delete(turn.id)
    }
  }

  /** Ends the questions of an earlier process: their turns do not go on. */
  async closeLost(agent: string): Promise<void> {
    for (const question of await this.ports.work.listQuestions(agent)) await this.#close(question)
  }

  async #askNext(turn: StoredTurn, request: PermissionRequest, turnSignal: AbortSignal): Promise<string> {
    using linked = linkSignals(turnSignal, request.signal)
    const { signal } = linked
    signal.throwIfAborted()
    const { clock, log, work } = this.ports
    const options = request.options
      .filter(({ id }) => id.length > 0 && id.length <= optionIdLength)
      .slice(0, maxOptions)
      .map(option => ({ ...option, name: toOneLine(option.name, optionLength) }))
    if (options.length === 0) return rejectionOf(request.options)
    const text = toOneLine(request.text, questionLength)
    for (const question of await work.listQuestions())
      if (question.turn === turn.id) await this.#close(question)
    const code = await newCode(work)
    const id = await work.ask({ turn: turn.id, text, options, code, expires_at: clock.now() + expiresMs })
    log.info('an agent asks', { turn: turn.id, question: id })
    let isInTime = false
    try {
      this.#askInChat(id)
      isInTime = await this.#waitForAnswer(id, signal)
    } finally {
      // If a person has answered meanwhile, that answer stays.
      const question = await work.getQuestion(id)
      if (question) await this.#close(question)
      if (question && !isInTime && !signal.aborted) await this.#tellOver(question)
    }
    signal.throwIfAborted()
    const answer = (await work.getQuestion(id))?.answer
    return options.some(one => one.id === answer) ? answer! : rejectionOf(request.options)
  }

  /** Waits until somebody answers, or the time is over. @returns whether somebody did */
  async #waitForAnswer(id: number, signal: AbortSignal): Promise<boolean> {
    const { clock, log, work } = this.ports
    let expiresAt = 0
    let endsAt = Number.POSITIVE_INFINITY
    while (!signal.aborted && clock.monotonic() < endsAt) {
      try {
        const question = await work.getQuestion(id)
        if (!question || question.answer !== undefined) return true
        // The clock of the machine may be set while it waits.
        if (question.expires_at !== expiresAt) endsAt = clock.monotonic() + question.expires_at - clock.now()
        expiresAt = question.expires_at
        if (clock.now() >= expiresAt) return false
        if (question.entry !== undefined) await this.#followEntry(question, question.entry)
      } catch (error) {
        log.warn('answer to an agent cannot be read', { question: id, error })
      }
      await clock.sleep(lookEveryMs, signal)
    }
    return false
  }

  /** Notes when a question that waits in the outbox is sent. */
  async #followEntry(question: StoredQuestion, entry: number): Promise<void> {
    const { parts, ended } = await this.ports.svc.outbox.get(String(entry))
    const [{ message_id, status } = {}] = parts
    if (!ended || message_id === question.message_id) return
    if (status === 'accepted') await this.#noteSent(question, message_id)
    else if (question.sent_at === undefined) await this.#noteSent(question)
  }

  /** Records that a message that shows a question was sent. The five minutes begin with the first one. */
  async #noteSent({ id, sent_at }: StoredQuestion, message_id?: string): Promise<void> {
    const now = this.ports.clock.now()
    await this.ports.work.changeQuestion(id, {
      sent_at: now,
      ...(message_id !== undefined && { message_id }),
      ...(sent_at === undefined && { expires_at: now + expiresMs }),
    })
  }

  /**
   * Sends a question to the chat, unless it was answered meanwhile, or the message would take the last answer: then
   * the panel alone has it.
   */
  #askInChat(id: number): void {
    this.#sendAlone(async () => {
      const { delivery, log, people, work } = this.ports
      const question = await work.getQuestion(id)
      if (!question || question.answer !== undefined) return
      const to = await people.findOperator(question.session, question.agent)
      if (to && (await delivery.countLeft(to)) >= 2) await this.show(question, to)
      else log.info('an agent asks in the panel alone', { turn: question.turn, question: id })
    }).catch((error: unknown) => {
      this.ports.log.warn('question of an agent not sent; it is in the panel', { question: id, error })
    })
  }

  /** Shows a question in a chat, the first time or once more. */
  async show(question: StoredQuestion, to: Chat): Promise<SendResult | undefined> {
    const { clock, delivery, people, svc, work } = this.ports
    const { id, options, sent_at, session, user_id } = question
    const isAgain = sent_at !== undefined
    const isOwn = user_id === to.user_id && session === to.session
    const user = isOwn ? undefined : await people.nameOf(session, user_id)
    const rejection = findRejection(options)
    const otherwise = rejection && options.indexOf(rejection) + 1
    const text = (texts: Texts) => formatQuestion({ ...question, user, otherwise, isAgain }, texts.question)
    const sent = await delivery.show(to, text, `agent:question:${id}${isAgain ? ':again' : ''}`)
    if (!sent || (sent.repeated && isAgain)) return sent
    if (sent.status === 'queued') {
      const expires_at = isAgain ? {} : { expires_at: clock.now() + longestWaitMs }
      const entry = Number(sent.outbox_id)
      // It may have been answered while it was handed over.
      if (!(await work.changeQuestion(id, { entry, ...expires_at }))) await withdraw(svc, entry)
    } else if (sent.status !== 'refused')
      await this.#noteSent(
        question,
        sent.status === 'accepted' && !sent.suspect ? sent.message_id : undefined,
      )
    return sent
  }

  #close({ id, options }: StoredQuestion): Promise<void> {
    return endQuestion(this.ports, id, findRejection(options)?.id ?? '')
  }

  async #tellOver({ agent, code, id, session, turn }: StoredQuestion): Promise<void> {
    const { delivery, people, work } = this.ports
    if ((await work.getTurn(turn))?.status !== 'running') return
    const to = await people.findOperator(session, agent)
    if (to && (await delivery.countLeft(to)) >= 2)
      await delivery.tell(to, ({ question }) => question.isOver(code), `agent:question:${id}:over`)
  }
}

/**
 * Ends a question; if a person has answered it, that answer stays. If its message still waits in the outbox, it is
 * not sent.
 */
export async function endQuestion(
  { svc, work }: { svc: Pick<Svc, 'outbox'>; work: Pick<AgentWork, 'closeQuestion' | 'getQuestion'> },
  id: number,
  option: string,
): Promise<void> {
  await work.closeQuestion(id, option)
  // The entry is read after the question is closed: then it cannot change any more.
  const entry = (await work.getQuestion(id))?.entry
  if (entry !== undefined) await withdraw(svc, entry)
}

/** Takes a question out of the outbox, if it still waits there. */
export async function withdraw({ outbox }: Pick<Svc, 'outbox'>, entry: number): Promise<void> {
  await outbox.cancel(String(entry)).catch(isLate)
}

/** Returns a code that no open question has. */
export async function newCode(work: Pick<AgentWork, 'listDrafts' | 'listQuestions'>): Promise<string> {
  const open = [...(await work.listQuestions()), ...(await work.listDrafts())]
  const taken = new Set(open.map(({ code }) => code))
  for (;;) {
    const code = [...randomBytes(4)].map(byte => codeSigns[byte % codeSigns.length]).join('')
    if (!taken.has(code) && isCode(code)) return code
  }
}

/** @throws SvcError `forbidden` if no option rejects */
function rejectionOf(options: readonly QuestionOption[]): string {
  const rejection = findRejection(options)
  if (rejection) return rejection.id
  throw new SvcError('forbidden', 'nobody answered the agent in time, and it offers no option that rejects', {
    hint: 'Answer within 5 minutes.',
  })
}

/** Whether somebody else answered first, or the question expired. @throws other errors */
export function isLate(error: unknown): false {
  if (isSvcError(error, 'not_found')) return false
  throw error
}
