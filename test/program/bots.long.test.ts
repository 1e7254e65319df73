/** The programs of the pages: bots, killed between reading and acting, and between acting and saying so; and scripts. */
import { Database } from 'bun:sqlite'
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { quoteForShell } from '../../src/platform/format.ts'
import { ended } from '../support/ended.ts'
import { type Json, logIn, type Service, startService } from '../support/service.ts'
import { svcProgram } from '../support/svc-program.ts'
import { until } from '../support/until.ts'

const root = join(import.meta.dir, '../..')
/** A block of a language on a page, under a heading. */
async function example(page: string, heading: string, language: string, nth = 0): Promise<string> {
  const text = await readFile(join(root, page), 'utf8')
  const section = text.slice(text.indexOf(`\n## ${heading}\n`))
  const blocks = section.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'gm'))
  return [...blocks][nth]![1]!
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

/**
 * A bot in a folder of its own; a file there of the name of a point makes it stop at that point, and say so. Of one in
 * Python the file may say after how many sends.
 */
interface Bot {
  folder: string
  command: string[]
  env?: Record<string, string>
  /** Whether its place is known: it is given what comes from then on. */
  begun(): boolean
  /** What is between it and svc, when that is no file in its folder. */
  proxy?: Disposable
  /** The messages that it was given, as they came, and how often it called `send`. */
  seen?: { given: Json[]; sends: number }
}

/** Whether a consumer of that name has begun to read. */
function isReader(consumer: string): boolean {
  using db = new Database(join(home, '.svc-sandbox/messages.db'), { readonly: true })
  return db.query('SELECT 1 FROM consumer WHERE name = ?').get(consumer) !== null
}

/** A name of its own, so that it begins anew. */
const consumerOf = (folder: string) => `echo-${basename(folder).replace(' ', '-')}`

async function bashBot(folder: string): Promise<Bot> {
  const stop = (point: Point) =>
    `if [ "$1" = send ] && [ -e ${point} ]; then : > stopped; exec sleep 1000; fi\n`
  const svc = `#!/bin/sh\n${stop('before')}${svcProgram.map(quoteForShell).join(' ')} "$@"\nstatus=$?\n${stop('after')}exit $status\n`
  await mkdir(join(folder, 'bin'))
  await writeFile(join(folder, 'bin/svc'), svc)
  await chmod(join(folder, 'bin/svc'), 0o755)
  const page = await example('src/cli/README.md', 'A bot in bash', 'sh')
  await writeFile(join(folder, 'bot'), page.replace('echo-bash', consumerOf(folder)))
  const env = { PATH: `${folder}/bin:${process.env.PATH}`, SVC_SANDBOX: '1', SVC_PACE: 'off' }
  return { folder, command: ['bash', 'bot'], env, begun: () => isReader(consumerOf(folder)) }
}

async function pythonBot(folder: string): Promise<Bot> {
  const seen = { given: [] as Json[], sends: 0 }
  const stop = async (point: Point) => {
    if (!existsSync(join(folder, point))) return
    if (seen.sends <= Number(await readFile(join(folder, point), 'utf8'))) return
    await writeFile(join(folder, 'stopped'), '')
    await new Promise(() => {})
  }
  const proxy = Bun.serve({
    ...{ port: 0, hostname: '127.0.0.1', idleTimeout: 0 },
    async fetch(request) {
      const { pathname } = new URL(request.url)
      const isSend = pathname.endsWith('/send')
      if (isSend) seen.sends += 1
      if (isSend) await stop('before')
      const response = await fetch(service.url + pathname, {
        ...{ method: request.method, body: await request.text() },
        headers: { 'content-type': 'application/json' },
      })
      const answer = await response.text()
      if (isSend) await stop('after')
      else seen.given.push(...JSON.parse(answer))
      return new Response(answer, { status: response.status })
    },
  })
  const page = await example('src/operations/README.md', 'A bot that may be killed at any moment', 'python')
  const own = page.replace('127.0.0.1:8000', `127.0.0.1:${proxy.port}`)
  await writeFile(join(folder, 'bot.py'), own.replace('echo-python', consumerOf(folder)))
  return {
    folder,
    command: ['python3', 'bot.py'],
    begun: () => isReader(consumerOf(folder)),
    seen,
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
  const own = page.replace("from 'svc'", `from ${index}`)
  // For the test whose pace is used up.
  const paced = own.replace("pace: 'off'", "pace: process.env.SVC_PACE ?? 'off'")
  await writeFile(join(folder, 'bot.ts'), paced)
  const command = [process.execPath, '--preload', './hook.ts', 'bot.ts']
  return { folder, command, begun: () => isReader('echo') }
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
        const ofPictures = async () => (await answers()).filter(text => text === 'You said: IMAGE').length
        const before = await ofPictures()
        await fetch(`${service.phoneUrl}/phone/media?kind=image`, { method: 'POST', body: 'a picture' })
        await until('what a picture is answered with', withinMs, async () => (await ofPictures()) > before)
        if (name === 'typescript') expect(third.said()).toContain('runs')
      }
      const own = (await answers()).filter(text => text.startsWith(`You said: ${name} `))
      expect(own).toEqual(
        ['read', 'while it is away', '"last" \\n 完'].map(text => `You said: ${name} ${text}`),
      )
    },
    300_000,
  )
})

