/**
 * QR logins: one driver per session name. Every surface (tool, panel, command line) only starts one and reads its
 * state, so logins of different sessions run side by side and can never complete each other's.
 */
import type { Upstream } from '../ilink/api.ts'
import type { Credentials } from '../ilink/login.ts'
import { badArgument, SvcError } from '../model/error.ts'
import {
  defaultSessionName,
  type LoginFlow,
  type LoginRequest,
  type LoginStatus,
  sessionKey,
  sessionName,
} from '../model/session.ts'
import type { Runtime } from '../platform/runtime.ts'
import type { Sessions } from '../storage/state.ts'
import { LoginDriver } from './login-driver.ts'
import { checkRoom, type Room, tokensOf } from './login-room.ts'
import { oneAtATime } from './one-at-a-time.ts'

/** The last state of a login stays readable this long, and until somebody looks for old ones. */
const keptMs = 10 * 60_000
const forgetEveryMs = 30_000
/** Upstream is given this long to say what it makes of the digits. */
const codeMs = 5000

export interface LoginPorts {
  upstream: Pick<Upstream, 'api' | 'loginUrl' | 'sandboxed'>
  sessions: Pick<Sessions, 'get' | 'list' | 'save'>
  /** What this process has room for: logins under way, and sessions with one. */
  most(): Room
}

interface Entry {
  driver: LoginDriver
  /** Resolves with the first QR code; rejects when there is none to be had. See `#begun`. */
  started: Promise<void>
  /** Begun to log a connected session in again. */
  force: boolean
  /** A caller has seen how it ended: the next call starts anew. */
  read: boolean
  /** Revision that the last call of `login` was told. */
  told: number
  /** How often somebody asked how it goes. */
  asked: number
}

/** A page that was left may be loaded anew, or be open elsewhere: whoever follows there asks again within 25 s. */
const leftMs = 40_000

export class Logins {
  readonly #ports: LoginPorts
  readonly #runtime: Runtime
  readonly #entries = new Map<string, Entry>()
  /** The one lock of login confirmations, logouts and renames: their steps never mix. */
  readonly alone = oneAtATime()
  #closed = false
  /** Monotonic: when old ones were looked for. */
  #forgotAt = 0

  constructor(ports: LoginPorts, runtime: Runtime) {
    this.#ports = ports
    this.#runtime = runtime
  }

