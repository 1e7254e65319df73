/**
 * The right to answer: for each session and user the newest context token, and when the user last wrote.
 * Stored in `<session>/contexts.json`; changes are merged per user under the data lock. Tokens are kept here
 * as they are stored, sealed if there is a secret key: a batch then costs the sealing of its own tokens only. Used answers are
 * counted in the store; `used` and `last_sent_at` of version 0.1 are where that count starts.
 */
import { hasWritten, type Inbound, nextContextOf, type UserContext } from '../../../model/session.ts'
import { attempt } from '../../../platform/fields.ts'
import { setAside, writeDurably } from '../../../platform/files.ts'
import { JsonFiles, type JsonObject } from '../../../platform/json-file.ts'
import type { Log } from '../../../platform/log.ts'
import { RoomPart } from '../../../platform/runtime.ts'
import { looksSealed, type Sealer } from '../../../platform/sealing.ts'
import { mapContext, mapContextToken } from '../../sealed-places.ts'
import type { Contact, ContextStore, KnowingSession, SessionRecord } from '../../state.ts'
import type { SessionFiles, SessionRows } from './sessions.ts'
import { TickCache } from './tick-cache.ts'
import { toJsonText } from './token-file.ts'

type Users = ReadonlyMap<string, UserContext>
const nobody: Users = new Map()

/** Content of a file: the users, and entries that are no contexts, as a later version may write. */
interface Content<U extends Users = Users> {
  readonly users: U
  readonly others: JsonObject
}

/** Number of users in the file, who wrote last. It is limited because each batch writes the whole file. */
const fileUsers = 500
/** Additional users that the file may get before the oldest move to the archive. */
const spareUsers = 100
/** Checking one file takes 4 µs, and the list of sessions needs one check for each. */
const keptMs = 1000

interface ContextFilesPorts {
  sessions: SessionFiles
  log: Log
  sealer: Sealer
  rows: SessionRows | undefined
}

export class ContextFiles extends RoomPart<ContextFilesPorts> implements ContextStore {
  /** Store of the contexts that do not fit into the file. */
  readonly #archive = this.ports.rows?.contexts
  /** Whether contexts in the archive outlive the process; otherwise the file has all users. */
  readonly #isDurable = this.ports.rows?.durable === true
  readonly #files = new JsonFiles(fields => parseContexts(fields, this.ports.sealer))
  readonly #known = new TickCache<Users>()
  readonly #writers = new Map<string, { count: number; until: number }>()
  /** Sessions whose file contained a user, by user. */
  readonly #holders = new Map<string, Set<string>>()

  constructor(ports: ContextFilesPorts) {
    super(ports)
    ports.sessions.onRead = session => this.#read(session)
    ports.sessions.onListed = ({ name }) => this.#note(name, this.read(name).keys())
  }

  async listUsers(sessions: readonly string[]): Promise<ReadonlyMap<string, readonly Contact[]>> {
    // While the log fails, its additions are missing; the failure is reported elsewhere.
    const lanes = await this.ports.rows?.contexts.listLanes(sessions).catch(() => undefined)
    const names = await this.ports.rows?.names.listAll(sessions).catch(() => undefined)
    const found = new Map<string, Contact[]>()
    for (const session of sessions) {
      const inFile = this.#readable(session)
      // The users in the log alone would look like all users.
      if (!inFile) {
        found.set(session, [])
        continue
      }
      const [inLog, named] = [lanes?.get(session), names?.get(session)]
      const contacts: Contact[] = []
      const add = (user_id: string, { token: _, ...context }: UserContext) =>
        contacts.push({ user_id, context, counter: inLog?.get(user_id)?.counter, name: named?.get(user_id) })
      for (const [user, context] of inFile) if (hasWritten(context)) add(user, context)
      for (const [user, { context }] of inLog ?? []) {
        const known = inFile.get(user)
        if (context && hasWritten(context) && !(known && hasWritten(known))) add(user, context)
      }
      found.set(session, contacts)
    }
    return found
  }

