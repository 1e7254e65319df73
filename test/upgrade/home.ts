/** A running svc with its owner: in this process with a clock of its own, or a program as people get it. */
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join as pathOf } from 'node:path'
import process from 'node:process'
import { type Clock, systemClock } from '../../src/platform/clock.ts'
import { startWeChat } from '../support/cluster.ts'
import { svc as runHere, svcRunning } from '../support/command.ts'
import { ended } from '../support/ended.ts'
import { eventsReceiver, makeCertificate } from '../support/events-receiver.ts'
import { overhear } from '../support/overheard.ts'
import { freePort } from '../support/port.ts'
import { type Json, logIn, type Served, servedAt, startService } from '../support/service.ts'
import { stopwatch } from '../support/stopwatch.ts'
import { until } from '../support/until.ts'

/** A command that runs beside the service. */
export interface Beside extends AsyncDisposable {
  /** All of its output so far. */
  output(): string
  /** Waits for words on its output. */
  says(words: RegExp): Promise<RegExpExecArray>
}

/** One story: it leaves something, and later finds it again and goes on with it. */
export interface Story {
  live(home: Home): Promise<Json>
  /** @throws Error that says what is not as it was */
  still(home: Home, left: Json): Promise<void>
}

/** What a subscriber needs to be the same again. */
export interface Kept {
  port: number
  cert: string
  key: string
  secrets: string[]
}

/** A subscriber of MCP Events, which outlives the service. */
export function callbackOf(kept?: Kept) {
  const { cert = '', key = '', port = freePort(), secrets = [] } = kept ?? {}
  const folder = kept && mkdtempSync(pathOf(tmpdir(), 'callback-'))
  const caFile = folder && pathOf(folder, 'cert.pem')
  if (caFile) writeFileSync(caFile, cert)
  const pair = folder && caFile ? { folder, caFile, cert, key } : makeCertificate()
  const { cert: ownCert, key: ownKey } = pair
  return Object.assign(eventsReceiver(secrets, port, pair), {
    secrets,
    kept: { port, cert: ownCert, key: ownKey, secrets },
  })
}

export interface Home extends Served, AsyncDisposable {
  readonly callback: ReturnType<typeof callbackOf>
  /** Those of the owner's calls. */
  readonly headers: Record<string, string>
  readonly dir: string
  readonly panelUrl: string
  /** Time of the service. */
  now(): number
  /** What the owner shows since there are keys. */
  token: string | undefined
  /** A user writes. @returns the message as svc has it */
  say(from: string, text: string): Promise<Json>
  /** Calls a path as the owner. @throws Error if the answer is not 2xx */
  ask<T = Json>(route: `${'GET' | 'POST' | 'PUT' | 'DELETE'} ${string}`, body?: unknown): Promise<T>
  /** Runs a command on the data directory. @returns what it prints @throws Error if it fails */
  svc(...args: string[]): Promise<string>
  /** Starts a command on the data directory, which a signal ends. */
  beside(...args: string[]): Beside
  /** Ends the service as SIGTERM does. */
  end(): Promise<void>
}

export interface HomeOptions {
  callback: Home['callback']
  /** Where the simulated WeChat of a node was: its accounts know that address. */
  wechat?: string
  token?: string
  args?: string[]
  env?: Record<string, string>
}

/** Real time, `ms` earlier: years later, what was left is as young as when it was left. */
export const clockBehind = (ms: number): Clock => ({ ...systemClock, now: () => systemClock.now() - ms })

const usual = ['--pace', 'off', '--admin-port', '0']
const variables = (dir: string, env: Record<string, string> = {}): Record<string, string> => ({
  ...{ SVC_BASE_PATH: dir, SVC_SANDBOX: '1', SVC_PACE: 'off' },
  ...env,
})
const argsFor = ({ args = [], callback }: HomeOptions) => [
  ...['--events-callback', callback.prefix, '--events-callback-ca', callback.caFile],
  ...usual,
  ...args,
]

/** A node of a cluster has no simulated WeChat: one runs beside it. */
const wechatOf = (dir: string) => pathOf(dirname(dir), 'wechat')
const upstreamOf = (wechat: string | undefined) =>
  wechat === undefined ? [] : ['--upstream-url', wechat, '--cdn-url', `${wechat}/c2c`]
