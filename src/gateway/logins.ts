/**
 * QR logins: one driver per session name, each polling upstream by itself. Every surface (tool, panel, command
 * line) only starts a flow and reads its state, so flows of different names run side by side and can never
 * complete each other's.
 */

import type { Api } from '../ilink/api.ts'
import { type LoginFlow, newLogin, stepLogin } from '../ilink/login.ts'
import { SvcError } from '../model/error.ts'
import {
  type BotInfo,
  defaultSessionName,
  type LoginState,
  type LoginStatus,
  sessionKey,
  sessionName,
} from '../model/session.ts'
import { backoffMs, type Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { SessionRecord } from '../state/sessions.ts'
import type { LoginRequest } from './face.ts'

/** The last state of a flow stays readable this long. */
const keptMs = 10 * 60_000
/** A QR code that upstream forgets to expire is given up after this (official client: 5 minutes). */
const qrLifeMs = 5 * 60_000
/** Upstream holds a status poll up to 30 s; a server that answers at once is asked this often. */
const pollEveryMs = 2000

export interface LoginPorts {
  api: Api
  clock: Clock
  log: Log
  /** The fixed host that every login goes to. */
  loginUrl: string
  record(name: string): Promise<SessionRecord | undefined>
  /** Bot tokens of the other sessions, newest first: upstream then tells when the scanned bot is one of them. */
  tokens(except: string | undefined): Promise<string[]>
  save(name: string, bot: BotInfo): Promise<void>
}

interface Flow {
  readonly name: string
  readonly stop: AbortController
  status: LoginState
  qrUrl: string | undefined
  botId: string | undefined
  verifyCode: string | undefined
  /** Wakes the driver when a verify code comes in. */
  codeGiven: AbortController
  finishedAt: number | undefined
  /** A finished state that a caller has read: the next call starts anew. */
  read: boolean
  problem: string | undefined
  changed: Promise<void>
  announce: () => void
}

export class Logins {
  readonly #ports: LoginPorts
  readonly #flows = new Map<string, Flow>()
  #closed = false

  constructor(ports: LoginPorts) {
    this.#ports = ports
  }

  /** Names with a flow under way. */
  pending(): ReadonlySet<string> {
    return new Set(
      [...this.#flows.values()].filter(flow => flow.finishedAt === undefined).map(flow => flow.name),
    )
  }

  /**
   * Starts a login and returns its QR code at once, or waits for a change of one under way.
   *
   * @throws SvcError `invalid_arguments` for a bad name, or no name while several flows are pending;
   *   `upstream_error`, `upstream_timeout` when no QR code could be had
   */
  async login(request: LoginRequest, signal: AbortSignal): Promise<LoginStatus> {
    if (this.#closed) throw new SvcError('shutting_down', 'the service is stopping')
    this.#forgetOld()
    const name = this.#nameOf(request.session_name)
    const flow = this.#flows.get(sessionKey(name))
    if (flow && flow.finishedAt === undefined) {
      if (request.verify_code !== undefined) {
        flow.verifyCode = request.verify_code
        flow.codeGiven.abort()
      }
      await this.#change(flow, request.timeout * 1000, signal)
      return this.#told(flow)
    }
    if (flow && !flow.read && !request.force) return this.#told(flow)

    const record = await this.#ports.record(name)
    if (record?.bot && record.bot.expired_at === undefined && !request.force) {
      return {
        status: 'confirmed',
        session: record.name,
        bot_id: record.bot.bot_id,
        message: 'This session is connected. Pass force to log it in again with a new QR code.',
      }
    }
    return this.#told(await this.#start(record?.name ?? name, request.force))
  }

  /** The state of a flow, without starting or waiting for anything. */
  async status(name: string): Promise<LoginStatus | undefined> {
    const flow = this.#flows.get(sessionKey(name))
    return flow && describe(flow)
  }

  /** Ends the flow of a session that is logged out or renamed meanwhile. */
  cancel(name: string): void {
    const flow = this.#flows.get(sessionKey(name))
    flow?.stop.abort()
    this.#flows.delete(sessionKey(name))
  }

  close(): void {
    this.#closed = true
    for (const flow of this.#flows.values()) {
      flow.stop.abort()
      flow.announce()
    }
  }

  #nameOf(given: string): string {
    if (given !== '') return sessionName(given)
    const pending = [...this.pending()]
    if (pending.length > 1) {
      throw new SvcError(
        'invalid_arguments',
        'session_name: several logins are pending, expected the name of one',
        {
          hint: `Pass session_name, one of: ${pending.join(', ')}.`,
        },
      )
    }
    return pending[0] ?? defaultSessionName
  }

  async #told(flow: Flow): Promise<LoginStatus> {
    if (flow.finishedAt !== undefined) flow.read = true
    return describe(flow)
  }

  async #start(name: string, force: boolean): Promise<Flow> {
    const { api, loginUrl, tokens } = this.#ports
    const key = sessionKey(name)
    const flow: Flow = {
      name,
      stop: new AbortController(),
      status: 'waiting',
      qrUrl: undefined,
      botId: undefined,
      verifyCode: undefined,
      codeGiven: new AbortController(),
      finishedAt: undefined,
      read: false,
      problem: undefined,
      ...announcement(),
    }
    // Entered before the first wait: a second call for the same name joins this flow.
    this.#flows.set(key, flow)
    try {
      const known = await tokens(force ? name : undefined)
      const qr = await api.getBotQrcode(loginUrl, known, flow.stop.signal)
      flow.qrUrl = qr.qrcode_img_content
      this.#drive(flow, newLogin(qr), known).catch(error => {
        this.#ports.log.error('login driver failed', { session: name, error })
        this.#finish(
          flow,
          'expired',
          'The login could not be finished; the log has the details. Call login to start again.',
        )
      })
      return flow
    } catch (error) {
      this.#flows.delete(key)
      flow.announce()
      throw error
    }
  }

  async #drive(flow: Flow, first: LoginFlow, known: string[]): Promise<void> {
    const { api, clock, log, loginUrl, save } = this.#ports
    let state = first
    let shownAt = clock.monotonic()
    let failures = 0
    while (!flow.stop.signal.aborted) {
      const askedAt = clock.monotonic()
      const code = flow.verifyCode
      const wake = AbortSignal.any([flow.stop.signal, flow.codeGiven.signal])
      const reply =
        askedAt - shownAt > qrLifeMs
          ? { status: 'expired' }
          : await api.getQrcodeStatus(state.host ?? loginUrl, state.qrcode, code, wake)
      if (flow.stop.signal.aborted) return
      const codeArrived = flow.codeGiven.signal.aborted
      if (codeArrived) flow.codeGiven = new AbortController()
      // A poll cut short by an arriving code says nothing about the scan.
      if (codeArrived && reply.status === 'wait') continue

      const step = stepLogin(state, reply, {
        loginHost: loginUrl,
        ...(code !== undefined && { codeSent: code }),
      })
      state = step.flow
      if (step.dropCode) flow.verifyCode = undefined
      switch (step.next) {
        case 'poll':
          this.#become(flow, step.state)
          break
        case 'renew': {
          this.#become(flow, step.state)
          try {
            const qr = await api.getBotQrcode(loginUrl, known, flow.stop.signal)
            state = newLogin(qr, state.renewals)
            flow.qrUrl = qr.qrcode_img_content
            shownAt = clock.monotonic()
            this.#become(flow, 'waiting', true)
          } catch (error) {
            log.warn('no new QR code', { session: flow.name, error })
            if (++failures > 5)
              return this.#finish(flow, 'expired', 'No new QR code could be had. Call login to start again.')
            await clock.sleep(backoffMs(failures), flow.stop.signal)
            continue
          }
          break
        }
        case 'done': {
          const { bot_id, token, base_url, user_id } = step.credentials
          await save(flow.name, {
            bot_id,
            token,
            base_url,
            ...(user_id && { user_id }),
            cursor: '',
            created_at: clock.now(),
          })
          flow.botId = bot_id
          log.info('logged in', { session: flow.name, bot: bot_id })
          return this.#finish(flow, 'confirmed')
        }
        case 'end':
          return this.#finish(flow, step.state, step.problem)
      }
      // Upstream holds the poll; only a server that answers at once needs a pause. A code is sent without one.
      const tookMs = clock.monotonic() - askedAt
      if (tookMs < pollEveryMs && !(flow.verifyCode && state.needsCode)) {
        await clock.sleep(pollEveryMs - tookMs, AbortSignal.any([flow.stop.signal, flow.codeGiven.signal]))
      } else if (state.needsCode) {
        await clock.sleep(pollEveryMs / 4, AbortSignal.any([flow.stop.signal, flow.codeGiven.signal]))
      }
      if (flow.codeGiven.signal.aborted) flow.codeGiven = new AbortController()
    }
  }

  #become(flow: Flow, status: LoginState, always = false): void {
    if (flow.status === status && !always) return
    flow.status = status
    this.#tell(flow)
  }

  #finish(flow: Flow, status: LoginState, problem?: string): void {
    flow.status = status
    flow.problem = problem
    flow.finishedAt = this.#ports.clock.monotonic()
    this.#tell(flow)
  }

  #tell(flow: Flow): void {
    const { announce } = flow
    Object.assign(flow, announcement())
    announce()
  }

  async #change(flow: Flow, timeoutMs: number, signal: AbortSignal): Promise<void> {
    if (timeoutMs <= 0) return
    const over = new AbortController()
    await Promise.race([
      flow.changed,
      this.#ports.clock.sleep(timeoutMs, AbortSignal.any([signal, over.signal])),
    ])
    over.abort()
  }

  #forgetOld(): void {
    const now = this.#ports.clock.monotonic()
    for (const [key, flow] of this.#flows) {
      if (flow.finishedAt !== undefined && now - flow.finishedAt > keptMs) this.#flows.delete(key)
    }
  }
}

