/** Kills the processes of two agents of one person, again and again, while the person writes, chooses and sets times. */
import { Database } from 'bun:sqlite'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { MessageView } from '../../src/sandbox/phone-view.ts'
import { type Chance, chanceOf } from '../faults/support/random.ts'
import { clusterSecret, startCluster } from '../support/cluster.ts'
import { end, family } from '../support/family.ts'
import { overhear } from '../support/overheard.ts'
import { type Json, logIn, startService } from '../support/service.ts'
import { svcProgram } from '../support/svc-program.ts'
import { until } from '../support/until.ts'
import { type Evidence, judge, type Name, names, type Outcome, type Word } from './two-agents-verdict.ts'

const hourMs = 3_600_000
const withinMs = 180_000

/** Where the agents run: the store, and the simulated WeChat. */
interface Place {
  readonly owner: string
  phone(path: string, body?: unknown): Promise<Json>
  /** What the owner got. */
  got(): Promise<MessageView[]>
  /** Reads and changes the store. */
  rows<T>(sql: string): Promise<T[]>
  change(sql: string): Promise<void>
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

async function openPlace(engine: 'sqlite' | 'postgres', stack: AsyncDisposableStack): Promise<Place> {
  const all = 'messages?from=bot&limit=100000'
  if (engine === 'postgres') {
    const cluster = stack.use(await startCluster({ nodes: 1, args: ['--pace', 'off'] }))
    const { databaseName, phone, postgres, seen, wechat } = cluster
    await cluster.logIn('work')
    const [{ user_id: owner }] = (await cluster.nodes[0]!.call('sessions')).body
    const ask = (sql: string) => postgres.psql(`SET search_path = svc; ${sql}`, databaseName)
    return {
      ...{ owner, phone },
      got: async () => (await seen(all)).messages,
      rows: async sql =>
        JSON.parse(
          await ask(`SELECT coalesce(json_agg(json_strip_nulls(to_json(r))), '[]') FROM (${sql}) r`),
        ),
      change: async sql => void (await ask(sql)),
      args: ['--upstream-url', wechat, '--cdn-url', `${wechat}/c2c`],
      env: { SVC_STORE_URL: postgres.url(databaseName), SVC_SECRET_KEY: clusterSecret },
    }
  }
  const { call, dir, phone, phoneUrl } = await loggedIn(stack)
  const [{ user_id: owner }] = (await call('sessions')).body
  const db = () => {
    const opened = new Database(join(dir, 'messages.db'))
    opened.run('PRAGMA busy_timeout = 30000')
    return opened
  }
  return {
    ...{ owner, phone },
    got: async () => ((await (await fetch(`${phoneUrl}/phone/${all}`)).json()) as Json).messages,
    async rows<T>(sql: string) {
      using opened = db()
      return opened.query<T, []>(sql).all()
    },
    async change(sql) {
      using opened = db()
      opened.run(sql)
    },
    args: ['--sandbox', '-d', dir],
    env: {},
  }
}

async function loggedIn(stack: AsyncDisposableStack) {
  const service = stack.use(await startService({ args: ['--pace', 'off'] }))
  await logIn(service)
  return service
}

/** Starts a process with agents, which repeat the numbers of the words that they are asked behind their names. */
async function startAgents({ args, env }: Place, own: readonly Name[]) {
  const dir = await mkdtemp(join(tmpdir(), 'svc-agent-'))
  const agents = own.map(name => ({
    ...{ name, gather: 0.05, zone: 'UTC' },
    command: ['sh', '-c', `sleep 0.2; grep -o 'w[0-9]*\\.' | sed 's/w\\(.*\\)\\./${name} got <\\1>/'`],
  }))
  await writeFile(join(dir, 'agents.json'), JSON.stringify({ agents }))
  const data = args.includes('-d') ? [] : ['-d', dir]
  const options = [...args, ...data, '--pace', 'off', '--config', join(dir, 'agents.json')]
  const child = Bun.spawn([...svcProgram, 'agent', ...options], {
    cwd: dir,
    env: { PATH: process.env.PATH ?? '', HOME: dir, ...env },
    ...{ stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' },
  })
  const output = overhear(child)
  const told = () => output.stdout + output.stderr
  return {
    told,
    isReady: () =>
      until(`${own} can be written to`, 60_000, () => output.stdout.includes('may talk with it'), told),
    async kill() {
      // svc first: it must not see its programs die.
      for (const pid of family(child.pid).toReversed()) end(pid, 'SIGKILL')
      await output.exited
      await rm(dir, { recursive: true, force: true })
    },
  }
}
type Running = Awaited<ReturnType<typeof startAgents>>

export interface Storm {
  readonly engine: 'sqlite' | 'postgres'
  readonly processes: 1 | 2
  readonly kills: number
  readonly seed: number
}

/** Each round the person writes, chooses and sets times, and a process dies. */
export async function steerWhileKilled({ engine, kills, processes, seed }: Storm): Promise<Outcome> {
  await using stack = new AsyncDisposableStack()
  const place = await openPlace(engine, stack)
  await place.phone('switches', { burst: 'off' })
  const groups: (readonly Name[])[] = processes === 1 ? [names] : names.map(name => [name])
  const running = new Map<readonly Name[], Running>()
  stack.defer(async () => void (await Promise.all([...running.values()].map(one => one.kill()))))
  const told = () => [...running.values()].map(one => one.told()).join('\n')
  const start = async (group: readonly Name[]) => {
    running.set(group, await startAgents(place, group))
    await running.get(group)!.isReady()
  }
  for (const group of groups) await start(group)
  const readers = "name FROM consumer WHERE name LIKE 'agent-%'"
  await until('both read', 60_000, async () => (await place.rows(`SELECT ${readers}`)).length === 2, told)
  // After this time they know each other.
  await Bun.sleep(6000)
  const chance = chanceOf(seed)
  const person = new Person(place, chance, told)
  await person.setSeries()
  let killed = 0
  for (let round = 0; killed < kills; round++) {
    const hasMoved = await person.letTimesCome(3)
    await person.write(chance.between(1, 3))
    await Bun.sleep(chance.between(0, hasMoved ? 1800 : 600))
    const dying = processes === 2 && chance.next() < 0.15 ? groups : [chance.pick(groups)]
    for (const group of dying) await running.get(group)!.kill()
    killed += dying.length
    await person.write(chance.between(0, 2))
    // Now and then one is away for longer than a restart takes.
    if (processes === 2 && dying.length === 1 && round % 20 === 19) await person.missesOne(dying[0]![0]!)
    for (const group of dying) await start(group)
    // On PostgreSQL it takes seconds until they read again.
    if (chance.next() < 0.5) await person.isRead()
  }
  await person.waitForAll()
  return { killed, ...judge(person.words, await person.collect()) }
}

class Person {
  /** What was said, by number. */
  readonly words: Word[] = []
  #chosen: Name | undefined
  readonly #place: Place
  readonly #chance: Chance
  readonly #told: () => string

  constructor(place: Place, chance: Chance, told: () => string) {
    this.#place = place
    this.#chance = chance
    this.#told = told
  }

  #say(text: string, more: Json = {}): Promise<Json> {
    return this.#place.phone('say', { text, from: this.#place.owner, ...more })
  }

  /** Says something with a word of its own in place of `%`. */
  #sayWord(text: string, word: Word, more?: Json): Promise<Json> {
    this.words.push(word)
    return this.#say(text.replace('%', `w${this.words.length - 1}.`), more)
  }