const withWeChat = (env: Record<string, string>, wechat: string | undefined): Record<string, string> => {
  if (wechat === undefined) return env
  const { SVC_SANDBOX: _, ...others } = env
  return { ...others, SVC_UPSTREAM_URL: wechat, SVC_CDN_URL: `${wechat}/c2c` }
}
function phoneOf(
  { phone, phoneUrl }: Served,
  wechat: string | undefined,
): Pick<Served, 'phone' | 'phoneUrl'> {
  if (wechat === undefined) return { phone, phoneUrl }
  return {
    phoneUrl: wechat,
    async phone(path, body) {
      const answer = await fetch(`${wechat}/phone/${path}`, {
        method: 'POST',
        body: JSON.stringify(body ?? {}),
      })
      if (!answer.ok) throw new Error(`phone ${path}: ${await answer.text()}`)
      return (await answer.json()) as Json
    },
  }
}

/** Opens a data directory with the sources of today, in this process. */
export async function openHere(dir: string, clock: Clock, options: HomeOptions): Promise<Home> {
  const home = dirname(dir)
  const given = { home, clock, env: variables(dir, options.env) }
  await using stack = new AsyncDisposableStack()
  const start = async (args: string[], isReady: (stdout: string) => boolean) => {
    const running = svcRunning(args, given)
    const stop = async () => {
      running.stop('SIGTERM')
      return (await running.exited).status
    }
    stack.defer(async () => void (await stop()))
    const said = () => `${running.stdout}${running.stderr}`
    let isOver = false
    void running.exited.then(() => {
      isOver = true
    })
    await until('it is ready', 30_000, () => {
      if (isOver) throw new Error(`it ended: ${said()}`)
      return isReady(running.stdout)
    })
    running.leave()
    return { running, stop }
  }
  const isShared = given.env.SVC_STORE_URL !== undefined
  let wechat: string | undefined
  if (isShared) {
    const phone = /^phone on (\S+)\/phone$/m
    const port = options.wechat === undefined ? '0' : new URL(options.wechat).port
    const args = ['sandbox', '--no-banner', '--sandbox-port', port, '-d', wechatOf(dir)]
    const { running } = await start(args, stdout => phone.test(stdout))
    wechat = phone.exec(running.stdout)![1]!
    given.env = withWeChat(given.env, wechat)
  }
  const ports = ['--port', '0', ...(isShared ? [] : ['--sandbox', '--sandbox-port', '0'])]
  const args = ['openapi', '--no-banner', ...ports, ...argsFor(options), ...upstreamOf(wechat)]
  const { running, stop } = await start(args, stdout => servedAt(stdout, !isShared) !== undefined)
  const served = servedAt(running.stdout, !isShared)!
  const own = stack.move()
  return homeOf({
    ...{ ...served, ...phoneOf(served, wechat), ...options, dir, now: clock.now },
    ...{ stdout: () => running.stdout, end: stop, [Symbol.asyncDispose]: () => own.disposeAsync() },
    run: args => runHere(args, given),
    beside(args) {
      const running = svcRunning(args, given)
      const stop = async () => {
        running.stop('SIGTERM')
        await running.exited
      }
      return { output: () => `${running.stdout}${running.stderr}`, stop }
    },
  })
}

