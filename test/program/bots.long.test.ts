/** The bots of the pages, killed for good between reading and acting, and between acting and moving their place. */
import { Database } from 'bun:sqlite'
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { shellWord } from '../../src/platform/shell.ts'
import { logIn, type Service, startService } from '../support/service.ts'
import { svcProgram } from '../support/svc-program.ts'
import { until } from '../support/until.ts'

const root = join(import.meta.dir, '../..')
/** The first block of a language on a page, under a heading. */
async function example(page: string, heading: string, language: string): Promise<string> {
  const text = await readFile(join(root, page), 'utf8')
  const section = text.slice(text.indexOf(`\n## ${heading}\n`))
  return new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'm').exec(section)![1]!
}

const withinMs = 30_000
let home: string
let service: Service
beforeAll(async () => {
  home = await realpath(await mkdtemp(join(tmpdir(), 'svc-bots-')))
  const dir = join(home, '.svc-sandbox')
  service = await startService({ dir, cwd: home, env: { HOME: home }, args: ['--pace', 'off'] })
  await service.phone('switches', { burst: 'off' })
  await logIn(service)
}, withinMs)
afterAll(async () => {
  await service?.[Symbol.asyncDispose]()
  await rm(home, { recursive: true, force: true })
})

/** Where a bot stops: on its way to `send`, or with its result before it hears of it. */
type Point = 'before' | 'after'

/** A bot in a folder of its own; a file there of the name of a point makes it stop at that point, and say so. */
interface Bot {
  folder: string
  command: string[]
  env?: Record<string, string>
  /** Whether its place is known: it is given what comes from then on. */
  begun(): boolean
  /** What is between it and svc, when that is no file in its folder. */
  proxy?: Disposable
}

async function bashBot(folder: string): Promise<Bot> {
  const stop = (point: Point) =>
    `if [ "$1" = send ] && [ -e ${point} ]; then : > stopped; exec sleep 1000; fi\n`
  const svc = `#!/bin/sh\n${stop('before')}${svcProgram.map(shellWord).join(' ')} "$@"\nstatus=$?\n${stop('after')}exit $status\n`
  await mkdir(join(folder, 'bin'))
  await writeFile(join(folder, 'bin/svc'), svc)
  await chmod(join(folder, 'bin/svc'), 0o755)
  await writeFile(join(folder, 'bot'), await example('src/cli/README.md', 'A bot in bash', 'sh'))
  const env = { PATH: `${folder}/bin:${process.env.PATH}`, SVC_SANDBOX: '1', SVC_PACE: 'off' }
  return { folder, command: ['bash', 'bot'], env, begun: () => existsSync(join(folder, 'place')) }
}

async function pythonBot(folder: string): Promise<Bot> {
  const stop = async (point: Point) => {
    if (!existsSync(join(folder, point))) return
    await writeFile(join(folder, 'stopped'), '')
    await new Promise(() => {})
  }
  const proxy = Bun.serve({
    ...{ port: 0, hostname: '127.0.0.1', idleTimeout: 0 },
    async fetch(request) {
      const { pathname } = new URL(request.url)
      const sends = pathname.endsWith('/send')
      if (sends) await stop('before')
      const response = await fetch(service.url + pathname, {
        ...{ method: request.method, body: await request.text() },
        headers: { 'content-type': 'application/json' },
      })
      const answer = await response.text()
      if (sends) await stop('after')
      return new Response(answer, { status: response.status })
    },
  })
  const page = await example('src/tools/README.md', 'A bot that may be killed at any moment', 'python')
  await writeFile(join(folder, 'bot.py'), page.replace('127.0.0.1:8000', `127.0.0.1:${proxy.port}`))
  const begun = () => existsSync(join(folder, 'place'))
  return {
    folder,
    command: ['python3', 'bot.py'],
    begun,
    proxy: { [Symbol.dispose]: () => void proxy.stop(true) },
  }
}

async function typescriptBot(folder: string): Promise<Bot> {
  const index = JSON.stringify(join(root, 'src/index.ts'))
  const hook = `import { existsSync, writeFileSync } from 'node:fs'
import { Svc } from ${index}
const { send } = Svc.prototype
const stop = point => {
  if (!existsSync(point)) return
  writeFileSync('stopped', '')
  return new Promise(() => {})
}
Svc.prototype.send = async function (...args) {
  await stop('before')
  const result = await send.apply(this, args)
  await stop('after')
  return result
}
`
  await writeFile(join(folder, 'hook.ts'), hook)
  const page = await example('src/library/README.md', 'In a program', 'ts')
  await writeFile(join(folder, 'bot.ts'), page.replace("from 'svc'", `from ${index}`))
  const begun = () => {
    using db = new Database(join(home, '.svc-sandbox/messages.db'), { readonly: true })
    return db.query("SELECT 1 FROM consumer WHERE name = 'echo'").get() !== null
  }
  return { folder, command: [process.execPath, '--preload', './hook.ts', 'bot.ts'], begun }
}

