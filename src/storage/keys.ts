/**
 * Keys of callers. The rules for every method are in `store.ts`.
 *
 * A call that goes on when its key is revoked leaves nothing that acts: it adds no endpoint and no key, lets no endpoint
 * go on and approves no send, since the write itself refuses that. A send that it queues waits for a person's approval.
 */
import type { Grant } from '../model/access.ts'
import { badArgument, SvcError } from '../model/error.ts'
import type { PageBounds } from '../model/page.ts'
import { parsePrincipal } from '../model/principal.ts'
import { takesTooMuch } from '../model/shares.ts'

/** A key to add. */
export interface NewKey {
  /** New; lower-case letters and digits. */
  id: string
  /** For people. */
  name: string
  /** SHA-256 of the secret, in lower-case hex. */
  hash: string
  grant: Grant
  /** The words by which the grant was chosen: presets and rights. */
  can: readonly string[]
  /** The principal that made it, as from `formatPrincipal`. */
  made_by: string
  created_at: number
  /** Unix ms. */
  expires_at?: number
}

export interface StoredKey extends NewKey {
  /** The secret before the rotation, and until when it is accepted (Unix ms); 0: it ended at once. */
  replaced?: { hash: string; until: number }
  /** When it was revoked or its end by expiry was recorded, itself or with the key that made it. */
  revoked_at?: number
  last_used_at?: number
  /** The address of the last caller. */
  last_address?: string
}

/** What one process, or several together, used of the limits of a key. */
export interface KeyUse {
  key: string
  /** Calls asked for per second, at last. */
  calls: number
  /** Long polls and streams that are open. */
  open: number
  /** In the day that began so long ago. */
  bytes: number
  dayAgeMs: number
}

/** Whether a key has ended, at a time in Unix ms. */
export const hasKeyEnded = ({ expires_at, revoked_at }: StoredKey, now: number): boolean =>
  revoked_at !== undefined || (expires_at !== undefined && expires_at <= now)

/** Returns the hashes of the secrets that a key accepts at a time in Unix ms: callers with another one have none. */
export const acceptedHashes = (key: StoredKey, now: number): string[] =>
  hasKeyEnded(key, now)
    ? []
    : [key.hash, ...(key.replaced !== undefined && key.replaced.until > now ? [key.replaced.hash] : [])]

/** Why a webhook of an ended key is disabled. */
export const keyEndedReason = 'its key was revoked or has expired'

/** Returns the id of the key behind a stored principal: of the key itself, or of a browser that signed in with it. */
export function keyOfMaker(made_by = ''): string | undefined {
  const { kind, id } = parsePrincipal(made_by)
  return kind === 'key' || kind === 'panel' ? id : undefined
}

/** Returns the principals that a key stands behind, as from `formatPrincipal`, for some keys: what `keyOfMaker` reads. */
export const makersOf = (ids: readonly string[]): string[] => ids.flatMap(id => [`key:${id}`, `panel:${id}`])

/** Returns the ids of some keys and of the keys below them: those that they made, directly or through others. */
export function listBelow(keys: readonly MadeKey[], ...tops: readonly string[]): ReadonlySet<string> {
  const made = Map.groupBy(keys, ({ made_by }) => keyOfMaker(made_by))
  const found = new Set(tops)
  // A set gives what is added while it is walked.
  for (const id of found) for (const key of made.get(id) ?? []) found.add(key.id)
  return found
}
export type MadeKey = Pick<StoredKey, 'id' | 'made_by'> & Partial<Pick<StoredKey, 'revoked_at'>>

/**
 * Returns the ids of the keys that share their bounds with a key: the one at the top, which a caller without a key made, and
 * all below it, also those that have ended. Otherwise a key could leave more by making keys.
 */
export const familyOf = (keys: readonly MadeKey[], id: string): ReadonlySet<string> =>
  listBelow(keys, topOf(keys, id))

/** Returns the id of the key at the top of a family. */
export function topOf(keys: readonly MadeKey[], id: string): string {
  const makers = new Map(keys.map(key => [key.id, keyOfMaker(key.made_by)]))
  let top = id
  for (let maker = makers.get(id); maker !== undefined; maker = makers.get(maker)) top = maker
  return top
}

/** Something that a caller made, as `formatPrincipal` has it. */
export interface Made {
  readonly made_by?: string | undefined
  readonly count?: number
}

/**
 * Returns how many there are, if more are too many: those of all callers, or those of a key and the keys that share its bounds
 * (`familyOf`).
 *
 * @param keys what keys with a `revoked_at` made counts for themselves and those that share their bounds, not for others
 */
