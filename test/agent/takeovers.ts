/** Kills the process that runs an agent, again and again, while another one waits to take over. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { textsFor } from '../../src/agent/texts.ts'
import { clusterSecret, startCluster } from '../support/cluster.ts'
import { end } from '../support/family.ts'
import { overhear } from '../support/overheard.ts'
import type { Json } from '../support/service.ts'
import { stopwatch } from '../support/stopwatch.ts'
import { svcProgram } from '../support/svc-program.ts'
import { until } from '../support/until.ts'

export interface Takeovers {
  /** From each kill until another process had the agent, in ms. */
  readonly took: number[]
  /** Messages by what came of them. unknown: it is not known whether the answer arrived. */
  readonly answered: number
  readonly told: number
  readonly unknown: number
  /** Messages with more than one answer. */
  readonly twice: string[]
}

/**
 * Each round: the owner writes, the process that runs the agent dies, and the owner writes again while none runs.
 *
 * @param delays for each round how long after the first message it dies, in ms
 */
export async function takeOver(delays: readonly number[]): Promise<Takeovers> {
  await using stack = new AsyncDisposableStack()
  const cluster = stack.use(await startCluster({ nodes: 1, args: ['--pace', 'off'] }))
  const { databaseName, phone, postgres, seen, wechat } = cluster
  // More messages come than WeChat takes in a while.
  await phone('switches', { burst: 'off' })
  await cluster.logIn('work')
  const [{ bot_id: to, user_id: from }] = (await cluster.nodes[0]!.call('sessions')).body

  const startAgent = async () => {
    const dir = await mkdtemp(join(tmpdir(), 'svc-agent-'))
    stack.defer(() => rm(dir, { recursive: true, force: true }))
    const place = ['-d', dir, '--upstream-url', wechat, '--cdn-url', `${wechat}/c2c`, '--pace', 'off']
    const child = Bun.spawn(
      [...svcProgram, 'agent', ...place, '--gather', '0.05', '--', 'svc', 'echo-agent'],
      {
        cwd: dir,
        env: {
          PATH: process.env.PATH ?? '',
          HOME: dir,
          SVC_STORE_URL: postgres.url(databaseName),
          SVC_SECRET_KEY: clusterSecret,
        },
        stdin: 'ignore',
        stdout: 'pipe',
        stderr: 'pipe',
      },
    )
    const output = overhear(child)
    const kill = async () => {
      end(child.pid, 'SIGKILL')
      await output.exited
    }
    stack.defer(kill)
    const told = () => output.stdout + output.stderr
    await until('the agent is ready', 30_000, () => output.stdout.includes('may talk with it'), told)
    return { pid: child.pid, kill, told }
  }
  const ask = (query: string) => postgres.psql(`SET search_path = svc; ${query}`, databaseName)
  const agents = [await startAgent(), await startAgent()]
  /** The process that runs the agent, among those that live. */
  const findRunning = async () => {
    const name = await ask(`SELECT n.name FROM agent_conversation c JOIN node n ON n.id = c.owner
      WHERE c.session = 0 AND n.lease_until > clock_timestamp()`)
    return agents.find(({ pid }) => name.endsWith(`:${pid}`))
  }
  const got = async (): Promise<string[]> =>
    (await seen<Json>('messages?from=bot&limit=1000')).messages.map(({ items }: Json) => items[0].text ?? '')
  const say = (text: string) => phone('say', { text, from, to })
  const count = (texts: readonly string[], word: string) => texts.filter(text => text.includes(word)).length
  const { interrupted } = textsFor('')
  const countUnknown = async () =>
    Number(await ask(`SELECT count(*) FROM message WHERE sent = 1 AND status = 'unknown'`))

  await until('an agent runs', 20_000, findRunning)
  await say('first.')
  await until(
    'it answers',
    20_000,
    async () => count(await got(), 'first.') === 1,
    () => agents.map(one => one.told()).join(),
  )
  const words = ['first.']
  const took: number[] = []
  for (const [round, delay] of delays.entries()) {
    const running = await until('an agent runs', 20_000, findRunning)
    const [before, after] = [`before${round}.`, `after${round}.`]
    await say(before)
    await Bun.sleep(delay)
    agents.splice(agents.indexOf(running), 1)
    await running.kill()
    using watch = stopwatch()
    await say(after)
    await until('another one runs', 30_000, findRunning)
    took.push(watch.ms)
    words.push(before, after)
    if (round < delays.length - 1) agents.push(await startAgent())
    // Each is answered, or its user is told, or it is not known whether the answer arrived.
    await until(
      `round ${round} ends`,
      60_000,
      async () => {
        const texts = await got()
        const open = words.filter(word => count(texts, word) === 0).length
        return open <= count(texts, interrupted) + (await countUnknown())
      },
      () => agents.map(one => one.told()).join(),
    )
  }
  const texts = await got()
  return {
    took,
    answered: words.filter(word => count(texts, word) > 0).length,
    told: count(texts, interrupted),
    unknown: await countUnknown(),
    twice: words.filter(word => count(texts, word) > 1),
  }
}
