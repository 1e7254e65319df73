/**
 * The right to answer: per session and user the newest context token, and when the user last wrote. Kept in
 * `<session>/contexts.json`, merged per user under the data lock, never overwritten blind. What is used of the right is
 * counted in the store; `used` and `last_sent_at` of version 0.1 say where that count begins.
 */
import { contextAfter, hasWritten, type Inbound, type UserContext } from '../../../model/session.ts'
import { setAside, writeDurably } from '../../../platform/files.ts'
import { JsonFiles, type JsonObject } from '../../../platform/json-file.ts'
import type { Log } from '../../../platform/log.ts'
import type { Contact, Contexts } from '../../state.ts'
import type { SessionFiles, SessionRows } from './sessions.ts'
import { TickCache } from './tick-cache.ts'
import { serialized } from './token-file.ts'

type Users = ReadonlyMap<string, UserContext>
const nobody: Users = new Map()

/** A file's content: the users, and what is nobody's context, as of a later version. */
interface Content<U extends Users = Users> {
  readonly users: U
  readonly others: JsonObject
}

/** So many users, who wrote last, stand in the file: it is written whole for each batch. */
const fileUsers = 500
/** So many more may gather there before the oldest go to the archive. */
const spareUsers = 100
/** A look at one file is 4 µs, and the list of sessions needs one of each. */
const keptMs = 1000

export class ContextFiles implements Contexts {
  readonly #rows: SessionRows | undefined
  /** Where contexts go that the file has no room for. */
  readonly #archive: SessionRows['contexts'] | undefined
  /** Whether they outlive the process there; else the file holds everybody. */
  readonly #archives: boolean
  readonly #sessions: SessionFiles
  readonly #log: Log
  readonly #files = new JsonFiles(parseContexts)
  readonly #known = new TickCache<Users>()
  readonly #writers = new Map<string, { count: number; until: number }>()
  /** By user, sessions whose file has named them; and the sessions of which that is known, with their bot. */
  readonly #holders = new Map<string, Set<string>>()
  readonly #noted = new Map<string, string | undefined>()

  constructor(options: { sessions: SessionFiles; log: Log; rows: SessionRows | undefined }) {
    this.#sessions = options.sessions
    this.#rows = options.rows
    this.#archive = options.rows?.contexts
    this.#archives = options.rows?.durable === true
    this.#sessions.onRead = session => this.#read(session)
    this.#sessions.onListed = ({ name, bot }) => {
      if (this.#noted.has(name) && this.#noted.get(name) === bot?.bot_id) return
      this.#noted.set(name, bot?.bot_id)
      this.#note(name, this.known(name).keys())
    }
    this.#log = options.log
  }