/** Opens a data directory with a program. */
export async function openProgram(
  dir: string,
  command: readonly string[],
  options: HomeOptions,
): Promise<Home> {
  const env = variables(dir, options.env)
  const all = { PATH: process.env.PATH ?? '', HOME: dirname(dir), ...env }
  await using stack = new AsyncDisposableStack()
  const isShared = env.SVC_STORE_URL !== undefined
  const wechat = isShared ? stack.use(await startWeChat(wechatOf(dir), command)).url : undefined
  const args = [...argsFor(options), ...upstreamOf(wechat)]
  const where = { dir, command, cwd: dirname(dir), env: withWeChat(all, wechat) }
  const service = stack.use(await startService({ ...where, args, sandbox: !isShared }))
  const own = stack.move()
  return homeOf({
    ...{ ...service, ...phoneOf(service, wechat), ...options, dir, now: Date.now },
    [Symbol.asyncDispose]: () => own.disposeAsync(),
    stdout: service.stdout(),
    end: () => service.kill('SIGTERM'),
    run: args => ended([...command, ...args], { cwd: dirname(dir), env: where.env, stdin: '' }),
    beside(args) {
      const child = Bun.spawn([...command, ...args], {
        ...{ cwd: dirname(dir), env: where.env, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' },
      })
      const heard = overhear(child)
      const stop = async () => {
        child.kill('SIGTERM')
        await heard.exited
      }
      return { output: () => `${heard.stdout}${heard.stderr}`, stop }
    },
  })
}

interface Ports extends Served, AsyncDisposable, Pick<Home, 'callback' | 'dir' | 'now'> {
  token?: string
  stdout: string | (() => string)
  end(): Promise<number>
  run(args: readonly string[]): Promise<{ status: number; stdout: string; stderr: string }>
  beside(args: readonly string[]): { output(): string; stop(): Promise<void> }
}

function homeOf(ports: Ports): Home {
  const { dir, phone, phoneUrl, url } = ports
  const printed = () => (typeof ports.stdout === 'string' ? ports.stdout : ports.stdout())
  const panelUrl = /^admin on (\S+)$/m.exec(printed())?.[1] ?? ''
  const send = async (route: string, body: unknown): Promise<{ status: number; body: Json }> => {
    const [method = '', path = ''] = route.split(' ')
    const isBytes = body instanceof Uint8Array
    const answer = await fetch(path.startsWith('http') ? path : `${url}${path}`, {
      method,
      headers: {
        ...home.headers,
        ...(body !== undefined && !isBytes && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && {
        body: isBytes ? new Blob([body as Uint8Array<ArrayBuffer>]) : JSON.stringify(body),
      }),
    })
    const text = await answer.text()
    const isJson = answer.headers.get('content-type')?.includes('json')
    return { status: answer.status, body: isJson && text !== '' ? JSON.parse(text) : text }
  }
  const home: Home = {
    ...{ dir, url, phoneUrl, panelUrl, phone, token: ports.token, now: ports.now, callback: ports.callback },
    get headers() {
      return home.token === undefined
        ? {}
        : ({ authorization: `Bearer ${home.token}` } as Record<string, string>)
    },
    call: (tool, input) => send(`POST /tools/default/${tool}`, input ?? {}),
    async ask(route, body) {
      const answer = await send(route, body)
      if (answer.status < 300) return answer.body
      throw new Error(`${route} ${JSON.stringify(body)}: ${answer.status} ${JSON.stringify(answer.body)}`)
    },
    async say(from, text) {
      await phone('say', { from, text })
      return await until(`${text} is stored`, 30_000, async () => {
        const asked = { user_id: from, direction: 'received', limit: 5 }
        const { messages } = await answered(home, 'history', asked)
        return messages.find((one: Json) => one.text === text)
      })
    },
    async svc(...args) {
      const { status, stdout, stderr } = await ports.run(args)
      if (status !== 0) throw new Error(`svc ${args.join(' ')} (${status}): ${stdout}${stderr}`)
      return stdout.trim()
    },
    beside(...args) {
      const { output, stop } = ports.beside(args)
      return {
        output,
        says: words =>
          until(`svc ${args[0]} says ${words}`, 30_000, () => words.exec(output()) ?? undefined, output),
        [Symbol.asyncDispose]: stop,
      }
    },
    async end() {
      const status = await ports.end()
      if (status !== 0 && status !== 143) throw new Error(`svc ended with ${status}`)
    },
    [Symbol.asyncDispose]: () => ports[Symbol.asyncDispose](),
  }
  return home
}

export async function answered(home: Home, tool: string, input: Json = {}): Promise<Json> {
  return await home.ask(`POST /tools/default/${tool}`, input)
}

/** A new person, with an account for the bot. @returns the id */
export async function join(home: Home, session: string, name: string): Promise<string> {
  const { id } = await home.phone('users', { name })
  await logIn(home, session, id)
  return id
}

/** What the bot said to a user, as the phone shows it. */
export async function shown(home: Home, user: string): Promise<Json[]> {
  const answer = await fetch(`${home.phoneUrl}/phone/messages?from=bot&user=${user}`)
  return ((await answer.json()) as Json).messages.flatMap(({ items }: Json) => items)
}

/** Messages, until there are so many. */
export async function receive(home: Home, count: number, input: Json = {}): Promise<Json[]> {
  const got: Json[] = []
  using watch = stopwatch()
  while (got.length < count) {
    if (watch.ms > 25_000) throw new Error(`${got.length} of ${count} messages came in time`)
    got.push(...(await answered(home, 'recv', { timeout: 5, ...input })))
  }
  return got
}
