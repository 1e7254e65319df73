/** The sends that wait: which ones the caller decides about, what was said before them, and edited texts. */
import { type Signal, signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { decided, outbox, seesOutbox } from '../answers.ts'
import { call, type Message, type OutboxEntry } from '../api.ts'
import { itemWords } from '../conversations/message-summary.ts'
import { onMessages, peerOf } from '../live.ts'
import { may, mayApprove } from '../rights.ts'
import { inSentOrder, isDraft } from '../talks.ts'

/** Lists that exclude each other: what the caller approves, what others approve, what is sent by itself. */
export const shelves = ['mine', 'others', 'queued'] as const
export type Shelf = (typeof shelves)[number]

export const shelfOf = ({ waits_for, made_by }: OutboxEntry): Shelf =>
  waits_for !== 'approval' ? 'queued' : mayApprove(made_by) ? 'mine' : 'others'

/** The sends that wait, oldest first. Undefined until they are loaded. */
export const waiting = (): readonly OutboxEntry[] | undefined =>
  seesOutbox() ? outbox.value?.filter(({ outbox_id }) => !decided.value.has(outbox_id)) : []

const textsOf = ({ parts }: OutboxEntry) => parts.filter(({ kind }) => kind === 'text')
export const textOf = (entry: OutboxEntry): string =>
  textsOf(entry)
    .map(({ text }) => text)
    .join('\n\n')
/** Only one text can be edited: an edit of several would say nothing about where they begin. */
export const isEditable = (entry: OutboxEntry): boolean => textsOf(entry).length === 1

/** Returns a send in one line. */
export const lineOf = ({ parts }: OutboxEntry): string =>
  parts
    .map(({ kind, text, file_name }) =>
      kind === 'text'
        ? (text ?? '')
        : itemWords({ kind: kind.toUpperCase() as 'FILE', ...(file_name !== undefined && { file_name }) }),
    )
    .join(' · ')
    .slice(0, 200)

/** The texts that are edited, by the id of the draft: they are still there after a visit to another page. */
const edits = new Map<string, Signal<string | undefined>>()
export function editedOf(id: string): Signal<string | undefined> {
  const known = edits.get(id) ?? signal(undefined)
  edits.set(id, known)
  return known
}

/** The messages that are looked through, and how many of the newest are shown at least. */
const mostRead = 50
const shownAtLeast = 6

/** What was said in the conversation of a draft, by the id of the draft. */
const talks = signal<ReadonlyMap<string, readonly Message[]>>(new Map())

async function load({
  answers = [],
  outbox_id,
  parts,
  session,
  to_user: user_id,
}: OutboxEntry): Promise<void> {
  // The draft can be judged without it.
  const none = { messages: [] }
  const page = may('history')
    ? await call('list_messages', { session, user_id, limit: mostRead }).catch(() => none)
    : none
  const isIt = ({ id }: Message) => parts.some(part => part.id === id)
  const all = inSentOrder(page.messages.toReversed()).filter(one => !isDraft(one) && !isIt(one))
  const first = all.findIndex(({ id }) => answers.includes(id))
  const from = Math.max(0, all.length - shownAtLeast)
  talks.value = new Map(talks.value).set(outbox_id, all.slice(first < 0 ? from : Math.min(first, from)))
}

/**
 * Returns what was said before a draft, and since; undefined until it is loaded. `next` is loaded ahead of time:
 * what came later would move the draft.
 */
export function useTalk(entry: OutboxEntry | undefined, next?: OutboxEntry): readonly Message[] | undefined {
  const id = entry?.outbox_id
  useEffect(() => {
    if (!entry) return
    void load(entry).then(() => {
      if (next && !talks.value.has(next.outbox_id)) void load(next)
    })
    return onMessages(messages => {
      const isHere = (one: Message) => one.session === entry.session && peerOf(one) === entry.to_user
      if (messages.some(isHere)) void load(entry)
    })
  }, [id])
  return id === undefined ? undefined : talks.value.get(id)
}
