/** QR logins: a client creates them, the phone scans and confirms them (protocol notes 2.1 and 2.2). */
import { SvcError } from '../model/error.ts'
import { RoomPart } from '../platform/runtime.ts'
import type { Core } from './core.ts'
import type { Bot, UsersAndBots } from './people.ts'
import { type Fields, newQrcode, newVerifyCode, qrcodeUrl } from './wire.ts'

/** A QR code and the state of its login. Times in Unix milliseconds. */
export interface SandboxLogin {
  qrcode: string
  url: string
  /** JSON array of the bot tokens that the client has already. */
  local_tokens: string
  created_at: number
  expires_at: number
  /**
   * One of wait, scaned (WeChat's spelling), need_verifycode, verify_code_blocked, expired,
   * binded_redirect, confirmed.
   */
  status: string
  /** The status that the client received last. A poll waits while `status` equals it. */
  told: string
  user_id?: string
  bot_id?: string
  verify_code?: string
  wrong_codes: number
  auto_confirm: number
  redirected: number
}

const openStatuses = new Set(['wait', 'scaned', 'need_verifycode'])
/** Descriptions of the states, each the rest of a sentence that begins with "QR code". */
const statusTexts: Readonly<Record<string, string>> = {
  wait: 'waits to be scanned',
  scaned: 'was scanned and waits to be confirmed',
  need_verifycode: 'waits for its digits to be typed',
  verify_code_blocked: 'is blocked after too many wrong digits',
  expired: 'has expired',
  binded_redirect: 'led to a bot that was logged in already',
  confirmed: 'was confirmed already',
}

const wrongCodesAllowed = 3
/** Number of logins that the phone lists. */
const listedCount = 30

/** The QR logins: methods for the client's calls and for the phone's actions. */
export class SandboxLogins extends RoomPart<{ core: Core; people: UsersAndBots }> {
  create(localTokens: string[]): SandboxLogin {
    const now = this.ports.core.now()
    const qrcode = newQrcode()
    this.ports.core.db.run`INSERT INTO login (qrcode, url, local_tokens, created_at, expires_at)
      VALUES (${qrcode}, ${qrcodeUrl(qrcode)}, ${JSON.stringify(localTokens)}, ${now},
      ${now + this.ports.core.switches.qr_ttl_ms})`
    this.ports.core.notifyChange()
    return this.#getKnown(qrcode)
  }

  get(qrcode: string): SandboxLogin | undefined {
    const login = this.ports.core.db.get<SandboxLogin>`SELECT * FROM login WHERE qrcode = ${qrcode}`
    if (!login || !openStatuses.has(login.status) || this.ports.core.now() < login.expires_at) return login
    this.#set(login, { status: 'expired' })
    return { ...login, status: 'expired' }
  }