test.skipIf(!Bun.which('python3'))(
  'a bot that is killed again and again misses nothing, answers nothing twice, and knows what it was given before',
  async () => {
    const kills = Number(process.env.BOT_KILLS) || 15
    const folder = join(home, 'killed')
    await mkdir(folder)
    const bot = await pythonBot(folder)
    using _proxy = bot.proxy
    const seen = bot.seen!
    const at = (point: string) => join(folder, point)
    {
      await using first = start(bot)
      await until('it has begun', withinMs, bot.begun, first.said)
    }
    let said = 0
    for (let nth = 0; nth < kills; nth++) {
      const point = nth % 3 === 0 ? 'after' : 'before'
      // The one that it was killed at comes again, and every other time it is killed at the next one.
      await writeFile(at(point), `${seen.sends + (nth % 2)}`)
      if (nth === 0 || nth % 2 === 1) await say(`kill ${said++}`)
      await using running = start(bot)
      await until('it stops', withinMs, () => existsSync(at('stopped')), running.said)
      await running.kill()
      await rm(at(point))
      await rm(at('stopped'))
    }
    await using last = start(bot)
    await until('the last answer', withinMs, () => isAnswered(`kill ${said - 1}`), last.said)
    const own = (await answers()).filter(text => text.startsWith('You said: kill '))
    expect(own).toEqual(Array.from({ length: said }, (_none, nth) => `You said: kill ${nth}`))
    const before = new Set<number>()
    let again = 0
    for (const { id, redelivered } of seen.given) {
      if (before.has(id)) again += 1
      if (before.has(id)) expect(redelivered).toBe(true)
      before.add(id)
    }
    expect(again).toBeGreaterThan(kills / 3)
    if (process.env.BOT_KILLS) console.log(`${kills} killed, ${seen.given.length} given, ${again} again`)
  },
  600_000,
)

describe.skipIf(!Bun.which('jq') || !Bun.which('curl'))(
  'scripts for cron (skipped without jq and curl)',
  () => {
    const script = async (nth: number, ...changes: [string, string][]) => {
      let text = await example('src/operations/README.md', 'From cron', 'sh', nth)
      for (const [from, to] of [['http://127.0.0.1:8000', service.url], ...changes] as const) {
        expect(text).toContain(from)
        text = text.replace(from, to)
      }
      return async (...args: string[]) =>
        await ended(['bash', '-c', text, 'script', ...args], {
          cwd: home,
          env: { PATH: process.env.PATH ?? '' },
        })
    }

    test('what users write is passed on, once, and again when it was not taken', async () => {
      const posts: string[] = []
      let status = 200
      const ntfy = Bun.serve({
        ...{ port: 0, hostname: '127.0.0.1' },
        fetch: async request => {
          posts.push(`${request.headers.get('title')} ${await request.text()}`)
          return new Response('', { status })
        },
      })
      try {
        const forward = await script(0, ['https://ntfy.sh', `http://127.0.0.1:${ntfy.port}`])
        expect((await forward()).status).toBe(0)
        expect(posts).toEqual([])
        await say('to ntfy "1"')
        await say('to ntfy 2')
        await until('both are stored', withinMs, async () => {
          const { body } = await service.call('history', { text_contains: 'to ntfy' })
          return body.total === 2
        })
        status = 500
        expect((await forward()).status).not.toBe(0)
        status = 200
        expect((await forward()).status).toBe(0)
        expect((await forward()).status).toBe(0)
        expect(posts.length).toBe(2)
        expect(posts[1]).toMatch(/^WeChat .+: to ntfy "1"\n.+: to ntfy 2\n$/)
      } finally {
        await ntfy.stop(true)
      }
    })

    test('a job tells something on WeChat, once', async () => {
      await say('hi')
      const { body } = await service.call('recv', { consumer: 'cron', timeout: 20, after: 0 })
      const notify = await script(1, ['"Mum"', JSON.stringify(body.at(-1).from_user)])
      // cron mails what a job prints.
      const silent = { status: 0, stdout: '', stderr: '' }
      for (let times = 0; times < 2; times++) expect(await notify('The "backup" failed')).toEqual(silent)
      expect((await answers()).filter(text => text === 'The "backup" failed')).toHaveLength(1)
    })
  },
)

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
    120_000,
  )
})