/** A start of the bot; all that it started dies with it. */
function start({ folder, command, env }: Bot) {
  const child = Bun.spawn(command, {
    ...{ cwd: folder, detached: true, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' },
    env: { PATH: process.env.PATH ?? '', HOME: home, ...env },
  })
  let said = ''
  for (const stream of [child.stdout, child.stderr])
    void (async () => {
      for await (const chunk of stream.pipeThrough(new TextDecoderStream())) said += chunk
    })()
  const kill = async () => {
    // Its whole group, of which it is the first.
    if (child.exitCode === null && child.signalCode === null) process.kill(-child.pid, 'SIGKILL')
    await child.exited
  }
  return { said: () => said, kill, [Symbol.asyncDispose]: kill }
}

const say = (text: string) => service.phone('say', { text })
/** The bot's answers so far, oldest first. */
async function answers(): Promise<string[]> {
  const response = await fetch(`${service.phoneUrl}/phone/messages?from=bot&limit=1000`)
  const { messages } = (await response.json()) as { messages: { items: { text?: string }[] }[] }
  return messages.map(({ items }) => items[0]?.text ?? '')
}
const isAnswered = async (text: string) => (await answers()).includes(`You said: ${text}`)

const bots: [name: string, program: string, make: (folder: string) => Promise<Bot>][] = [
  ['bash', 'jq', bashBot],
  ['python', 'python3', pythonBot],
  ['typescript', 'bun', typescriptBot],
]
describe.each(bots)('the bot in %s (skipped without %s)', (name, program, make) => {
  test.skipIf(program !== 'bun' && !Bun.which(program))(
    'killed wherever it is, it misses nothing and answers nothing twice',
    async () => {
      const folder = join(home, name)
      await mkdir(folder)
      const bot = await make(folder)
      using _proxy = bot.proxy
      const at = (point: string) => join(folder, point)
      const stopped = (running: ReturnType<typeof start>) =>
        until('it stops', withinMs, () => existsSync(at('stopped')), running.said)
      {
        await using first = start(bot)
        // It begins with what comes from then on.
        await until('it has begun', withinMs, bot.begun, first.said)
        await writeFile(at('before'), '')
        await say(`${name} read`)
        await stopped(first)
      }
      await rm(at('before'))
      await rm(at('stopped'))
      await say(`${name} while it is away`)
      await writeFile(at('after'), '')
      {
        await using second = start(bot)
        await stopped(second)
        await until('the answer', withinMs, () => isAnswered(`${name} read`), second.said)
      }
      await rm(at('after'))
      await rm(at('stopped'))
      {
        await using third = start(bot)
        await say(`${name} "last" \\n 完`)
        await until('the last answer', withinMs, () => isAnswered(`${name} "last" \\n 完`), third.said)
      }
      const own = (await answers()).filter(text => text.startsWith(`You said: ${name} `))
      expect(own).toEqual(
        ['read', 'while it is away', '"last" \\n 完'].map(text => `You said: ${name} ${text}`),
      )
    },
    300_000,
  )
})

describe('with the pace used up', () => {
  beforeAll(async () => {
    await service.kill('SIGTERM')
    const dir = join(home, '.svc-sandbox')
    service = await startService({ dir, cwd: home, env: { HOME: home }, args: ['--pace', '20/s,10/5m'] })
    await service.phone('switches', { burst: 'off' })
    await say('hi')
    const { body } = await service.call('recv', { timeout: 20 })
    for (let nth = 0; nth < 10; nth++) await service.call('send', { to: body.at(-1).from_user, text: 'x' })
  }, withinMs)
  test.each(bots)(
    'the bot in %s says that its answer waits',
    async (name, program, make) => {
      if (program !== 'bun' && !Bun.which(program)) return
      const folder = join(home, `paced ${name}`)
      await mkdir(folder)
      const bot = await make(folder)
      using _proxy = bot.proxy
      await using running = start({ ...bot, env: { ...bot.env, SVC_PACE: '20/s,10/5m' } })
      await until('it has begun', withinMs, bot.begun, running.said)
      await say(`paced ${name}`)
      await until('it says so', withinMs, () => /\bpace\b/.test(running.said()), running.said)
    },
    60_000,
  )
})
