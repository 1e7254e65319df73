/** One QR login under way: polls upstream by itself until it ends, and tells whoever waits of each change. */
import { randomUUID } from 'node:crypto'
import type { Upstream } from '../ilink/api.ts'
import { type Credentials, type LoginFlow, newLogin, stepLogin } from '../ilink/login.ts'
import type { LoginNotice, LoginState, LoginStatus } from '../model/session.ts'
import { backoffMs } from '../platform/clock.ts'
import type { Runtime } from '../platform/runtime.ts'
import { linked } from '../platform/signals.ts'

export interface DriverPorts {
  upstream: Pick<Upstream, 'api' | 'loginUrl' | 'sandboxed'>
  /** Bot tokens we hold, newest first: upstream then tells when the scanned bot is one of them. */
  known: readonly string[]
  /** Stores what a confirmed login brought. @returns false when nobody wants it any more */
  save(credentials: Credentials): Promise<boolean>
}

/** A QR code that upstream forgets to expire is given up after this (official client: 5 minutes). */
const qrLifeMs = 5 * 60_000
/** Upstream holds a status poll up to 30 s; a server that answers at once is asked this often. */
const pollEveryMs = 2000
const renewTries = 5
/** Credentials that cannot be stored at once: the old bot is dead already, so they are worth some patience. */
const saveTries = 12

export class LoginDriver {
  /** Of this flow: another one of the same session has another. */
  readonly id = randomUUID()
  /** The session that is logged in. */
  readonly name: string
  readonly #ports: DriverPorts
  readonly #runtime: Runtime
  readonly #stop = new AbortController()
  #status: LoginState = 'waiting'
  #qrUrl: string | undefined
  #botId: string | undefined
  #note: string | undefined
  #notice: LoginNotice | undefined
  #revision = 0
  #confirmed = false
  #code: string | undefined
  #codeGiven: AbortController | undefined
  #change = Promise.withResolvers<void>()
  #finishedAt: number | undefined

  constructor(name: string, ports: DriverPorts, runtime: Runtime) {
    this.name = name
    this.#ports = ports
    this.#runtime = runtime
  }

  /** Whether somebody called it off. */
  get stopped(): boolean {
    return this.#stop.signal.aborted
  }

  /** Whether upstream has issued credentials: then it is too late to call it off. */
  get confirmed(): boolean {
    return this.#confirmed
  }

  /** Counts the changes. */
  get revision(): number {
    return this.#revision
  }

  /** Monotonic ms since when this login is over; undefined while it is under way. */
  get finishedAt(): number | undefined {
    return this.#finishedAt
  }

