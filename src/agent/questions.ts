/**
 * Asks the owner of an account what an agent wants to do, and waits for the answer. It comes from the owner's chat, from
 * the panel or from a command, in any process, through the store. Without an answer the option that rejects is taken,
 * never one that allows. Nobody else is asked, and nobody else's answer counts.
 */
import {
  type AgentWork,
  isSvcError,
  type Message,
  type QuestionOption,
  type StoredQuestion,
  type StoredTurn,
  type SvcAgents,
  SvcError,
} from '../index.ts'
import type { Clock } from '../platform/clock.ts'
import { randomBytes } from '../platform/lazy-crypto.ts'
import type { Log } from '../platform/log.ts'
import { linkSignals } from '../platform/signals.ts'
import type { PermissionRequest } from './backend.ts'
import type { AnswerDelivery } from './delivery.ts'
import { formatQuestion, questionLength, toOneLine } from './question-text.ts'
import type { Talkers } from './talkers.ts'
import type { Texts } from './texts.ts'

const expiresMs = 5 * 60_000
/** How often the store is read for an answer. */
const lookEveryMs = 500
/** Maximum number of questions of a turn that wait while one is asked. Further ones are rejected. */
const maxWaiting = 20
const maxOptions = 10
const optionLength = 100
/** Longest id of an option that the operation takes. */
const optionIdLength = 200

/** Letters and digits that are not mistaken for each other: 32, so that a byte chooses one evenly. */
const codeSigns = 'ABCDEFGHJKLMNPQRSTUVWXYZ23456789'
/** A code has a letter and a digit, so that no word and no number looks like one. */
const answerForm = /^(?=[A-Z2-9]*[2-9])(?=[A-Z2-9]*[A-Z])([A-HJ-NP-Z2-9]{4})\s+(\d{1,2})$/

export interface QuestionPorts {
  readonly work: Pick<AgentWork, 'ask' | 'closeQuestion' | 'getQuestion' | 'getTurn' | 'listQuestions'>
  /** Answers as the panel does, with a line in the audit log. */
  readonly agents: Pick<SvcAgents, 'answer'>
  readonly people: Pick<Talkers, 'findOwner' | 'nameOf'>
  readonly delivery: Pick<AnswerDelivery, 'countLeft' | 'tell'>
  readonly clock: Clock
  readonly log: Log
}

/** Asks questions, and takes the messages that answer them. */
export const createQuestions = (ports: QuestionPorts): Questions => new Questions(ports)

export class Questions {
  readonly #ports: QuestionPorts
  /** The requests of each turn, which are asked one after another. */
  readonly #lines = new Map<number, { count: number; last: Promise<unknown> }>()
  /** Questions are sent one after another, so that each sees how many answers the one before left. */
  #sending: Promise<unknown> = Promise.resolve()

  constructor(ports: QuestionPorts) {
    this.#ports = ports
  }

  /**
   * Asks the owner, and waits for the answer or five minutes.
   *
   * @returns the id of the chosen option, or of one that rejects
   * @throws SvcError `forbidden` without an answer if no option rejects; the reason of a signal
   */
  async ask(turn: StoredTurn, request: PermissionRequest, signal: AbortSignal): Promise<string> {
    const line = this.#lines.get(turn.id) ?? { count: 0, last: Promise.resolve() }
    if (line.count > maxWaiting) {
      this.#ports.log.warn('an agent asks too much at the same time; rejected', { turn: turn.id })
      return rejectionOf(request.options)
    }
    this.#lines.set(turn.id, line)
    line.count += 1
    const answer = line.last.then(() => this.#askNext(turn, request, signal))
    line.last = answer.catch(() => {})
    try {
      return await answer
    } finally {
      line.count -= 1
      if (line.count === 0) this.#lines.delete(turn.id)
    }
  }

  /**
   * Takes a message that has the form of an answer, such as `K7QX 1`. It answers the question with that code if the user
   * owns the account that the question is about; else it does nothing.
   *
   * @returns whether the message has that form; then no agent may see it
   */
  async takeAnswer(message: Message): Promise<boolean> {
    const { agents, people, work } = this.#ports
    const { from_user: user, session } = message
    const [code, number] = message.msg_type === 'TEXT' ? parseAnswer(message.text) : []
    if (code === undefined || number === undefined) return false
    const question = await this.#findOpen(code, user)
    const option = question?.options[number - 1]
    const isRunning = question && (await work.getTurn(question.turn))?.state === 'running'
    const isTaken =
      isRunning && option && (await agents.answer(question.id, option.id).then(() => true, isLate))
    // In the owner's own turn, the answer of the agent comes next. A message that comes again after a crash may have
    // answered already.
    const isSilent = message.redelivered || (isTaken && question.user_id === user)
    if (isSilent || (await people.findOwner(session)) !== user) return true
    await this.#ports.delivery.tell(
      { session, user_id: user },
      ({ question: texts }) => {
        if (isTaken) return texts.chosen(option)
        return isRunning && !option ? texts.noOption(code, question.options.length) : texts.noQuestion
      },
      `agent:${message.id}:answer`,
    )
    return true
  }

