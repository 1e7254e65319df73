/** Builds what the agent is asked: the texts of the messages, and their files in the agent's folder. */
import { mkdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { isSvcError, type Message, type StoredTurn, type Svc, type SvcPart } from '../index.ts'
import type { Log } from '../platform/log.ts'
import type { Prompt, PromptFile } from './backend.ts'
import { transcribe } from './transcribe.ts'

/** Folder for the files of messages, inside the folder of the agent. */
const inbox = 'inbox'

const kinds = { IMAGE: 'image', VOICE: 'voice', FILE: 'file', VIDEO: 'video' } as const

export interface PromptPorts {
  readonly download: SvcPart['download']
  /** Folder in which the agent works. */
  readonly folder: string
  /** Command that prints what is said in the WAV file that is its last argument. */
  readonly transcribe: string | undefined
  readonly signal: AbortSignal
  readonly log: Log
}

/**
 * Builds the prompt of a turn. Saves the files of its messages in `<folder>/inbox`. A file that cannot be fetched is
 * named in the text.
 */
export async function buildPrompt(messages: readonly Message[], ports: PromptPorts): Promise<Prompt> {
  const lines: string[] = []
  const files: PromptFile[] = []
  for (const message of messages) {
    const { ref_msg: quoted, text } = message
    if (quoted?.text) lines.push(`> ${quoted.text.replaceAll('\n', '\n> ')}`)
    if (text) lines.push(text)
    let nth = 0
    for (const item of message.items) {
      if (!(item.kind in kinds)) continue
      const kind = kinds[item.kind as keyof typeof kinds]
      const file = item.has_media ? await save(message, nth++, kind, ports) : undefined
      const transcript =
        item.transcript ?? (kind === 'voice' && file ? await listen(file.path, ports) : undefined)
      if (file) files.push({ ...file, ...(transcript && { transcript }) })
      const said = transcript ? `, which says (by speech recognition): ${transcript}` : ''
      lines.push(file ? `[${kind}: ${file.path}${said}]` : `[${kind} that could not be fetched${said}]`)
    }
  }
  return { text: lines.join('\n'), files }
}

async function save(
  { message_id }: Message,
  nth: number,
  kind: PromptFile['kind'],
  { download, folder, log }: PromptPorts,
): Promise<PromptFile | undefined> {
  const save_dir = join(folder, inbox)
  try {
    await mkdir(save_dir, { recursive: true, mode: 0o700 })
    const { content_type, path } = await download({ message_id, item: nth, save_dir })
    return { path, name: basename(path), type: content_type, kind }
  } catch (error) {
    if (!isSvcError(error)) throw error
    log.warn('file of a message not fetched', { message_id, error })
    return undefined
  }
}

/** Returns what is said in a voice message that WeChat gave no transcript of; undefined if that is not known. */
async function listen(
  path: string,
  { folder, log, signal, transcribe: command }: PromptPorts,
): Promise<string | undefined> {
  if (command === undefined) return undefined
  return transcribe(command, path, { folder, signal }).catch(error => {
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
