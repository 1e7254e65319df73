/**
 * Asks the operator of an agent, usually the owner of the account, what the agent wants to do, and waits for the answer.
 * It comes from a chat, from the panel or from a command, in any process, through the store. Without an answer the option
 * that rejects is taken, never one that allows. Nobody else is asked, and nobody else's answer counts.
 *
 * In a chat a refusal may be plain. To allow something without the code takes a question that cannot be mistaken
 * (`#isPlainYes`); every doubt needs the code.
 */
import {
  type AgentWork,
  isSvcError,
  type Message,
  type QuestionOption,
  type SendResult,
  type StoredQuestion,
  type StoredTurn,
  type Svc,
  SvcError,
} from '../index.ts'
import type { Clock } from '../platform/clock.ts'
import { randomBytes } from '../platform/lazy-crypto.ts'
import type { Log } from '../platform/log.ts'
import { linkSignals } from '../platform/signals.ts'
import type { PermissionRequest } from './backend.ts'
import type { AnswerDelivery } from './delivery.ts'
import {
  chooseOption,
  codeSigns,
  findRejection,
  isCode,
  isRejection,
  readAnswer,
  type Said,
  saidIn,
} from './owner-answer.ts'
import { formatQuestion, questionLength, toOneLine } from './question-text.ts'
import type { Chat, Talkers } from './talkers.ts'
import type { Texts } from './texts.ts'

/** They begin when the question is sent. */
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
/** How many of the newest messages of a chat are read to find the last one of the bot. */
const lastMessages = 10

export interface QuestionPorts {
  readonly svc: Pick<Svc, 'agents' | 'history' | 'outbox'>
  readonly work: Pick<
    AgentWork,
    'ask' | 'changeQuestion' | 'closeQuestion' | 'getQuestion' | 'getTurn' | 'listDrafts' | 'listQuestions'
  >
  readonly people: Pick<Talkers, 'findApprover' | 'findOperator' | 'nameOf'>
  readonly delivery: Pick<AnswerDelivery, 'countLeft' | 'show' | 'tell'>
  /** Does with drafts what a person answered. @returns whether that was clear */
  decide(question: StoredQuestion, said: Said, message: Message): Promise<boolean>
  /** Messages within this time belong together, in milliseconds. */
  readonly pauseMs: number
  readonly clock: Clock
  readonly log: Log
}

