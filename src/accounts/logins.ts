/**
 * QR logins, one at a time of each session. Every surface (tool, panel, command line) only starts one and reads its state,
 * so logins of different sessions run side by side and can never complete each other's. A process that is asked about a login
 * takes part in asking upstream: whichever began it may be gone.
 */
import type { Upstream } from '../ilink/api.ts'
import { badArgument, SvcError } from '../model/error.ts'
import type { LoginFlow, LoginRequest, LoginStatus } from '../model/login.ts'
import { defaultSessionName, sessionName } from '../model/session.ts'
import type { Runtime } from '../platform/runtime.ts'
import { linked } from '../platform/signals.ts'
import type { LoginFlows, StoredLogin } from '../storage/logins.ts'
import type { Sessions } from '../storage/state.ts'
import { LoginDriver, qrLifeMs } from './login-driver.ts'
import { keptMs, LoginRecords } from './login-records.ts'
import { checkRoom, type Room } from './login-room.ts'
import { alreadyConnected, loginStatus } from './login-status.ts'
import { oneAtATime } from './one-at-a-time.ts'

/** Upstream is given this long to say what it makes of the digits. */
const codeMs = 5000
/** A new code, in place of one that is used up, is waited for this long whatever the caller's time. */
const renewalMs = 10_000
/** A process that asks upstream has its answer, and a new code, within this. */
const answerMs = 60_000
/** A page that was left may be loaded anew, or be open elsewhere: whoever follows there is answered within 25 s. */
const leftMs = 50_000

export interface LoginPorts {
  upstream: Pick<Upstream, 'api' | 'loginUrl' | 'sandboxed'>
  sessions: Pick<Sessions, 'get' | 'list'>
  flows: LoginFlows
  /** What this process has room for: logins under way, and sessions with one. */
  most(): Room
  /** Logins that were begun here end with this process, but for one that wants digits: nobody comes back for them. */
  oneShot: boolean
}

export class Logins {
  readonly #ports: LoginPorts
  readonly #runtime: Runtime
  readonly #records: LoginRecords
  readonly #driver: LoginDriver
  /** By id: logins that this process asks upstream about, or would if no other one did. */
  readonly #drives = new Map<string, Promise<void>>()
  readonly #starting = oneAtATime()
  /** Ids of those that were begun here. */
  readonly #own = new Set<string>()
  #pending: { of: Promise<readonly StoredLogin[]>; names: Promise<ReadonlySet<string>> } | undefined

  constructor(ports: LoginPorts, runtime: Runtime) {
    this.#ports = ports
    this.#runtime = runtime
    this.#records = new LoginRecords(ports.flows, runtime.clock)
    this.#driver = new LoginDriver({ ...ports, records: this.#records }, runtime)
  }

  /** Names with a login under way; one promise for all who ask in the same turn of the event loop. */
  pending(): Promise<ReadonlySet<string>> {
    const of = this.#records.underWay()
    if (this.#pending?.of !== of) this.#pending = { of, names: of.then(namesOf) }
    return this.#pending.names
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
    const login = await this.#go(request, signal)
    return 'version' in login ? this.#shown(login) : login
  }

  /** The same, with the login that it is the status of; the status alone where nothing was started. */
  async #go(request: LoginRequest, signal: AbortSignal): Promise<StoredLogin | LoginStatus> {
    this.#checkOpen()
    const name = await this.#nameOf(request.session_name)
    const login = await this.#records.of(name)
    if (login && !login.ended) {
      let now = await this.#begun(login)
      const { verify_code: code } = request
      if (code !== undefined)
        now = await this.#change(now, login => (login.ended ? login : { ...login, code }))
      const seen = code === undefined ? now.told : now.revision
      const news = await this.#news(now, seen, request.timeout * 1000, signal)
      return this.#tell(await this.#renewed(news, signal))
    }
    // The end of a login is told once before a new one starts, also to a caller who goes on asking with force. That a code
    // ran out is told to those who waited: who comes later is given a new one.
    const isTold = login && login.told !== login.revision && !isRunOut(login)
    if (isTold && (login.force || !request.force)) return this.#tell(login)

    const record = await this.#ports.sessions.get(name)
    // A new login would take the place of credentials that may be sound.
    if (record?.unreadable) throw record.unreadable
    if (record?.bot && record.bot.expired_at === undefined && !request.force)
      return alreadyConnected(record.name, record.bot.bot_id)
    return this.#tell(await this.#start(record?.name ?? name, request.force))
  }

  /**
   * For who begins: how an earlier login of the session ended is told no more, and one whose code has run out while no
   * process went on with it ends. One that can still be scanned stays.
   */
  async forget(name: string): Promise<void> {
    const isLost = ({ confirmed, qr }: StoredLogin) =>
      confirmed !== true && qr !== undefined && this.#runtime.clock.now() - qr.shown_at >= qrLifeMs + answerMs
    await this.#end(await this.#records.of(sessionName(name)), isLost)
  }

