/**
 * Polls WeChat for a login until it ends. Each step reads the stored login and stores the result, so that
 * another process can continue at any point. Only one process polls at a time.
 */
import type { Upstream } from '../ilink/api.ts'
import { type Credentials, createLogin, type LoginStep, stepLogin } from '../ilink/login.ts'
import { isSvcError } from '../model/error.ts'
import type { LoginState, QrLogin } from '../model/login.ts'
import { backoffMs } from '../platform/clock.ts'
import { RunningPart } from '../platform/runtime.ts'
import { followSignal } from '../platform/signals.ts'
import type { LoginStore, StoredLogin } from '../storage/logins.ts'
import type { SessionStore } from '../storage/state.ts'
import type { UserNameStore } from '../storage/store.ts'
import { type LoginRecords, retentionMs } from './login-records.ts'
import { newestTokensOf } from './login-room.ts'

export interface DriverPorts {
  upstream: Pick<Upstream, 'api' | 'loginUrl'>
  sessions: Pick<SessionStore, 'list'>
  flows: Pick<LoginStore, 'claim' | 'release' | 'finish'>
  records: LoginRecords
  /** Whether a key has ended, by its id: nobody may scan the codes of its logins then. */
  isKeyOver(id: string): Promise<boolean>
  /** Whether an invitation has ended, by its id. */
  isInvitationOver(id: string): Promise<boolean>
  names: Pick<UserNameStore, 'find' | 'set'>
}

/** Lifetime of a QR code that WeChat does not expire itself (official client: 5 minutes). */
export const qrLifetimeMs = 5 * 60_000
/** WeChat holds a status poll up to 30 s. If it answers immediately, it is polled this often. */
const minPollMs = 2000
/** How often to try to claim a login that another process has: that process may have died. */
const claimRetryMs = 1000
const renewTries = 5
/** The page of an invitation asks at least every 25 s. If it is left, its code is not renewed. */
const leftAfterMs = 60_000
/** Attempts to store new credentials. WeChat has already ended the old bot, so they must not be lost. */
const saveTries = 12

export class LoginDriver extends RunningPart<DriverPorts> {
  /**
   * Drives a login until it ends, or until this process stops; then another process may continue it.
   *
   * @throws ILinkError if the first QR code cannot be fetched
   */
  async drive(login: StoredLogin): Promise<void> {
    const { clock, closing, log } = this.runtime
    const { flows } = this.ports
    const { session } = login
    const over = new AbortController()
    const leave = followSignal(closing, over)
    const watched = this.#watch(login, over)
    try {
      while (!over.signal.aborted) {
        try {
          if (await flows.claim(login)) await this.#runStep(login, over)
          else await clock.sleep(claimRetryMs, over.signal)
        } catch (error) {
          if (!isSvcError(error, 'store_unavailable')) throw error
          log.warn('the login cannot be kept; trying again', { session, error })
          await clock.sleep(minPollMs, over.signal)
        }
      }
    } catch (error) {
      if (!over.signal.aborted) await this.#recordFailure(login, error)
    } finally {
      over.abort()
      leave()
      await watched
      await flows.release(login).catch(() => {})
    }
  }