export function findTooMany(
  share: Parameters<typeof takesTooMuch>[0],
  keys: readonly MadeKey[],
  made: readonly Made[],
  by: string | undefined,
  more = 1,
): number | undefined {
  const key = keyOfMaker(by)
  const family = key === undefined ? undefined : familyOf(keys, key)
  const ended = new Set(keys.flatMap(({ id, revoked_at }) => (revoked_at === undefined ? [] : [id])))
  let [all, own] = [0, 0]
  for (const { count = 1, made_by } of made) {
    const maker = keyOfMaker(made_by) ?? ''
    const isOwn = family?.has(maker) === true
    if (isOwn || !ended.has(maker)) all += count
    if (isOwn) own += count
  }
  if (!takesTooMuch(share, all, family && own, more)) return undefined
  return all + more > share.most ? all : own
}

/** Maximum number of keys that a key makes, directly or through others. Ended ones count until they are removed. */
export const maxKeysBelow = 1000

/** Why a key makes no more keys. */
export const tooManyKeysError = (): SvcError =>
  badArgument(
    'name',
    `${maxKeysBelow} keys were made with your key and those below it, which is the maximum`,
    {
      details: { most: maxKeysBelow },
      hint: 'Rotate a key instead of making another one, or ask the owner of the service for a new key.',
    },
  )

/** @param others ids of the keys with the name, which the maker may see */
export const sameNameError = (others: readonly string[]): SvcError =>
  badArgument('name', `another key has this name: ${others.join(', ')}`, {
    details: { keys: others },
    hint: 'Choose another name, or revoke that key first.',
  })

/** Why a caller whose key has ended is not answered, and why its call writes nothing. */
export const endedKeyError = (): SvcError =>
  new SvcError('unauthorized', 'The key was revoked or rotated, or has expired')

/** Why a webhook whose key has ended cannot be resumed, by the owner either. */
export const endedMakerError = (): SvcError =>
  new SvcError('forbidden', 'the key that added the webhook was revoked or has expired', {
    hint: 'Add the webhook again with another key.',
  })

/** Whether a key was revoked before its time was over. */
export const wasRevoked = ({ expires_at, revoked_at }: StoredKey): boolean =>
  revoked_at !== undefined && (expires_at === undefined || revoked_at < expires_at)

/** The last key is never removed, so a revoked key does not open the service again. */
export interface KeyStore {
  /** Whether a key was ever added. */
  hasAny(): Promise<boolean>

  /**
   * Lists keys in the order in which they were added.
   *
   * @param options.madeBy only those that this key made, directly or through others
   * @param options.page reads these alone; default: all
   */
  list(options?: { madeBy?: string | undefined; page?: PageBounds }): Promise<StoredKey[]>

  get(id: string): Promise<StoredKey | undefined>

  /** Returns by account which session and person it is of, if the person is known: a text that two logins have in common. */
  listScans(): Promise<ReadonlyMap<string, string>>

  /**
   * Lists the keys that were added, rotated or revoked after a revision; 0 lists all.
   *
   * @returns `revision`: everything written before this call is included
   */
  listChangedSince(revision: number): Promise<{ keys: StoredKey[]; revision: number }>

  /**
   * @throws SvcError `invalid_arguments` if a key that has not ended has the name, among those that its maker sees (a key
   *   sees itself and those below it); or if there are `maxKeysBelow` keys; `unauthorized` if the key that makes it was revoked
   */
  add(key: NewKey): Promise<void>

  /**
   * Replaces the secret. The one before is accepted until `keepUntil` (Unix ms; 0: no longer), an older one no longer.
   *
   * @returns whether there is such a key that is not revoked
   */
  rotate(id: string, hash: string, keepUntil: number): Promise<boolean>

  /**
   * Ends a key and the keys that it made, directly or through others. In the same write, what they queued waits
   * for a person's approval, for a day from `at` (Unix ms) at most, and then webhooks of these keys are disabled
   * with the code `key_revoked` and an event `endpoint.disabled`, and their invitations are revoked. Messages that are being sent continue.
   *
   * @returns ids of the keys that were not revoked before
   */
  revoke(id: string, at: number): Promise<string[]>

  /**
   * Ends the keys that have expired, as `revoke` does. Call it only while the clock is trusted. Costs one
   * indexed read if there are none.
   *
   * @returns ids of the keys that ended
   * @throws RowsFailedError with these
   */
  endExpired(at: number): Promise<string[]>

  /** Records the last use of a key. Not durable. */
  noteUse(id: string, at: number, address: string | undefined): Promise<void>

  /**
   * Notes what this process used; this replaces its earlier note. Not durable.
   *
   * @returns what all other processes noted for these keys; if they have ended, only the bytes of a day that is not
   *   over. Nothing where each process counts for itself.
   */
  shareUse(own: readonly KeyUse[]): Promise<KeyUse[]>
}
