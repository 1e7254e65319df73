/**
 * Reads what people write on a phone to answer a question: yes, no, the number of an option, or the code of the question
 * with one of these. Around it may be punctuation and politeness, and nothing else: a sentence is no answer. What looks
 * like an answer and is not clear is neither an answer nor a prompt.
 */
import type { QuestionOption } from './agent.ts'
import type { Message } from './message.ts'
import { withoutUnseen } from './seen.ts'

/** A text that looks like an answer. */
export interface Said {
  /** The code of a question. */
  readonly code?: string
  readonly number?: number
  readonly word?: 'yes' | 'no'
  /** It could mean something else, such as `not 1`. */
  readonly isUnclear: boolean
}

/** Longest text that is read as an answer, in characters. */
const longest = 100
/** Longest line of an option, with its code. */
const longestLine = 250

/** Letters and digits that are not mistaken for each other: 32, so that a byte chooses one evenly. */
export const codeSigns = 'ABCDEFGHJKLMNPQRSTUVWXYZ23456789'
/** A code has a letter and a digit, so that no word and no number looks like one. */
const codeForm = /^(?=[A-Z]*\d)(?=\d*[A-Z])[A-HJ-NP-Z2-9]{4}$/

/** Whether a word has the form of a code. */
export const isCode = (word: string): boolean => codeForm.test(word)

const list = (text: string) => new Set(text.split(' '))
const words = {
  yes: list(
    'YES Y YEP YEAH YUP OK OKAY OKEY SURE ALLOW ALLOWED APPROVE APPROVED AGREE AGREED CONFIRM CONFIRMED 是 是的 好 好的 好啊 好吧 行 可以 允许 同意 批准 确认 嗯 没问题 👍 👌 ✅ ✔',
  ),
  no: list(
    'NO N NOPE NAH NEVER NOT DONT DENY DENIED REJECT REJECTED REFUSE REFUSED DECLINE CANCEL 不 不是 不好 不行 不要 不可以 不允许 不同意 不批准 不用 不了 拒绝 否 别 算了 取消 👎 ❌ ✖ 🙅',
  ),
  /** Words that say nothing about the choice. */
  polite: list(
    'PLEASE PLS PLZ THANKS THANK YOU THX TY HI HELLO HEY OPTION ONCE IT 请 谢谢 谢谢你 谢了 多谢 麻烦 麻烦你 你好 您好 选 我选 选择 选项 第 个 项 号 一次 吧 啊 哦 呢 哈 🙏 😊 🙂',
  ),
  /** Words of a question, or of more than this one time. */
  unclear: list('? ALWAYS FOREVER 始终 总是 永远 一直 吗 么'),
} as const
type Meaning = keyof typeof words

const meaningOf = (word: string): Meaning | undefined =>
  (Object.keys(words) as Meaning[]).find(meaning => words[meaning].has(word))

/** Numbers as Chinese writes them, from 1. */
const numerals = '一二三四五六七八九十'

/** Chinese has no spaces: a run of characters is cut into the longest words that are known. */
const chineseWords = new RegExp(
  `${Object.values(words)
    .flatMap(set => [...set])
    .filter(word => /^\p{Script=Han}/u.test(word))
    .sort((one, other) => other.length - one.length)
    .join('|')}|.`,
  'gu',
)