  /** Aborts `over` when the login has ended, by any process. */
  async #watch(login: StoredLogin, over: AbortController): Promise<void> {
    const { signal } = over
    while (!signal.aborted) {
      try {
        await this.ports.records.waitWhile(login, ({ ended }) => !ended, signal)
        over.abort()
      } catch {
        // If the store cannot be read, the steps log it.
        await this.runtime.clock.sleep(minPollMs, signal)
      }
    }
  }

  async #recordFailure(login: StoredLogin, error: unknown): Promise<void> {
    const { log } = this.runtime
    const { records } = this.ports
    const { session } = login
    let started = true
    await records.change(login, login => {
      started = login.qr !== undefined
      const over = records.toEnded(login, { status: 'expired', notice: 'failed' })
      // The caller that waits for the first code gets the error itself.
      return started ? over : { ...over, told: over.revision }
    })
    if (started) return log.error('login failed', { session, error })
    // The caller gets the error; this line is for the log.
    log.info('no QR code could be had', { session, error })
    throw error
  }

  async #runStep(key: StoredLogin, over: AbortController): Promise<void> {
    const { signal } = over
    const { clock } = this.runtime
    const { api, loginUrl } = this.ports.upstream
    const { records } = this.ports
    const login = await records.find(key)
    if (!login || login.ended) return over.abort()
    if (login.key !== undefined && (await this.ports.isKeyOver(login.key))) {
      await records.change(login, now => records.toEnded(now, { status: 'expired', notice: 'called_off' }))
      return over.abort()
    }
    const { code, qr } = login
    if (!qr) return this.#storeCode(login, await this.#fetchCode(login, signal))
    const isOld = clock.now() - qr.shown_at >= qrLifetimeMs
    // Like the official client, asks nothing until the user has typed the digits: a poll might count as a
    // wrong code.
    if (qr.needsCode && code === undefined && !isOld)
      return this.#waitForCode(login, qr.shown_at + qrLifetimeMs, signal)
    const askedAt = clock.monotonic()
    const codeSent = qr.needsCode ? code : undefined
    const reply = isOld
      ? { status: 'expired' }
      : await api.getQrcodeStatus(qr.host ?? loginUrl, qr.qrcode, codeSent, signal)
    if (signal.aborted) return
    const step = stepLogin(qr, reply, { loginHost: loginUrl, codeSent })
    if (step.next === 'done') return this.#storeCredentials(login, step.credentials, signal)
    if (!(await this.#storeStep(login, step))) return
    if (step.next === 'renew') return this.#renew(login, step.state, signal)
    // Digits that WeChat neither accepted nor rejected are sent again, but not without a pause.
    const undecided = codeSent !== undefined && !step.dropCode
    const tookMs = clock.monotonic() - askedAt
    if ((!step.flow.needsCode || undecided) && tookMs < minPollMs)
      await clock.sleep(minPollMs - tookMs, signal)
  }

  /** Waits until the user has typed the digits, at most until `deadline` (Unix ms). */
  async #waitForCode(login: StoredLogin, deadline: number, signal: AbortSignal): Promise<void> {
    const { clock } = this.runtime
    const over = new AbortController()
    const leave = followSignal(signal, over)
    const typed = this.ports.records.waitWhile(login, ({ code }) => code === undefined, over.signal)
    await Promise.race([typed, clock.sleep(deadline - clock.now(), over.signal)])
    over.abort()
    leave()
    await typed
  }

  /** Stores WeChat's answer if it is about the current QR code. Returns true if the login continues here. */
  async #storeStep(polled: StoredLogin, step: LoginStep): Promise<boolean> {
    const { flows, records } = this.ports
    let over = false
    const kept = await records.change(polled, login => {
      const { qr } = login
      over = false
      if (!qr || qr.qrcode !== polled.qr?.qrcode || login.ended) return login
      if (step.next === 'end') {
        const { problem } = step
        over = true
        return records.toEnded(login, { status: step.state, ...(problem && { problem, notice: 'failed' }) })
      }
      const changed = step.wrongCode || login.status !== step.state
      return unchangedOr(login, {
        ...login,
        status: step.state,
        notice: step.wrongCode ? 'wrong_code' : undefined,
        ...(step.dropCode && { code: undefined }),
        revision: login.revision + Number(changed),
        qr: { ...qr, ...step.flow },
      })
    })
    if (kept && over) this.runtime.log.info('not logged in', { session: kept.session, status: kept.status })
    return kept !== undefined && !kept.ended && (await flows.claim(kept))
  }

  /**
   * Replaces a used-up QR code by a new one.
   *
   * @throws ILinkError if none can be fetched in several tries
   */
  async #renew(login: StoredLogin, ended: LoginState, signal: AbortSignal): Promise<void> {
    const { clock, log } = this.runtime
    if (login.invitation && !(await this.#mayRenew(login))) {
      const over = (now: StoredLogin) => this.ports.records.toEnded(now, { status: 'expired' })
      await this.ports.records.change(login, now => (now.ended ? now : over(now)))
      return log.info('not logged in', { session: login.session, status: 'expired' })
    }
    for (let tries = 1; ; tries++) {
      try {
        const notice = ended === 'verify_code_blocked' ? 'renewed_after_wrong_codes' : 'renewed'
        return await this.#storeCode(login, await this.#fetchCode(login, signal), notice)
      } catch (error) {
        if (tries >= renewTries || signal.aborted) throw error
        log.warn('no new QR code', { session: login.session, error, tries })
        await clock.sleep(backoffMs(tries), signal)
      }
    }
  }

  /** Whether somebody still waits for a new code of an invitation. Until its code has expired, the login takes a use. */
  async #mayRenew(polled: StoredLogin): Promise<boolean> {
    // The page has asked since the poll began.
    const login = (await this.ports.records.find(polled)) ?? polled
    const { begun_at = 0, invitation, seen_at = begun_at } = login
    if (this.runtime.clock.now() - seen_at > leftAfterMs) return false
    return invitation === undefined || !(await this.ports.isInvitationOver(invitation.id))
  }

  async #fetchCode({ force, session }: StoredLogin, signal: AbortSignal): Promise<QrLogin> {
    const { sessions, upstream } = this.ports
    const known = newestTokensOf(await sessions.list(), force ? session : undefined)
    return createLogin(await upstream.api.getBotQrcode(upstream.loginUrl, known, signal))
  }

  async #storeCode(target: StoredLogin, qr: QrLogin, notice?: StoredLogin['notice']): Promise<void> {
    const now = this.runtime.clock.now()
    await this.ports.records.change(target, login => {
      if (login.ended) return login
      return {
        ...login,
        status: 'waiting',
        notice,
        until: now + qrLifetimeMs + retentionMs,
        revision: login.revision + Number(notice !== undefined),
        qr: { ...qr, renewals: login.qr?.renewals ?? 0, shown_at: now },
      }
    })
  }

  async #storeCredentials(
    confirmed: StoredLogin,
    { bot_id, token, base_url, user_id }: Credentials,
    signal: AbortSignal,
  ): Promise<void> {
    const { bus, clock, log } = this.runtime
    const { flows, records } = this.ports
    const { session } = confirmed
    const bot = { bot_id, token, base_url, ...(user_id && { user_id }), cursor: '', created_at: clock.now() }
    log.debug('confirmed on the phone; storing the credentials', { session })
    for (let tries = 1; ; ) {
      try {
        const login = await records.find(confirmed)
        if (!login || login.ended) return
        const over = records.toEnded(login, { status: 'confirmed', bot_id })
        // If `finish` returns undefined, another process changed the login: read it again.
        const finished = await flows.finish(over, bot, clock.now())
        if (!finished) continue
        const { outcome, session: place = session } = finished.joined ?? {}
        if (outcome === 'over')
          return log.warn('confirmed after the invitation had ended; not stored', { session })
        bus.notify('sessionsChanged')
        if (outcome === 'joined' && user_id) await this.#nameGuest(place, user_id)
        return log.info('logged in', { session: place, bot: bot_id, by_invitation: outcome })
      } catch (error) {
        if (tries >= saveTries || signal.aborted) throw new Error('credentials not stored', { cause: error })
        log.error('credentials not stored; trying again', { session, error, tries })
        await records
          .change(confirmed, login => (login.ended ? login : { ...login, confirmed: true }))
          .catch(() => {})
        await clock.sleep(backoffMs(tries++, 250, 10_000), signal)
      }
    }
  }

  /** Gives a guest the name of the account, unless another user has it: a name must lead to one person. */
  async #nameGuest(session: string, user: string): Promise<void> {
    const { names } = this.ports
    try {
      const bearers = await names.find(session)
      if (bearers.every(({ user_id }) => user_id === user)) await names.set(session, user, session)
    } catch (error) {
      this.runtime.log.warn('a guest has no name yet', { session, error })
    }
  }
}

/** Returns `before` if nothing changed, so that nothing is written. */
const unchangedOr = (before: StoredLogin, after: StoredLogin): StoredLogin =>
  JSON.stringify(before) === JSON.stringify(after) ? before : after
