/**
 * A simulated WeChat on a socket of 127.0.0.1 with its folder, for one test. All calls use HTTP, as real
 * ones do.
 */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Clock, systemClock } from '../../src/platform/clock.ts'
import { type Log, silentLog } from '../../src/platform/log.ts'
import type { RequestInterceptor } from '../../src/sandbox/core.ts'
import type { QueuedMessage } from '../../src/sandbox/inbox.ts'
import type { MessageView } from '../../src/sandbox/phone-view.ts'
import { startSandbox } from '../../src/sandbox/sandbox.ts'
import type { Switches } from '../../src/sandbox/switches.ts'
import type { World } from '../../src/sandbox/world.ts'
import { type FailOptions, type FaultEndpoint, type FaultKind, Faults } from './faults.ts'
import { HeldPolls } from './held-polls.ts'
import { stopwatch } from './stopwatch.ts'
import { until } from './until.ts'

export interface TestSandbox extends AsyncDisposable {
  /** Base URL of the API; `cdnUrl` of the CDN. */
  readonly url: string
  readonly cdnUrl: string
  readonly dir: string
  /** The simulated WeChat itself, for what HTTP does not give. */
  readonly world: World
  /** Largest number of polls held at the same time, by bot. */
  readonly pollsAtOnce: Readonly<Record<string, number>>
  /**
   * Makes any call of the phone. Returns the parsed answer.
   *
   * @throws Error with code and detail for an error answer
   */
  phone<T = Record<string, unknown>>(
    method: 'GET' | 'POST' | 'DELETE',
    path: string,
    args?: object,
  ): Promise<T>
  say(text: string, options?: SayOptions): Promise<QueuedMessage>
  media(
    kind: 'image' | 'voice' | 'file' | 'video',
    body: BodyInit,
    options?: { name?: string; from?: string; to?: string; transcript?: string },
  ): Promise<QueuedMessage & { media_id: string; size: number; md5: string }>
  /** Sends exactly this message; a string is sent unchanged. */
  raw(message: object | string, to?: string): Promise<QueuedMessage>
  bulk(count: number, text?: string, to?: string): Promise<void>
  scan(options?: {
    qrcode?: string
    user?: string
    confirm?: boolean
    verify_code?: string
  }): Promise<SeenLogin>
  /**
   * Waits for a QR code, scans and confirms it.
   *
   * @returns when WeChat's side of the login is complete
   */
  scanAndConfirm(options?: { qrcode?: string; user?: string; withinMs?: number }): Promise<SeenLogin>
  /** Creates a bot without a login. Returns the credentials that a login would give. */
  bot(user?: string): { bot_id: string; token: string; user_id: string; base_url: string }
  addUser(name?: string): Promise<string>
  fail(endpoint: FaultEndpoint, kind: FaultKind, options?: FailOptions): Promise<void>
  mend(): Promise<void>
  switches(changes: Partial<Switches>): Promise<Switches>
  advance(ms: number): Promise<void>
  /** Returns the messages that users see; with `from: 'bot'` only the bot's. */
  messages(options?: { user?: string; from?: 'bot' | 'user'; limit?: number }): Promise<MessageView[]>
  /** Waits until `enough` returns true for the bot's messages. */
  seen(enough: (messages: MessageView[]) => boolean, withinMs?: number): Promise<MessageView[]>
  /** Returns the decrypted bytes, as the user sees them. */
  mediaBytes(mediaId: string): Promise<Uint8Array<ArrayBuffer>>
  /** Stops the sandbox, and starts it again on the same folder and port. */
  restart(): Promise<void>
}

interface SayOptions {
  from?: string
  to?: string
  quote?: string
  how?: 'id' | 'partial' | 'full' | 'type0' | 'type8'
  part?: string
  message_id?: string
}
interface SeenLogin {
  qrcode: string
  url: string
  status: string
  user_id?: string
  bot_id?: string
  verify_code?: string
}

export interface TestSandboxOptions {
  /** Existing folder; default: a temporary one, removed at the end. */
  dir?: string
  clock?: Clock
  log?: Log
  switches?: Partial<Switches>
  /** Wraps the interceptor of its requests. */
  around?: (between: RequestInterceptor) => RequestInterceptor
}

