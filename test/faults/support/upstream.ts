/** Real services on one directory against a sandbox of the test's own, whose every request can be seen and spoiled. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestSandbox, type TestSandboxOptions, withSandbox } from '../../support/sandbox.ts'
import type { Json } from '../../support/service.ts'
import { LogFile } from './log-file.ts'
import { type Program, type ProgramOptions, runOnce, runSvc, started, until } from './program.ts'

export interface Site extends AsyncDisposable {
  readonly sandbox: TestSandbox
  /** The data directory; it has a session `s`. */
  readonly dir: string
  readonly bot: string
  readonly user: string
  /** Starts a service and waits until it answers; killed at the end of the test. */
  start(options?: ProgramOptions & { args?: string[] }): Promise<Program>
  /** Starts a service without waiting. */
  launch(options?: ProgramOptions & { args?: string[] }): Program
  /** A command of one word or more on the directory, in a process that ends with it: its JSON. @throws when it fails */
  once(...args: string[]): Promise<Json>
  /** A session as a login leaves it. */
  connect(session: string, bot: { bot_id: string; token: string; user_id: string }): Promise<void>
  /** The user writes these. */
  say(...texts: string[]): Promise<void>
  /** The user writes these, and they are stored. */
  heard(...texts: string[]): Promise<void>
  /** messages.db from outside. */
  log(): LogFile
  /** Texts of the received rows, in their order. */
  texts(): string[]
  /** Waits until there are `count` received rows. */
  stored(count: number, withinMs?: number): Promise<string[]>
  /** Requests of this endpoint so far. */
  requests(endpoint: string): number
  /** Waits until that many requests of the endpoint have come. */
  asked(endpoint: string, count: number): Promise<void>
}

export interface SiteOptions {
  /** An existing data directory; a temporary one, removed at the end, otherwise. */
  dir?: string
  switches?: TestSandboxOptions['switches']
  /** The sandbox's. */
  clock?: TestSandboxOptions['clock']
}

export async function openSite(options: SiteOptions = {}): Promise<Site> {
  const dir = options.dir ?? (await mkdtemp(join(tmpdir(), 'svc-faults-')))
  const sandbox = await withSandbox({
    switches: { quota: 0, ...options.switches },
    ...(options.clock && { clock: options.clock }),
  })
  const programs: Program[] = []
  const logs: LogFile[] = []
  const bot = sandbox.bot()
  const requests = (endpoint: string) => sandbox.world.core.stats.requests[endpoint] ?? 0
  const site: Site = {
    sandbox,
    dir,
    bot: bot.bot_id,
    user: bot.user_id,
    launch({ args = [], ...more } = {}) {
      const where = ['--upstream-url', sandbox.url, '--cdn-url', sandbox.cdnUrl]
      const program = runSvc(
        ['openapi', '--no-banner', '--port', '0', '-d', dir, '--pace', 'off', ...where, ...args],
        more,
      )
      programs.push(program)
      return program
    },
    start: more => started(site.launch(more)),
    async once(...args) {
      const where = ['-d', dir, '--upstream-url', sandbox.url, '--cdn-url', sandbox.cdnUrl]
      const { status, stdout, stderr } = await runOnce([...args, '--json', ...where])
      if (status !== 0) throw new Error(`svc ${args.join(' ')}: ${stderr}`)
      return JSON.parse(stdout)
    },
    async connect(session, { bot_id, token, user_id }) {
      await mkdir(join(dir, session), { recursive: true, mode: 0o700 })
      const fields = { bot_id, token, user_id, base_url: sandbox.url, cursor: '', created_at: Date.now() }
      await writeFile(join(dir, session, 'token.json'), JSON.stringify(fields), { mode: 0o600 })
    },
    async say(...texts) {
      for (const text of texts) await sandbox.say(text, { from: bot.user_id, to: bot.bot_id })
    },
    log() {
      const log = new LogFile(dir)
      logs.push(log)
      return log
    },
    texts() {
      using log = new LogFile(dir)
      return log
        .rows()
        .filter(row => !row.sent)
        .map(row => row.text)
    },
    async heard(...texts) {
      const before = site.texts().length
      await site.say(...texts)
      await site.stored(before + texts.length)
    },
    stored: (count, withinMs = 30_000) =>
      until(`${count} messages are stored`, withinMs, () => {
        const texts = site.texts()
        return texts.length >= count && texts
      }),
    requests,
    async asked(endpoint, count) {
      await until(`${count} × ${endpoint}`, 30_000, () => requests(endpoint) >= count)
    },
    async [Symbol.asyncDispose]() {
      for (const log of logs) log[Symbol.dispose]()
      await Promise.all(programs.map(program => program[Symbol.asyncDispose]()))
      await sandbox[Symbol.asyncDispose]()
      if (!options.dir) await rm(dir, { recursive: true, force: true })
    },
  }
  await site.connect('s', bot)
  return site
}

/** Role of a process by its own word. */
export const roleOf = async (program: Pick<Program, 'get'>): Promise<string> => {
  const { body } = await program.get<Json>('/healthz')
  return body.role
}

/** A poller and a watcher, the poller in the middle of its long poll. */
export async function pair(
  site: Site,
  options?: ProgramOptions,
): Promise<{ poller: Program; watcher: Program }> {
  const poller = await site.start(options)
  await site.asked('getupdates', 1)
  const watcher = await site.start()
  if ((await roleOf(watcher)) !== 'watcher') throw new Error('two poll')
  return { poller, watcher }
}

/** What was sent or is to be, oldest first. */
export const sentRows = (site: Site) => {
  using log = site.log()
  return log
    .rows()
    .filter(row => row.sent)
    .map(({ text, status }) => ({ text, status }))
}

/** What the user saw of it, oldest first: texts, and names of files. */
export const arrived = async (site: Site) =>
  (await site.sandbox.messages({ from: 'bot', limit: 1000 })).map(
    ({ items }) => items[0]?.text ?? items[0]?.file_name,
  )

export const fileNamed = (name: string) => ({
  kind: 'file',
  file_name: name,
  data: Buffer.from(name).toString('base64'),
})

/** Queues to a user who has never written: upstream refuses the first, the others join it. */
export async function queue(site: Site, program: Pick<Program, 'call'>, input: object): Promise<void> {
  const { body } = await program.call('send', { to: site.user, when_closed: 'queue', ...input })
  if (body.status !== 'queued') throw new Error(`not queued: ${JSON.stringify(body)}`)
}
