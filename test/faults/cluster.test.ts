/** Three nodes on one database: one conversation, in which a node dies. */
import { expect, test } from 'bun:test'
import type { Message } from '../../src/model/message.ts'
import { type ClusterNode, startCluster } from '../support/cluster.ts'
import { isPostgresThere } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const receive = async (node: ClusterNode, consumer: string): Promise<Message[]> =>
  (await node.call<Message[]>('recv', { timeout: 5, consumer })).body

test.skipIf(!isPostgresThere())(
  'any node answers; an account is polled by one node, and by another one when that node dies',
  async () => {
    await using cluster = await startCluster()
    const { nodes, phone, postgres, databaseName } = cluster
    await cluster.logIn('work')
    const [{ user_id: user, bot_id: bot }] = (await nodes[0]!.call('sessions')).body
    const findPoller = async () => {
      const name = await postgres.psql(
        `SELECT n.name FROM svc.account a JOIN svc.node n ON n.id = a.node`,
        databaseName,
      )
      return nodes.find(({ pid }) => name.endsWith(`:${pid}`))
    }
    const poller = await until('a node polls the account', 10_000, findPoller)

    for (const [nth, node] of nodes.entries()) await receive(node, `reader${nth}`)
    await phone('say', { text: 'one', from: user, to: bot })
    for (const [nth, node] of nodes.entries())
      expect((await receive(node, `reader${nth}`)).map(({ text }) => text)).toEqual(['one'])

    for (const node of nodes)
      expect(await node.call('send', { to: user, text: `from ${node.pid}` })).toMatchObject({
        status: 200,
        body: { status: 'accepted' },
      })

    const left = nodes.filter(node => node !== poller)
    for (const [nth, node] of left.entries()) await receive(node, `left${nth}`)
    await poller.kill('SIGKILL')
    await phone('say', { text: 'two', from: user, to: bot })
    for (const [nth, node] of left.entries())
      await until('the others receive what is written', 20_000, async () =>
        (await receive(node, `left${nth}`)).some(({ text }) => text === 'two'),
      )
    for (const node of left) {
      const { body } = await node.call('history', { session: 'work' })
      expect(body.messages.map((message: Message) => message.direction)).toEqual([
        'received',
        'sent',
        'sent',
        'sent',
        'received',
      ])
    }
  },
  120_000,
)