/** Starts a sandbox. The burst rule is off by default, since most tests are not about pace. */
export async function withSandbox(options: TestSandboxOptions = {}): Promise<TestSandbox> {
  const dir = options.dir ?? (await mkdtemp(join(tmpdir(), 'svc-sandbox-')))
  const clock = options.clock ?? systemClock
  const faults = new Faults(clock)
  const held = new HeldPolls(clock)
  const { around = (between: RequestInterceptor) => between } = options
  const start = (port: number) =>
    startSandbox({
      dir,
      host: '127.0.0.1',
      port,
      clock,
      log: options.log ?? silentLog,
      intercept: around(held.around(faults.between)),
    })
  let running = await start(0)
  running.world.core.setSwitches({ burst: 'off', ...options.switches })

  const request = async (path: string, init: RequestInit) => {
    const response = await fetch(`${running.url}${path}`, init)
    const body = (await response.json()) as { code?: string; detail?: string }
    if (!response.ok) throw new Error(`${init.method} ${path}: ${body.code}: ${body.detail}`)
    return body
  }
  const phone: TestSandbox['phone'] = async (method, path, args = {}) => {
    const query = method === 'GET' || method === 'DELETE' ? `?${queryOf(args)}` : ''
    const init = query ? { method } : { method, body: JSON.stringify(args) }
    return (await request(`/phone/${path}${query}`, init)) as never
  }
  const messages: TestSandbox['messages'] = async (which = {}) =>
    (await phone<{ messages: MessageView[] }>('GET', 'messages', which)).messages

  return {
    get url() {
      return running.url
    },
    get cdnUrl() {
      return `${running.url}/c2c`
    },
    get world() {
      return running.world
    },
    dir,
    pollsAtOnce: held.atOnce,
    phone,
    messages,
    say: (text, more = {}) => phone('POST', 'say', { text, ...more }),
    media: async (kind, body, more = {}) =>
      (await request(`/phone/media?${queryOf({ kind, ...more })}`, { method: 'POST', body })) as never,
    raw: (message, to) =>
      phone('POST', 'raw', {
        to,
        ...(typeof message === 'string' ? { message_json: message } : { message }),
      }),
    bulk: async (count, text, to) => void (await phone('POST', 'bulk', { count, text, to })),
    scan: more => phone('POST', 'scan', more),
    async scanAndConfirm({ withinMs = 30_000, ...more } = {}) {
      await until('a QR code waits', withinMs, () =>
        running.world.logins.list().find(login => login.status === 'wait'),
      )
      return phone('POST', 'scan', { ...more, confirm: true })
    },
    bot(user) {
      const { people } = running.world
      const owner = user ? people.ensureUser(user) : people.ensureFirstUser()
      const bot = people.bind(owner.id)
      return { bot_id: bot.id, token: bot.token, user_id: owner.id, base_url: running.url }
    },
    addUser: async name => (await phone<{ id: string }>('POST', 'users', { name })).id,
    fail: async (endpoint, kind, more) => faults.add(endpoint, kind, more),
    mend: async () => faults.clear(),
    switches: changes => phone('POST', 'switches', changes),
    advance: async ms => void (await phone('POST', 'clock', { advance_ms: ms })),
    async seen(enough, withinMs = 30_000) {
      using watch = stopwatch()
      for (;;) {
        // Registered before reading, so that no change is missed.
        const changed = Promise.withResolvers<void>()
        const off = running.world.core.onChange(changed.resolve)
        const timer = setTimeout(changed.resolve, 250)
        try {
          const found = await messages({ from: 'bot', limit: 1000 })
          if (enough(found)) return found
          if (watch.ms > withinMs)
            throw new Error(`not displayed within ${withinMs} ms: ${JSON.stringify(found)}`)
          await changed.promise
        } finally {
          off()
          clearTimeout(timer)
        }
      }
    },
    async mediaBytes(mediaId) {
      const response = await fetch(`${running.url}/phone/media/${mediaId}`)
      if (!response.ok) throw new Error(`media ${mediaId}: ${response.status}`)
      return new Uint8Array(await response.arrayBuffer())
    },
    async restart() {
      // Clients of the sandbox have its address, so the port must stay.
      const port = Number(new URL(running.url).port)
      await running.stop()
      faults.clear()
      running = await start(port)
    },
    async [Symbol.asyncDispose]() {
      await running.stop()
      if (!options.dir) await rm(dir, { recursive: true, force: true })
    },
  }
}

const queryOf = (args: object) =>
  new URLSearchParams(
    Object.entries(args).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]])),
  ).toString()
