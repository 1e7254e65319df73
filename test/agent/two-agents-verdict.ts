/** What became of each message and time, by what the phone got and what the store has. */
import { keyOf } from '../../src/agent/delivery.ts'
import type { MessageView } from '../../src/sandbox/phone-view.ts'
import { textOf } from './support.ts'

export const names = ['home', 'code'] as const
export type Name = (typeof names)[number]

/** A word that was said once. `by`: the agent that it is for; absent: any. */
export type Word =
  | { readonly kind: 'message'; readonly by: Name | undefined }
  /** comes: how often it came in time; 0 if it came too late. */
  | { readonly kind: 'time'; readonly by?: Name | undefined; comes: number; readonly isSeries?: true }

interface Turn {
  readonly id: number
  readonly agent: string
  readonly status: string
  readonly source: string
  /** Row ids as JSON. */
  readonly messages: string
  readonly prompt?: string
  readonly error?: string
}

/** A text that svc sent, or meant to. */
interface Part {
  /** Ends with what it was for. */
  readonly key?: string
  readonly status: string
  readonly message_id: string
  /** The message that it was joined to. */
  readonly sent_with?: string
  readonly text: string
}

export interface Evidence {
  readonly got: readonly MessageView[]
  readonly received: readonly { id: number; text: string }[]
  readonly turns: readonly Turn[]
  readonly parts: readonly Part[]
  readonly times: readonly object[]
}

export interface Outcome {
  readonly killed: number
  readonly messages: number
  readonly times: number
  /** Of messages and times, by what came of them. late: the message was read after its time. unknown: it may have arrived. */
  readonly counts: Readonly<Record<'answered' | 'interrupted' | 'missed' | 'late' | 'unknown', number>>
  readonly commands: number
  /** What must not be: with the word, and what is wrong. */
  readonly wrong: readonly string[]
}

/** What the phone got of what svc sent. */
class Arrived {
  readonly #parts: readonly Part[]
  /** By each id that svc may know it by. */
  readonly #shown: ReadonlyMap<string, MessageView>
  readonly lines: string

