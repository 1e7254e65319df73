/** The commands of people in their chat with an agent. */
import { plainOf } from '../model/typed-answer.ts'

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
  use: { words: ['/use', '换用'], rest: 'needed' },
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

export type CommandWord = keyof typeof forms

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

const splitOnce = (text: string): string[] => {
  const [, head = '', tail = ''] = /^(\S+)\s*(.*)$/su.exec(text) ?? []
  return [head, tail]
}