function announcement(): { changed: Promise<void>; announce: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { changed: promise, announce: resolve }
}

const advice: Record<LoginState, string> = {
  waiting: 'Scan the QR code with WeChat on the phone, then call login again with the same session_name.',
  scaned: 'Scanned. Confirm on the phone, then call login again with the same session_name.',
  need_verifycode: 'The phone shows a number. Call login again with it as verify_code.',
  verify_code_blocked: 'Too many wrong codes. Call login to start again with a new QR code.',
  expired: 'The QR code expired. Call login to start again with a new one.',
  already_bound: 'The scanned account is already connected here under another session; nothing was changed.',
  confirmed: 'Connected. Now the user writes to the bot first; call recv to read it.',
}

async function describe(flow: Flow): Promise<LoginStatus> {
  const shown = flow.finishedAt === undefined && flow.qrUrl !== undefined
  return {
    status: flow.status,
    session: flow.name,
    ...(shown && { qr_url: flow.qrUrl, qr_text: await qrText(flow.qrUrl!) }),
    ...(flow.botId !== undefined && { bot_id: flow.botId }),
    message: flow.problem ?? advice[flow.status],
  }
}

/** Loaded on use: drawing codes is rare, starting is not. */
async function qrText(content: string): Promise<string> {
  const { toString: draw } = await import('qrcode')
  return draw(content, { type: 'utf8', errorCorrectionLevel: 'L' })
}