  /** Starts a login, or joins the one of that session; '' as login_id: it is connected, and nothing was started. */
  async begin(name: string, force: boolean, signal: AbortSignal): Promise<LoginFlow> {
    const session_name = sessionName(name)
    await this.forget(session_name)
    const login = await this.#go({ session_name, timeout: 0, force }, signal)
    return 'version' in login ? this.#flow(login) : { ...login, login_id: '', revision: 0 }
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
    const found =
      login_id === undefined ? await this.#records.of(sessionName(session ?? '')) : await this.#byId(login_id)
    if (!found || isCalledOff(found)) throw noLogin()
    const begun = found.ended ? found : await this.#begun(found)
    const now = await this.#news(begun, seen ?? begun.revision, timeoutMs, signal)
    // Not of a page that was left: its last question may come after its farewell, and nobody waits for the answer.
    if (!signal.aborted) await this.#change(now, ({ left_at: _left, ...login }) => login)
    return this.#flow(now.ended ? await this.#tell(now) : now)
  }

  /** Gives the digits that the phone shows. @throws SvcError `not_found` */
  async giveCode(loginId: string, code: string, signal: AbortSignal): Promise<LoginFlow> {
    const found = await this.#byId(loginId)
    const login =
      found && (await this.#records.change(found, login => (login.ended ? login : { ...login, code })))
    if (!login) throw noLogin()
    return this.follow({ login_id: loginId, seen: login.revision }, codeMs, signal)
  }

  /**
   * Calls a login off. One that was confirmed on the phone this moment goes on: upstream has ended the old credentials,
   * and nobody else has the new ones. @returns whether it was under way
   */
  async callOff(loginId: string): Promise<boolean> {
    return this.#end(await this.#byId(loginId), ({ confirmed }) => confirmed !== true)
  }

  /** The page that followed it was left: it is called off soon, unless it is followed elsewhere or its code was scanned. */
  async leave(loginId: string): Promise<void> {
    const { clock, closing } = this.#runtime
    const left_at = clock.now()
    const found = await this.#byId(loginId)
    if (!found) return
    await this.#records.change(found, login => ({ ...login, left_at }))
    await clock.sleep(leftMs, closing)
    const isLeft = (login: StoredLogin) => login.left_at === left_at && login.status === 'waiting'
    if (!closing.aborted) await this.#end(found, isLeft)
  }

  /** Ends the login of a session that is logged out or renamed meanwhile. @returns whether one was under way */
  async cancel(name: string): Promise<boolean> {
    return this.#end(await this.#records.of(name), () => true)
  }

  /** Of whichever session: for who knows no more. */
  async #byId(id: string): Promise<StoredLogin | undefined> {
    return (await this.#records.list()).find(login => login.id === id)
  }

  /**
   * The session that a call means. Without a name: the one whose login the caller may be following, also when that has just
   * ended and nobody was told yet, else `default`.
   */
  async #nameOf(given: string): Promise<string> {
    return given === '' ? followed(await this.#records.list()) : sessionName(given)
  }

  async #end(found: StoredLogin | undefined, may: (login: StoredLogin) => boolean): Promise<boolean> {
    if (!found) return false
    let ended = false
    await this.#records.change(found, login => {
      ended = !login.ended && may(login)
      const over = ended ? this.#records.over(login, { status: 'expired', notice: 'called_off' }) : login
      // How it ended is for those who wait for it, and for nobody who comes later.
      return over.ended && over.told !== over.revision ? { ...over, told: over.revision } : login
    })
    return ended
  }

  /** Resolves when nothing is asked any more; `closing` has to be aborted. */
  async closed(): Promise<void> {
    await Promise.allSettled(this.#drives.values())
    if (!this.#ports.oneShot) return
    // One whose digits are wanted goes on in the command that brings them.
    const isLeft = ({ confirmed, status }: StoredLogin) => confirmed !== true && status !== 'need_verifycode'
    await Promise.allSettled([...this.#own].map(async id => this.#end(await this.#byId(id), isLeft)))
  }

  /** Waits for another revision than the one that was seen, up to `ms`. */
  async #news(login: StoredLogin, seen: number, ms: number, signal: AbortSignal): Promise<StoredLogin> {
    const over = new AbortController()
    using left = linked(signal, this.#runtime.closing)
    using ended = linked(left.signal, over.signal)
    void this.#runtime.clock.sleep(Math.max(0, ms), ended.signal).then(() => over.abort())
    try {
      return await this.#records.while(login, now => !now.ended && now.revision === seen, ended.signal)
    } finally {
      over.abort()
    }
  }

  /** Once it has a new QR code, where the one that it has is used up; or as it is when there is none within some seconds. */
  #renewed(login: StoredLogin, signal: AbortSignal): Promise<StoredLogin> | StoredLogin {
    const { ended, qr, revision } = login
    if (ended || !qr || !this.#isUsedUp(login)) return login
    return this.#news(login, revision, renewalMs, signal).then(now =>
      now.revision === revision ? now : this.#renewed(now, signal),
    )
  }

  /** Nobody can scan it: upstream said so, or it would. */
  #isUsedUp({ status, qr }: StoredLogin): boolean {
    if (status === 'expired' || status === 'verify_code_blocked') return true
    return status === 'waiting' && qr !== undefined && this.#runtime.clock.now() - qr.shown_at >= qrLifeMs
  }

  /** A login once it has its first QR code, or has ended. @throws what `LoginDriver.drive` throws; SvcError `shutting_down` */
  async #begun(login: StoredLogin): Promise<StoredLogin> {
    const { closing } = this.#runtime
    const driving = this.#drive(login)
    const begun = this.#records.while(login, ({ ended, qr }) => !ended && qr === undefined, closing)
    const now = await Promise.race([begun, driving.then(() => begun)])
    if (now.ended) await driving
    if (now.qr === undefined) this.#checkOpen()
    return now
  }

  #drive(login: StoredLogin): Promise<void> {
    const running = this.#drives.get(login.id)
    if (running) return running
    const drive = this.#driver.drive(login).finally(() => this.#drives.delete(login.id))
    drive.catch(() => {})
    this.#drives.set(login.id, drive)
    return drive
  }

  async #start(session: string, force: boolean): Promise<StoredLogin> {
    // One at a time, so that each sees the room that those before have taken.
    return this.#begun(await this.#starting(() => this.#started(session, force)))
  }

  /** A new login, or the one that somebody has started meanwhile. */
  async #started(session: string, force: boolean): Promise<StoredLogin> {
    const { most, sessions } = this.#ports
    const records = await sessions.list()
    const before = await this.#records.of(session)
    const logins = await this.#records.underWay()
    this.#checkOpen()
    if (before && !before.ended) return before
    checkRoom(logins.length, session, records, most())
    const login = await this.#records.put({
      ...{ id: crypto.randomUUID(), session, force, version: before?.version ?? '' },
      ...{ until: this.#runtime.clock.now() + keptMs, ended: false, status: 'waiting', revision: 0, told: 0 },
    })
    // Another process was faster.
    if (!login) return this.#started(session, force)
    this.#own.add(login.id)
    return login
  }

  /** What a caller is shown. */
  #shown(login: StoredLogin): Promise<LoginStatus> {
    return loginStatus(login, this.#ports.upstream.sandboxed)
  }

  async #flow(login: StoredLogin): Promise<LoginFlow> {
    return { ...(await this.#shown(login)), login_id: login.id, revision: login.revision }
  }

  /** A caller of `login` is told it: the next call waits for what comes then. */
  async #tell(login: StoredLogin): Promise<StoredLogin> {
    const { revision: told } = login
    await this.#change(login, ({ left_at: _left, ...now }) => ({ ...now, told }))
    return login
  }

  /** As of `LoginRecords.change`; where it is not kept any more it is as it was. */
  async #change(login: StoredLogin, to: (login: StoredLogin) => StoredLogin): Promise<StoredLogin> {
    const changed = (now: StoredLogin) => {
      const next = to(now)
      return next.told === now.told && next.left_at === now.left_at && next.code === now.code ? now : next
    }
    return (await this.#records.change(login, changed)) ?? login
  }

  #checkOpen(): void {
    if (this.#runtime.closing.aborted) throw new SvcError('shutting_down', 'the service is stopping')
  }
}

/** Its codes were not scanned in time, as often as they were renewed. */
const isRunOut = ({ ended, status, notice }: StoredLogin) =>
  ended && status === 'expired' && notice === undefined

/** How it ended is for those who waited for it. */
const isCalledOff = ({ ended, notice }: StoredLogin) => ended && notice === 'called_off'

/** Names with a login under way. */
const namesOf = (logins: readonly StoredLogin[]): ReadonlySet<string> =>
  new Set(logins.filter(({ ended }) => !ended).map(({ session }) => session))

/** @throws SvcError `invalid_arguments` for several */
function followed(logins: readonly StoredLogin[]): string {
  const pending = [...namesOf(logins)]
  if (pending.length <= 1) {
    const untold = logins.filter(({ ended, revision, told }) => ended && told !== revision)
    const byDefault = untold.find(({ session }) => session === defaultSessionName)
    return byDefault?.session ?? pending[0] ?? untold.at(-1)?.session ?? defaultSessionName
  }
  throw badArgument('session_name', 'expected the name of one of the logins under way', {
    hint: `Name one of them: ${pending.join(', ')}.`,
  })
}

const noLogin = () =>
  new SvcError('not_found', 'there is no such login any more', { hint: 'Start a new one.' })