  async #askNext(turn: StoredTurn, request: PermissionRequest, turnSignal: AbortSignal): Promise<string> {
    using linked = linkSignals(turnSignal, request.signal)
    const { signal } = linked
    signal.throwIfAborted()
    const { clock, log, work } = this.#ports
    const options = request.options
      .filter(({ id }) => id.length > 0 && id.length <= optionIdLength)
      .slice(0, maxOptions)
      .map(option => ({ ...option, name: toOneLine(option.name, optionLength) }))
    if (options.length === 0) return rejectionOf(request.options)
    const text = toOneLine(request.text, questionLength)
    const code = await this.#newCode(turn.id)
    const endsAt = clock.monotonic() + expiresMs
    const expires_at = clock.now() + expiresMs
    const id = await work.ask({ turn: turn.id, text, options, code, expires_at })
    log.info('an agent asks its owner', { turn: turn.id, question: id })
    try {
      this.#askInChat(turn, { id, code, text, options })
      await this.#waitForAnswer(id, () => clock.monotonic() >= endsAt || clock.now() >= expires_at, signal)
    } finally {
      // An answer of a person stays.
      await work.closeQuestion(id, findRejection(options)?.id ?? '')
    }
    signal.throwIfAborted()
    const answer = (await work.getQuestion(id))?.answer
    return options.some(one => one.id === answer) ? answer! : rejectionOf(request.options)
  }

  async #waitForAnswer(id: number, isOver: () => boolean, signal: AbortSignal): Promise<void> {
    const { clock, log, work } = this.#ports
    while (!signal.aborted && !isOver()) {
      await clock.sleep(lookEveryMs, signal)
      try {
        if ((await work.getQuestion(id))?.answer !== undefined) return
      } catch (error) {
        log.warn('answer to an agent cannot be read', { question: id, error })
      }
    }
  }

  /** Sends a question to the owner, unless that takes the last answer; then it shows in the panel alone. */
  #askInChat(
    turn: StoredTurn,
    { id, ...asked }: { id: number; code: string; text: string; options: readonly QuestionOption[] },
  ): void {
    const send = async () => {
      const { delivery, log, people, work } = this.#ports
      const { session, user_id } = turn
      if ((await work.getQuestion(id))?.answer !== undefined) return
      const owner = await people.findOwner(session)
      const to = owner !== undefined && { session, user_id: owner }
      if (!to || (await delivery.countLeft(to)) < 2) {
        log.info('an agent asks its owner in the panel alone', { turn: turn.id, question: id })
        return
      }
      const user = user_id === owner ? undefined : await people.nameOf(session, user_id)
      const rejection = findRejection(asked.options)
      const otherwise = rejection && asked.options.indexOf(rejection) + 1
      const text = (texts: Texts) => formatQuestion({ ...asked, turn, user, otherwise }, texts.question)
      await delivery.tell(to, text, `agent:question:${id}`)
    }
    this.#sending = this.#sending.then(send).catch((error: unknown) => {
      this.#ports.log.warn('question of an agent not sent; it is in the panel', { question: id, error })
    })
  }

  /** Returns an open question of an account that the user owns. */
  async #findOpen(code: string, user: string): Promise<StoredQuestion | undefined> {
    const { people, work } = this.#ports
    for (const question of await work.listQuestions())
      if (question.code === code && (await people.findOwner(question.session)) === user) return question
    return undefined
  }

  /** Returns a code that no open question has. Closes what an earlier process asked in the same turn. */
  async #newCode(turn: number): Promise<string> {
    const { work } = this.#ports
    const open = await work.listQuestions()
    for (const question of open)
      if (question.turn === turn)
        await work.closeQuestion(question.id, findRejection(question.options)?.id ?? '')
    const taken = new Set(open.map(({ code }) => code))
    for (;;) {
      const code = [...randomBytes(4)].map(byte => codeSigns[byte % codeSigns.length]).join('')
      if (!taken.has(code) && answerForm.test(`${code} 1`)) return code
    }
  }
}

/** Returns the code and the number of a text that has the form of an answer. */
function parseAnswer(text: string): [code: string, number: number] | [] {
  // Phones write full-width characters and spaces at the end.
  const short = text.length > 40 ? '' : text.normalize('NFKC').trim().toUpperCase()
  const [, code, number] = answerForm.exec(short) ?? []
  return code === undefined ? [] : [code, Number(number)]
}

/** Returns the option that rejects, the one for this time first. */
const findRejection = (options: readonly QuestionOption[]): QuestionOption | undefined =>
  options.find(({ kind }) => kind === 'reject_once') ?? options.find(({ kind }) => kind === 'reject_always')

/** @throws SvcError `forbidden` if no option rejects */
function rejectionOf(options: readonly QuestionOption[]): string {
  const rejection = findRejection(options)
  if (rejection) return rejection.id
  throw new SvcError('forbidden', 'nobody answered the agent in time, and it offers no option that rejects', {
    hint: 'Answer within 5 minutes.',
  })
}

/** Whether somebody else answered first, or the question expired. @throws other errors */
function isLate(error: unknown): false {
  if (isSvcError(error, 'not_found')) return false
  throw error
}
