/** Shows stored keys to their owners. */
import type { Key } from '../model/key.ts'
import { withoutUndefined } from '../platform/fields.ts'
import { hasKeyEnded, type StoredKey, wasRevoked } from '../storage/keys.ts'

/**
 * Returns a key without its secret.
 *
 * @param accounts names of sessions by bot id, and what `listScans` returns
 * @param now Unix ms
 */
export function toKey(key: StoredKey, accounts: KnownAccounts, now: number): Key {
  const { id, name, can, grant, created_at, made_by, expires_at, revoked_at, replaced } = key
  return withoutUndefined({
    id,
    name,
    can: [...can],
    tools: grant.tools && [...grant.tools],
    sessions: grant.bots && toSessions(grant.bots, accounts),
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

type KnownAccounts = Readonly<Record<'names' | 'scans', ReadonlyMap<string, string>>>

/** Returns one account of each person in each session: the one that is logged in, if any is. */
function toSessions(bots: readonly string[], { names, scans }: KnownAccounts): Key['sessions'] {
  const sorted = bots.toSorted((a, b) => Number(names.has(a)) - Number(names.has(b)))
  const ofScans = new Map(sorted.map(bot_id => [scans.get(bot_id) ?? bot_id, bot_id]))
  return [...ofScans.values()].map(bot_id => withoutUndefined({ bot_id, session: names.get(bot_id) }))
}
