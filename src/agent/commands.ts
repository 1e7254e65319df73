/** The commands of people in their chat with an agent. */
import { bareOf, plainOf } from '../model/typed-answer.ts'

/**
 * The words of each command, and what may follow them in the message: `none`, a `text` or nothing, or what is `needed`.
 * A word with a slash that is none of these goes to the agent.
 */
const forms = {
  stop: { words: ['/stop', '停止'], rest: 'none' },
  new: { words: ['/new', '新对话'], rest: 'text' },
  more: { words: ['/more', '更多'], rest: 'none' },
  status: { words: ['/status', '状态'], rest: 'none' },
  help: { words: ['/help', '帮助'], rest: 'none' },
  agents: { words: ['/agents', '智能体列表'], rest: 'none' },
  use: { words: ['/use', '/agent', '换用'], rest: 'needed' },
  sessions: { words: ['/sessions', '历史对话'], rest: 'none' },
  resume: { words: ['/resume', '继续对话'], rest: 'needed' },
  model: { words: ['/model', '切换模型'], rest: 'text' },
  mode: { words: ['/mode', '切换模式'], rest: 'text' },
  cd: { words: ['/cd', '切换目录'], rest: 'text' },
  at: { words: ['/at', '/every', '/in', '定时'], rest: 'needed' },
  times: { words: ['/times', '定时列表'], rest: 'none' },
  cancel: { words: ['/cancel', '取消定时'], rest: 'needed' },
} as const satisfies Record<string, CommandForm>

interface CommandForm {
  readonly words: readonly string[]
  readonly rest: 'none' | 'text' | 'needed'
}

type CommandWord = keyof typeof forms

/** What a person commands. */
export interface AgentCommand {
  readonly word: CommandWord
  /** What follows the word, as it was written; "" if nothing does. */
  readonly rest: string
  /** The word as it was written, in small letters: `/every` and `/in` are the command `at`. */
  readonly written: string
}

/** Punctuation around a command; not the slash that begins it, and no question mark. */
const around = /^(?:(?!\/)[\p{P}\s])+|(?:(?!\?)[\p{P}\s])+$/gu

const all = Object.entries(forms) as [CommandWord, CommandForm][]

/**
 * Returns the command that a message is. Case and width of letters do not matter. What follows the word stands behind a
 * blank; a Chinese word with something behind it that it does not need is text for the agent.
 */
export function findCommand(text: string): AgentCommand | undefined {
  const alone = plainOf(text.slice(0, 100)).replace(around, '').toLowerCase()
  const [head = '', tail = ''] = splitOnce(text.trim())
  const first = plainOf(head).toLowerCase()
  for (const [word, { rest, words }] of all) {
    if (words.includes(alone))
      return rest === 'needed' && !alone.startsWith('/') ? undefined : { word, rest: '', written: alone }
    if (rest !== 'none' && tail !== '' && words.includes(first)) return { word, rest: tail, written: first }
  }
  return undefined
}

/** `@NAME` in front of a text. A path, such as `@name/file`, is none. Chinese follows without a blank. */
const mention =
  /^\s*[@＠]([\w－＿Ａ-Ｚａ-ｚ０-９-]+)(?![\w－＿Ａ-Ｚａ-ｚ０-９@＠/\\-]|\.\S)[\s:：,，、.。]*(.*)$/su

/** Returns whose name stands behind `@` in front of a text, and the text after it. */
export function readMention(
  text: string,
  names: readonly string[],
): { name: string; rest: string } | undefined {
  const [, word = '', rest = ''] = mention.exec(text) ?? []
  const name = findName(word, names)
  return name === undefined ? undefined : { name, rest }
}

/** Returns a text without the name of the agent in front, if anything follows it. */
export const withoutMention = (text: string, name: string): string => readMention(text, [name])?.rest || text

/** Returns the name that a person wrote. Case, width and punctuation around it do not matter. */
export const findName = (word: string, names: readonly string[]): string | undefined =>
  names.find(name => name === word) ?? names.find(name => bareOf(name) === bareOf(word))

/** Returns the only name that differs from a word by one typing error: a letter too much, too few, wrong, or two swapped. */
export function guessName(word: string, names: readonly string[]): string | undefined {
  const typed = bareOf(word)
  const near = names.filter(name => name.length > 2 && isNear(bareOf(name), typed))
  return near.length === 1 ? near[0] : undefined
}

function isNear(one: string, other: string): boolean {
  let start = 0
  while (start < one.length && one[start] === other[start]) start += 1
  let end = 0
  const least = Math.min(one.length, other.length) - start
  while (end < least && one.at(-1 - end) === other.at(-1 - end)) end += 1
  const [a, b] = [one, other].map(text => text.slice(start, text.length - end)) as [string, string]
  return (a.length < 2 && b.length < 2) || (a.length === 2 && a === `${b[1]}${b[0]}`)
}

const splitOnce = (text: string): string[] => {
  const [, head = '', tail = ''] = /^(\S+)\s*(.*)$/su.exec(text) ?? []
  return [head, tail]
}
