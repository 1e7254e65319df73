/** The lines of the list. */
import type { Conversation, Message } from '../api.ts'
import { number, t } from '../i18n.ts'
import { nameOf } from '../live.ts'
import { wordsOf } from './message-summary.ts'
import type { Found } from './search.ts'
import { contains } from './text.tsx'

export type Line =
  | { kind: 'head'; text: string }
  | { kind: 'conversation'; one: Conversation }
  | { kind: 'hit'; message: Message }
  | { kind: 'more' }

/**
 * Returns all conversations. During a search: the conversations of that name, and the messages found.
 *
 * @param key the key of the search, '' without one
 */
export function linesOf(
  all: readonly Conversation[],
  needle: string,
  key: string,
  found: Found | undefined,
): readonly Line[] {
  if (key === '') return all.map(one => ({ kind: 'conversation', one }))
  const wanted = needle.toLowerCase()
  // A search without a text finds only messages.
  const candidates = needle === '' ? [] : all
  const named = candidates.filter(
    ({ session, user_id }) =>
      user_id.toLowerCase().includes(wanted) ||
      session.toLowerCase().includes(wanted) ||
      nameOf(session, user_id)?.toLowerCase().includes(wanted),
  )
  const lines: Line[] = []
  if (named.length > 0) lines.push({ kind: 'head', text: t('search.people', { count: named.length }) })
  for (const one of named) lines.push({ kind: 'conversation', one })
  if (!found || found.messages.length === 0) return lines
  const { total, totalIsLowerBound } = found
  if (found.key !== key) {
    // Until the answer comes: earlier results that still fit.
    const fitting = found.messages.filter(message => contains(wordsOf(message), needle))
    return [...lines, ...fitting.map(message => ({ kind: 'hit' as const, message }))]
  }
  lines.push({
    kind: 'head',
    text: totalIsLowerBound
      ? t('search.many', { most: number(total) })
      : t('search.messages', { count: total }),
  })
  for (const message of found.messages) lines.push({ kind: 'hit', message })
  if (found.next !== undefined) lines.push({ kind: 'more' })
  return lines
}

/** Returns a key that is unique in the list. */
export const keyOf = (line: Line): string =>
  line.kind === 'conversation'
    ? `c ${line.one.session}/${line.one.user_id}`
    : line.kind === 'hit'
      ? `m ${line.message.id}`
      : line.kind === 'head'
        ? `h ${line.text}`
        : 'more'
