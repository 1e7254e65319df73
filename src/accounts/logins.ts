/**
 * QR logins, at most one at a time for each session. An interface (tool, panel, command line) only starts a
 * login and reads its state. So logins of different sessions run in parallel and cannot complete each
 * other's. A process that is asked about a login also polls WeChat for it: the process that started it may
 * be gone.
 */
import type { Upstream } from '../ilink/api.ts'
import { badArgument, isSvcError, SvcError } from '../model/error.ts'
import type { LoginFlow, LoginRequest, LoginStatus } from '../model/login.ts'
import { keyIdOf, owner, type Principal, scopeOf } from '../model/principal.ts'
import {
  defaultSessionName,
  normalizeSessionName,
  sessionKeyOf,
  sessionNotFoundError,
} from '../model/session.ts'
import { createMutex } from '../platform/one-at-a-time.ts'
import { RunningPart, type Runtime } from '../platform/runtime.ts'
import { linkSignals } from '../platform/signals.ts'
import { freeNameOf } from '../storage/joined-logins.ts'
import type { LoginStore, StoredLogin } from '../storage/logins.ts'
import type { SessionStore } from '../storage/state.ts'
import { type DriverPorts, LoginDriver, qrLifetimeMs } from './login-driver.ts'
import { LoginRecords, retentionMs } from './login-records.ts'
import { checkCapacity, checkInvitedShare, type LoginCapacity } from './login-room.ts'
import { alreadyConnectedStatus, toLoginStatus } from './login-status.ts'
import { isVisible } from './visible.ts'

/** How long to wait for WeChat's answer to the digits. */
const codeWaitMs = 5000
/** How long to wait for the replacement of a used-up QR code, whatever the caller's timeout. */
const renewalWaitMs = 10_000
/** A process that polls WeChat gets its answer and a new code within this time. */
const answerMs = 60_000
/**
 * After a page is left, it may be reloaded or open elsewhere: a page that follows the login asks at least
 * every 25 s.
 */
const leaveGraceMs = 50_000
/** How often a login by invitation notes that its page is open. */
const noteSeenEveryMs = 20_000

export interface LoginPorts extends Pick<DriverPorts, 'isInvitationOver' | 'isKeyOver' | 'names'> {
  upstream: Pick<Upstream, 'api' | 'loginUrl' | 'sandboxed'>
  /** As `familyOf` of `storage/keys.ts`. */
  familyOf(id: string): Promise<ReadonlySet<string>>
  sessions: Pick<SessionStore, 'get' | 'list'>
  flows: LoginStore
  /** Capacity of this process: logins in progress, and sessions with a login. */
  most(): LoginCapacity
  /**
   * True for a short command: logins that it started end with this process, except logins that need digits.
   */
  oneShot: boolean
}

/** A browser at the page of an invitation: its login belongs to it alone. */
export interface Visitor {
  readonly invitation: string
  /** Hash of its cookie. */
  readonly browser: string
  /** Network address, if it is known. */
  readonly address?: string | undefined
}

/** Names for the account of an invitation, and how many people may still join by it. */
export interface InvitedAccount {
  readonly name: string
  /** The number of the first account, where each has one: no later account gets the name of an earlier one. */
  readonly number?: number | undefined
  countLeft(): Promise<number>
}

export class Logins extends RunningPart<LoginPorts> {
  readonly #records: LoginRecords
  readonly #driver: LoginDriver
  /**
   * Logins that this process drives, by id: it polls WeChat for them, or waits to take over from another
   * process.
   */
  readonly #drives = new Map<string, Promise<void>>()
  readonly #starting = createMutex()
  /** Ids of the logins that this process started. */
  readonly #own = new Set<string>()

  constructor(ports: LoginPorts, runtime: Runtime) {
    super(ports, runtime)
    this.#records = new LoginRecords({ flows: ports.flows, clock: runtime.clock })
    this.#driver = new LoginDriver({ ...ports, records: this.#records }, runtime)
  }

