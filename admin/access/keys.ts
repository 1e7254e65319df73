/** The calls for keys. A module of its own, because the first view needs none of them. */
import { signal } from '@preact/signals'
import type { Key } from '../../src/model/key.ts'
import { call, type Input } from '../api.ts'

export type { AddedKey, Key, NewKeyInput } from '../../src/model/key.ts'

/** All keys that the caller may manage; undefined until they are loaded. */
export const keys = signal<readonly Key[] | undefined>(undefined)

let newestRequest = 0
/** Loads the list. Drops an answer that a later request has overtaken. @throws ApiError */
export async function loadKeys(): Promise<void> {
  const mine = ++newestRequest
  const all = await call('list_keys', { limit: 100_000 })
  if (mine === newestRequest) keys.value = all
}

/** Waits for a change and loads the list again. */
async function changed<T>(asked: Promise<T>): Promise<T> {
  const answer = await asked
  await loadKeys()
  return answer
}

/** Each throws `ApiError`. */
export const keyCalls = {
  add: (given: Input<'add_key'>) => changed(call('add_key', given)),
  rotate: (id: string, keep_old_seconds: number) => changed(call('rotate_key', { id, keep_old_seconds })),
  revoke: (id: string) => changed(call('revoke_key', { id })),
}

/** Returns the keys that a key made, directly or through others, and that still work. */
export function madeBy(id: string, all: readonly Key[]): readonly Key[] {
  const own = all.filter(({ made_by }) => made_by.split(':')[1] === id)
  return own.flatMap(one => [...(one.status === 'active' ? [one] : []), ...madeBy(one.id, all)])
}

/** Presets and rights with which a key may write. */
const writing: readonly string[] = ['draft', 'reply', 'operate', 'all', 'send']

/** Whether a key may write to a contact, be it only drafts. */
export const mayWrite = (
  { status, can, tools, sessions, users }: Key,
  session: string,
  userId: string,
): boolean =>
  status === 'active' &&
  (can.some(word => writing.includes(word)) || tools?.includes('send') === true) &&
  sessions?.some(one => one.session === session) !== false &&
  users?.includes(userId) !== false
