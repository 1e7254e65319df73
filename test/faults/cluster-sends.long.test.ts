/** Sends of a cluster: a node dies in the middle of one, and one key is used on all nodes at once. */
import { expect, test } from 'bun:test'
import { type Cluster, startCluster } from '../support/cluster.ts'
import { isPostgresThere } from '../support/postgres.ts'
import { type TestSandbox, withSandbox } from '../support/sandbox.ts'
import { stopwatch } from '../support/stopwatch.ts'
import { until } from '../support/until.ts'
import { ask } from './support/nodes.ts'
import { rowsOf } from './support/notes.ts'

const withinMs = 30_000
/** Others go on with what a dead node had after this. */
const takeoverMs = 10_000

interface Site extends AsyncDisposable {
  sandbox: TestSandbox
  cluster: Cluster
  user: string
  bot: string
}

async function openSite(): Promise<Site> {
  await using stack = new AsyncDisposableStack()
  const sandbox = stack.use(await withSandbox({ switches: { quota: 0 } }))
  const cluster = stack.use(await startCluster({ wechat: sandbox.url, args: ['--pace', 'off'] }))
  const user = await sandbox.addUser('User')
  const { bot_id: bot } = await cluster.logIn('s', user)
  const own = stack.move()
  return { sandbox, cluster, user, bot, [Symbol.asyncDispose]: () => own.disposeAsync() }
}

/** The user writes, so that answers may be sent. */
async function hear({ bot, cluster, sandbox, user }: Site) {
  await sandbox.say('hi', { from: user, to: bot })
  await until('it is stored', withinMs, async () => (await received(cluster)).length > 0)
}

const received = (cluster: Cluster) => rowsOf(cluster, 'SELECT id FROM svc.message WHERE sent = 0')
const sent = (cluster: Cluster) =>
  rowsOf<{ text: string; status: string }>(
    cluster,
    'SELECT text, status FROM svc.message WHERE sent = 1 ORDER BY id',
  )
const seen = async ({ messages }: TestSandbox) =>
  (await messages({ from: 'bot', limit: 1000 })).map(({ items }) => items[0]?.text)
const requests = ({ world }: TestSandbox) => world.core.stats.requests.sendmessage ?? 0

/** Waits until the other nodes have settled the send of a node that died. */
async function expectUnknown(cluster: Cluster): Promise<void> {
  using watch = stopwatch()
  await until('it is settled', withinMs, async () => (await sent(cluster))[0]?.status === 'unknown')
  expect(watch.ms).toBeLessThan(takeoverMs)
}

const it = test.skipIf(!isPostgresThere())

for (const reached of [true, false])
  it(`a node dies after ${reached ? 'WeChat has' : 'it gave WeChat'} the message: it ends as unknown, and is not sent again`, async () => {
    await using site = await openSite()
    const { cluster, sandbox, user } = site
    const [first, second] = cluster.nodes
    await hear(site)
    await sandbox.fail('sendmessage', 'hang', { after: reached })
    const broken = ask(first!, 'send', { to: user, text: 'once', idempotency_key: 'k' }).catch(() => 'broken')
    await until('WeChat has the request', withinMs, () => requests(sandbox) === 1)
    await until('WeChat has it', withinMs, async () => !reached || (await seen(sandbox)).length === 1)
    await first!.kill('SIGKILL')
    expect(await broken).toBe('broken')
    await expectUnknown(cluster)
    // The same key does not send again.
    const again = await ask(second!, 'send', { to: user, text: 'once', idempotency_key: 'k' })
    expect(again.body.status).toBe('unknown')
    expect((await ask(second!, 'send', { to: user, text: 'next' })).body.status).toBe('accepted')
    expect(await seen(sandbox)).toEqual(reached ? ['once', 'next'] : ['next'])
    expect(requests(sandbox)).toBe(2)
  }, 120_000)

it('a node dies after a send began and before WeChat has it: it ends as unknown, and is never sent', async () => {
  await using site = await openSite()
  const { cluster, sandbox, user } = site
  const [first, second] = cluster.nodes
  await hear(site)
  const [own] = await rowsOf<{ id: string }>(
    cluster,
    `SELECT id FROM svc.node WHERE name LIKE '%:${first!.pid}'`,
  )
  // What began counts after a barrier, which waits for this row.
  const hold = `BEGIN; SELECT FROM svc.durable WHERE node = '${own!.id}' FOR UPDATE; SELECT pg_sleep(20); COMMIT`
  const held = cluster.postgres.psql(hold, cluster.databaseName).catch(() => {})
  const waits = `SELECT 1 FROM pg_stat_activity WHERE query LIKE '%pg_sleep(20)%' AND wait_event = 'PgSleep'`
  await until('the row is locked', withinMs, async () => (await rowsOf(cluster, waits)).length > 0)
  const broken = ask(first!, 'send', { to: user, text: 'once' }).catch(() => 'broken')
  await until('it has begun', withinMs, async () => (await sent(cluster))[0]?.status === 'sending')
  await first!.kill('SIGKILL')
  expect(await broken).toBe('broken')
  await cluster.postgres.psql(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'`,
  )
  await held
  await expectUnknown(cluster)
  expect((await ask(second!, 'send', { to: user, text: 'next' })).body.status).toBe('accepted')
  expect(await seen(sandbox)).toEqual(['next'])
}, 120_000)

it('messages that wait on a node that dies are sent by another one, once', async () => {
  await using site = await openSite()
  const { cluster, sandbox, user, bot } = site
  const [first] = cluster.nodes
  const texts = ['one', 'two', 'three']
  // WeChat refuses the first one: the user has not written.
  for (const text of texts) {
    const { body } = await ask(first!, 'send', { to: user, text, when_closed: 'queue' })
    expect(body.status).toBe('queued')
  }
  const before = requests(sandbox)
  await sandbox.fail('sendmessage', 'hang')
  await sandbox.say('hi', { from: user, to: bot })
  await until('a node sends', withinMs, () => requests(sandbox) > before)
  const [lane] = await rowsOf<{ name: string }>(
    cluster,
    `SELECT n.name FROM svc.outbox_lane l JOIN svc.node n ON n.id = l.owner`,
  )
  const sender = cluster.nodes.find(({ pid }) => lane?.name.endsWith(`:${pid}`))!
  await sender.kill('SIGKILL')
  using watch = stopwatch()
  await until('the others are sent', withinMs, async () => (await seen(sandbox)).length === 2)
  expect(watch.ms).toBeLessThan(takeoverMs)
  expect((await sent(cluster)).map(({ status }) => status)).toEqual(['unknown', 'accepted', 'accepted'])
  expect(await seen(sandbox)).toEqual(['two', 'three'])
}, 120_000)

it('one key on three nodes at once is one send, with one answer', async () => {
  await using site = await openSite()
  const { cluster, sandbox, user } = site
  await hear(site)
  for (let nth = 0; nth < 9; nth++) {
    const input = { to: user, text: `text ${nth}`, idempotency_key: `key ${nth}` }
    const answers = await Promise.all(cluster.nodes.map(node => ask(node, 'send', input)))
    const ids = new Set(answers.map(({ body }) => `${body.status} ${body.message_id}`))
    expect([...ids]).toEqual([expect.stringMatching(/^accepted \d+$/)])
  }
  expect(await seen(sandbox)).toEqual(Array.from({ length: 9 }, (_, nth) => `text ${nth}`))
}, 120_000)