  async find(session: string, user: string): Promise<UserContext | undefined> {
    return (await this.#findIn([session], user)).get(session)
  }

  /**
   * Reads the sessions that may know the user: by the files of the sessions as they were listed last, and by the store for
   * what another process wrote to them later. With a single session, or a store that no other process shares, that is
   * all sessions.
   */
  async findKnowing(user: string): Promise<readonly KnowingSession[]> {
    let possible: readonly (SessionRecord | undefined)[] = await this.ports.sessions.list()
    if (possible.length > 1 && this.#archive && this.#isDurable) {
      const names = [...(this.#holders.get(user) ?? []), ...(await this.#archive.findSessions(user))]
      possible = await Promise.all(names.map(name => this.ports.sessions.get(name)))
    }
    const records = new Map(possible.flatMap(record => (record ? [[record.name, record]] : [])))
    const contexts = await this.#findIn([...records.keys()], user)
    return [...contexts].map(([name, context]) => ({ record: records.get(name)!, context }))
  }

  /** Returns what each session knows of a user. */
  async #findIn(sessions: readonly string[], user: string): Promise<ReadonlyMap<string, UserContext>> {
    const inFile = new Map(sessions.map(session => [session, this.read(session).get(user)]))
    // The user may have just written, before the file is updated.
    const found = this.#archive ? await this.#archive.find(user, inFile) : inFile
    return new Map(
      [...found].flatMap(([session, context]) =>
        context ? [[session, mapContext(context, user, this.ports.sealer.open)]] : [],
      ),
    )
  }

  /**
   * Like `#read`. For a file that cannot be read it returns no users: the session cannot be used, and reports
   * the reason.
   */
  read(session: string): Users {
    return this.#readable(session) ?? nobody
  }

  /** Reads like `#read`, but returns undefined for a file that cannot be read. */
  #readable(session: string): Users | undefined {
    return attempt(() => this.#read(session))
  }

  /**
   * Returns the users in the file as it is now; empty if the file does not parse. @throws SvcError
   * `store_unavailable` if it cannot be read
   */
  #read(session: string): Users {
    return this.#known.get(session, () => {
      const found = this.#files.read(this.ports.sessions.contextsPath(session))
      return found.kind === 'read' ? found.value.users : nobody
    })
  }

  /** Includes immediately what this process stored, and within a second what another process stored. */
  async countWriters(sessions: readonly string[]): Promise<ReadonlyMap<string, number>> {
    const now = performance.now()
    const counts = new Map<string, number>()
    for (const session of sessions) {
      const kept = this.#writers.get(session)
      counts.set(session, kept && now < kept.until ? kept.count : await this.#countNow(session, now + keptMs))
    }
    return counts
  }

  async #countNow(session: string, until: number): Promise<number> {
    const known = this.read(session)
    const here = [...known].flatMap(([user, context]) => (hasWritten(context) ? [user] : []))
    const archived = await this.#archive?.count(session, here).catch(() => undefined)
    const count = here.length + (archived ?? 0)
    // Changes that this process made since must count immediately.
    const isNow = this.read(session) === known
    if (isNow && (archived !== undefined || !this.#archive)) this.#writers.set(session, { count, until })
    return count
  }

  #note(session: string, users: Iterable<string>): void {
    for (const user of users) {
      const holders = this.#holders.get(user)
      if (holders) holders.add(session)
      else this.#holders.set(user, new Set([session]))
    }
  }

  /**
   * Returns the text of contexts.json after these messages; undefined if they change nothing. For a writer
   * that holds the data lock and replaces the file together with the cursor.
   *
   * @param now Unix ms by the clock that dated them
   */
  async merge(
    session: string,
    inbound: readonly Inbound[],
    now = Number.POSITIVE_INFINITY,
  ): Promise<string | undefined> {
    if (inbound.length === 0) return undefined
    this.#note(
      session,
      inbound.map(({ user_id }) => user_id),
    )
    const { users, others } = await this.#readForUpdate(session)
    const away = inbound.flatMap(({ user_id }) => (users.has(user_id) ? [] : [user_id]))
    const archived = away.length === 0 ? nobody : ((await this.#archive?.list(session, away)) ?? nobody)
    let changed = false
    for (const written of inbound) {
      const { user_id, token } = written
      const message = {
        ...written,
        ...(token && { token: mapContextToken(token, user_id, this.ports.sealer.seal) }),
      }
      const known = users.get(user_id)
      const before = known ?? takeLowercased(users, user_id.toLowerCase()) ?? archived.get(user_id)
      // A context from the archive returns to the file, even if it is unchanged.
      const after = nextContextOf(before, message, now) ?? before
      if (!after || after === known) continue
      changed = true
      users.set(user_id, after)
    }
    if (!changed) return undefined
    if (this.#isDurable && users.size > fileUsers + spareUsers)
      await this.#archiveOldest(session, users, inbound)
    return toFileText({ users, others })
  }

  /** Returns the text of a file with these users. */
  toText(users: Users): string {
    return toFileText({ users, others: {} })
  }

  /**
   * Moves the users who wrote longest ago from `users` to the archive. Users of this batch stay, since
   * `dropArchived` removes them from the archive.
   */
  async #archiveOldest(
    session: string,
    users: Map<string, UserContext>,
    inbound: readonly Inbound[],
  ): Promise<void> {
    const ofBatch = new Set(inbound.map(({ user_id }) => user_id))
    const oldest = [...users]
      .filter(([user]) => !ofBatch.has(user))
      .sort(([, a], [, b]) => (a.received_at ?? 0) - (b.received_at ?? 0))
      .slice(0, users.size - fileUsers)
    try {
      await this.#archive?.save(session, new Map(oldest))
      for (const [user] of oldest) users.delete(user)
    } catch (error) {
      this.ports.log.warn('contexts of old not moved to the store', { session, error })
    }
  }

  /** Call it after the file with these users was written. */
  async dropArchived(session: string, inbound: readonly Inbound[]): Promise<void> {
    if (inbound.length > 0) await this.#archive?.drop(session, inbound)
    this.#writers.delete(session)
  }

  /** Call it after this process replaced a file: the next read must see it. */
  markWritten(session: string): void {
    this.#writers.delete(session)
    this.forgetRead()
  }

  /** Makes the next read look at the file, also within this turn of the event loop. */
  forgetRead(): void {
    this.#known.forget()
  }

  /**
   * Resets the contexts for another bot: its tokens, windows and quotas start again; `first_seen` stays.
   * Call it under the data lock.
   */
  async forget(session: string): Promise<void> {
    await this.#archive?.forget(session)
    const { users, others } = await this.#readForUpdate(session)
    this.#writers.delete(session)
    if (users.size === 0) return
    const kept = [...users].map(([user, { first_seen }]) => [user, { used: 0, first_seen }] as const)
    await writeDurably(
      this.ports.sessions.contextsPath(session),
      toFileText({ users: new Map(kept), others }),
    )
    this.markWritten(session)
  }

  /** Removes a user. Call it under the data lock. */
  async remove(session: string, user: string): Promise<void> {
    this.#holders.delete(user)
    const { users, others } = await this.#readForUpdate(session)
    // An imported context may have the id in lower case.
    const removed = [user, user.toLowerCase()].filter(id => users.delete(id))
    if (removed.length === 0) return
    await writeDurably(this.ports.sessions.contextsPath(session), toFileText({ users, others }))
    this.markWritten(session)
  }

  /**
   * Returns a copy to change. A file that does not parse is set aside first: only windows and tokens are lost
   * with it.
   */
  async #readForUpdate(session: string): Promise<Content<Map<string, UserContext>>> {
    const path = this.ports.sessions.contextsPath(session)
    const found = this.#files.read(path)
    if (found.kind === 'damaged') {
      const aside = await setAside(path)
      this.ports.log.error('contexts.json does not parse; set aside, users must write again before answers', {
        session,
        aside,
      })
    }
    const { users, others } = found.kind === 'read' ? found.value : { users: nobody, others: {} }
    return { users: new Map(users), others }
  }
}