  /** Returns the names of sessions with a login in progress; none while the store fails: accounts are listed all the same. */
  async pendingNames(): Promise<ReadonlySet<string>> {
    try {
      return namesOf(await this.#records.listPending())
    } catch (error) {
      if (isSvcError(error, 'store_unavailable')) return new Set()
      throw error
    }
  }

  /**
   * Starts a login and returns its QR code immediately, or returns the state of the login in progress:
   * immediately if it changed since the last call, else at its next change. After digits the state says
   * whether they were right.
   *
   * @throws SvcError `invalid_arguments` for a bad name, or for no name while several logins are pending;
   * `upstream_error`, `upstream_timeout` if no QR code could be fetched; `rate_limited`, `forbidden` if
   * there is no capacity for another login or session; `forbidden` for a key that is limited to users, and
   * while another caller logs the session in; `session_not_found` outside the accounts of the key
   */
  async login(by: Principal, request: LoginRequest, signal: AbortSignal): Promise<LoginStatus> {
    const login = await this.#startOrJoin(request, signal, by)
    return 'version' in login ? this.#toStatus(login) : login
  }

  /** Same as `login`, but returns the stored login; a bare status if no login was started. */
  async #startOrJoin(
    request: LoginRequest,
    signal: AbortSignal,
    by: Principal,
  ): Promise<StoredLogin | LoginStatus> {
    this.#checkOpen()
    const name = await this.#resolveName(request.session_name, by)
    if (by.grant) await this.#requireLoginScope(name, by)
    const found = await this.#records.findOfSession(name)
    if (found && !found.ended) requireOwn(found, by)
    const login = found && isOwn(found, by) ? found : undefined
    if (login && !login.ended) {
      let now = await this.#awaitFirstCode(login)
      const { verify_code: code } = request
      if (code !== undefined)
        now = await this.#change(now, login => (login.ended ? login : { ...login, code }))
      const seen = code === undefined ? now.told : now.revision
      const news = await this.#awaitChange(now, seen, request.timeout * 1000, signal)
      return this.#markReported(await this.#awaitRenewal(news, signal))
    }
    // The end of a login is reported once before a new one starts, even if the caller repeats a call with
    // `force`. An expired code is reported only to waiting callers; a later caller gets a new login.
    const mustReport = login && login.told !== login.revision && !hasRunOut(login)
    if (mustReport && (login.force || !request.force)) return this.#markReported(login)

    const record = await this.ports.sessions.get(name)
    // A new login would replace credentials that may be valid.
    if (record?.unreadable) throw record.unreadable
    if (record?.bot && record.bot.expired_at === undefined && !request.force)
      return alreadyConnectedStatus(record.name, record.bot.bot_id)
    return this.#markReported(await this.#start(record?.name ?? name, request.force, by))
  }

  /** Whether `login` only looks how a login goes on that was begun, or how it ended. @throws SvcError as `login` for a bad name */
  async isFollowed(by: Principal, session: string | undefined): Promise<boolean> {
    const found = await this.#findOfSession(await this.#resolveName(session, by), by)
    return found !== undefined && (found.ended !== true || found.told !== found.revision)
  }