  constructor({ got, parts }: Evidence) {
    const shown = got.filter(one => one.shown)
    this.#parts = parts
    this.#shown = new Map(
      shown.flatMap(one => [one.message_id, `local:${one.client_id}`].map(id => [id, one] as const)),
    )
    this.lines = shown.map(textOf).join('\n')
  }

  /** Returns how many messages of these the phone got; unknown: none, and svc does not know that. */
  count(isOf: (part: Part) => boolean): number | 'unknown' {
    const own = this.#parts.filter(isOf)
    const messages = new Set(own.flatMap(part => this.#shown.get(idOf(part)) ?? []))
    return messages.size === 0 && own.some(({ status }) => status === 'unknown') ? 'unknown' : messages.size
  }

  /** Returns what svc sent, and what the phone got, with the answer to a word. */
  tell(nth: number): string {
    const isOf = (text: string) => text.includes(` got <${nth}>`)
    const got = [...new Set(this.#shown.values())].filter(one => isOf(textOf(one)))
    return JSON.stringify({ sent: this.#parts.filter(({ text }) => isOf(text)), got }, null, 1)
  }

  countOf(...ends: readonly string[]): number | 'unknown' {
    return this.count(({ key = '' }) => ends.some(end => key.endsWith(`/${end}`)))
  }
}

const idOf = ({ message_id, sent_with }: Part) => sent_with ?? message_id
const hasWord = (text: string, word: string) => text.split(/[\s:;]+/).includes(word)

export function judge(words: readonly Word[], evidence: Evidence): Omit<Outcome, 'killed'> {
  const { got, parts, received, times } = evidence
  const arrived = new Arrived(evidence)
  const wrong: string[] = []
  const counts = { answered: 0, interrupted: 0, missed: 0, late: 0, unknown: 0 }
  for (const [nth, word] of words.entries())
    for (const [count, what] of judgeWord(word, nth, evidence, arrived))
      if (count === 'wrong') wrong.push(`w${nth}. ${what}`)
      else counts[count] += 1
  const commands = received.filter(({ text }) => /^(@\w+ )?\/(use|in|at|every)\b/.test(text))
  for (const { id, text } of commands) {
    const replies = arrived.countOf(`agent:${id}:use`, `agent:${id}:at`)
    // What came of a choice may be told by the answer to another command.
    const isOld =
      text.startsWith('/use') && received.some(one => one.id > id && /^\/(use|agents)/.test(one.text))
    if (replies !== 1 && replies !== 'unknown' && !(isOld && replies === 0))
      wrong.push(`${text} (${id}) got ${replies} replies`)
  }
  const known = new Set(parts.map(idOf))
  for (const message of got)
    if (!message.shown || ![message.message_id, `local:${message.client_id}`].some(id => known.has(id)))
      wrong.push(`not shown, or not in the store: ${textOf(message)}`)
  if (times.length > 0) wrong.push(`times are left: ${JSON.stringify(times)}`)
  const messages = words.filter(({ kind }) => kind === 'message').length
  return { messages, times: words.length - messages, counts, commands: commands.length, wrong }
}

/** Says what became of a word, and of each time that it came. */
function* judgeWord(
  word: Word,
  nth: number,
  { received, turns }: Evidence,
  arrived: Arrived,
): Generator<[keyof Outcome['counts'] | 'wrong', string?]> {
  const said = `w${nth}.`
  const rows = received.filter(({ text }) => hasWord(text, said))
  if (rows.length !== 1) yield ['wrong', `was received ${rows.length} times`]
  const own = turns.filter(({ messages, prompt, source }) =>
    word.kind === 'message'
      ? source === 'message' && rows.some(({ id }) => JSON.parse(messages).includes(id))
      : source === 'time' && prompt?.endsWith(`\n${said}`),
  )
  const wanted = word.kind === 'message' ? 1 : word.comes
  // A time that was not set is not in the answer to its command.
  const replies = rows.map(({ id }) => `/agent:${id}:at`)
  const isRefused = ({ key = '', text }: Part) =>
    replies.some(end => key.endsWith(end)) && !hasWord(text, said)
  if (word.kind === 'time' && own.length === 0 && arrived.count(isRefused) !== 0) return yield ['late']
  if (own.length !== wanted) yield ['wrong', `has ${own.length} turns in place of ${wanted}`]
  if (own.some(({ agent }) => word.by !== undefined && agent !== word.by))
    yield ['wrong', `is for ${word.by}, and was done by ${own.map(({ agent }) => agent)}`]
  const answers = [...arrived.lines.matchAll(new RegExp(`^(\\w+) got <${nth}>$`, 'gm'))]
  const by = answers.map(([, name]) => name)
  for (const turn of own) {
    const key = keyOf({ id: turn.id, messages: JSON.parse(turn.messages) })
    const at = by.indexOf(turn.agent)
    if (turn.status === 'answered' && at >= 0 && arrived.countOf(`${key}:0`) === 1) {
      yield ['answered']
      by.splice(at, 1)
    } else if (turn.status === 'answered' && arrived.countOf(`${key}:0`) === 'unknown') yield ['unknown']
    else if (turn.status === 'interrupted' && arrived.countOf(`${key}:interrupted`) !== 0)
      yield ['interrupted']
    else yield ['wrong', `was not answered, and its person was not told: ${JSON.stringify(turn)}`]
  }
  if (by.length > 0)
    yield ['wrong', `has more answers, by ${by}: ${arrived.tell(nth)} ${JSON.stringify(own)}`]
  if (wanted > 0 || (word.kind === 'time' && word.isSeries)) return
  const told = arrived.count(
    ({ key, text }) => key?.includes('/agent:missed:') === true && hasWord(text, said),
  )
  if (told === 1) yield ['missed']
  else if (told === 'unknown') yield ['unknown']
  else yield ['wrong', `was missed, and its person was told ${told} times`]
}