  /** Names with a login under way. */
  pending(): ReadonlySet<string> {
    const names = new Set<string>()
    for (const { driver } of this.#entries.values())
      if (driver.finishedAt === undefined) names.add(driver.name)
    return names
  }

  /**
   * Starts a login and returns its QR code at once, or tells of one under way: at once what changed since the last
   * call, else the next change. After digits that is what became of them.
   *
   * @throws SvcError `invalid_arguments` for a bad name, or no name while several logins are pending;
   *   `upstream_error`, `upstream_timeout` when no QR code could be had; `rate_limited`, `forbidden` when there is no
   *   room for another login, for another session
   */
  async login(request: LoginRequest, signal: AbortSignal): Promise<LoginStatus> {
    return (await this.#go(request, signal)).status
  }

  /** The same, with the flow that it is the status of; undefined where the session is connected and nothing started. */
  async #go(request: LoginRequest, signal: AbortSignal): Promise<{ status: LoginStatus; entry?: Entry }> {
    if (this.#closed) throw stopping()
    this.#forgetOld()
    const name = this.#nameOf(request.session_name)
    const entry = this.#entries.get(sessionKey(name))
    if (entry && entry.driver.finishedAt === undefined) {
      await this.#begun(entry)
      const { verify_code } = request
      if (verify_code !== undefined) entry.driver.giveCode(verify_code)
      const news = verify_code === undefined && entry.told !== entry.driver.revision
      if (!news) await entry.driver.waitForChange(request.timeout * 1000, signal)
      return this.#tell(entry)
    }
    // The end of a flow is told once before a new one starts, also to a caller who goes on asking with force.
    if (entry && !entry.read && (entry.force || !request.force)) return this.#tell(entry)

    const record = await this.#ports.sessions.get(name)
    if (record?.bot && record.bot.expired_at === undefined && !request.force) {
      const message = 'This session is connected. Pass force to log it in again with a new QR code.'
      const { bot_id } = record.bot
      const notice = 'already_connected'
      return { status: { status: 'confirmed', session: record.name, bot_id, notice, message } }
    }
    return this.#tell(await this.#start(record?.name ?? name, request.force))
  }

  /** Starts a login, or joins the one of that session; '' as login_id: it is connected, and nothing was started. */
  async begin(name: string, force: boolean, signal: AbortSignal): Promise<LoginFlow> {
    const named = sessionName(name)
    const over = this.#entries.get(sessionKey(named))
    // Who begins does not want to hear how an earlier one ended.
    if (over && over.driver.finishedAt !== undefined) over.read = true
    const { status, entry } = await this.#go({ session_name: named, timeout: 0, force }, signal)
    return { ...status, ...(entry ? marksOf(entry) : { login_id: '', revision: 0 }) }
  }

  /**
   * The state of a login, by its id or as the newest one of a session; waits up to `timeoutMs` for a change. A caller
   * who tells the revision it has `seen` misses nothing that changes between two calls.
   *
   * @throws SvcError `not_found` when there is none, or its last state is older than 10 minutes
   */
  async follow(
    { login_id, session, seen }: { login_id?: string; session?: string; seen?: number },
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<LoginFlow> {
    this.#forgetOld()
    const entry =
      login_id === undefined
        ? this.#entries.get(sessionKey(sessionName(session ?? '')))
        : this.#byId(login_id)
    if (!entry) throw noLogin()
    entry.asked++
    await this.#begun(entry)
    const news = seen !== undefined && seen !== entry.driver.revision
    if (!news) await entry.driver.waitForChange(timeoutMs, signal)
    const marks = marksOf(entry)
    return { ...(await this.#status(entry)), ...marks }
  }

  /** Gives the digits that the phone shows. @throws SvcError `not_found` */
  async giveCode(loginId: string, code: string, signal: AbortSignal): Promise<LoginFlow> {
    const entry = this.#byId(loginId)
    if (!entry) throw noLogin()
    entry.driver.giveCode(code)
    return this.follow({ login_id: loginId }, codeMs, signal)
  }

  /**
   * Calls a login off. One that was confirmed on the phone this moment goes on: upstream has ended the old credentials,
   * and nobody else has the new ones. @returns whether it was under way
   */
  callOff(loginId: string): boolean {
    const entry = this.#byId(loginId)
    return entry !== undefined && !entry.driver.confirmed && this.cancel(entry.driver.name)
  }

  /** The page that followed it was left: it is called off soon, unless somebody asks for it or has scanned the code. */
  async leave(loginId: string): Promise<void> {
    const entry = this.#byId(loginId)
    if (!entry) return
    const { asked, driver } = entry
    const { clock, closing } = this.#runtime
    await clock.sleep(leftMs, closing)
    if (entry.asked === asked && (await driver.status()).status === 'waiting') this.callOff(loginId)
  }

  #byId(loginId: string): Entry | undefined {
    return [...this.#entries.values()].find(({ driver }) => driver.id === loginId)
  }

  /** Ends the login of a session that is logged out or renamed meanwhile. @returns whether one was under way */
  cancel(name: string): boolean {
    const entry = this.#entries.get(sessionKey(name))
    this.#entries.delete(sessionKey(name))
    if (!entry) return false
    const pending = entry.driver.finishedAt === undefined
    entry.driver.stop()
    return pending
  }

  close(): void {
    this.#closed = true
    for (const { driver } of this.#entries.values()) driver.stop()
  }

  /**
   * The session that a call means. Without a name: the one whose flow the caller may be following, also when that flow
   * has just ended and nobody was told yet, else `default`.
   */
  #nameOf(given: string): string {
    if (given !== '') return sessionName(given)
    const pending = [...this.pending()]
    if (pending.length <= 1) {
      const untold = [...this.#entries.values()].filter(
        ({ driver, read }) => driver.finishedAt !== undefined && !read,
      )
      const byDefault = untold.find(({ driver }) => driver.name === defaultSessionName)
      return byDefault?.driver.name ?? pending[0] ?? untold.at(-1)?.driver.name ?? defaultSessionName
    }
    throw badArgument('session_name', 'expected the name of one of the logins under way', {
      hint: `Name one of them: ${pending.join(', ')}.`,
    })
  }

  /** The state, for a caller of `login`. */
  async #tell(entry: Entry): Promise<{ status: LoginStatus; entry: Entry }> {
    entry.told = entry.driver.revision
    entry.asked++
    return { status: await this.#status(entry), entry }
  }

  /**
   * Resolves when a flow has its first QR code, and when somebody called it off before: its state says so then.
   *
   * @throws what `LoginDriver.start` throws; SvcError `shutting_down`
   */
  async #begun({ driver, started }: Entry): Promise<void> {
    try {
      await started
    } catch (error) {
      if (this.#closed) throw stopping()
      if (!driver.stopped) throw error
    }
  }

  #status(entry: Entry): Promise<LoginStatus> {
    if (entry.driver.finishedAt !== undefined) entry.read = true
    return entry.driver.status()
  }

  async #start(name: string, force: boolean): Promise<Entry> {
    const { sessions, upstream, most } = this.#ports
    const records = await sessions.list()
    if (this.#closed) throw stopping()
    const key = sessionKey(name)
    const known = tokensOf(records, force ? name : undefined)
    const driver: LoginDriver = new LoginDriver(
      name,
      {
        ...{ upstream, known },
        save: credentials => this.#saved(name, credentials, () => this.#entries.get(key)?.driver === driver),
      },
      this.#runtime,
    )
    // Another call may have started one while the tokens were read: then this one joins it.
    const other = this.#entries.get(key)
    if (other && other.driver.finishedAt === undefined) {
      await this.#begun(other)
      return other
    }
    checkRoom(this.pending().size, name, records, most())
    const entry: Entry = {
      driver,
      started: driver.start(),
      force,
      read: false,
      told: driver.revision,
      asked: 0,
    }
    this.#entries.set(key, entry)
    try {
      await this.#begun(entry)
      return entry
    } catch (error) {
      if (this.#entries.get(key) === entry) this.#entries.delete(key)
      const cancelled = driver.stopped
      driver.stop()
      // Whoever asked for it is told; here it is for whoever looks back.
      if (!cancelled) this.#runtime.log.info('no QR code could be had', { session: name, error })
      throw error
    }
  }

  /**
   * Stores credentials. `wanted` is asked when it is this one's turn: the session may have been logged out or renamed
   * meanwhile. @returns false when they were not wanted any more
   */
  #saved(
    name: string,
    { bot_id, token, base_url, user_id }: Credentials,
    wanted: () => boolean,
  ): Promise<boolean> {
    const { bus, clock } = this.#runtime
    return this.alone(async () => {
      if (!wanted()) return false
      const bot = { bot_id, token, base_url, ...(user_id && { user_id }) }
      await this.#ports.sessions.save(name, { ...bot, cursor: '', created_at: clock.now() })
      bus.tell('sessionsChanged')
      return true
    })
  }

  #forgetOld(): void {
    const now = this.#runtime.clock.monotonic()
    if (now - this.#forgotAt < forgetEveryMs) return
    this.#forgotAt = now
    for (const [key, { driver }] of this.#entries) {
      if (driver.finishedAt !== undefined && now - driver.finishedAt > keptMs) this.#entries.delete(key)
    }
  }
}

const marksOf = ({ driver: { id, revision } }: Entry) => ({ login_id: id, revision })

const stopping = () => new SvcError('shutting_down', 'the service is stopping')

const noLogin = () =>
  new SvcError('not_found', 'there is no such login any more', { hint: 'Start a new one.' })