  /** @throws SvcError `forbidden`, `session_not_found` if a key may not log this session in */
  async #requireLoginScope(name: string, by: Principal): Promise<void> {
    const { bots, users } = scopeOf(by)
    if (users)
      throw new SvcError('forbidden', 'your key is limited to certain users, so it cannot log a session in', {
        hint: 'Ask the owner of the service to log it in.',
      })
    if (!bots) return
    const record = await this.ports.sessions.get(name)
    if (!record || !isVisible(record, { bots })) throw sessionNotFoundError(name)
  }

  /**
   * Prepares a new login: the end of the session's earlier login is no longer reported. Ends an earlier
   * login whose code expired without a process that drives it. A login that can still be scanned stays.
   */
  async forget(by: Principal, name: string): Promise<void> {
    const isLost = ({ confirmed, qr }: StoredLogin) =>
      confirmed !== true &&
      qr !== undefined &&
      this.runtime.clock.now() - qr.shown_at >= qrLifetimeMs + answerMs
    await this.#end(await this.#findOfSession(name, by), isLost)
  }

  /**
   * Starts a login, or joins the one in progress. `login_id` '' means that the session is connected and
   * nothing was started.
   */
  async begin(by: Principal, name: string, force: boolean, signal: AbortSignal): Promise<LoginFlow> {
    const session_name = normalizeSessionName(name)
    await this.forget(by, session_name)
    const login = await this.#startOrJoin({ session_name, timeout: 0, force }, signal, by)
    if (!('version' in login)) return { ...login, login_id: '', revision: 0 }
    const last = await this.#findLast(by)
    // One that was joined is the last one then.
    const begun_at = last && last.id !== login.id ? await this.#nextBegin() : undefined
    return this.#toFlow(
      (begun_at && (await this.#records.change(login, now => ({ ...now, begun_at })))) || login,
    )
  }

  /**
   * Returns the state of a login: by its id, as the newest one of a session, or else the one that was begun
   * last. Waits up to `timeoutMs` for a change. A caller that passes the last revision as `seen` misses no change between two calls.
   *
   * @throws SvcError `not_found` if there is none, or if its last state is older than 10 minutes
   */
  async follow(
    by: Principal,
    asked: { login_id?: string; session?: string | undefined; seen?: number },
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<LoginFlow> {
    const { login_id, seen, session } = asked
    const found =
      login_id !== undefined
        ? await this.#findById(login_id, by)
        : await (session === undefined ? this.#findLast(by) : this.#findOfSession(session, by))
    const isOther =
      session !== undefined &&
      found &&
      sessionKeyOf(found.session) !== sessionKeyOf(normalizeSessionName(session))
    if (!found || isOther || isCalledOff(found)) throw noLoginError()
    return this.#followFound(found, seen, timeoutMs, signal)
  }

  async #followFound(
    found: StoredLogin,
    seen: number | undefined,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<LoginFlow> {
    const begun = found.ended ? found : await this.#awaitFirstCode(found)
    const now = await this.#awaitChange(begun, seen ?? begun.revision, timeoutMs, signal)
    // Not for an aborted call: the last request of a closed page may arrive after its `leave`.
    if (!signal.aborted) await this.#change(now, ({ left_at: _left, ...login }) => login)
    return this.#toFlow(now.ended ? await this.#markReported(now) : now)
  }

  /**
   * Stores the digits that the phone displays, and waits for WeChat's answer.
   *
   * @throws SvcError `not_found`
   */
  async giveCode(
    by: Principal | Visitor,
    loginId: string,
    code: string,
    signal: AbortSignal,
  ): Promise<LoginFlow> {
    const found = await this.#findById(loginId, by)
    const login =
      found && (await this.#records.change(found, login => (login.ended ? login : { ...login, code })))
    if (!login || isCalledOff(login)) throw noLoginError()
    return this.#followFound(login, login.revision, codeWaitMs, signal)
  }

  /**
   * Calls a login off. A login that was just confirmed on the phone continues: WeChat has ended the old
   * credentials, and only this login has the new ones.
   *
   * @returns true if it was in progress
   */
  async callOff(by: Principal, loginId: string): Promise<boolean> {
    return this.#end(await this.#findById(loginId, by), ({ confirmed }) => confirmed !== true)
  }

  /**
   * Records that a page stopped following the login. It is called off soon, unless another page follows it
   * or its code was scanned.
   */
  async leave(by: Principal, loginId: string): Promise<void> {
    const { clock, closing } = this.runtime
    const left_at = clock.now()
    const found = await this.#findById(loginId, by)
    if (!found) return
    await this.#records.change(found, login => ({ ...login, left_at }))
    await clock.sleep(leaveGraceMs, closing)
    const isLeft = (login: StoredLogin) => login.left_at === left_at && login.status === 'waiting'
    if (!closing.aborted) await this.#end(found, isLeft)
  }

  /**
   * Ends the login of a session that is being logged out or renamed.
   *
   * @returns true if one was in progress
   */
  async cancel(name: string): Promise<boolean> {
    return this.#end(await this.#records.findOfSession(name), () => true)
  }

  /** Returns the login with this id, of any session, if the caller may follow it. */
  async #findById(id: string, by: Principal | Visitor): Promise<StoredLogin | undefined> {
    return (await this.#records.list()).find(login => login.id === id && isOwn(login, by))
  }

  /** Returns the login of a session, if the caller may follow it. */
  async #findOfSession(name: string, by: Principal): Promise<StoredLogin | undefined> {
    const found = await this.#records.findOfSession(normalizeSessionName(name))
    return found && isOwn(found, by) ? found : undefined
  }

  /** Returns the login that was begun last of those that the caller may follow. */
  async #findLast(by: Principal | Visitor): Promise<StoredLogin | undefined> {
    const followed = (await this.#records.list()).filter(login => isOwn(login, by) && !isCalledOff(login))
    return lastBegunOf(followed)
  }

  /** Returns the time at which a login begins: now, and later than all others, whatever the clock does. */
  async #nextBegin(): Promise<number> {
    const before = (await this.#records.list()).map(({ begun_at = 0 }) => begun_at + 1)
    return Math.max(this.runtime.clock.now(), ...before)
  }

  /** Returns the session that a call is about; without a name that of `followedSessionOf`. */
  async #resolveName(name: string | undefined, by: Principal): Promise<string> {
    if (name !== undefined) return normalizeSessionName(name)
    return followedSessionOf((await this.#records.list()).filter(login => isOwn(login, by)))
  }

  async #end(found: StoredLogin | undefined, may: (login: StoredLogin) => boolean): Promise<boolean> {
    if (!found) return false
    let ended = false
    await this.#records.change(found, login => {
      ended = !login.ended && may(login)
      const over = ended ? this.#records.toEnded(login, { status: 'expired', notice: 'called_off' }) : login
      // Marks the end as reported: only callers that wait for it now get it.
      return over.ended && over.told !== over.revision ? { ...over, told: over.revision } : login
    })
    return ended
  }

  /** Resolves when this process polls for no login any more. Abort `closing` first. */
  async waitUntilClosed(): Promise<void> {
    await Promise.allSettled(this.#drives.values())
    if (!this.ports.oneShot) return
    // A login that needs digits continues in the command that brings them.
    const isLeft = ({ confirmed, status }: StoredLogin) => confirmed !== true && status !== 'need_verifycode'
    await Promise.allSettled(
      [...this.#own].map(async id => this.#end(await this.#findById(id, owner), isLeft)),
    )
  }

  /** Waits up to `ms` until the revision differs from `seen`, or until the login ends. */
  async #awaitChange(
    login: StoredLogin,
    seen: number,
    ms: number,
    signal: AbortSignal,
  ): Promise<StoredLogin> {
    const over = new AbortController()
    using left = linkSignals(signal, this.runtime.closing)
    using ended = linkSignals(left.signal, over.signal)
    void this.runtime.clock.sleep(Math.max(0, ms), ended.signal).then(() => over.abort())
    try {
      return await this.#records.waitWhile(login, now => !now.ended && now.revision === seen, ended.signal)
    } finally {
      over.abort()
    }
  }

  /** If the QR code is used up, waits some seconds for its replacement. Returns the login. */
  #awaitRenewal(login: StoredLogin, signal: AbortSignal): Promise<StoredLogin> | StoredLogin {
    const { ended, qr, revision } = login
    if (ended || !qr || !this.#isUsedUp(login)) return login
    return this.#awaitChange(login, revision, renewalWaitMs, signal).then(now =>
      now.revision === revision ? now : this.#awaitRenewal(now, signal),
    )
  }

  /** Returns true if the code can no longer be scanned, because WeChat said so or because of its age. */
  #isUsedUp({ status, qr }: StoredLogin): boolean {
    if (status === 'expired' || status === 'verify_code_blocked') return true
    return status === 'waiting' && qr !== undefined && this.runtime.clock.now() - qr.shown_at >= qrLifetimeMs
  }

  /**
   * Waits until the login has its first QR code, or has ended.
   *
   * @throws what `LoginDriver.drive` throws; SvcError `shutting_down`
   */
  async #awaitFirstCode(login: StoredLogin): Promise<StoredLogin> {
    const { closing } = this.runtime
    const driving = this.#drive(login)
    const begun = this.#records.waitWhile(login, ({ ended, qr }) => !ended && qr === undefined, closing)
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

  async #start(session: string, force: boolean, by: Principal): Promise<StoredLogin> {
    // One at a time, so that each start counts the ones before it.
    return this.#awaitFirstCode(await this.#starting(() => this.#storeNew(session, force, by)))
  }

  /** Stores a new login, or returns the one that another call has started. */
  async #storeNew(session: string, force: boolean, by: Principal): Promise<StoredLogin> {
    const { most, sessions } = this.ports
    const records = await sessions.list()
    const before = await this.#records.findOfSession(session)
    const logins = await this.#records.listPending()
    this.#checkOpen()
    if (before && !before.ended) return requireOwn(before, by)
    const key = keyIdOf(by)
    const family = key === undefined ? undefined : await this.ports.familyOf(key)
    const own = logins.filter(login => family?.has(login.key ?? '')).length
    checkCapacity({ all: logins.length, own }, session, records, most())
    const login = await this.#putNew(session, before, { force, ...(key !== undefined && { key }) })
    // Another process stored one first.
    return login ?? this.#storeNew(session, force, by)
  }

  /**
   * Starts the login of a visitor, or joins the one in progress.
   *
   * @returns undefined if as many logins of the invitation are in progress as people may still join: a scan cannot be taken
   *   back, so no code may be shown then
   * @throws SvcError `rate_limited` if there is no capacity for another login
   */
  async beginInvited(by: Visitor, account: InvitedAccount): Promise<LoginFlow | undefined> {
    this.#checkOpen()
    const found = await this.#findLast(by)
    const login = found && !found.ended ? found : await this.#starting(() => this.#storeInvited(by, account))
    return login && this.#toFlow(await this.#awaitFirstCode(login))
  }

  /** Returns the last login of a visitor, as it is now or at its next change. */
  async findInvited(by: Visitor, seen: number, timeoutMs: number, signal: AbortSignal) {
    const found = await this.#findLast(by)
    if (!found) return undefined
    await this.#noteSeen(found)
    const flow = await this.#followFound(found, seen, timeoutMs, signal)
    return { ...flow, joined: (await this.#records.find(found))?.joined }
  }

  /** Notes that the page is still open: else its code is not renewed. */
  async #noteSeen(login: StoredLogin): Promise<void> {
    const now = this.runtime.clock.now()
    if (login.ended || now - (login.seen_at ?? 0) < noteSeenEveryMs) return
    await this.#records.change(login, one => (one.ended ? one : { ...one, seen_at: now }))
  }

  /** Stores the login of a visitor. @returns undefined if no more may begin now */
  async #storeInvited(by: Visitor, account: InvitedAccount): Promise<StoredLogin | undefined> {
    const { most, sessions } = this.ports
    const records = await sessions.list()
    const logins = await this.#records.listPending()
    const countOpen = (all: readonly StoredLogin[]) =>
      all.filter(({ invitation }) => invitation?.id === by.invitation).length
    if (countOpen(logins) >= (await account.countLeft())) return undefined
    const { address, browser, invitation: id } = by
    const invitation = { id, browser, ...(address !== undefined && { address }) }
    checkInvitedShare(logins, invitation, most())
    const taken = new Set(
      [...records.map(({ name }) => name), ...logins.map(({ session }) => session)].map(sessionKeyOf),
    )
    const session = freeNameOf(account.name, taken, account.number)
    checkCapacity({ all: logins.length, own: 0 }, session, records, most())
    const before = await this.#records.findOfSession(session)
    const isFree = !before || before.ended
    const login = isFree ? await this.#putNew(session, before, { force: false, invitation }) : undefined
    // Another process stored one first.
    if (!login) return this.#storeInvited(by, account)
    // Another process may have begun one too. Each counts after its write, so at least one of them gives way. A login that
    // ends meanwhile counts as one in progress.
    if (countOpen(await this.#records.listPending()) <= (await account.countLeft())) return login
    await this.#end(login, () => true)
    return undefined
  }

  /** Stores a new login in place of an earlier one that has ended. @returns undefined if another process was faster */
  async #putNew(
    session: string,
    before: StoredLogin | undefined,
    more: Pick<StoredLogin, 'force' | 'invitation' | 'key'>,
  ): Promise<StoredLogin | undefined> {
    const login = await this.#records.put({
      ...more,
      id: crypto.randomUUID(),
      session,
      begun_at: await this.#nextBegin(),
      version: before?.version ?? '',
      until: this.runtime.clock.now() + retentionMs,
      ended: false,
      status: 'waiting',
      revision: 0,
      told: 0,
    })
    if (login) this.#own.add(login.id)
    return login
  }

  /** Returns the login's status for callers. */
  #toStatus(login: StoredLogin): Promise<LoginStatus> {
    return toLoginStatus(login, this.ports.upstream.sandboxed)
  }

  async #toFlow(login: StoredLogin): Promise<LoginFlow> {
    return { ...(await this.#toStatus(login)), login_id: login.id, revision: login.revision }
  }

  /** Marks the current revision as reported to a caller: its next call waits for the next change. */
  async #markReported(login: StoredLogin): Promise<StoredLogin> {
    const { revision: told } = login
    await this.#change(login, ({ left_at: _left, ...now }) => ({ ...now, told }))
    return login
  }

  /** Like `LoginRecords.change`, but returns the login unchanged if it is no longer stored. */
  async #change(login: StoredLogin, to: (login: StoredLogin) => StoredLogin): Promise<StoredLogin> {
    const changed = (now: StoredLogin) => {
      const next = to(now)
      return next.told === now.told && next.left_at === now.left_at && next.code === now.code ? now : next
    }
    return (await this.#records.change(login, changed)) ?? login
  }

  #checkOpen(): void {
    if (this.runtime.closing.aborted) throw new SvcError('shutting_down', 'the service is stopping')
  }
}

