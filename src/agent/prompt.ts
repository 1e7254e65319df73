/** Builds what the agent is asked: the texts of the messages, and their files in the agent's folder. */
import { basename, join } from 'node:path'
import { isSvcError, type Message, type StoredTurn, type Svc, type SvcPart } from '../index.ts'
import type { Log } from '../platform/log.ts'
import type { Prompt, PromptFile } from './backend.ts'
import { withoutMention } from './commands.ts'
import { transcribe } from './transcribe.ts'

/** Folder for the files of messages, inside the folder of the agent. */
const inbox = 'inbox'

const kinds = { IMAGE: 'image', VOICE: 'voice', FILE: 'file', VIDEO: 'video' } as const

export interface PromptPorts {
  /** Name of the agent. In front of a text it is left out. */
  readonly name: string
  readonly download: SvcPart['download']
  readonly svc: Pick<Svc, 'history'>
  /** Folder in which the agent works. */
  readonly folder: string
  /** Command that prints what is said in the WAV file that is its last argument. */
  readonly transcribe: string | undefined
  /** The data directory, if the agent is isolated from it. */
  readonly isolatedFrom: string | undefined
  readonly signal: AbortSignal
  readonly log: Log
}

/**
 * Builds the prompt of a turn. Saves the files of its messages, and of those that they quote, in `<folder>/inbox`. What
 * cannot be fetched or read is named in the text.
 */
export async function buildPrompt(messages: readonly Message[], ports: PromptPorts): Promise<Prompt> {
  const lines: string[] = []
  const files: PromptFile[] = []
  for (const message of messages) {
    const quote = await describeQuote(message, files, ports)
    if (quote) lines.push(`> ${quote.join('\n').replaceAll('\n', '\n> ')}`)
    if (message.text) lines.push(withoutMention(message.text, ports.name))
    const items = await describeItems(message, files, ports)
    lines.push(...items)
    if (!message.text && items.length === 0) lines.push(unreadable)
  }
  return { text: lines.join('\n'), files }
}

/** WeChat gives svc nothing of these but that there was something. */
const unreadable = '[a sticker, a location, a card or the like, which WeChat does not show to bots]'

const unknownQuote = '[an earlier message, which WeChat did not send along]'
/** The time in a quote is that of the message, or its second, or WeChat's where svc has its own. */
const closeness = [0, 999, 2500] as const

/** Describes what is no text in a message, and fetches its files. */
async function describeItems(message: Message, files: PromptFile[], ports: PromptPorts): Promise<string[]> {
  const lines: string[] = []
  let nth = 0
  for (const item of message.items) {
    if (item.kind === 'TEXT') continue
    if (!(item.kind in kinds)) {
      lines.push(unreadable)
      continue
    }
    const kind = kinds[item.kind as keyof typeof kinds]
    const file = item.has_media ? await save(message, nth++, kind, ports) : undefined
    const transcript =
      item.transcript ?? (kind === 'voice' && file ? await listen(file.path, ports) : undefined)
    if (file) files.push({ ...file, ...(transcript && { transcript }) })
    const said = transcript ? `, which says (by speech recognition): ${transcript}` : ''
    lines.push(file ? `[${kind}: ${file.path}${said}]` : `[${kind} that could not be fetched${said}]`)
  }
  return lines
}

/** Describes the message that a message quotes. WeChat often tells its id or its time alone: history has the rest. */
async function describeQuote(
  message: Message,
  files: PromptFile[],
  ports: PromptPorts,
): Promise<string[] | undefined> {
  if (!message.ref_msg) return undefined
  const { msg_type, text } = message.ref_msg
  if (text && (!msg_type || msg_type === 'TEXT')) return [text]
  const known = await findQuoted(message, ports)
  const said = text || known?.text
  const items = known ? await describeItems(known, files, ports) : []
  return said || items.length > 0 ? [...(said ? [said] : []), ...items] : [unknownQuote]
}

/** Returns the message that a message quotes; undefined if it is not certain which one. */
export async function findQuoted(
  { from_user: user_id, ref_msg, session }: Message,
  { svc }: Pick<PromptPorts, 'svc'>,
): Promise<Message | undefined> {
  const { message_id, timestamp: time } = ref_msg ?? {}
  if (time === undefined) return undefined
  const [, , farthest] = closeness
  const span = { since: time - farthest, until: time + farthest }
  const { messages } = await svc.history({ session, user_id, ...span }).catch(error => {
    // A time of WeChat may be out of range.
    if (!isSvcError(error, 'invalid_arguments')) throw error
    return { messages: [] }
  })
  const all = messages.filter(one => message_id === undefined || one.message_id === message_id)
  const near = closeness.map(ms => all.filter(({ timestamp }) => Math.abs(timestamp - time) <= ms))
  const [first, second] = near.find(({ length }) => length > 0) ?? []
  return second ? undefined : first
}

async function save(
  { message_id }: Message,
  nth: number,
  kind: PromptFile['kind'],
  { download, folder, log }: PromptPorts,
): Promise<PromptFile | undefined> {
  const save_dir = join(folder, inbox)
  try {
    const { content_type, path } = await download({ message_id, item: nth, save_dir }, { below: folder })
    return { path, name: basename(path), type: content_type, kind }
  } catch (error) {
    if (!isSvcError(error)) throw error
    log.warn('file of a message not fetched', { message_id, error })
    return undefined
  }
}

/** Returns a transcript of a voice message for which WeChat gave none; undefined if that fails. */
async function listen(
  path: string,
  { folder, isolatedFrom, log, signal, transcribe: command }: PromptPorts,
): Promise<string | undefined> {
  if (command === undefined) return undefined
  return transcribe(command, path, { folder, isolatedFrom, signal }).catch(error => {
    signal.throwIfAborted()
    log.warn('voice message not transcribed', { path, error })
    return undefined
  })
}

/** Returns the messages of a turn, oldest first. Those that retention removed are left out. */
export async function readMessages(
  svc: Pick<Svc, 'history'>,
  { messages: ids, session, user_id }: Pick<StoredTurn, 'messages' | 'session' | 'user_id'>,
): Promise<Message[]> {
  const [first = 0] = ids
  const wanted = new Set(ids)
  const found: Message[] = []
  const limit = Math.min(200, ids.length)
  let before: number | undefined = (ids.at(-1) ?? 0) + 1
  while (before !== undefined && before > first && found.length < ids.length) {
    const page = await svc.history({ session, user_id, direction: 'received', before, limit })
    found.push(...page.messages.filter(({ id }) => wanted.has(id)))
    before = page.next_before
  }
  return found.sort((a, b) => a.id - b.id)
}
