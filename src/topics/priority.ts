/** How urgent something is, in the words of those who say it. */
import { badArgument } from '../model/error.ts'
import { type Priority, priorities } from '../model/topic.ts'
import { isObject } from '../platform/fields.ts'

/** Words for severities, as rules and programs commonly use them; a topic may name others. */
const usualWords: Readonly<Record<Priority, string>> = {
  max: 'max highest urgent emergency emerg critical crit fatal disaster page panic alert blocker',
  high: 'high error err major severe failure failed important timesensitive',
  default: 'default normal medium moderate average warning warn active',
  low: 'low minor info information informational notice passive',
  min: 'min none debug trace verbose lowest',
}
const priorityOfWord = new Map(
  priorities.flatMap(priority => usualWords[priority].split(' ').map(word => [word, priority] as const)),
)
/** `P1`, `sev-2`: here the least number is the most urgent. */
const counted = /^(?:p|s|sev|severity|prio|priority)[\s-]?([0-5])$/
const byCount = ['max', 'max', 'high', 'default', 'low', 'min'] as const

export type NamedPriorities = Readonly<Record<string, Priority>>

/** How urgent something is. `unknown`: a word that nothing maps. */
export interface ReadPriority {
  readonly priority?: Priority | undefined
  readonly unknown?: string
}

/**
 * Reads a priority: ntfy's number or name, a word that is commonly used, also within others, or one that the topic names. Other
 * programs count further than 5: that is the highest. 0 and nothing say nothing.
 *
 * @param isExact as ntfy reads it: no further number, and no other words beside one
 * @see https://docs.ntfy.sh/publish/#message-priority
 */
export function readPriority(value: unknown, named: NamedPriorities = {}, isExact = false): ReadPriority {
  const plain = (text: string) => text.trim().toLowerCase().replace(/\s+/g, ' ')
  const said = isObject(value) ? value.name : value
  const text = plain(typeof said === 'string' || typeof said === 'number' ? `${said}` : '')
  const own = Object.entries(named).find(([name]) => plain(name) === text)?.[1]
  if (own !== undefined) return { priority: own }
  if (text === '' || /^0+$/.test(text)) return {}
  if ((isExact ? /^[1-5]$/ : /^-?\d{1,3}$/).test(text))
    return { priority: priorities[Math.min(Math.max(Number(text), 1), 5) - 1] }
  const count = counted.exec(text)?.[1]
  if (count !== undefined) return { priority: byCount[Number(count)] }
  const parts = isExact ? [] : text.split(/[^\p{L}]+/u)
  const word = [text, ...parts].find(word => priorityOfWord.has(word))
  return word === undefined ? { unknown: text } : { priority: priorityOfWord.get(word) }
}

export const unknownPriorityError = () =>
  badArgument('priority', 'expected 1 to 5, or min, low, default, high, max or urgent')