/** Whether a caller may follow a login: a key only those that it started, a visitor only the own one, which is nobody else's. */
function isOwn({ invitation, key }: StoredLogin, by: Principal | Visitor): boolean {
  if ('invitation' in by) return invitation?.id === by.invitation && invitation.browser === by.browser
  return invitation === undefined && (by.grant === undefined || key === keyIdOf(by))
}

/** @throws SvcError `forbidden` */
function requireOwn(login: StoredLogin, by: Principal): StoredLogin {
  if (isOwn(login, by)) return login
  if (login.invitation)
    throw new SvcError('forbidden', 'a guest has an open QR code for an account of this name', {
      hint: 'Log in under another name. Or revoke the invitation, and wait 5 minutes until the code has expired.',
    })
  throw new SvcError('forbidden', 'another caller is logging this session in', {
    hint: 'Wait until that login ends.',
  })
}

/** Returns true if the login ended because no code was scanned in time. */
const hasRunOut = ({ ended, status, notice }: StoredLogin) =>
  ended && status === 'expired' && notice === undefined

/** Returns true if the login was called off; its end is reported only to callers that waited. */
const isCalledOff = ({ ended, notice }: StoredLogin) => ended && notice === 'called_off'

/** Returns the sessions with a login in progress. */
const namesOf = (logins: readonly StoredLogin[]): ReadonlySet<string> =>
  new Set(logins.filter(({ ended }) => !ended).map(({ session }) => session))

/** Returns the login that was begun last; undefined if there is none. */
const lastBegunOf = (logins: readonly StoredLogin[]): StoredLogin | undefined =>
  logins.toSorted((a, b) => (b.begun_at ?? 0) - (a.begun_at ?? 0))[0]

/**
 * Returns the session of the login that a caller without a name follows: the only one in progress, else the last one
 * that succeeded or failed without its caller being told. One that expired does not count. Without any: `default`.
 *
 * @throws SvcError `invalid_arguments` if several are in progress
 */
function followedSessionOf(logins: readonly StoredLogin[]): string {
  const [pending, ...more] = [...namesOf(logins)].sort()
  if (pending === undefined) {
    const isUntold = ({ revision, status, told }: StoredLogin) => told !== revision && status !== 'expired'
    return lastBegunOf(logins.filter(isUntold))?.session ?? defaultSessionName
  }
  if (more.length === 0) return pending
  const sessions = [pending, ...more]
  const names = sessions.join(', ')
  throw badArgument('session_name', `expected the session of one of the logins in progress: ${names}`, {
    hint: `Name one of them: ${names}.`,
    details: { sessions },
  })
}

const noLoginError = () =>
  new SvcError('not_found', 'this login does not exist any more', { hint: 'Start a new one.' })