  setSeries = () => this.#sayWord('/every 15 min %', { kind: 'time', comes: 0, isSeries: true })

  async write(count: number): Promise<void> {
    for (let nth = 0; nth < count; nth++) await this.#writeOne()
  }

  async #writeOne(): Promise<void> {
    const name = this.#chance.pick(names)
    const what = this.#chance.next()
    if (what < 0.15) {
      this.#chosen = name
      await this.#say(`/use ${name}`)
    } else if (what < 0.35) {
      const by = this.#chance.next() < 0.4 ? name : undefined
      const [mention, when] = [by ? `@${by} ` : '', this.#chance.pick(['/in 1 min', '/at tomorrow 7:30'])]
      await this.#sayWord(`${mention}${when} %`, { kind: 'time', by, comes: 1 })
    } else if (what < 0.5) await this.#sayWord(`@${name} %`, { kind: 'message', by: name })
    else if (what < 0.65) await this.#quote()
    else await this.#sayWord('%', { kind: 'message', by: this.#chosen })
  }

  /** Quotes an answer that the store knows and that is alone in its message: what is joined to it has words of others. */
  async #quote(): Promise<void> {
    const sent = await this.#place.rows<{ message_id: string; sent_by: string }>(
      `SELECT message_id, sent_by FROM message m WHERE sent = 1 AND status = 'accepted' AND text LIKE '% got <%'
        AND sent_with IS NULL AND NOT EXISTS (SELECT 1 FROM message WHERE sent_with = m.message_id)
        ORDER BY id DESC LIMIT 20`,
    )
    const quoted = sent.length > 0 ? this.#chance.pick(sent) : undefined
    const by = names.find(name => quoted?.sent_by.split(' ')[0] === `agent:${name}`) ?? this.#chosen
    await this.#sayWord('%', { kind: 'message', by }, quoted && { quote: quoted.message_id })
  }

  /** An agent that is away is asked. The person is told so. */
  async missesOne(name: Name): Promise<void> {
    await this.#sayWord(`@${name} %`, { kind: 'message', by: name })
    const other = names.find(one => one !== name)
    await this.#until(`${name} is said to be away`, async () => {
      const got = await this.#place.got()
      return got.some(({ items }) => items.some(({ text }) => text?.includes(`/use ${other}`)))
    })
  }

  /** Row id up to which both agents have read. */
  async #readTo(): Promise<number> {
    const { rows } = this.#place
    const read = await rows<{ name: string; at: number }>(`SELECT name, max(at) AS at FROM
      (SELECT name, position AS at FROM consumer UNION ALL SELECT consumer, position FROM consumer_ahead) r
      WHERE name LIKE 'agent-%' GROUP BY name`)
    const open = await rows<{ ids: string }>(
      `SELECT CAST(ids AS text) AS ids FROM lease WHERE consumer LIKE 'agent-%'`,
    )
    const ids = open.flatMap(one => one.ids.match(/\d+/g) ?? []).map(id => Number(id) - 1)
    return Math.min(...read.map(({ at }) => at), ...ids)
  }

  /**
   * Lets times come now, some of them two hours ago, as if svc had been away. Leaves alone what was not read to the end:
   * it may be read again, and would set the time again.
   *
   * @returns whether there were any
   */
  async letTimesCome(most: number): Promise<boolean> {
    const { change, rows } = this.#place
    const readTo = await this.#readTo()
    const said = await rows<{ id: number; text: string }>(`SELECT id, text FROM message WHERE sent = 0`)
    const isRead = (prompt: string) =>
      said.some(({ id, text }) => id <= readTo && text.endsWith(` ${prompt}`))
    const times = await rows<{ id: number; prompt: string; due_at: number }>(
      `SELECT id, prompt, due_at FROM agent_time WHERE missed_at IS NULL ORDER BY id`,
    )
    const later = times.filter(({ due_at, prompt }) => due_at > Date.now() + 2000 && isRead(prompt))
    for (const { due_at, id, prompt } of later.slice(0, most)) {
      const word = this.words[Number(prompt.slice(1, -1))]! as Word & { kind: 'time' }
      const isLate = !word.isSeries && this.#chance.next() < 0.2
      const at = Date.now() + (isLate ? -2 * hourMs : this.#chance.between(0, 900))
      if (word.isSeries && !(await this.#isSeriesFree())) continue
      const rule = word.isSeries ? '' : `, rule = '{"at":${at}}'`
      const isSame = `WHERE id = ${id} AND due_at = ${due_at}`
      await change(`UPDATE agent_time SET due_at = ${at}${rule} ${isSame}`)
      if (word.isSeries) word.comes += 1
      if (isLate) word.comes = 0
    }
    return later.length > 0
  }

  /** A series pauses while its last turn, or the answer, is open. */
  async #isSeriesFree(): Promise<boolean> {
    const [{ n } = { n: 0 }] = await this.#place.rows<{ n: number }>(`SELECT
      (SELECT count(*) FROM agent_turn WHERE source = 'time' AND ended_at IS NULL)
      + (SELECT count(*) FROM outbox WHERE mode = 'queue' AND ended_at IS NULL) AS n`)
    return n === 0
  }

  /** Waits, and writes now and then: what exceeds ten answers to a message waits for the next one. */
  async #until(what: string, look: () => Promise<boolean>): Promise<void> {
    let wroteAt = Date.now()
    const lookAgain = async () => {
      if (await look()) return true
      await Bun.sleep(100)
      if (Date.now() - wroteAt < 20_000) return false
      wroteAt = Date.now()
      await this.#say('/agents')
      return false
    }
    await until(what, withinMs, lookAgain, this.#told)
  }

  /** Waits until all that was said was read. */
  async isRead(): Promise<void> {
    const isThere = (all: readonly { text: string }[]) => (_: Word, nth: number) =>
      all.some(({ text }) => text.endsWith(`w${nth}.`))
    await this.#until('all was read', async () => {
      const said = await this.#place.rows<{ id: number; text: string }>(
        'SELECT id, text FROM message WHERE sent = 0',
      )
      return (
        this.words.every(isThere(said)) && (await this.#readTo()) >= Math.max(...said.map(({ id }) => id))
      )
    })
  }

  /** Waits until all times have come, and all messages were answered. */
  async waitForAll(): Promise<void> {
    const { change, rows } = this.#place
    await this.isRead()
    await this.letTimesCome(100)
    const open = `SELECT 'turn' AS what, count(*) AS n FROM agent_turn WHERE ended_at IS NULL UNION ALL
      SELECT 'answer', count(*) FROM outbox WHERE mode = 'queue' AND ended_at IS NULL UNION ALL
      SELECT 'time', count(*) FROM agent_time WHERE rule NOT LIKE '%minutes%'
        OR due_at <= ${Date.now() + 60_000}`
    let last: { what: string; n: number }[] = []
    await this.#until('all has ended', async () => {
      last = await rows(open)
      return last.every(({ n }) => n === 0)
    }).catch(error => {
      throw new Error(JSON.stringify(last), { cause: error })
    })
    await change(`DELETE FROM agent_time WHERE rule LIKE '%minutes%'`)
  }

  async collect(): Promise<Evidence> {
    const { got, rows } = this.#place
    return {
      got: await got(),
      received: await rows('SELECT id, text FROM message WHERE sent = 0'),
      turns:
        await rows(`SELECT t.id, c.agent, t.status, t.source, t.messages, t.prompt, t.error FROM agent_turn t
        JOIN agent_conversation c ON c.id = t.conversation`),
      parts: await rows(`SELECT o.key, m.status, m.message_id, m.sent_with, m.text FROM outbox_part p
        JOIN outbox o ON o.id = p.entry JOIN message m ON m.id = p.message`),
      times: await rows('SELECT * FROM agent_time'),
    }
  }
}
