/** Kills the processes of two agents of one person, again and again, while the person writes and chooses. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { textsFor } from '../../src/agent/texts.ts'
import { Svc } from '../../src/index.ts'
import { clusterSecret, startCluster } from '../support/cluster.ts'
import { end, family } from '../support/family.ts'
import { overhear } from '../support/overheard.ts'
import { type Json, logIn, startService } from '../support/service.ts'
import { svcProgram } from '../support/svc-program.ts'
import { until } from '../support/until.ts'

const names = ['home', 'code'] as const
type Name = (typeof names)[number]

/** Where the agents run: the store, and the simulated WeChat. */
interface Place {
  readonly url: string
  readonly owner: string
  phone(path: string, body?: unknown): Promise<Json>
  /** Texts that the owner got. */
  got(): Promise<string[]>
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

async function openPlace(engine: 'sqlite' | 'postgres', stack: AsyncDisposableStack): Promise<Place> {
  const textsOf = ({ messages }: Json): string[] => messages.map(({ items }: Json) => items[0].text ?? '')
  if (engine === 'postgres') {
    const cluster = stack.use(await startCluster({ nodes: 1, args: ['--pace', 'off'] }))
    const { databaseName, phone, postgres, seen, wechat } = cluster
    await cluster.logIn('work')
    const [node] = cluster.nodes
    const [{ user_id: owner }] = (await node!.call('sessions')).body
    return {
      ...{ url: node!.url, owner, phone },
      got: async () => textsOf(await seen('messages?from=bot&limit=5000')),
      args: ['--upstream-url', wechat, '--cdn-url', `${wechat}/c2c`],
      env: { SVC_STORE_URL: postgres.url(databaseName), SVC_SECRET_KEY: clusterSecret },
    }
  }
  const service = stack.use(await startService({ args: ['--pace', 'off'] }))
  await logIn(service)
  const [{ user_id: owner }] = (await service.call('sessions')).body
  return {
    ...{ url: service.url, owner, phone: service.phone },
    got: async () =>
      textsOf(await (await fetch(`${service.phoneUrl}/phone/messages?from=bot&limit=5000`)).json()),
    args: ['--sandbox', '-d', service.dir],
    env: {},
  }
}

/** Starts an agent that repeats each line of its prompt behind its name. */
async function startAgent({ args, env, ...place }: Place, name: Name) {
  const dir = await mkdtemp(join(tmpdir(), 'svc-agent-'))
  const own = args.includes('-d') ? [] : ['-d', dir]
  const options = [...args, ...own, '--pace', 'off', '--name', name, '--gather', '0.05']
  const child = Bun.spawn([...svcProgram, 'agent', ...options, '--', 'sed', `s/^/${name} got /`], {
    cwd: dir,
    env: { PATH: process.env.PATH ?? '', HOME: dir, ...env },
    ...{ stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' },
  })
  const output = overhear(child)
  return {
    told: () => output.stdout + output.stderr,
    isReady: () =>
      until(
        `${name} is ready at ${place.url}`,
        60_000,
        () => output.stdout.includes('may talk with it'),
        () => output.stderr,
      ),
    async kill() {
      for (const pid of family(child.pid)) end(pid, 'SIGKILL')
      await output.exited
      await rm(dir, { recursive: true, force: true })
    },
  }
}

export interface Outcome {
  readonly messages: number
  /** Of them, by what came of them; interrupted: the person was told so. unknown: it may have arrived. */
  readonly answered: number
  readonly interrupted: number
  readonly unknown: number
  /** What must not be: with the message, and what is wrong. */
  readonly wrong: readonly string[]
  readonly awayTold: number
}

/**
 * Each round the person writes and chooses, and one of the processes dies meanwhile.
 *
 * @param random returns a number from 0 to 1
 */
export async function chooseWhileKilled(
  engine: 'sqlite' | 'postgres',
  rounds: number,
  random: () => number,
): Promise<Outcome> {
  await using stack = new AsyncDisposableStack()
  const place = await openPlace(engine, stack)
  const { owner, phone } = place
  await phone('switches', { burst: 'off' })
  const running = new Map<Name, Awaited<ReturnType<typeof startAgent>>>()
  stack.defer(async () => void (await Promise.all([...running.values()].map(one => one.kill()))))
  const start = async (name: Name) => void running.set(name, await startAgent(place, name))
  const told = () => [...running.values()].map(one => one.told()).join('\n')
  for (const name of names) {
    await start(name)
    await running.get(name)!.isReady()
  }
  const svc = await Svc.connect(place.url)
  const some = <T>(...of: readonly T[]) => of[Math.floor(random() * of.length)]!
  /** Who is to answer each message: `undefined`: any of them. */
  const expected = new Map<string, Name | undefined>()
  let chosen: Name | undefined
  const write = async () => {
    const word = `m${expected.size}.`
    const what = random()
    if (what < 0.25) {
      chosen = some(...names)
      await phone('say', { text: `/use ${chosen}`, from: owner })
    } else if (what < 0.5) {
      const name = some(...names)
      expected.set(word, name)
      await phone('say', { text: `@${name} ${word}`, from: owner })
    } else {
      expected.set(word, chosen)
      await phone('say', { text: word, from: owner })
    }
  }
  const turnsOf = async () => {
    const turns: Awaited<ReturnType<typeof svc.agents.turns>> = []
    for (let before: number | undefined; ; before = turns.at(-1)!.id) {
      const page = await svc.agents.turns({ limit: 200, ...(before !== undefined && { before }) })
      turns.push(...page)
      if (page.length < 200) return turns
    }
  }
  /** Waits, and writes now and then: what exceeds ten answers to a message waits for the next one. */
  const untilDone = async (what: string, look: () => Promise<boolean>) => {
    let wroteAt = Date.now()
    const lookAgain = async () => {
      if (await look()) return true
      if (Date.now() - wroteAt < 20_000) return false
      wroteAt = Date.now()
      await phone('say', { text: '/agents', from: owner })
      return false
    }
    await until(what, 120_000, lookAgain, told)
  }
  for (let round = 0; round < rounds; round++) {
    const name = some(...names)
    for (let count = 1 + Math.floor(random() * 3); count > 0; count--) await write()
    await Bun.sleep(random() * 500)
    await running.get(name)!.kill()
    for (let count = Math.floor(random() * 3); count > 0; count--) await write()
    // Now and then it is away for longer than a restart takes.
    if (round % 20 === 19) {
      await phone('say', { text: `@${name} m${expected.size}.`, from: owner })
      expected.set(`m${expected.size}.`, name)
      const other = names.find(one => one !== name)
      await untilDone(`${name} is said to be away`, async () =>
        (await place.got()).some(text => text.includes(`/use ${other}`)),
      )
    }
    await start(name)
    await running.get(name)!.isReady()
  }
  const areEnded = async () => {
    const turns = await turnsOf()
    const isEnded = turns.every(({ status }) => !['waiting', 'running', 'answering'].includes(status))
    const rows = new Set(turns.flatMap(({ messages }) => messages))
    return isEnded && rows.size >= expected.size && (await svc.outbox.list()).length === 0
  }
  await untilDone('all is answered', areEnded)
  return judge(expected, await turnsOf(), { got: await place.got(), svc })
}

async function judge(
  expected: ReadonlyMap<string, Name | undefined>,
  turns: readonly { agent: string; messages: readonly number[]; status: string }[],
  { got, svc }: { got: readonly string[]; svc: Awaited<ReturnType<typeof Svc.connect>> },
): Promise<Outcome> {
  const rows = new Map<number, string>()
  const lost: string[] = []
  for (let before: number | undefined; ; ) {
    const page = await svc.history({ limit: 200, ...(before !== undefined && { before }) })
    for (const { direction, id, status, text } of page.messages)
      if (direction === 'received') rows.set(id, /m\d+\./.exec(text)?.[0] ?? text)
      else if (status === 'unknown') lost.push(text)
    before = page.next_before
    if (before === undefined) break
  }
  const arrived = got.join('\n')
  const counts = { answered: 0, interrupted: 0, unknown: 0 }
  const wrong: string[] = []
  for (const [word, name] of expected) {
    const own = turns.filter(turn => turn.messages.some(row => rows.get(row) === word))
    const answers = [
      ...arrived.matchAll(new RegExp(`^(\\w+) got (?:.* )?${word.replace('.', '\\.')}$`, 'gm')),
    ]
    const by = answers.map(([, agent]) => agent)
    const isLost = lost.some(text => text.includes(word))
    if (own.length !== 1) wrong.push(`${word} is in ${own.length} turns`)
    if (by.length > 1) wrong.push(`${word} was answered by ${by.join(' and ')}`)
    if (name !== undefined && own.some(({ agent }) => agent !== name)) wrong.push(`${word} is not of ${name}`)
    const isInterrupted = own[0]?.status === 'interrupted'
    if (by.length > 0) counts.answered += 1
    else if (isInterrupted) counts.interrupted += 1
    else if (isLost) counts.unknown += 1
    else wrong.push(`${word} has no answer: ${JSON.stringify(own)}`)
  }
  const { interrupted } = textsFor('')
  const apologies = got.filter(text => text.includes(interrupted)).length
  const cut = turns.filter(({ status }) => status === 'interrupted').length
  if (apologies + lost.filter(text => text.includes(interrupted)).length < cut)
    wrong.push(`of ${cut} interrupted turns ${apologies} were told`)
  const awayTold = got.filter(text => /does not run\. It answers/.test(text)).length
  return { messages: expected.size, ...counts, wrong, awayTold }
}
