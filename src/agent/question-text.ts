/**
 * How a question of an agent reads in the owner's chat. What comes from the agent stands on lines of its own behind a
 * mark, escaped into one line and cut, so that it cannot look like anything else.
 */
import type { QuestionOption, StoredTurn } from '../index.ts'
import { escapeControls } from '../platform/escape-controls.ts'

/** Maximum length of the text of a question, in characters. */
export const questionLength = 2000
const nameLength = 100

/** What a question is about, for people. */
export interface AskedQuestion {
  readonly code: string
  readonly text: string
  readonly options: readonly QuestionOption[]
  /** The option that is taken without an answer, from 1; absent: the turn ends. */
  readonly otherwise?: number | undefined
  readonly turn: Pick<StoredTurn, 'agent' | 'session'>
  /** The user in whose turn the agent asks; absent: the owner. */
  readonly user?: string | undefined
}

/** What the owner reads about questions. */
export interface QuestionTexts {
  readonly kinds: Readonly<Record<QuestionOption['kind'], string>>
  question(asked: AskedQuestion): readonly string[]
  /** The owner chose an option of a question in the turn of another user. */
  chosen(option: QuestionOption): string
  /** No open question of this owner has the code. */
  readonly noQuestion: string
  noOption(code: string, count: number): string
}

export const englishQuestions: QuestionTexts = {
  kinds: {
    allow_once: 'allow once',
    allow_always: 'allow always',
    reject_once: 'reject',
    reject_always: 'reject always',
    other: 'other',
  },
  question: ({ otherwise, turn, user }) => [
    `The agent ${toOneLine(turn.agent, nameLength)} asks you, in ${user === undefined ? 'your own turn' : `the turn of ${toOneLine(user, nameLength)}`}, session ${toOneLine(turn.session, nameLength)}. It wants to do this, in its own words:`,
    'To answer within 5 minutes, send one of these:',
    otherwise === undefined ? 'Without an answer the turn ends.' : `Without an answer: ${otherwise}.`,
  ],
  chosen: ({ kind, name }) => `Chosen: ${englishQuestions.kinds[kind]}: ${name}`,
  noQuestion: 'No open question has this code. Nothing was done.',
  noOption: (code, count) => `${code} has the options 1 to ${count}. Nothing was done.`,
}

export const chineseQuestions: QuestionTexts = {
  kinds: {
    allow_once: '允许一次',
    allow_always: '始终允许',
    reject_once: '拒绝',
    reject_always: '始终拒绝',
    other: '其他',
  },
  question: ({ otherwise, turn, user }) => [
    `智能体 ${toOneLine(turn.agent, nameLength)} 请你决定（${user === undefined ? '你自己的对话' : `${toOneLine(user, nameLength)} 的对话`}，会话 ${toOneLine(turn.session, nameLength)}）。它想做的事，原话是：`,
    '请在 5 分钟内回复以下之一：',
    otherwise === undefined ? '没有回复则结束本次任务。' : `没有回复则选 ${otherwise}。`,
  ],
  chosen: ({ kind, name }) => `已选择：${chineseQuestions.kinds[kind]}：${name}`,
  noQuestion: '没有使用此代码的待答问题，未做任何操作。',
  noOption: (code, count) => `${code} 的选项是 1 到 ${count}，未做任何操作。`,
}

/** Formats a question for the owner's chat. */
export function formatQuestion(asked: AskedQuestion, texts: QuestionTexts): string {
  const [opening, how, closing] = texts.question(asked)
  const { code, options, text } = asked
  return [
    opening,
    `> ${text}`,
    how,
    ...options.map(({ kind, name }, nth) => `${code} ${nth + 1} = ${texts.kinds[kind]}: ${name}`),
    closing,
  ].join('\n')
}

/**
 * Escapes a text of the agent into one line without gaps, and cuts it. The middle is left out, because the end of a
 * command matters as much as its beginning.
 */
export function toOneLine(text: string, most: number): string {
  // A text of many megabytes is not escaped as a whole.
  const line = escapeControls(cutMiddle(text, most)).replace(/[\p{Zs}\t]{2,}/gu, ' ')
  return cutMiddle(line, most)
}

/** Cuts a text to at most `most` characters, which are more than 50. */
export function cutMiddle(text: string, most: number): string {
  if (text.length <= most) return text
  const half = Math.floor((most - 45) / 2)
  return `${text.slice(0, half)} … (${text.length - 2 * half} characters left out) … ${text.slice(-half)}`
}
