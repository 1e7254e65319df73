/** Erasing people from the store. The rules for every method are in `store.ts`. */
import { SvcError } from '../model/error.ts'
import { nodeCrypto } from '../platform/lazy-crypto.ts'

/**
 * What was read longer ago than this is read again before it is handed out, since its user may be erased by now. `forget`
 * returns later than this after its last step, so nothing that was read before leaves afterwards.
 */
export const freshMs = 250

/** What was erased of a user. */
export interface ErasedUser {
  /** Messages whose content was erased: their rows stay, blank. */
  messages: number
  /** Sends that had not ended; they were cancelled. */
  sends: number
  /** Ids of webhooks that were limited to the user; they were removed. */
  webhooks: string[]
  /** Ids of keys whose grant named the user; it no longer does. */
  keys: string[]
  /** Names of files of queued messages, as from `listFiles`: those queued since then. */
  files: string[]
}

/** What stands for an erased user in the audit log. @param key of the store */
export const erasedHash = (user: string, key: string): string =>
  `user:${nodeCrypto().createHmac('sha256', key).update(user).digest('hex').slice(0, 16)}`

/** By what the store recognizes an erased user. `erased_mark` of `postgres/write-functions.ts` makes the same. */
export const erasedMark = (user: string, key: string): string =>
  nodeCrypto()
    .createHash('sha256')
    .update(key + user)
    .digest('hex')

/** Why nothing about a user is stored. */
export const erasedUserError = (cause?: unknown): SvcError =>
  new SvcError('window_closed', 'this user was erased, and has not written since', {
    hint: 'Nothing about the user is kept. Wait until the user writes.',
    details: { erased: true },
    cause,
  })

/** Why an answer is not given that was made while messages of it were erased. */
export const erasedMeanwhileError = (): SvcError =>
  new SvcError('store_unavailable', 'messages were erased while the answer was made', { hint: 'Call again.' })

/**
 * From `begin` on, until the user writes again after the end of `erase`, the store keeps nothing about the user: whatever was under way then or is
 * called later. What would be stored is rejected with `window_closed`; a read mark, or a place of a webhook, is left out;
 * a line of the audit log has `hashOf` in place of the id.
 */
export interface PeopleStore {
  /** Counts the erasures that have ended: what was read before the number changed may be of a user who was erased. */
  countErasures(): Promise<number>

  /** Begins to erase a user, and removes the turns of agents: their programs stop, and tell nobody. */
  begin(user: string): Promise<void>

  /**
   * Returns the names of the files of messages that wait for a user. Remove them before `erase`: if the process
   * is killed after it, nothing names them any more.
   */
  listFiles(user: string): Promise<string[]>

  /**
   * Erases all that the store has about a user, in all sessions: the content of the messages from and to the user,
   * sends, names, read marks, counters, contexts, lanes of webhooks. A blank row stays for each message, since row ids
   * have no gaps; no reader, list, count or search has it. Lines of the audit log and names of principals have
   * `hash` in place of the user's id. The work is done in steps that do not delay writers; a process that is killed in
   * between leaves the rest, which a repeated call erases.
   *
   * A message of the user that arrives during the call may stay.
   */
  erase(user: string): Promise<ErasedUser>

  /** Returns what stands for the id of an erased user in the audit log: a keyed hash, `user:` and 16 hex digits. */
  hashOf(user: string): Promise<string>

  /**
   * Removes from the disk what was erased, as far as the engine can. SQLite rewrites the file, so that nothing is left in
   * free pages or in the -wal file. Writers wait meanwhile: about a second for 100 MB. It holds the event loop, so a service
   * runs it in another process. PostgreSQL runs VACUUM, and writers go on: no query finds the old rows then, and their space
   * is used again, but bytes of them may stay there until it is. With `rewrite` it runs VACUUM FULL, which writes each table
   * again: nothing else can use the table meanwhile. The server's log (WAL), its archive, standbys that lag and backups of the
   * server keep them as long as its administrator keeps those.
   *
   * @throws SvcError `store_unavailable` if the disk has no room for a second copy
   */
  scrub(rewrite?: boolean): Promise<void>

  /** Returns what may still have something of erased users after `scrub`, in words for people. */
  listRemains(rewrite: boolean): Promise<readonly string[]>
}
