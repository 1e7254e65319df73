/**
 * Takes the messages with which people answer the questions of agents (`asking.ts`). Only the answers of the person
 * who decides count. In a chat a refusal needs no code. Permission needs the code, unless the question cannot be
 * mistaken (`#isPlainYes`).
 */
import type { Message, QuestionOption, StoredQuestion, Svc } from '../index.ts'
import { chooseOption, isCode, isRejection, readAnswer, type Said, saidIn } from '../model/typed-answer.ts'
import { Asking, type AskingPorts, isLate } from './asking.ts'
import { findShown } from './question-text.ts'
import type { Chat, Talkers } from './talkers.ts'
import type { Texts } from './texts.ts'

/** How many of the newest messages of a chat are read to find the last one of the bot. */
const lastMessages = 10

export interface QuestionPorts extends AskingPorts {
  readonly svc: Pick<Svc, 'agents' | 'history' | 'outbox'>
  readonly people: Pick<Talkers, 'decides' | 'findApprover' | 'findOperator' | 'listAgents' | 'nameOf'>
  /** Does with drafts, or with a time that an agent proposes, as a person answered. @returns whether the answer was clear */
  decide(question: StoredQuestion, said: Said, message: Message): Promise<boolean>
  /** Messages within this time belong together, in milliseconds. */
  readonly pauseMs: number
}

/** taken: no agent may get the message. later: it is an answer if nothing else comes within the pause. */
export type Taken = 'taken' | 'later' | 'no'

/** Asks questions, and takes the messages that answer them. */
export class Questions extends Asking<QuestionPorts> {
  /** Returns the agent that takes a message, since it looks like an answer to its question. */
  async findAsker(message: Message): Promise<string | undefined> {
    const found = await this.#read(message)
    const noted = found && (await this.ports.work.findAsker(message.id))
    if (!found || noted !== undefined) return noted
    const { code } = found.said
    const isNamed = (one: StoredQuestion) => one.code === code
    const asked = code === undefined ? latestIn(message.session, found.open) : found.open.find(isNamed)
    const agents = asked ? await this.ports.people.listAgents() : []
    return agents.find(({ isRunning, name }) => isRunning && name === asked?.agent)?.name
  }

  /** Reads a message as an answer. @returns with the open questions, and those of them that its writer decides */
  async #read(message: Message) {
    const { work } = this.ports
    const text = saidIn(message)
    // Most messages are read without the store.
    if (!readAnswer(text, isCode)) return undefined
    const all = [...(await work.listQuestions()), ...(await work.listDrafts())]
    const said = readAnswer(text, code => all.some(one => one.code === code))
    return said && { said, all, open: await this.#decidedBy(message.from_user, all) }
  }

