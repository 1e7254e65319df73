/** Rows of keys, as an engine with tables stores them. */

import { attempt } from '../platform/fields.ts'
import { looksSealed, type Sealer } from '../platform/sealing.ts'
import type { StoredKey } from './keys.ts'
import { mapKeyHash } from './sealed-places.ts'

export type KeyRow = Omit<StoredKey, 'grant' | 'can' | 'replaced'> & {
  grant: string
  can: string
  replaced_hash?: string
  replaced_until?: number
  revision: number
}

/** No secret has this hash. */
const hashOfNone = '-'.repeat(64)

/**
 * Returns a key. With a secret key, a row that was not written with it is a key that nobody has the secret of: who can write
 * into the table makes none.
 */
export function keyOf(
  { can, grant, replaced_hash, replaced_until, revision: _, ...row }: KeyRow,
  { keyId, open }: Sealer,
): StoredKey {
  const openHash = (hash: string) =>
    keyId !== undefined && !looksSealed(hash)
      ? hashOfNone
      : (attempt(() => mapKeyHash(hash, row.id, open)) ?? hashOfNone)
  const key = { ...row, hash: openHash(row.hash), grant: JSON.parse(grant), can: JSON.parse(can) }
  if (replaced_hash === undefined || replaced_until === undefined) return key
  return { ...key, replaced: { hash: openHash(replaced_hash), until: replaced_until } }
}