/** taken: no agent may see the message. later: it is an answer if nothing else comes within the pause. */
export type Taken = 'taken' | 'later' | 'no'

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
   * Asks the operator, and waits for the answer, or five minutes after the question was sent.
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
   * Takes a message that answers a question, or looks like that while one is open.
   *
   * @param isAlone whether nothing else came within the pause; absent: that is not known yet
   */
  async takeAnswer(message: Message, isAlone?: boolean): Promise<Taken> {
    const text = saidIn(message)
    // Most messages are read without the store.
    if (!readAnswer(text, isCode)) return 'no'
    const { work } = this.#ports
    const { from_user: user, session } = message
    const all = [...(await work.listQuestions()), ...(await work.listDrafts())]
    const said = readAnswer(text, code => all.some(one => one.code === code))
    if (!said) return 'no'
    const open = await this.#decidedBy(user, all)
    if (said.code !== undefined) {
      const isOpen = all.some(({ code }) => code === said.code)
      if (!isOpen && !(await this.#decides(user, session))) return 'no'
      await this.#takeCode(
        said,
        open.find(({ code }) => code === said.code),
        message,
      )
      return 'taken'
    }
    const questions = open.filter(({ drafts }) => drafts === undefined)
    const here = questions.filter(({ chat }) => chat.session === session)
    if (here.length === 0) return 'no'
    const [latest] = here.filter(({ sent_at }) => sent_at !== undefined).sort(byTime)
    const option = latest && chooseOption(said, latest.options)
    const isRefusal = option && isRejection(option)
    if (!isRefusal && isAlone === undefined) return 'later'
    const isYes = option?.kind === 'allow_once' && questions.length === 1 && isAlone
    if (latest && option && (isRefusal || (isYes && (await this.#isPlainYes(latest, message)))))
      await this.#answer(latest, option, message)
    else for (const question of here) await this.#askAgain(question, message)
    return 'taken'
  }

  /** Ends the questions of an earlier process: their turns do not go on. */
  async closeLost(agent: string): Promise<void> {
    for (const question of await this.#ports.work.listQuestions(agent)) await this.#close(question)
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
      // An answer of a person stays.
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
    const { clock, log, work } = this.#ports
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
    const { parts, ended } = await this.#ports.svc.outbox.get(String(entry))
    const [{ message_id, status } = {}] = parts
    if (!ended || message_id === question.message_id) return
    if (status === 'accepted') await this.#noteSent(question, message_id)
    else if (question.sent_at === undefined) await this.#noteSent(question)
  }

  /** The message that shows a question is there. Its five minutes begin with the first one. */
  async #noteSent({ id, sent_at }: StoredQuestion, message_id?: string): Promise<void> {
    const now = this.#ports.clock.now()
    await this.#ports.work.changeQuestion(id, {
      sent_at: now,
      ...(message_id !== undefined && { message_id }),
      ...(sent_at === undefined && { expires_at: now + expiresMs }),
    })
  }

  /** Sends a question, unless it was answered meanwhile, or would take the last answer; then it is in the panel alone. */
  #askInChat(id: number): void {
    const send = async () => {
      const { delivery, log, people, work } = this.#ports
      const question = await work.getQuestion(id)
      if (!question || question.answer !== undefined) return
      const to = await people.findOperator(question.session, question.agent)
      if (to && (await delivery.countLeft(to)) >= 2) await this.#show(question, to)
      else log.info('an agent asks in the panel alone', { turn: question.turn, question: id })
    }
    this.#sending = this.#sending.then(send).catch((error: unknown) => {
      this.#ports.log.warn('question of an agent not sent; it is in the panel', { question: id, error })
    })
  }

  /** Shows a question in a chat: the first time, or once more. */
  async #show(question: StoredQuestion, to: Chat): Promise<SendResult | undefined> {
    const { clock, delivery, people, svc, work } = this.#ports
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

  /** Shows a question once more to a person who did not answer it clearly; after that, says how to answer. */
  async #askAgain(question: StoredQuestion & { chat: Chat }, message: Message): Promise<void> {
    const { chat, code, options, sent_at } = question
    const sent = await this.#show(question, chat)
    // The first message may still be on its way.
    if (sent_at === undefined || (sent && !sent.repeated)) return
    const to = { session: message.session, user_id: message.from_user }
    const text = ({ question: texts }: Texts) => texts.howTo(code, options.length)
    await this.#ports.delivery.tell(to, text, `agent:${message.id}:answer`)
  }

  async #takeCode(
    said: Said,
    question: (StoredQuestion & { chat: Chat }) | undefined,
    message: Message,
  ): Promise<void> {
    const option = question && chooseOption(said, question.options)
    if (question?.drafts) {
      if (await this.#ports.decide(question, said, message)) return
      await this.#tellAbout(message, ({ draft }) => draft.howTo(question.code))
    } else if (!question) await this.#tellAbout(message, ({ question: { noQuestion } }) => noQuestion)
    // What a voice message says was guessed.
    else if (option && (message.msg_type === 'TEXT' || isRejection(option)))
      await this.#answer(question, option, message)
    else await this.#askAgain(question, message)
  }

  async #answer(question: StoredQuestion, option: QuestionOption, message: Message): Promise<void> {
    const { svc, work } = this.#ports
    const isRunning = (await work.getTurn(question.turn))?.state === 'running'
    const isTaken = isRunning && (await svc.agents.answer(question.id, option.id).then(() => true, isLate))
    // In the own turn, the answer of the agent comes next.
    if (isTaken && question.user_id === message.from_user) return
    await this.#tellAbout(message, texts =>
      isTaken ? texts.question.chosen(option) : texts.question.noQuestion,
    )
  }

  /** Tells a person who decides what became of an answer. One that comes again after a crash may have done its work. */
  async #tellAbout(message: Message, text: (texts: Texts) => string): Promise<void> {
    const { from_user: user_id, redelivered, session } = message
    if (redelivered || !(await this.#decides(user_id, session))) return
    await this.#ports.delivery.tell({ session, user_id }, text, `agent:${message.id}:answer`)
  }

  /**
   * Whether a plain yes to the only open question allows what it asks: in the own turn, with a text of its own that was
   * written after WeChat accepted the question, to which nothing was added, in the chat or within the pause.
   */
  async #isPlainYes(question: StoredQuestion, message: Message): Promise<boolean> {
    const { pauseMs, svc } = this.#ports
    const { message_id, sent_at = Number.POSITIVE_INFINITY } = question
    const { from_user: user_id, id, items, msg_type, redelivered, ref_msg, session, timestamp } = message
    const isOwn = question.user_id === user_id && question.session === session
    const isText = msg_type === 'TEXT' && items.length === 1 && ref_msg === undefined && !redelivered
    if (!isOwn || !isText || message_id === undefined || timestamp <= sent_at) return false
    const { messages } = await svc.history({ session, user_id, limit: lastMessages })
    const lastSent = messages.find(({ direction }) => direction === 'sent')
    const others = messages.filter(one => one.direction === 'received' && one.id !== id)
    return (
      messages[0]?.id === id &&
      lastSent?.message_id === message_id &&
      lastSent.status === 'accepted' &&
      others.every(one => timestamp - one.timestamp > pauseMs)
    )
  }

  #close({ id, options }: StoredQuestion): Promise<void> {
    return endQuestion(this.#ports, id, findRejection(options)?.id ?? '')
  }

  async #tellOver({ agent, code, id, session, turn }: StoredQuestion): Promise<void> {
    const { delivery, people, work } = this.#ports
    if ((await work.getTurn(turn))?.state !== 'running') return
    const to = await people.findOperator(session, agent)
    if (to && (await delivery.countLeft(to)) >= 2)
      await delivery.tell(to, ({ question }) => question.isOver(code), `agent:question:${id}:over`)
  }

  /** Returns those of the questions that a user decides, with the chat in which. */
  async #decidedBy(user: string, questions: readonly StoredQuestion[]) {
    const { people } = this.#ports
    const found: (StoredQuestion & { chat: Chat })[] = []
    for (const question of questions) {
      const { agent, drafts, session } = question
      const chat = await (drafts ? people.findApprover(session, agent) : people.findOperator(session, agent))
      if (chat?.user_id === user) found.push({ ...question, chat })
    }
    return found
  }

  /** Whether a user decides about questions of a session. */
  async #decides(user: string, session: string): Promise<boolean> {
    return (await this.#ports.people.findOperator(session))?.user_id === user
  }
}

/** Ends a question; an answer of a person stays. If its message still waits in the outbox, it is not sent. */
export async function endQuestion(
  { svc, work }: { svc: Pick<Svc, 'outbox'>; work: Pick<AgentWork, 'closeQuestion' | 'getQuestion'> },
  id: number,
  option: string,
): Promise<void> {
  await work.closeQuestion(id, option)
  // Where it waits is noted only before that.
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

/** The newest first. */
const byTime = (one: StoredQuestion, other: StoredQuestion) => (other.sent_at ?? 0) - (one.sent_at ?? 0)

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
