/** The service under attack: a real process with planted secrets, its WeChat, a caller beside it and a reader. */
import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Json, startService } from '../support/service.ts'
import { until } from '../support/until.ts'
import { cell, type ProbeOptions } from './probe.ts'
import { leakIn, secrets } from './secrets.ts'
import {
  firstId,
  mediaItems,
  message,
  type Reply,
  startUpstream,
  textItem,
  type Upstream,
} from './upstream.ts'

export const users = ['a@im.wechat', 'b@im.wechat'] as const
/** The account whose messages are counted; nobody is told its name. */
const steady = 'steady'
/** Those that are named in calls, and those that get spoiled replies: after a bad one an account polls again seconds later. */
const others = ['default', 'work'] as const
const victims = Array.from({ length: 60 }, (_, n) => `account-${n}`)

export interface Target extends AsyncDisposable {
  readonly urls: { rest: string; panel: string }
  readonly upstream: Upstream
  /** An upload of this service, and a session of its MCP door. */
  readonly ids: { upload: string; session: string }
  /** Why it can be used no more; undefined while it can. */
  broken(): string | undefined
  /** The longest wait of the caller beside for the work of the service, ms, since the last time this was asked. */
  pauseMs(): number
  /** How often the caller beside was answered. */
  readonly asks: number
  readonly peakMb: number
  /** A numbered message comes, and is read once, by a reader of its own. @returns what is wrong */
  count(): Promise<string | undefined>
  readonly counted: number
  /** Accounts that were logged out are there again. */
  restore(): void
  /** The token of an account that polls now and may get anything. */
  victim(): string | undefined
  /** What is wrong with the lines of the log since the last time. */
  logged(): string | undefined
  /** The caller leaves after `withinMs`. */
  call(tool: string, input: unknown, withinMs?: number): Promise<{ status: number; body: Json }>
  /** Whether what is stored can be read. @returns what is wrong */
  unreadable(): Promise<string | undefined>
  /** The size of the store, MB. */
  readonly storedMb: number
  readonly log: () => string
}

/** A numbered message comes to its reader within this; most take some ms. */
const countWithinMs = 60_000

/** Control characters, and those that change the order of others; a line of a log has none. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const unprintable = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/

export interface TargetOptions {
  memoryMb: number
  command?: string[]
  /** Fills the data directory before the service starts. */
  prepare?(dir: string): Promise<void>
  /** What the caller beside calls; a path where there is nothing by default. */
  asked?: ProbeOptions['asked']
}

