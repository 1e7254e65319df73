/** Shows stored keys to their owners. */
import type { Key } from '../model/key.ts'
import { withoutUndefined } from '../platform/fields.ts'
import { hasKeyEnded, type StoredKey, wasRevoked } from '../storage/keys.ts'

/**
 * Returns a key without its secret.
 *
 * @param names names of sessions by bot id
 * @param now Unix ms
 */
export function toKey(key: StoredKey, names: ReadonlyMap<string, string>, now: number): Key {
  const { id, name, can, grant, created_at, made_by, expires_at, revoked_at, replaced } = key
  return withoutUndefined({
    id,
    name,
    can: [...can],
    tools: grant.tools && [...grant.tools],
    sessions: grant.bots?.map(bot_id => withoutUndefined({ bot_id, session: names.get(bot_id) })),
    users: grant.users && [...grant.users],
    topics: grant.topics && [...grant.topics],
    limits: grant.limits,
    status: wasRevoked(key) ? 'revoked' : hasKeyEnded(key, now) ? 'expired' : 'active',
    created_at,
    made_by,
    expires_at,
    revoked_at: wasRevoked(key) ? revoked_at : undefined,
    rotating_until: replaced && replaced.until > now ? replaced.until : undefined,
    last_used_at: key.last_used_at,
    last_address: key.last_address,
  } as const)
}