  async users(sessions: readonly string[]): Promise<ReadonlyMap<string, readonly Contact[]>> {
    // What the log adds to the files is missing while it fails, which is told of elsewhere.
    const lanes = await this.#rows?.contexts.lanes(sessions).catch(() => undefined)
    const names = await this.#rows?.names.ofAll(sessions).catch(() => undefined)
    const found = new Map<string, Contact[]>()
    for (const session of sessions) {
      const inFile = this.known(session)
      const [inLog, named] = [lanes?.get(session), names?.get(session)]
      const contacts: Contact[] = []
      const add = (user_id: string, context: UserContext) =>
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
    const known = this.known(session).get(user)
    // The user may have just written, and the file is not there yet.
    return this.#archive ? this.#archive.find(session, user, known) : known
  }

  /** As `#read`; of a file that cannot be read nobody: its session cannot be used, and says why. */
  known(session: string): Users {
    try {
      return this.#read(session)
    } catch {
      return nobody
    }
  }

  /** Who wrote lately, as the file stands now; nobody where it does not parse. @throws SvcError `store_unavailable` when it cannot be read */
  #read(session: string): Users {
    return this.#known.get(session, () => {
      const found = this.#files.read(this.#sessions.contextsPath(session))
      return found.kind === 'read' ? found.value.users : nobody
    })
  }

  /** At once what this process took in, within a second what another one did. */
  async writers(sessions: readonly string[]): Promise<ReadonlyMap<string, number>> {
    const now = performance.now()
    const counts = new Map<string, number>()
    for (const session of sessions) {
      const kept = this.#writers.get(session)
      counts.set(session, kept && now < kept.until ? kept.count : await this.#counted(session, now + keptMs))
    }
    return counts
  }

  async #counted(session: string, until: number): Promise<number> {
    const known = this.known(session)
    const here = [...known].flatMap(([user, context]) => (hasWritten(context) ? [user] : []))
    const archived = await this.#archive?.count(session, here).catch(() => undefined)
    const count = here.length + (archived ?? 0)
    // What this process wrote meanwhile counts at once.
    const isNow = this.known(session) === known
    if (isNow && (archived !== undefined || !this.#archive)) this.#writers.set(session, { count, until })
    return count
  }

  /**
   * By the files of the sessions that were listed last, each read for this once, and by the store for what another process
   * writes into them later. A single session may know anybody, and so may any without a store that others share.
   */
  async knowing(user: string): Promise<ReadonlySet<string>> {
    const listed = await this.#sessions.list()
    if (listed.length < 2 || !this.#archive || !this.#archives) return new Set(listed.map(({ name }) => name))
    return new Set([...(this.#holders.get(user) ?? []), ...(await this.#archive.knowing(user))])
  }

  #note(session: string, users: Iterable<string>): void {
    for (const user of users) {
      const holders = this.#holders.get(user)
      if (holders) holders.add(session)
      else this.#holders.set(user, new Set([session]))
    }
  }

  /**
   * The text of contexts.json after these messages; undefined when they change nothing. For a writer that holds the
   * data lock and replaces it together with the cursor.
   *
   * @param now Unix ms by the clock that dated them
   */
  async merged(
    session: string,
    inbound: readonly Inbound[],
    now = Number.POSITIVE_INFINITY,
  ): Promise<string | undefined> {
    if (inbound.length === 0) return undefined
    this.#note(
      session,
      inbound.map(({ user_id }) => user_id),
    )
    const { users, others } = await this.#fresh(session)
    const away = inbound.flatMap(({ user_id }) => (users.has(user_id) ? [] : [user_id]))
    const archived = away.length === 0 ? nobody : ((await this.#archive?.of(session, away)) ?? nobody)
    let changed = false
    for (const one of inbound) {
      const { user_id } = one
      const known = users.get(user_id)
      const before = known ?? takenFrom(users, user_id.toLowerCase()) ?? archived.get(user_id)
      // What the archive has is to stand here again, unchanged too.
      const after = contextAfter(before, one, now) ?? before
      if (!after || after === known) continue
      changed = true
      users.set(user_id, after)
    }
    if (!changed) return undefined
    if (this.#archives && users.size > fileUsers + spareUsers) await this.#archived(session, users, inbound)
    return textOf({ users, others })
  }

  /** Takes those who wrote longest ago out of `users`, once they are safe in the archive; but nobody of this batch, whom `back` drops there. */
  async #archived(
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
      await this.#archive?.keep(session, new Map(oldest))
      for (const [user] of oldest) users.delete(user)
    } catch (error) {
      this.#log.warn('contexts of old not moved to the store', { session, error })
    }
  }

  /** The file with these users is written. */
  async back(session: string, users: readonly string[]): Promise<void> {
    if (users.length > 0) await this.#archive?.drop(session, users)
    this.#writers.delete(session)
  }

  /** A file was replaced by this process: whoever looks now is to see it. */
  written(session: string): void {
    this.#writers.delete(session)
    this.#known.forget()
  }

  /** Another bot: its tokens, windows and quotas begin anew; when a user was first seen stays. Under the data lock. */
  async forget(session: string): Promise<void> {
    await this.#archive?.forget(session)
    const { users, others } = await this.#fresh(session)
    this.#writers.delete(session)
    if (users.size === 0) return
    const kept = [...users].map(([user, { first_seen }]) => [user, { used: 0, first_seen }] as const)
    await writeDurably(this.#sessions.contextsPath(session), textOf({ users: new Map(kept), others }))
    this.written(session)
  }

  /** A copy to change. A file that does not parse is set aside first: only windows and tokens are lost with it. */
  async #fresh(session: string): Promise<Content<Map<string, UserContext>>> {
    const path = this.#sessions.contextsPath(session)
    const found = this.#files.read(path)
    if (found.kind === 'damaged') {
      const aside = await setAside(path)
      this.#log.error('contexts.json does not parse; set aside, users must write again before answers', {
        session,
        aside,
      })
    }
    const { users, others } = found.kind === 'read' ? found.value : { users: nobody, others: {} }
    return { users: new Map(users), others }
  }
}

/**
 * What was brought over from a program that writes ids in small letters (protocol notes 5.6): a token without a time. With
 * the first message of its user it goes under the true id.
 */
function takenFrom(users: Map<string, UserContext>, lowered: string): UserContext | undefined {
  const brought = users.get(lowered)
  if (brought?.token === undefined || brought.received_at !== undefined) return undefined
  users.delete(lowered)
  return brought
}

const textOf = ({ users, others }: Content) => serialized({ ...others, ...Object.fromEntries(users) })

function parseContexts(fields: JsonObject): Content {
  const users = new Map<string, UserContext>()
  const others: JsonObject = {}
  for (const [user, value] of Object.entries(fields)) {
    // WeiLink and hand-made files hold a bare token.
    const entry = typeof value === 'string' ? { token: value } : value
    if (typeof entry !== 'object' || entry === null) {
      others[user] = value
      continue
    }
    const { token, received_at, used, last_sent_at, first_seen, ...rest } = entry as Partial<
      Record<keyof UserContext, unknown>
    >
    // There are files with parts of milliseconds; a time that is passed over shuts the window.
    const time = (at: unknown) => (typeof at === 'number' && Number.isFinite(at) ? Math.floor(at) : undefined)
    // Fields of a later version survive.
    const context: UserContext = { ...rest, used: time(used) ?? 0, first_seen: time(first_seen) ?? 0 }
    if (typeof token === 'string') context.token = token
    const [receivedAt, lastSentAt] = [time(received_at), time(last_sent_at)]
    if (receivedAt !== undefined) context.received_at = receivedAt
    if (lastSentAt !== undefined) context.last_sent_at = lastSentAt
    users.set(user, context)
  }
  return { users, others }
}