/**
 * Takes the context of a user that was imported from a program with lower-case ids (protocol notes 5.6): a
 * token without a time. With the first message of the user it moves to the real id.
 */
function takeLowercased(users: Map<string, UserContext>, lowered: string): UserContext | undefined {
  const brought = users.get(lowered)
  if (brought?.token === undefined || brought.received_at !== undefined) return undefined
  users.delete(lowered)
  return brought
}

const toFileText = ({ users, others }: Content) => toJsonText({ ...others, ...Object.fromEntries(users) })

function parseContexts(fields: JsonObject, { seal }: Sealer): Content {
  const users = new Map<string, UserContext>()
  const others: JsonObject = {}
  for (const [user, value] of Object.entries(fields)) {
    // WeiLink and manually written files have a bare token.
    const entry = typeof value === 'string' ? { token: value } : value
    if (typeof entry !== 'object' || entry === null) {
      others[user] = value
      continue
    }
    const { token, received_at, used, last_sent_at, first_seen, ...rest } = entry as Partial<
      Record<keyof UserContext, unknown>
    >
    // Some files have fractions of milliseconds. A rejected time would close the window.
    const time = (at: unknown) => (typeof at === 'number' && Number.isFinite(at) ? Math.floor(at) : undefined)
    // Fields of a later version are kept.
    const context: UserContext = { ...rest, used: time(used) ?? 0, first_seen: time(first_seen) ?? 0 }
    // A file that was written manually, or by a version without secret keys, has plain tokens.
    if (typeof token === 'string')
      context.token = looksSealed(token) ? token : mapContextToken(token, user, seal)
    const [receivedAt, lastSentAt] = [time(received_at), time(last_sent_at)]
    if (receivedAt !== undefined) context.received_at = receivedAt
    if (lastSentAt !== undefined) context.last_sent_at = lastSentAt
    users.set(user, context)
  }
  return { users, others }
}
