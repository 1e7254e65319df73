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
/** Longest line of an option, with its code: longer ones take long to compare, and choices have up to 100 characters. */
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
    'YES Y YEP YEAH YUP OK OKAY OKEY SURE ALLOW ALLOWED APPROVE APPROVED AGREE AGREED CONFIRM CONFIRMED 是 是的 好 好的 好啊 好吧 好呀 好嘞 好滴 行 可以 允许 允許 同意 赞成 贊成 批准 确认 確認 确定 確定 对 對 嗯 没问题 沒問題 强 👍 THUMBSUP 👌 🆗 ✅ ✔ ☑ 🙆',
  ),
  no: list(
    'NO N NOPE NAH NEVER NOT DONT DENY DENIED REJECT REJECTED REFUSE REFUSED DECLINE CANCEL 不 不是 不好 不行 不要 不可以 不允许 不同意 不批准 不用 不了 拒绝 拒絕 反对 反對 否 别 別 算了 取消 弱 👎 THUMBSDOWN ❌ ❎ ✖ 🙅 🚫',
  ),
  /** Words that say nothing about the choice. */
  polite: list(
    'PLEASE PLS PLZ THANKS THANK YOU THX TY HI HELLO HEY OPTION ONCE IT 请 請 谢谢 謝謝 谢谢你 谢了 多谢 麻烦 麻烦你 你好 您好 选 我选 选择 选项 第 个 项 号 一次 吧 啊 哦 呢 哈 🙏 😊 🙂',
  ),
  /** Words of a question, or of more than this one time. */
  unclear: list('? ALWAYS FOREVER 始终 总是 永远 一直 吗 么'),
} as const
type Meaning = keyof typeof words

const meaningOf = (word: string): Meaning | undefined =>
  (Object.keys(words) as Meaning[]).find(meaning => words[meaning].has(word))

/** Numbers as Chinese writes them, from 1. */
const numerals = '一二三四五六七八九十'

const ordinals = 'FIRST SECOND THIRD FOURTH FIFTH SIXTH SEVENTH EIGHTH NINTH TENTH'.split(' ')
/** In front of an ordinal, or behind it. */
const aroundOrdinal = list('THE ONE')

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

const isImpolite = (word: string): boolean => !words.polite.has(word)

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
  const all = wordsOf(text).filter(isImpolite)
  // A code and a number count even if the question is over: the agent must not get them as a prompt.
  const isLate =
    all.length === 2 &&
    isCode(all[0]!) &&
    (/^\d{1,2}$/.test(all[1]!) || ['yes', 'no'].includes(meaningOf(all[1]!) ?? ''))
  const hasOrdinal = all.some(word => ordinals.includes(word))
  for (const word of all) {
    if (hasOrdinal && aroundOrdinal.has(word)) continue
    const meaning = meaningOf(word)
    const [, code = '', digits = ''] = /^([A-Z\d]{4})(\d{0,2})$/.exec(word) ?? []
    if (meaning === 'yes' || meaning === 'no') found[meaning] = true
    else if (meaning === 'unclear') isUnclear = true
    else if (isCode(code) && (isOpen(code) || isLate)) {
      found.codes.add(code)
      if (digits) found.numbers.add(Number(digits))
    } else if (/^\d{1,2}$/.test(word)) found.numbers.add(Number(word))
    else if (numerals.includes(word)) found.numbers.add(numerals.indexOf(word) + 1)
    else if (ordinals.includes(word)) found.numbers.add(ordinals.indexOf(word) + 1)
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
  const found = options.filter(({ name }, nth) => {
    const own = spaced(bareOf(name))
    return own !== '' && (own === bare || (Number(number) === nth + 1 && own === shown?.trim()))
  })
  if (found.length > 0) return found
  const impolite = (words: string) => wordsOf(words).filter(isImpolite).join(' ')
  const said = impolite(bareOf(text, code))
  return said === '' ? [] : options.filter(({ name }) => impolite(name) === said)
}

/** A question to a person, as far as it matters for reading an answer to it. */
interface Choosable {
  readonly code: string
  readonly options: readonly QuestionOption[]
}

/**
 * Returns what a message chooses, and whether it is certain which question it answers: it has the code, or quotes it.
 *
 * @returns undefined if it is no choice; without an option if it is not clear which
 */
export function choiceOf(
  { code, options }: Choosable,
  message: Pick<Message, 'items' | 'msg_type' | 'ref_msg' | 'text'>,
): { option?: QuestionOption | undefined; isNamed: boolean } | undefined {
  const text = saidIn(message)
  if (text.length > longestLine) return undefined
  const said = readAnswer(text, one => one === code)
  if (said?.code !== undefined && said.code !== code) return undefined
  const numbered = said && chooseOption(said, options)
  const named = findNamed(text, code, options)
  const quoted = shownIn(message.ref_msg?.text)
  if (quoted !== undefined && quoted !== code && said?.code === undefined) return undefined
  const isNamed = said?.code === code || quoted === code
  // A choice may be called 2, and not be the second one.
  const [option, ...others] = new Set(numbered ? [...named, numbered] : named)
  if (said?.code === code) return { option: numbered ?? (named.length === 1 ? option : undefined), isNamed }
  const isOfNumbers = said?.number !== undefined && options.some(({ name }) => /^\D?\d+$/.test(name.trim()))
  const isOther = isOfNumbers && bareOf(option?.name ?? '') !== String(said.number)
  if (option) return { option: others.length > 0 || isOther ? undefined : option, isNamed }
  const isMeant = said?.number !== undefined || (said && options.some(({ kind }) => kind !== 'other'))
  return isMeant || isNamed ? { isNamed } : undefined
}

/** Returns the code of the question that a text of the bot shows. */
export const shownIn = (text = ''): string | undefined => /^([A-Z2-9]{4}) 1 = /m.exec(text)?.[1]

/**
 * Whether a message that is no choice may be meant as one, if it follows the question: it says nothing in words, begins
 * like an answer, or has the name of an option or a part of it.
 */
export function mayChoose(
  { options }: Choosable,
  message: Pick<Message, 'items' | 'msg_type' | 'ref_msg' | 'text'>,
): boolean {
  const text = saidIn(message)
  if (text.length > longestLine || shownIn(message.ref_msg?.text) !== undefined) return false
  const all = wordsOf(text).filter(isImpolite)
  const [first] = all
  if (first === undefined) return message.msg_type !== 'TEXT'
  const isAnswer = ['yes', 'no'].includes(meaningOf(first) ?? '') || /^\d{1,2}$/.test(first)
  const line = (all: readonly string[]) => ` ${all.join(' ')} `
  return (
    isAnswer ||
    options.some(({ name }) => {
      const own = wordsOf(name)
      return own.length > 0 && (line(all).includes(line(own)) || line(own).includes(line(all)))
    })
  )
}

/** Whether an option rejects. */
export const isRejection = ({ kind }: QuestionOption): boolean => kind.startsWith('reject')

/** Returns the option that rejects, the one for this time first. */
export const findRejection = (options: readonly QuestionOption[]): QuestionOption | undefined =>
  options.find(({ kind }) => kind === 'reject_once') ?? options.find(({ kind }) => kind === 'reject_always')
