/** The database is away while a program polls and sends: it is told to try again, never that its token is over, and nothing is lost. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type Cluster, startCluster } from '../support/cluster.ts'
import { freePort } from '../support/port.ts'
import { isPostgresThere } from '../support/postgres.ts'
import type { Json } from '../support/service.ts'
import { stopwatch } from '../support/stopwatch.ts'
import { until } from '../support/until.ts'
import { logInWork, post, serviceArgs } from './programs.ts'
import { type RelayProgram, relayProgram } from './protocol.ts'

/** Longest wait of a call that does not poll: 4 s for a connection, 8 s for an answer, and a moment. */
const callMs = 13_000

describe.skipIf(!isPostgresThere())('the database is away in mid-poll', () => {
  let cluster: Cluster
  let program: RelayProgram
  let user = ''
  beforeAll(async () => {
    cluster = await startCluster({ nodes: 0 })
    const port = freePort()
    const node = await cluster.addNode({ args: serviceArgs(cluster.wechat, port).slice(4) })
    await logInWork(cluster.wechat, node.url)
    const { id, token, user_id } = await post(`${node.url}/relays`, { name: 'one', session: 'work' })
    user = user_id
    program = relayProgram(`http://127.0.0.1:${port}`, id, token, user)
    await cluster.phone('say', { text: 'first' })
    await program.read(1)
  }, 240_000)
  afterAll(() => cluster?.[Symbol.asyncDispose]())

  const faults = {
    'its connections are cut': {
      begin: () => cluster.nodes[0]!.database.cut(),
      end: () => cluster.nodes[0]!.database.mend(),
    },
    'it does not answer': {
      begin: async () => cluster.nodes[0]!.database.freeze(),
      end: async () => cluster.nodes[0]!.database.thaw(),
    },
    'it stops': {
      begin: () => cluster.postgres.stop('immediate'),
      end: () => cluster.postgres.start(),
    },
    'its machine stands still': {
      begin: () => cluster.postgres.pause(),
      end: () => cluster.postgres.resume(),
    },
  }
  for (const [name, { begin, end }] of Object.entries(faults))
    test(name, async () => {
      const answers: { name: string; status: number; errcode: number; tookMs: number }[] = []
      const got: string[] = []
      const ask = async (name: string, body: object) => {
        using watch = stopwatch()
        const { body: answer, status } = await program.post(name, body, { signal: stop.signal })
        answers.push({ name, status, errcode: answer.errcode ?? answer.ret, tookMs: watch.ms })
        return { answer, status }
      }
      const stop = new AbortController()
      const poll = async () => {
        while (!stop.signal.aborted) {
          const { answer, status } = await ask('getupdates', { get_updates_buf: program.cursor })
          for (const { item_list } of answer.msgs ?? []) got.push(item_list[0].text_item.text)
          program.cursor = answer.get_updates_buf || program.cursor
          if (status !== 200) await Bun.sleep(200)
        }
      }
      const told = () =>
        answers.map(one => JSON.stringify(one)).join('\n') + cluster.nodes[0]!.log().slice(-5000)
      const text = `answer: ${name}`
      const item_list = [{ type: 1, text_item: { text } }]
      const msg = { to_user_id: user, client_id: name, message_type: 2, message_state: 2, item_list }
      const polling = poll().catch(error => error)
      await using _polling = {
        async [Symbol.asyncDispose]() {
          stop.abort()
          await polling
        },
      }
      const query = `SELECT 1 FROM svc.acknowledged WHERE position = (SELECT max(id) FROM svc.message WHERE sent = 0)`
      await until('it has acknowledged all, and waits', 30_000, async () =>
        Boolean(await cluster.postgres.psql(query, cluster.databaseName)),
      )
      try {
        await begin()
        await cluster.phone('say', { text: `during: ${name}` })
        expect((await ask('sendmessage', { msg })).status).toBe(503)
        expect((await ask('getconfig', { ilink_user_id: user })).status).toBe(503)
      } finally {
        await end()
      }
      let sent = 0
      await until(
        'its end is known',
        60_000,
        async () => {
          // 504: the database got the message, and svc never knew that.
          sent = (await ask('sendmessage', { msg })).status
          return sent === 200 || sent === 504
        },
        told,
      )
      await cluster.phone('say', { text: `after: ${name}` })
      await until('all is there', 60_000, () => got.includes(`after: ${name}`), told)
      expect(got).toEqual([`during: ${name}`, `after: ${name}`])
      const { messages } = await cluster.seen('messages?from=bot&limit=1000')
      const shown = messages.filter(({ items }: Json) => items[0].text === text)
      expect(sent === 200 ? [1] : [0, 1]).toContain(shown.length)
      expect(answers.filter(({ errcode, status }) => status < 500 && errcode !== 0)).toEqual([])
      const calls = answers.filter(({ name }) => name !== 'getupdates')
      expect(Math.max(...calls.map(({ tookMs }) => tookMs))).toBeLessThan(callMs)
    }, 240_000)
})