  /**
   * Fetches the first QR code; polling then goes on by itself.
   *
   * @throws ILinkError when there is none to be had; an AbortError when it is called off
   */
  async start(): Promise<void> {
    const { log } = this.#runtime
    const { known, upstream } = this.#ports
    const { api, loginUrl } = upstream
    const qr = await api.getBotQrcode(loginUrl, known, this.#stop.signal)
    this.#qrUrl = qr.qrcode_img_content
    this.#run(newLogin(qr)).catch(error => {
      if (this.#stop.signal.aborted) return
      log.error('login failed', { session: this.name, error })
      this.#finish(
        'expired',
        'The login could not be finished; the log has the details. Call login to start again.',
        'failed',
      )
    })
  }

  /** The digits that the phone shows. */
  giveCode(code: string): void {
    this.#code = code
    this.#codeGiven?.abort()
  }

  /** Resolves at the next change, after `timeoutMs`, or when the signal aborts. */
  async waitForChange(timeoutMs: number, signal: AbortSignal): Promise<void> {
    if (timeoutMs <= 0 || this.#finishedAt !== undefined) return
    const over = new AbortController()
    const ended = AbortSignal.any([signal, over.signal])
    await Promise.race([this.#change.promise, this.#runtime.clock.sleep(timeoutMs, ended)])
    over.abort()
  }

  /** Calls it off; whoever waits is told so, be it for the first QR code. */
  stop(): void {
    if (this.#stop.signal.aborted) return
    this.#stop.abort()
    if (this.#finishedAt === undefined)
      this.#finish('expired', 'The login was called off. Call login to start again.', 'called_off')
  }

  async status(): Promise<LoginStatus> {
    const shown = this.#finishedAt === undefined ? this.#qrUrl : undefined
    // Asked for anew they would seem to be wrong, which nobody knows before upstream has spoken.
    const digitsSent = this.#status === 'need_verifycode' && this.#code !== undefined
    const status = digitsSent ? 'scaned' : this.#status
    const message = digitsSent ? sentAdvice : (this.#note ?? this.#advice())
    return {
      ...{ status, session: this.name },
      ...(shown !== undefined && { qr_url: shown, qr_text: await qrText(shown) }),
      ...(this.#botId !== undefined && { bot_id: this.#botId }),
      ...(this.#notice && { notice: this.#notice }),
      message,
    }
  }

  #advice(): string {
    const said = advice[this.#status]
    return this.#status === 'already_bound' && this.#ports.upstream.sandboxed
      ? `${said} ${anotherPerson}`
      : said
  }

  async #run(first: LoginFlow): Promise<void> {
    const { clock, log } = this.#runtime
    const { api, loginUrl } = this.#ports.upstream
    const { signal } = this.#stop
    let flow = first
    let shownAt = clock.monotonic()
    while (!signal.aborted) {
      // As the official client does, nothing is asked until the human has typed: a poll might count as a wrong code.
      if (flow.needsCode) await this.#waitForCode(shownAt + qrLifeMs)
      if (signal.aborted) return
      const askedAt = clock.monotonic()
      const codeSent = flow.needsCode ? this.#code : undefined
      const reply =
        askedAt - shownAt >= qrLifeMs
          ? { status: 'expired' }
          : await api.getQrcodeStatus(flow.host ?? loginUrl, flow.qrcode, codeSent, signal)
      if (signal.aborted) return
      const step = stepLogin(flow, reply, { loginHost: loginUrl, codeSent })
      flow = step.flow
      if (step.dropCode) this.#code = undefined
      if (step.next === 'done') {
        this.#confirmed = true
        log.debug('confirmed on the phone; storing the credentials', { session: this.name })
        if (!(await this.#saved(step.credentials))) return
        this.#botId = step.credentials.bot_id
        log.info('logged in', { session: this.name, bot: step.credentials.bot_id })
        return this.#finish('confirmed')
      }
      if (step.next === 'end')
        return this.#finish(step.state, step.problem, step.problem === undefined ? undefined : 'failed')
      this.#note = step.wrongCode
        ? 'The number was wrong. Call login again with the one the phone shows now.'
        : undefined
      this.#notice = step.wrongCode ? 'wrong_code' : undefined
      this.#become(step.state, step.wrongCode)
      if (step.next === 'renew') {
        flow = await this.#renewed(flow, step.state)
        shownAt = clock.monotonic()
        continue
      }
      // A code that was neither taken nor refused is asked about again, but not in a circle.
      const undecided = flow.needsCode && codeSent !== undefined && !step.dropCode
      const tookMs = clock.monotonic() - askedAt
      if ((!flow.needsCode || undecided) && tookMs < pollEveryMs)
        await clock.sleep(pollEveryMs - tookMs, signal)
    }
  }

  /** Resolves when there is a code to send, at the deadline (monotonic ms), or when the login is called off. */
  async #waitForCode(deadline: number): Promise<void> {
    const { clock } = this.#runtime
    const { signal } = this.#stop
    while (this.#code === undefined && !signal.aborted && clock.monotonic() < deadline) {
      this.#codeGiven = new AbortController()
      using woken = linked(this.#codeGiven.signal, signal)
      await clock.sleep(deadline - clock.monotonic(), woken.signal)
    }
  }

  async #saved(credentials: Credentials): Promise<boolean> {
    const { clock, log } = this.#runtime
    const { save } = this.#ports
    for (let tries = 1; ; tries++) {
      try {
        return await save(credentials)
      } catch (error) {
        if (tries >= saveTries || this.#stop.signal.aborted) throw error
        log.error('credentials not stored; trying again', { session: this.name, error, tries })
        await clock.sleep(backoffMs(tries, 250, 10_000), this.#stop.signal)
      }
    }
  }

  /** A new QR code for one that is used up. @throws ILinkError when none could be had in several tries */
  async #renewed(flow: LoginFlow, ended: LoginState): Promise<LoginFlow> {
    const { clock, log } = this.#runtime
    const { known, upstream } = this.#ports
    const { api, loginUrl } = upstream
    for (let tries = 1; ; tries++) {
      try {
        const qr = await api.getBotQrcode(loginUrl, known, this.#stop.signal)
        this.#qrUrl = qr.qrcode_img_content
        this.#note = 'The QR code was renewed. Scan this one with WeChat on the phone, then call login again.'
        this.#notice = ended === 'verify_code_blocked' ? 'renewed_after_wrong_codes' : 'renewed'
        this.#become('waiting', true)
        return newLogin(qr, flow.renewals)
      } catch (error) {
        if (tries >= renewTries || this.#stop.signal.aborted) throw error
        log.warn('no new QR code', { session: this.name, error, tries })
        await clock.sleep(backoffMs(tries), this.#stop.signal)
      }
    }
  }

  #become(status: LoginState, always = false): void {
    if (this.#status === status && !always) return
    this.#status = status
    this.#announce()
  }

  #finish(status: LoginState, note?: string, notice?: LoginNotice): void {
    if (this.#finishedAt !== undefined) return
    this.#status = status
    this.#note = note
    this.#notice = notice
    this.#finishedAt = this.#runtime.clock.monotonic()
    this.#announce()
  }

  #announce(): void {
    this.#revision += 1
    const { resolve } = this.#change
    this.#change = Promise.withResolvers()
    resolve()
  }
}

const advice: Record<LoginState, string> = {
  waiting: 'Scan the QR code with WeChat on the phone, then call login again with the same session_name.',
  scaned: 'Scanned. Confirm on the phone, then call login again with the same session_name.',
  need_verifycode: 'The phone shows a number. Call login again with it as verify_code.',
  verify_code_blocked: 'Too many wrong numbers. Call login to start again with a new QR code.',
  expired: 'The QR code expired. Call login to start again with a new one.',
  already_bound: 'The scanned account is connected here already, under another session; nothing was changed.',
  confirmed: 'Connected. Let the user write to the bot first, then call recv to read it.',
}

const sentAdvice =
  'The number was sent. Call login again with the same session_name, to hear whether it was right.'

const anotherPerson =
  'In the sandbox: press Add under People on the phone, call login again, and scan as that person.'

/** Loaded on use: drawing codes is rare, starting is not. */
async function qrText(content: string): Promise<string> {
  const { toString: draw } = await import('qrcode')
  return draw(content, { type: 'utf8', errorCorrectionLevel: 'L' })
}
