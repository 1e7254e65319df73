/** A node whose database misbehaves for a while, with callers that go on calling. */
import { expect } from 'bun:test'
import { type Cluster, startCluster } from '../../support/cluster.ts'
import type { Json } from '../../support/service.ts'
import { stopwatch } from '../../support/stopwatch.ts'
import { until } from '../../support/until.ts'

/** Longest wait of a call: 4 s for a connection, 8 s for an answer, and a moment. */
const callMs = 13_000
/** Longest wait for the health: `svc health` waits 2 s. */
export const healthMs = 2000

export interface Fault {
  begin(): Promise<unknown>
  also?(): Promise<unknown>
  /** What the health, and the errors of calls, say. */
  said: RegExp
  /** Whether callers notice too. Default: true. */
  isNoticed?: boolean
  hint: RegExp
  end(): Promise<unknown>
  endAlso?(): Promise<unknown>
}

export interface Call {
  name: string
  tookMs: number
  status: number
  body: Json
}

export class Trial {
  readonly cluster: Cluster
  #user = ''
  #bot = ''
  #sent = 0

  static async start(): Promise<Trial> {
    const trial = new Trial(await startCluster({ nodes: 1, args: ['--log-level', 'WARNING'] }))
    await trial.cluster.logIn('work')
    const [{ bot_id: bot, user_id: user }] = (await trial.node.call('sessions')).body
    trial.#user = user
    trial.#bot = bot
    await trial.cluster.phone('say', { text: 'hello', from: user, to: bot })
    await until('the message is there', 20_000, async () => (await trial.send()).status === 200)
    return trial
  }

  private constructor(cluster: Cluster) {
    this.cluster = cluster
  }

  get node() {
    return this.cluster.nodes[0]!
  }

  get name() {
    return this.cluster.databaseName
  }

  get superUrl() {
    return this.cluster.postgres.superUrl(this.name)
  }

  admin(statements: string): Promise<string> {
    return this.cluster.postgres.psql(statements)
  }

  endConnections(): Promise<string> {
    return this.admin(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'svc'`)
  }

  send(): Promise<Call> {
    return this.#call('send', { to: this.#user, text: `text ${++this.#sent}` })
  }

  async #call(name: string, input: unknown): Promise<Call> {
    using watch = stopwatch()
    const { body, status } = await this.node.call(name, input)
    return { name, tookMs: watch.ms, status, body }
  }

  /** Lets the user write so much that the database needs more room. */
  async receiveMuch(): Promise<void> {
    for (let nth = 0; nth < 40; nth++)
      await this.cluster.phone('say', { text: 'x'.repeat(3000) + nth, from: this.#user, to: this.#bot })
  }

  async health(): Promise<Call> {
    using watch = stopwatch()
    const response = await fetch(`${this.node.url}/healthz`)
    return { name: 'healthz', tookMs: watch.ms, status: response.status, body: await response.json() }
  }

  /** Goes through a fault. Callers never wait longer than they should, and are told what is wrong. */
  async bear(fault: Fault): Promise<void> {
    const calls: Call[] = []
    let over = false
    const go = async (make: () => Promise<Call>) => {
      while (!over) {
        calls.push(await make())
        await Bun.sleep(200)
      }
    }
    const logBefore = this.node.log().length
    const working = [
      go(() => this.send()),
      go(() => this.#call('history', { limit: 5 })),
      go(() => this.#call('recv', { timeout: 1, consumer: 'trial' })),
      go(() => this.health()),
    ]
    try {
      await fault.begin()
      await fault.also?.()
      const isSaid = (body: Json) => fault.said.test(body?.trouble?.message ?? '')
      let last: Call | undefined
      await until(
        'the health says it',
        60_000,
        async () => {
          last = await this.health()
          return last.status === 503 && isSaid(last.body)
        },
        () => JSON.stringify(last),
      )
      expect(last!.body).toMatchObject({ store: 'unavailable', status: 'degraded' })
      expect(last!.body.trouble.hint).toMatch(fault.hint)
      if (fault.isNoticed ?? true)
        await until('a call says it', 60_000, () =>
          calls.some(({ body, name }) => name !== 'healthz' && fault.said.test(body?.detail ?? '')),
        )
    } catch (error) {
      over = true
      throw error
    } finally {
      await fault.end()
      await fault.endAlso?.()
      if (over) await Promise.allSettled(working)
    }
    await until(
      'it works again',
      60_000,
      async () => {
        const [{ body }, sent] = await Promise.all([this.health(), this.send()])
        return body.status === 'ok' && sent.status < 500
      },
      () => this.node.log().slice(logBefore),
    )
    over = true
    await Promise.all(working)
    const odd = calls.filter(
      ({ body, status }) =>
        status === 500 || (status === 503 && body.store === undefined && body.code !== 'store_unavailable'),
    )
    expect(odd).toEqual([])
    const longest = (of: (call: Call) => boolean) => Math.max(...calls.filter(of).map(({ tookMs }) => tookMs))
    expect(longest(({ name }) => name !== 'healthz')).toBeLessThan(callMs)
    expect(longest(({ name }) => name === 'healthz')).toBeLessThan(5 * healthMs)
    // A part of svc that tries again tells a failure once, and not for each try.
    const lines = this.node
      .log()
      .slice(logBefore)
      .trim()
      .split('\n')
      .map(line => line.slice(25).replace(/ \w+=\d+$/, ''))
    expect(lines.length - new Set(lines).size).toBeLessThan(5)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.cluster[Symbol.asyncDispose]()
  }
}
