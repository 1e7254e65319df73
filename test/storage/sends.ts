/** Sends as the tests of the outbox make them. */
import type { SendRules } from '../../src/model/admission.ts'
import type { BegunMessage, LaneFilter, NewPart } from '../../src/storage/outbox.ts'
import type { Store } from '../../src/storage/store.ts'
import { type Opened, open } from './support.ts'

let count = 0
export const outgoing = (text: string, user = 'u') => ({
  client_id: `c${++count}`,
  to_user: user,
  msg_type: 'TEXT' as const,
  text,
  timestamp: count,
  raw: JSON.stringify({ to_user_id: user, item_list: [{ type: 1, text_item: { text } }] }),
})
export const part = (text: string, user?: string): NewPart => ({
  kind: 'text',
  waiting: { message: outgoing(text, user) },
})
export const file = (name: string): NewPart => ({
  kind: 'file',
  waiting: {
    message: { ...outgoing(''), msg_type: 'FILE' },
    file: { name, file_name: 'a.txt', size: 3, md5: 'ab' },
  },
})
export interface More {
  session?: string
  bot?: string
  user?: string
  key?: string
  mode?: 'fail' | 'queue'
  made_by?: string
  asked?: 'fail' | 'queue'
  send_at?: number
  rules?: SendRules
}
export const enqueue = (store: Store, parts: NewPart[], more: More = {}) =>
  store.outbox.enqueue(
    {
      ...{
        made_by: more.made_by ?? 'owner',
        session: more.session ?? 's',
        bot_id: more.bot ?? 'b',
        user: more.user ?? 'u',
        mode: more.mode ?? 'queue',
        parts,
      },
      ...(more.asked && { asked: more.asked }),
      ...(more.send_at !== undefined && { send_at: more.send_at }),
      ...(more.key !== undefined && { key: more.key, content: 'c' }),
    },
    more.rules ?? open,
  )
export async function add(store: Store, parts: NewPart[], more: More = {}) {
  const added = await enqueue(store, parts, more)
  if (added.state !== 'new') throw new Error(added.state)
  return added
}
export const lanes = async (store: Store, some?: LaneFilter) =>
  (await store.outbox.listWaiting(open, some)).lanes
export const lane = async (store: Store) => (await lanes(store))[0]!.id
/** What waits in the first lane. */
export const next = async (store: Store) => {
  const id = await lane(store)
  const parts = (await store.outbox.list()).flatMap(entry => entry.parts)
  return parts.filter(part => part.lane === id && part.status === 'queued')
}
/** Whether it is ours now. */
export const claim = async (store: Store, id: number) => (await store.outbox.claim(id)) !== undefined
export const begin = async (store: Store, ids: number[], text: string, rules = open) =>
  store.outbox.begin(ids, 'b', rules, outgoing(text))
export const begun = async (store: Store, ids: number[], text: string): Promise<BegunMessage> => {
  const began = await begin(store, ids, text)
  if (began.go !== 'begun') throw new Error(began.go)
  return began.begun
}
export const idsOf = (parts: readonly { id: number }[]) => parts.map(({ id }) => id)
export const rows = async (store: Store) =>
  (await store.log.listAfter(0, { limit: 99 })).map(({ text, status }) => [text, status])
export const accepted = { status: 'accepted', spent: true } as const

export const dayMs = 24 * 60 * 60_000

/** Removes sends that are over, and keys of sends, as maintenance does. */
export async function removeSends({ clock, store }: Pick<Opened, 'clock' | 'store'>): Promise<void> {
  for (const kind of ['key of send', 'send'] as const) await store.maintenance.removeOld(kind, clock.now())
}