/** Marks that phones add invisibly, and that change only how the character before looks. */
const invisible = /\p{Cf}|\u20e3|['’]|\p{Emoji_Modifier}/gu

/** Returns a text in the form in which it is compared: plain characters, capitals. */
export const plainOf = (text: string): string =>
  withoutUnseen(text.normalize('NFKC')).replace(invisible, '').toUpperCase()
/** Words, numbers and signs: everything but punctuation. */
const pieces = /\p{Script=Han}+|(?:(?!\p{Script=Han})[\p{L}\p{N}\p{M}])+|(?!~)\p{S}|\?/gu

/** Returns the words of a text, in capitals. */
const wordsOf = (text: string): string[] =>
  (plainOf(text).match(pieces) ?? []).flatMap(
    piece => (/^\p{Script=Han}/u.test(piece) ? piece.match(chineseWords) : null) ?? [piece],
  )

/** Returns what a message says: its text, or what WeChat heard in a voice message. */
export function saidIn({ items, msg_type, text }: Pick<Message, 'items' | 'msg_type' | 'text'>): string {
  if (msg_type === 'TEXT') return text
  return msg_type === 'VOICE' && items.length === 1 ? (items[0]?.transcript ?? '') : ''
}

/**
 * Reads a text as an answer.
 *
 * @param isOpen whether an open question has a code. The form of a code alone counts only with a space and a number
 *   after it, as `A4RN 1`
 * @returns undefined for a text that does not look like an answer
 */
export function readAnswer(text: string, isOpen: (code: string) => boolean): Said | undefined {
  // The line of an option may be long.
  const most = isOpen(plainOf(text.trimStart().slice(0, 4))) ? longestLine : longest
  if (text.length > most) return undefined
  const found = { codes: new Set<string>(), numbers: new Set<number>(), yes: false, no: false }
  let isUnclear = false
  let isSentence = false
  const all = wordsOf(text).filter(word => !words.polite.has(word))
  // A code and a number count even if the question is over: the agent must not get them as a prompt.
  const isLate =
    all.length === 2 &&
    isCode(all[0]!) &&
    (/^\d{1,2}$/.test(all[1]!) || ['yes', 'no'].includes(meaningOf(all[1]!) ?? ''))
  for (const word of all) {
    const meaning = meaningOf(word)
    const [, code = '', digits = ''] = /^([A-Z\d]{4})(\d{0,2})$/.exec(word) ?? []
    if (meaning === 'yes' || meaning === 'no') found[meaning] = true
    else if (meaning === 'unclear') isUnclear = true
    else if (isCode(code) && (isOpen(code) || isLate)) {
      found.codes.add(code)
      if (digits) found.numbers.add(Number(digits))
    } else if (/^\d{1,2}$/.test(word)) found.numbers.add(Number(word))
    else if (numerals.includes(word)) found.numbers.add(numerals.indexOf(word) + 1)
    else isSentence = true
  }
  const [code, ...otherCodes] = found.codes
  const [number, ...otherNumbers] = found.numbers
  const word = found.yes ? 'yes' : found.no ? 'no' : undefined
  // A sentence counts if it has the code of an open question: the agent does not know the code.
  if (code === undefined && (isSentence || (number === undefined && word === undefined))) return undefined
  const isDouble = otherCodes.length > 0 || otherNumbers.length > 0 || (found.yes && found.no)
  return {
    ...(code !== undefined && { code }),
    ...(number !== undefined && { number }),
    ...(word !== undefined && { word }),
    isUnclear: isUnclear || isSentence || isDouble,
  }
}

/**
 * Returns the option that an answer means.
 *
 * @returns undefined if it is not clear
 */
export function chooseOption(
  { isUnclear, number, word }: Said,
  options: readonly QuestionOption[],
): QuestionOption | undefined {
  if (isUnclear) return undefined
  const rejection = findRejection(options)
  if (number === undefined && word === 'no') return rejection
  const once = options.filter(({ kind }) => kind === 'allow_once')
  const option = number !== undefined ? options[number - 1] : word && once.length === 1 ? once[0] : undefined
  const agrees = (how: 'allow' | 'reject') => option?.kind.startsWith(how)
  if ((word === 'yes' && !agrees('allow')) || (word === 'no' && !agrees('reject'))) return undefined
  return option
}

const around = /^(?:(?!\?)[\p{P}\s~])+|(?:(?!\?)[\p{P}\s~])+$/gu

/** Returns a text without the punctuation around it, and without a code before that. */
export const bareOf = (text: string, code = ''): string => {
  const plain = plainOf(text).replace(around, '')
  return code && plain.startsWith(code) ? plain.slice(code.length).replace(around, '') : plain
}

/**
 * Returns the options that a text names, as they are shown: `coffee`, `2. coffee`, `8X3V coffee`, `8X3V 2 = coffee`. There may be
 * several, since punctuation may be left out; unless one has the text as it is.
 */
export function findNamed(
  text: string,
  code: string,
  options: readonly QuestionOption[],
): readonly QuestionOption[] {
  const exact = options.filter(({ name }) => plainOf(name).trim() === plainOf(text).trim())
  if (exact.length > 0) return exact
  const spaced = (words: string) => words.replace(/(?:(?!\?)[\p{P}\s])+/gu, ' ')
  const bare = spaced(bareOf(text, code))
  const [, number, shown] = /^(\d{1,2})(?: ?= ?| )(.+)$/.exec(bare) ?? []
  return options.filter(({ name }, nth) => {
    const own = spaced(bareOf(name))
    return own !== '' && (own === bare || (Number(number) === nth + 1 && own === shown?.trim()))
  })
}

/** Whether an option rejects. */
export const isRejection = ({ kind }: QuestionOption): boolean => kind.startsWith('reject')

/** Returns the option that rejects, the one for this time first. */
export const findRejection = (options: readonly QuestionOption[]): QuestionOption | undefined =>
  options.find(({ kind }) => kind === 'reject_once') ?? options.find(({ kind }) => kind === 'reject_always')