  #getKnown(qrcode: string): SandboxLogin {
    const login = this.get(qrcode)
    if (!login) throw new SvcError('not_found', 'no such QR code')
    return login
  }

  /** Returns the recent logins, newest first. */
  list(): SandboxLogin[] {
    const rows = this.ports.core.db.all`SELECT qrcode FROM login
      ORDER BY created_at DESC, rowid DESC LIMIT ${listedCount}`
    return rows.flatMap(row => this.get(String(row.qrcode)) ?? [])
  }

  /**
   * Waits for what get_qrcode_status answers: immediately if the status is news, else at the end of the
   * hold.
   *
   * @returns undefined if the client disconnected
   */
  async status(
    qrcode: string,
    code: string | undefined,
    base: { host: string; origin: string },
    signal: AbortSignal,
  ): Promise<Fields | undefined> {
    const { clock, waiters, switches, closing } = this.ports.core
    const deadline = clock.monotonic() + switches.hold_ms
    let tried = false
    // Each round is one wake-up. A thousand rounds in one hold mean that a client or a test is out of
    // control.
    for (let round = 0; round < 1000; round++) {
      const login = this.get(qrcode)
      if (!login) return { ret: 0, status: 'expired' }
      if (login.status === 'need_verifycode' && code !== undefined && !tried) {
        tried = true
        this.#checkCode(login, code)
        if (this.get(qrcode)?.status === 'need_verifycode') return { ret: 0, status: 'need_verifycode' }
        continue
      }
      const redirect = switches.redirect_host
      if (redirect && login.status !== 'wait' && login.redirected === 0 && redirect !== base.host) {
        this.#set(login, { redirected: 1 })
        return { ret: 0, status: 'scaned_but_redirect', redirect_host: redirect }
      }
      const left = Math.min(
        deadline - clock.monotonic(),
        openStatuses.has(login.status) ? login.expires_at - this.ports.core.now() : 0,
      )
      if (login.status !== login.told || left <= 0 || closing.aborted) {
        if (login.status !== login.told) this.#set(login, { told: login.status })
        return this.#answerOf(login, base.origin)
      }
      if ((await waiters.wait(`login ${qrcode}`, left, clock, signal)) === 'gone') return undefined
    }
    return { ret: 0, status: 'wait' }
  }

  #answerOf(login: SandboxLogin, origin: string): Fields {
    const bot =
      login.status === 'confirmed' && login.bot_id ? this.ports.people.findBot(login.bot_id) : undefined
    if (!bot) return { ret: 0, status: login.status }
    return {
      ret: 0,
      status: 'confirmed',
      bot_token: bot.token,
      ilink_bot_id: bot.id,
      // The URL has no trailing slash: a client that concatenates would ask for `//ilink`.
      baseurl: origin,
      ilink_user_id: bot.user_id,
    }
  }

  #checkCode(login: SandboxLogin, code: string): void {
    if (code === login.verify_code) {
      this.#set(login, { status: 'scaned' })
      if (login.auto_confirm) this.confirm(login.qrcode)
      return
    }
    const wrong = login.wrong_codes + 1
    this.#set(login, {
      wrong_codes: wrong,
      ...(wrong >= wrongCodesAllowed && { status: 'verify_code_blocked' }),
    })
  }

  /** Scans the code. With `confirm` the user also agrees, after the digits if this login asks for them. */
  scan(options: { qrcode?: string; user?: string; confirm?: boolean; verify_code?: string }): SandboxLogin {
    const login = this.#findOpen(options.qrcode, ['wait'])
    const user = this.ports.people.getUser(options.user, 'user')
    const code =
      options.verify_code ??
      login.verify_code ??
      (this.ports.core.switches.verify_code === 'on' ? newVerifyCode() : undefined)
    this.#set(login, {
      user_id: user.id,
      verify_code: code,
      auto_confirm: options.confirm ? 1 : 0,
      status: code === undefined ? 'scaned' : 'need_verifycode',
    })
    if (options.confirm && code === undefined) this.confirm(login.qrcode)
    return this.#getKnown(login.qrcode)
  }

  /** Makes this login ask for digits. The phone displays them. */
  verify(options: { qrcode?: string; code?: string }): SandboxLogin {
    const login = this.#findOpen(options.qrcode, ['wait', 'scaned', 'need_verifycode'])
    this.#set(login, {
      verify_code: options.code ?? newVerifyCode(),
      wrong_codes: 0,
      ...(login.status === 'scaned' && { status: 'need_verifycode' }),
    })
    return this.#getKnown(login.qrcode)
  }

  /**
   * Confirms the login for the user who scanned it. This makes a new bot. But if the client already has the
   * token of the user's current bot, that bot is kept, and the status is `binded_redirect`.
   *
   * @param qrcode default: the first login that was scanned and waits to be confirmed
   */
  confirm(qrcode?: string): SandboxLogin {
    const login = this.#findOpen(qrcode, ['scaned'])
    const userId = login.user_id!
    const live = this.ports.people.liveBotOf(userId)
    const tokens: string[] = JSON.parse(login.local_tokens)
    const held = tokens.includes(live?.token ?? '')
    this.ports.core.db.transaction(() => {
      const bot: Bot = held && live ? live : this.ports.people.bind(userId)
      this.#set(login, { status: held ? 'binded_redirect' : 'confirmed', bot_id: bot.id })
    })
    return this.#getKnown(login.qrcode)
  }

  expire(qrcode?: string): SandboxLogin {
    const login = this.#findOpen(qrcode, ['wait', 'scaned', 'need_verifycode'])
    this.#set(login, { status: 'expired' })
    return this.#getKnown(login.qrcode)
  }

  #set(login: SandboxLogin, fields: Partial<SandboxLogin>): void {
    const names = Object.keys(fields)
    this.ports.core.db.run(
      `UPDATE login SET ${names.map(name => `${name} = ?`).join(', ')} WHERE qrcode = ?`,
      ...Object.values(fields),
      login.qrcode,
    )
    if (fields.told === undefined) this.ports.core.waiters.notify(`login ${login.qrcode}`)
    this.ports.core.notifyChange()
  }

  /** Finds the login by its key or by the link in its QR code. Default: the newest in one of these states. */
  #findOpen(named: string | undefined, states: string[]): SandboxLogin {
    const key = named && (/[?&]qrcode=([^&]+)/.exec(named)?.[1] ?? named)
    const login = key ? this.get(key) : this.list().find(login => states.includes(login.status))
    if (!login) {
      const problem = states.length === 1 ? statusTexts[states[0]!] : 'is open'
      throw new SvcError('not_found', key ? 'no such QR code' : `no QR code ${problem}`, {
        hint: 'Start a login first (svc login, or the login tool); GET /phone/state lists the QR codes.',
      })
    }
    if (!states.includes(login.status)) {
      throw new SvcError('invalid_arguments', `this QR code ${statusTexts[login.status]}`, {
        hint: 'Start a new login; GET /phone/state lists the QR codes.',
      })
    }
    return login
  }
}