export async function startTarget(options: TargetOptions): Promise<Target> {
  const dir = mkdtempSync(join(tmpdir(), 'svc-fuzz-'))
  const upstream = await startUpstream()
  const tokens = new Map<string, string>()
  let accounts = 0
  const enter = (name: string) => {
    const bot_id = `${String(++accounts).padStart(12, '0')}@im.bot`
    const token = `${bot_id}:${secrets.bot}${accounts}`
    tokens.set(name, token)
    const fields = {
      bot_id,
      token,
      base_url: upstream.url,
      user_id: users[0],
      cursor: '',
      created_at: Date.now(),
    }
    mkdirSync(join(dir, name), { recursive: true, mode: 0o700 })
    writeFileSync(join(dir, name, 'token.json'), JSON.stringify(fields), { mode: 0o600 })
    return token
  }
  const restore = () => {
    for (const name of [steady, ...others, ...victims])
      if (!existsSync(join(dir, name, 'token.json'))) enter(name)
  }
  mkdirSync(join(dir, 'media'), { mode: 0o700 })
  writeFileSync(join(dir, 'media', 'a.png'), Buffer.alloc(2000, 'picture'))
  writeFileSync(join(dir, '.default_session'), 'default')
  restore()
  await options.prepare?.(dir)
  const service = await startService({
    ...{ dir, sandbox: false },
    ...(options.command && { command: options.command }),
    args: [
      ...['--upstream-url', upstream.url, '--cdn-url', `${upstream.url}/c2c`, '--pace', 'off'],
      ...['--admin-port', '0', '--token-file', tokenFile(dir)],
    ],
  })
  let exit: number | undefined
  void service.exited.then(code => {
    exit = code
  })
  const panel = await until(
    'the panel',
    10_000,
    () => /^admin on (http:\/\/[^/\s]+)/m.exec(service.stdout())?.[1],
  )
  const numbers = new Int32Array(new SharedArrayBuffer(64))
  const probe = new Worker(new URL('probe.ts', import.meta.url).href)
  const told: ProbeOptions = {
    url: service.url,
    pid: service.pid,
    memoryMb: options.memoryMb,
    cells: numbers.buffer as SharedArrayBuffer,
    ...(options.asked && { asked: options.asked }),
  }
  probe.postMessage(told)

  const post = async (
    path: string,
    body: string | Uint8Array,
    headers: Record<string, string> = {},
    withinMs = 30_000,
  ) => {
    const response = await fetch(service.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${secrets.api}`, 'content-type': 'application/json', ...headers },
      body: body as BodyInit,
      signal: AbortSignal.timeout(withinMs),
    })
    return { status: response.status, headers: response.headers, text: await response.text() }
  }
  const call = async (tool: string, input: unknown, withinMs?: number) => {
    const { status, text } = await post(`/tools/default/${tool}`, JSON.stringify(input), {}, withinMs)
    return { status, body: JSON.parse(text) as Json }
  }
  const say = (token: string, cursor: string, msgs: unknown[], withinMs?: number) => {
    const reply: Reply = { status: 200, body: JSON.stringify({ ret: 0, msgs, get_updates_buf: cursor }) }
    return upstream.answer(token, reply, withinMs)
  }
  const ids = { upload: '', session: '' }
  let counted = 0
  let next = 0
  let logAt = 0
  let lost: string | undefined
  const seen = new Set<number>()

  /** @returns what is wrong, or how many messages came */
  const read = async (): Promise<string | number> => {
    const { status, body } = await call('recv', { consumer: 'reader', timeout: 2, limit: 1000 })
    if (status !== 200) return `the reader's recv is answered with ${status} ${body.code}`
    for (const { text, redelivered } of body as Json[]) {
      const number = Number(/^number (\d+)$/.exec(text)?.[1] ?? Number.NaN)
      if (Number.isNaN(number)) continue
      if (seen.has(number) && !redelivered) return `message ${number} was delivered twice`
      seen.add(number)
    }
    return body.length
  }

  const target: Target = {
    urls: { rest: service.url, panel },
    ...{ upstream, ids, restore, call },
    log: service.log,
    broken() {
      if (numbers[cell.ended]) return `the service reached ${options.memoryMb} MB and was ended`
      if (exit !== undefined) return `the service ended with status ${exit}`
      return lost
    },
    pauseMs() {
      return Atomics.exchange(numbers, cell.pauseMs, 0)
    },
    get asks() {
      return Atomics.load(numbers, cell.asks)
    },
    get peakMb() {
      return numbers[cell.peakMb]!
    },
    get counted() {
      return counted
    },
    async count() {
      const number = counted++
      const user = users[next++ % users.length]!
      const id = String(7_450_000_000_000_000_000n + BigInt(number))
      const cursor = `cursor${counted}`
      const msgs = [message({ id, user, items: [textItem(`number ${number}`)] })]
      const late = performance.now() + countWithinMs
      // A logout without a name may reach the account, once the default one is logged out, also while this waits: then a
      // new login of it gets the message. Until the cursor moves WeChat gives it again.
      for (let isGiven = false; !seen.has(number) && lost === undefined; ) {
        restore()
        const token = tokens.get(steady)!
        if (upstream.cursorOf(token) !== cursor) isGiven = (await say(token, cursor, msgs, 3000)) || isGiven
        // What came before it, of other accounts, is read first.
        for (let came: string | number = 1; came !== 0 && !seen.has(number); ) {
          came = await read()
          if (typeof came !== 'string') continue
          lost = came
          break
        }
        if (seen.has(number) || lost !== undefined || performance.now() < late) continue
        lost = isGiven
          ? `message ${number} never came to its reader`
          : 'an account whose WeChat answers honestly polls no more'
        lost += `; its last poll has the cursor ${JSON.stringify(upstream.cursorOf(token))}, it ${upstream.polls(token) ? 'polls' : 'does not poll'}`
      }
      return lost
    },
    async unreadable() {
      for (const [tool, asked] of [
        ['history', { limit: 20 }],
        ['recv', { timeout: 0, consumer: 'default' }],
      ] as const) {
        const { status, body } = await call(tool, asked)
        if (status >= 500) return `after it, ${tool} is answered with ${status}: ${JSON.stringify(body)}`
      }
      return undefined
    },
    get storedMb() {
      return (statSync(join(dir, 'messages.db'), { throwIfNoEntry: false })?.size ?? 0) / 2 ** 20
    },
    victim: () => victims.map(name => tokens.get(name)!).find(token => upstream.polls(token)),
    logged() {
      const fresh = service.log().slice(logAt)
      const end = fresh.lastIndexOf('\n') + 1
      logAt += end
      for (const line of fresh.slice(0, end).split('\n')) {
        if (leakIn(line)) return `a secret is in a line of the log: ${JSON.stringify(line.slice(0, 500))}`
        if (unprintable.test(line))
          return `a line of the log is not printable: ${JSON.stringify(line.slice(0, 500))}`
      }
      return undefined
    },
    async [Symbol.asyncDispose]() {
      probe.terminate()
      await service[Symbol.asyncDispose]()
      await upstream[Symbol.asyncDispose]()
      rmSync(dir, { recursive: true, force: true })
    },
  }
  await call('recv', { consumer: 'reader', timeout: 0 })
  await say(tokens.get(steady)!, 'cursor0', [
    message({ id: firstId, user: users[0], items: [textItem('first')] }),
    message({ id: '7460000000000000002', user: users[1], items: mediaItems }),
  ])
  for (let tries = 0; tries < 5; tries++) if ((await target.count()) === undefined) break
  ids.upload = JSON.parse(
    (
      await post('/media?kind=file&file_name=u.txt', new Uint8Array(900).fill(65), {
        'content-type': 'application/octet-stream',
      })
    ).text,
  ).upload_id
  const begun = await post(
    '/mcp',
    JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'initialize',
      params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'fuzz', version: '1' } },
    }),
    { accept: 'application/json, text/event-stream' },
  )
  ids.session = begun.headers.get('mcp-session-id') ?? ''
  target.pauseMs()
  return target
}

function tokenFile(dir: string): string {
  const path = join(dir, 'api_token')
  writeFileSync(path, secrets.api, { mode: 0o600 })
  return path
}
