/**
 * How a question of an agent reads in a chat. Text of the agent is escaped into one line, cut, and put on lines of
 * its own behind a mark, so that it cannot look like anything else.
 */
import type { QuestionOption } from '../index.ts'
import { bareOf, findNamed } from '../model/typed-answer.ts'
import { escapeControls } from '../platform/escape-controls.ts'

/** Maximum length of the text of a question, in characters. */
export const questionLength = 700
const nameLength = 100

/** What a question is about, for people. */
export interface AskedQuestion {
  readonly code: string
  readonly text: string
  readonly options: readonly QuestionOption[]
  /** Number of the option that is taken without an answer, from 1; absent: the turn ends. */
  readonly otherwise?: number | undefined
  readonly agent: string
  /** The user in whose turn the agent asks; absent: the one who is asked. */
  readonly user?: string | undefined
  /** Whether it is shown once more, because the answer was not clear. */
  readonly isAgain?: boolean
}

/** What people read about questions. */
export interface QuestionTexts {
  readonly kinds: Readonly<Record<QuestionOption['kind'], string>>
  question(asked: AskedQuestion): readonly [opening: string, closing: string]
  /** An option was chosen for a question in the turn of another user. */
  chosen(option: QuestionOption): string
  /** This person has no open question with this code. */
  readonly noQuestion: string
  howTo(code: string, count: number): string
  isOver(code: string): string
}

export const englishQuestions: QuestionTexts = {
  kinds: {
    allow_once: 'allow once',
    allow_always: 'allow always',
    reject_once: 'reject',
    reject_always: 'reject always',
    other: 'other',
  },
  question: ({ agent, isAgain, otherwise, user }) => [
    `${isAgain ? 'That was not clear, and was not passed on. ' : ''}${toOneLine(agent, nameLength)} asks${user === undefined ? '' : `, for ${toOneLine(user, nameLength)}`}:`,
    `${user === undefined ? 'Send yes, no or a line' : 'Send a line'} from above within 5 minutes${otherwise === undefined ? '; else the turn ends.' : `; else ${otherwise}.`}`,
  ],
  chosen: option => `Chosen: ${nameIn(englishQuestions, option)}`,
  noQuestion: 'No open question has this code. Nothing was done.',
  howTo: (code, count) =>
    `Nothing was done. Send ${code} and a number from 1 to ${count}, such as ${code} 1.`,
  isOver: code => `Nobody answered ${code} in time, so it was not allowed.`,
}

export const chineseQuestions: QuestionTexts = {
  kinds: {
    allow_once: '允许一次',
    allow_always: '始终允许',
    reject_once: '拒绝',
    reject_always: '始终拒绝',
    other: '其他',
  },
  question: ({ agent, isAgain, otherwise, user }) => [
    `${isAgain ? '没有看懂这个回答，也没有转交。' : ''}${toOneLine(agent, nameLength)} 请你决定${user === undefined ? '' : `（${toOneLine(user, nameLength)} 的对话）`}：`,
    `请在 5 分钟内回复${user === undefined ? '“是”“否”或' : ''}上面的一行${otherwise === undefined ? '，否则结束本次任务。' : `，否则选 ${otherwise}。`}`,
  ],
  chosen: option => `已选择：${nameIn(chineseQuestions, option)}`,
  noQuestion: '没有使用此代码的待答问题，未做任何操作。',
  howTo: (code, count) => `未做任何操作。请回复 ${code} 和 1 到 ${count} 的数字，例如 ${code} 1。`,
  isOver: code => `${code} 没有及时得到回答，因此没有允许。`,
}

/** Says what an option does, and what the agent calls it where that is another name. */
const nameIn = ({ kinds }: QuestionTexts, { kind, name }: QuestionOption) =>
  bareOf(kinds[kind]) === bareOf(name) ? kinds[kind] : `${kinds[kind]}: ${name}`

/** Returns the option that a text names, by its name or as a question shows it; undefined if that is not clear. */
export function findShown(text: string, { code, options }: AskedQuestion): QuestionOption | undefined {
  const lists = [englishQuestions, chineseQuestions].map(texts =>
    options.map(option => ({ ...option, name: nameIn(texts, option) })),
  )
  const found = [options, ...lists].flatMap(list => findNamed(text, code, list).map(({ id }) => id))
  const [id, ...others] = new Set(found)
  return others.length > 0 ? undefined : options.find(one => one.id === id)
}

/** Formats a question for a chat. */
export function formatQuestion(asked: AskedQuestion, texts: QuestionTexts): string {
  const [opening, closing] = texts.question(asked)
  const { code, options, text } = asked
  return [
    opening,
    `> ${text}`,
    ...options.map((option, nth) => `${code} ${nth + 1} = ${nameIn(texts, option)}`),
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
