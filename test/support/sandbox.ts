/** A simulated WeChat on a socket of 127.0.0.1, with its folder, for one test. Everything goes over HTTP, as in life. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Clock, systemClock } from '../../src/platform/clock.ts'
import { type Log, silentLog } from '../../src/platform/log.ts'
import type { Said } from '../../src/sandbox/inbox.ts'
import type { SeenMessage } from '../../src/sandbox/phone-view.ts'
import { startSandbox } from '../../src/sandbox/sandbox.ts'
import type { Switches } from '../../src/sandbox/switches.ts'
import type { World } from '../../src/sandbox/world.ts'
import { type FailOptions, type FaultEndpoint, type FaultKind, Faults } from './faults.ts'
import { HeldPolls } from './held-polls.ts'
import { stopwatch } from './stopwatch.ts'
import { until } from './until.ts'

export interface TestSandbox extends AsyncDisposable {
  /** Upstream address; `cdnUrl` the CDN's. */
  readonly url: string
  readonly cdnUrl: string
  readonly dir: string
  /** For what HTTP does not say. */
  readonly world: World
  /** The most polls that were held at once, by bot. */
  readonly pollsAtOnce: Readonly<Record<string, number>>
  /** Any phone call; the parsed answer. @throws Error with code and detail when refused */
  phone<T = Record<string, unknown>>(
    method: 'GET' | 'POST' | 'DELETE',
    path: string,
    args?: object,
  ): Promise<T>
  say(text: string, options?: SayOptions): Promise<Said>
  media(
    kind: 'image' | 'voice' | 'file' | 'video',
    body: BodyInit,
    options?: { name?: string; from?: string; to?: string; transcript?: string },
  ): Promise<Said & { media_id: string; size: number; md5: string }>
  /** Exactly this message; as text it goes out letter by letter. */
  raw(message: object | string, to?: string): Promise<Said>
  bulk(count: number, text?: string, to?: string): Promise<void>
  scan(options?: {
    qrcode?: string
    user?: string
    confirm?: boolean
    verify_code?: string
  }): Promise<SeenLogin>
  /** Waits for a QR code, scans it and agrees. @returns once the upstream's side of the login is done */
  scanAndConfirm(options?: { qrcode?: string; user?: string; withinMs?: number }): Promise<SeenLogin>
  /** A bot without a client's login: its credentials, as the login would have brought them. */
  bot(user?: string): { bot_id: string; token: string; user_id: string; base_url: string }
  addUser(name?: string): Promise<string>
  fail(endpoint: FaultEndpoint, kind: FaultKind, options?: FailOptions): Promise<void>
  mend(): Promise<void>
  switches(changes: Partial<Switches>): Promise<Switches>
  advance(ms: number): Promise<void>
  /** What users see; `from: 'bot'` only what the bot sent. */
  messages(options?: { user?: string; from?: 'bot' | 'user'; limit?: number }): Promise<SeenMessage[]>
  /** Waits until the bot's messages satisfy `enough`. */
  seen(enough: (messages: SeenMessage[]) => boolean, withinMs?: number): Promise<SeenMessage[]>
  /** Decrypted, as the user sees it. */
  mediaBytes(mediaId: string): Promise<Uint8Array<ArrayBuffer>>
  /** Ends the process's part without goodbye to the world file's folder, and starts it again on the same folder. */
  restart(): Promise<void>
}

export interface SayOptions {
  from?: string
  to?: string
  quote?: string
  how?: 'id' | 'partial' | 'full' | 'type0' | 'type8'
  part?: string
  message_id?: string
}
export interface SeenLogin {
  qrcode: string
  url: string
  status: string
  user_id?: string
  bot_id?: string
  verify_code?: string
}

export interface TestSandboxOptions {
  /** An existing folder; a temporary one, removed at the end, otherwise. */
  dir?: string
  clock?: Clock
  log?: Log
  switches?: Partial<Switches>
}

/** Pace is not what most tests are about, so the burst rule is off unless asked for. */
export async function withSandbox(options: TestSandboxOptions = {}): Promise<TestSandbox> {
  const dir = options.dir ?? (await mkdtemp(join(tmpdir(), 'svc-sandbox-')))
  const clock = options.clock ?? systemClock
  const faults = new Faults(clock)
  const held = new HeldPolls(clock)
  const start = (port: number) =>
    startSandbox({
      ...{ dir, host: '127.0.0.1', port },
      ...{ clock, log: options.log ?? silentLog, between: held.around(faults.between) },
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
    (await phone<{ messages: SeenMessage[] }>('GET', 'messages', which)).messages

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
      const owner = user ? people.ensureUser(user) : people.firstUser()
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
        // Registered before looking, so that nothing falls between.
        const changed = Promise.withResolvers<void>()
        const off = running.world.core.onChange(changed.resolve)
        const timer = setTimeout(changed.resolve, 250)
        try {
          const found = await messages({ from: 'bot', limit: 1000 })
          if (enough(found)) return found
          if (watch.ms > withinMs) throw new Error(`not seen within ${withinMs} ms: ${JSON.stringify(found)}`)
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
      // Its clients have the address.
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
