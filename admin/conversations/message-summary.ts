/** Short texts about messages. */
import type { Message } from '../api.ts'
import { number, type TextKey, t } from '../i18n.ts'

type Item = Message['items'][number]

/** 5 s, 1:05 */
export function duration(ms: number): string {
  const seconds = Math.max(1, Math.round(ms / 1000))
  if (seconds < 60) return t('chat.seconds', { seconds })
  return `${number(Math.floor(seconds / 60))}:${String(seconds % 60).padStart(2, '0')}`
}

const kinds: Readonly<Record<string, TextKey>> = {
  IMAGE: 'chat.picture',
  VIDEO: 'chat.video',
  VOICE: 'chat.voice',
  FILE: 'chat.file',
}

/**
 * A file name to show. Marks that reverse the reading direction are left out: they make `photo‮gpj.exe` look
 * like a picture.
 */
export const fileName = (name: string): string =>
  name.replace(/[\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\p{Cc}]/gu, '')

/** Returns an item other than a text, in a few words. */
export function itemWords(item: Pick<Item, 'kind' | 'playtime' | 'file_name' | 'transcript'>): string {
  const key = kinds[item.kind]
  if (!key) return t('chat.unknown_kind')
  if (item.kind === 'VOICE' && item.playtime) return `${t(key)} ${duration(item.playtime)}`
  if (item.kind === 'FILE' && item.file_name) return fileName(item.file_name)
  return t(key)
}

/** Returns the searchable text of a message: its texts, file names, transcripts. */
export const wordsOf = ({ items }: Message): string =>
  items
    .flatMap(
      ({ text, transcript, file_name }) => text ?? transcript ?? (file_name ? fileName(file_name) : []),
    )
    .join('\n')

/** Returns what was written or said in a message. */
export const textOf = ({ items }: Message): string =>
  items.flatMap(({ text, transcript }) => text ?? transcript ?? []).join('\n')

/** Returns a message in one line. */
export function preview(message: Pick<Message, 'items' | 'text'>): string {
  const first = message.items.find(({ kind }) => kind !== 'TEXT')
  const text = message.text.slice(0, 200).replace(/\s+/g, ' ').trim()
  if (!first) return text || t('chat.unknown_kind')
  const words = itemWords(first)
  if (first.kind === 'VOICE' && first.transcript) return `${words}: ${first.transcript.slice(0, 200)}`
  return text ? `${words}: ${text}` : words
}
