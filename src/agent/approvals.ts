/**
 * Answers that a person must approve before they are sent. Each is a draft in the outbox, as if a key had sent it
 * that may only draft. It waits there until a person approves it: in the panel, by `svc approvals`, or in the chat of
 * the operator. The chat shows it with the message that it answers and a code, and only the code counts there, never
 * a plain yes.
 */

import { basename } from 'node:path'
import type {
  AgentWork,
  Message,
  QuestionOption,
  SendResult,
  StoredQuestion,
  StoredTurn,
  Svc,
} from '../index.ts'
import { bareOf, chooseOption, type Said } from '../model/typed-answer.ts'
import type { Clock } from '../platform/clock.ts'
import { escapeControls } from '../platform/escape-controls.ts'
import { RoomPart } from '../platform/runtime.ts'
import { endQuestion, isLate, newCode, withdraw } from './asking.ts'
import type { AgentConfig } from './config.ts'
import { readMessages } from './prompt.ts'
import { cutMiddle, toOneLine } from './question-text.ts'
import type { Chat, Talkers } from './talkers.ts'
import { type Texts, textsFor } from './texts.ts'

/** How long a draft waits in the outbox. */
const waitsMs = 24 * 60 * 60_000
const [messageLength, answerLength] = [500, 3000]

/** What can be done with a draft, or with a time that an agent proposes. */
const codedOptions: readonly (QuestionOption & { id: 'send' | 'discard' })[] = [
  { id: 'send', name: '', kind: 'allow_once' },
  { id: 'discard', name: '', kind: 'reject_once' },
]

/**
 * Returns what a person chose with a code. The text of a voice message is only a guess, so it chooses nothing.
 *
 * @param lines those that show the two choices
 */
export function chooseByCode(
  said: Said,
  { msg_type, text }: Message,
  lines: readonly string[],
): 'send' | 'discard' | undefined {
  const shown = lines.findIndex(line => bareOf(line) === bareOf(text))
  const chosen = chooseOption(said, codedOptions)?.id ?? codedOptions[shown]?.id
  return msg_type === 'TEXT' ? (chosen as 'send' | 'discard' | undefined) : undefined
}

export interface ApprovalPorts {
  readonly svc: Pick<Svc, 'history' | 'outbox'>
  readonly work: AgentWork
  readonly people: Pick<Talkers, 'findApprover' | 'nameOf'>
  readonly config: Pick<AgentConfig, 'approve' | 'name'>
  show(to: Chat, text: (texts: Texts) => string, key: string): Promise<SendResult | undefined>
  readonly clock: Pick<Clock, 'now'>
}

export class Approvals extends RoomPart<ApprovalPorts> {
  /** Whether somebody must approve the answer of a turn. */
  async areNeeded({ session, user_id }: StoredTurn): Promise<boolean> {
    const { config, people } = this.ports
    if (config.approve !== 'others') return config.approve === 'all'
    const operator = await people.findApprover(session)
    return !(operator?.user_id === user_id && operator.session === session)
  }

  /** Shows the drafts of an answer to the operator, if there is one, with a code. */
  async propose(turn: StoredTurn, drafts: readonly number[]): Promise<void> {
    const { clock, people, show, svc, work } = this.ports
    const { session, user_id } = turn
    const isSame = (one: StoredQuestion) => one.turn === turn.id && one.drafts?.join() === drafts.join()
    const known = (await work.listDrafts()).find(isSame)
    const code = known?.code ?? (await newCode(work))
    const question = { turn: turn.id, text: '', options: [], code, drafts, expires_at: clock.now() + waitsMs }
    const id = known?.id ?? (await work.ask(question))
    const to = await people.findApprover(session)
    if (!to) return
    const who = toOneLine(await people.nameOf(session, user_id), 100)
    const asked = toOneLine(await this.#promptOf(turn), messageLength)
    const parts = (turn.answer?.parts ?? []).map(part =>
      'text' in part ? part.text : `[${part.kind}: ${part.name ?? basename(part.path)}]`,
    )
    const answer = cutMiddle(parts.join('\n'), answerLength)
      .split('\n')
      .map(line => `| ${escapeControls(line)}`)
    const text = ({ draft }: Texts) =>
      [draft.opening(who), `> ${asked}`, ...answer, ...draft.choices(code)].join('\n')
    const sent = await show(to, text, `agent:draft:${id}`)
    if (sent?.status !== 'queued') return
    const entry = Number(sent.outbox_id)
    if (!(await work.changeQuestion(id, { entry }))) await withdraw(svc, entry)
  }

  /** Sends or discards the drafts of a question, as the operator answered. @returns whether the answer was clear */
  async decide(
    { code, drafts = [], id, session, turn }: StoredQuestion,
    said: Said,
    message: Message,
  ): Promise<boolean> {
    const { people, show, svc, work } = this.ports
    const choice = chooseByCode(said, message, textsFor(message.text).draft.choices(code))
    if (!choice) return false
    const act = choice === 'send' ? svc.outbox.approve : svc.outbox.cancel
    let done = false
    for (const draft of drafts) done = (await act(String(draft)).then(() => true, isLate)) || done
    await work.closeQuestion(id, choice)
    const user = (await work.getTurn(turn))?.user_id ?? ''
    const who = await people.nameOf(session, user)
    const to = { session: message.session, user_id: message.from_user }
    const text = ({ draft, question }: Texts) => (done ? draft[choice](who) : question.noQuestion)
    if (!message.redelivered) await show(to, text, `agent:${message.id}:answer`)
    return true
  }

  /**
   * Ends the questions about drafts that were decided elsewhere. If the message that shows one still waits in the
   * outbox, it is not sent.
   */
  async tidy(): Promise<void> {
    const { config, svc, work } = this.ports
    for (const { agent, drafts = [], id } of await work.listDrafts()) {
      if (agent !== config.name || drafts.length === 0) continue
      const entries = await Promise.all(drafts.map(draft => svc.outbox.get(String(draft)).catch(isLate)))
      if (entries.some(entry => entry && entry.waits_for === 'approval')) continue
      const isRefused = entries.every(
        entry => !entry || entry.parts.every(({ status }) => status === 'refused'),
      )
      await endQuestion({ svc, work }, id, isRefused ? 'discard' : 'send')
    }
  }

  /** Returns what a turn is about. */
  async #promptOf(turn: StoredTurn): Promise<string> {
    if (turn.prompt !== undefined) return turn.prompt
    return (await readMessages(this.ports.svc, turn))
      .map(({ msg_type, text }) => text || `[${msg_type}]`)
      .join('\n')
  }
}
