/** Rows of keys, as an engine with tables stores them. */
import type { StoredKey } from './keys.ts'

export type KeyRow = Omit<StoredKey, 'grant' | 'can' | 'replaced'> & {
  grant: string
  can: string
  replaced_hash?: string
  replaced_until?: number
  revision: number
}

export function keyOf({ can, grant, replaced_hash, replaced_until, revision: _, ...row }: KeyRow): StoredKey {
  const key = { ...row, grant: JSON.parse(grant), can: JSON.parse(can) }
  if (replaced_hash === undefined || replaced_until === undefined) return key
  return { ...key, replaced: { hash: replaced_hash, until: replaced_until } }
}