  /**
   * Takes a message that answers a question, or looks like that while one is open.
   *
   * @param isAlone whether nothing else came within the pause; absent: that is not known yet
   */
  async takeAnswer(message: Message, isAlone?: boolean): Promise<Taken> {
    const { work } = this.ports
    // Questions of other programs to this person come first: their answers are no prompts.
    const asked = await work.takesAsAnswer(message)
    // Who took it in says that the question is over, if an answer is left for that.
    if (asked === 'over') return (await this.#hasAnswer(message)) ? 'taken' : 'no'
    if (asked === 'taken' || (asked === 'later' && isAlone === undefined)) return asked
    const found = await this.#read(message)
    if (!found) return 'no'
    const { all, open, said } = found
    const { from_user: user, session } = message
    if (said.code !== undefined) {
      const isOpen = all.some(({ code }) => code === said.code)
      if (!isOpen && !(await this.ports.people.decides(session, user))) return 'no'
      const question = open.find(({ code }) => code === said.code)
      // A code that somebody else must send gets no word.
      if (!question)
        return (await this.ports.people.decides(session, user)) ? this.#tellOver(message) : 'taken'
      await work.noteAnswer(question.id, message.id)
      await this.#takeCode(said, question, message)
      return 'taken'
    }
    const questions = open.filter(({ drafts }) => drafts === undefined)
    const here = questions.filter(({ chat }) => chat.session === session)
    const about = latestIn(session, open)
    if (!about) return 'no'
    const latest = about.sent_at === undefined ? undefined : about
    const option = latest && chooseOption(said, latest.options)
    const isRefusal = option && isRejection(option)
    if (!isRefusal && isAlone === undefined) return 'later'
    await work.noteAnswer(about.id, message.id)
    const isOnly = questions.length === 1 && asked === 'no'
    const isYes = option?.kind === 'allow_once' && isOnly && isAlone
    if (latest && option && (isRefusal || (isYes && (await this.#isPlainYes(latest, message)))))
      await this.#answer(latest, option, message)
    else for (const question of here) await this.#askAgain(question, message)
    return 'taken'
  }

  /** Shows a question once more to a person who did not answer it clearly; after that, says how to answer. */
  async #askAgain(question: StoredQuestion & { chat: Chat }, message: Message): Promise<void> {
    const { chat, code, options, sent_at } = question
    const sent = await this.show(question, chat)
    // The first message may still be on its way.
    if (sent_at === undefined || (sent && !sent.repeated)) return
    const to = { session: message.session, user_id: message.from_user }
    const text = ({ question: texts }: Texts) => texts.howTo(code, options.length)
    await this.ports.delivery.tell(to, text, `agent:${message.id}:answer`)
  }

  /** Says that the question of a code is over. Without an answer left for that, the message is one as any other. */
  async #tellOver(message: Message): Promise<Taken> {
    const { from_user: user_id, id, redelivered, session } = message
    if (!(await this.#hasAnswer(message))) return 'no'
    const text = ({ question }: Texts) => question.noQuestion
    if (!redelivered) await this.ports.delivery.tell({ session, user_id }, text, `agent:${id}:answer`)
    return 'taken'
  }

  async #hasAnswer({ from_user: user_id, session }: Message): Promise<boolean> {
    return (await this.ports.delivery.countLeft({ session, user_id })) > 0
  }

  async #takeCode(said: Said, question: StoredQuestion & { chat: Chat }, message: Message): Promise<void> {
    const { code, drafts, options } = question
    const named = findShown(saidIn(message), question)
    // What holds for ever needs its number.
    const isNamed = named?.kind !== 'allow_always' || said.number !== undefined
    const option = chooseOption(said, options) ?? (isNamed ? named : undefined)
    if (drafts) {
      if (await this.ports.decide(question, said, message)) return
      await this.#tellAbout(message, ({ draft }) => draft.howTo(code))
    }
    // The text of a voice message is only a guess, so it may reject but not allow.
    else if (option && (message.msg_type === 'TEXT' || isRejection(option)))
      await this.#answer(question, option, message)
    else await this.#askAgain(question, message)
  }

  async #answer(question: StoredQuestion, option: QuestionOption, message: Message): Promise<void> {
    const { svc, work } = this.ports
    const isRunning = (await work.getTurn(question.turn))?.status === 'running'
    const isTaken = isRunning && (await svc.agents.answer(question.id, option.id).then(() => true, isLate))
    // In the person's own turn no notice is needed: the answer of the agent comes next.
    if (isTaken && question.user_id === message.from_user) return
    await this.#tellAbout(message, texts =>
      isTaken ? texts.question.chosen(option) : texts.question.noQuestion,
    )
  }

  /**
   * Tells the person who decides about the result of an answer. Not for a message that comes again after a crash: its
   * answer may have counted the first time.
   */
  async #tellAbout(message: Message, text: (texts: Texts) => string): Promise<void> {
    const { from_user: user_id, redelivered, session } = message
    if (redelivered || !(await this.ports.people.decides(session, user_id))) return
    await this.ports.delivery.tell({ session, user_id }, text, `agent:${message.id}:answer`)
  }

  /**
   * Whether a plain yes may allow what the only open question asks. It must be in the person's own turn, a plain text
   * that was written after WeChat accepted the question, and the only message in the chat since then and within the
   * pause.
   */
  async #isPlainYes(question: StoredQuestion, message: Message): Promise<boolean> {
    const { pauseMs, svc } = this.ports
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

  /** Returns the questions that a user decides, each with the chat in which that counts. */
  async #decidedBy(user: string, questions: readonly StoredQuestion[]) {
    const { people } = this.ports
    const decided: (StoredQuestion & { chat: Chat })[] = []
    for (const question of questions) {
      const { agent, drafts, session } = question
      const chat = await (drafts?.length
        ? people.findApprover(session, agent)
        : people.findOperator(session, agent))
      if (chat?.user_id === user) decided.push({ ...question, chat })
    }
    return decided
  }
}

/** Returns the question in a session that was shown last, if any was. */
const latestIn = <Q extends StoredQuestion & { chat: Chat }>(
  session: string,
  questions: readonly Q[],
): Q | undefined =>
  questions
    .filter(({ chat, drafts }) => chat.session === session && drafts === undefined)
    .sort((one, other) => (other.sent_at ?? 0) - (one.sent_at ?? 0))[0]
