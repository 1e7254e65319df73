/** Two nodes on one database: what one of them gave out or was told counts on the other, at every door. */
import { afterAll, describe, expect, test } from 'bun:test'
import { deriveSecret } from '../../src/platform/sealing.ts'
import { receiver } from '../push/receiver.ts'
import { cookieOf, pageHeaders } from '../support/admin.ts'
import { type Cluster, type ClusterNode, clusterSecret, startCluster } from '../support/cluster.ts'
import { ended } from '../support/ended.ts'
import { eventSource } from '../support/event-source.ts'
import { initialize, openSession, post } from '../support/mcp-raw.ts'
import { isPostgresThere } from '../support/postgres.ts'
import type { Json } from '../support/service.ts'
import { stopwatch } from '../support/stopwatch.ts'
import { svcProgram } from '../support/svc-program.ts'
import { until } from '../support/until.ts'

/** All nodes derive the owner's token from their secret key. */
const master = deriveSecret(clusterSecret, 'api_token')
const within = 60_000

const stack = new AsyncDisposableStack()
afterAll(() => stack.disposeAsync())

interface Asked {
  token?: string
  method?: string
  body?: unknown
  headers?: Record<string, string>
}

/** Calls a path of a node. Without a token the owner calls. */
function ask(node: ClusterNode, path: string, { body, headers, method, token = master }: Asked = {}) {
  const isText = body === undefined || body instanceof Uint8Array
  return fetch(`${node.url}${path}`, {
    method: method ?? (body === undefined ? 'GET' : 'POST'),
    headers: {
      authorization: `Bearer ${token}`,
      ...(!isText && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && {
      body: body instanceof Uint8Array ? new Blob([body as Uint8Array<ArrayBuffer>]) : JSON.stringify(body),
    }),
  })
}

const panelOf = (node: ClusterNode) => /^admin on (\S+)$/m.exec(node.stdout())![1]!

async function open() {
  const cluster: Cluster = stack.use(await startCluster({ nodes: 2, args: ['--admin-port', '0'] }))
  const [a, b] = cluster.nodes as [ClusterNode, ClusterNode]
  await cluster.logIn('work')
  const [{ bot_id: bot, user_id: user }] = (await a.call('sessions')).body
  const say = (text: string) => cluster.phone('say', { text, from: user, to: bot })
  const json = async (node: ClusterNode, path: string, asked?: Asked): Promise<Json> => {
    const answer = await ask(node, path, asked)
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${text}`)
    return JSON.parse(text)
  }
  const addKey = async (node: ClusterNode, input: object = {}): Promise<{ id: string; key: string }> =>
    json(node, '/keys', { body: { name: crypto.randomUUID().slice(0, 8), can: ['reply'], ...input } })
  /** Adds an endpoint on this machine, which only the command line can. */
  const addWebhook = async (url: string) => {
    const env = { SVC_STORE_URL: cluster.postgres.url(cluster.databaseName), SVC_SECRET_KEY: clusterSecret }
    const command = [...svcProgram, 'webhook', 'add', url, '--allow-private', '-d', a.dir]
    const { status, stderr } = await ended(command, {
      cwd: a.dir,
      env: { PATH: process.env.PATH ?? '', HOME: a.dir, ...env },
    })
    if (status !== 0) throw new Error(stderr)
  }
  /** What the user has received, as texts. */
  const texts = async (): Promise<string[]> =>
    (await cluster.seen<Json>('messages?from=bot&limit=1000')).messages.flatMap(
      ({ items }: Json) => items[0].text ?? [],
    )
  await say('hello')
  await until('both nodes have the message', 10_000, async () => {
    const found = await Promise.all([a, b].map(node => node.call('history', { session: 'work' })))
    return found.every(({ body }) => body.messages?.length === 1)
  })
  // From now on a token is needed.
  await addKey(a)
  return { ...cluster, a, addKey, addWebhook, b, bot, json, say, texts, user }
}

let opened: ReturnType<typeof open> | undefined
const t = () => (opened ??= open())

describe.skipIf(!isPostgresThere())('two nodes', () => {
  test(
    'a key that one node revokes is refused by the other, and its streams and sessions end, within a second',
    async () => {
      const { a, addKey, b } = await t()
      const { id, key } = await addKey(a)
      const mine = { authorization: `Bearer ${key}` }
      const session = await openSession(`${b.url}/mcp`, undefined, mine)
      const events = await ask(b, '/events', { token: key })
      const mcp = await fetch(`${b.url}/mcp`, {
        headers: { ...mine, ...session, accept: 'text/event-stream' },
      })
      expect([events.status, mcp.status]).toEqual([200, 200])
      const recv = ask(b, '/tools/default/recv', { token: key, body: { timeout: 30, consumer: 'revoked' } })
      const ends = [events, mcp].map(answer => answer.text().catch(() => {}))
      await until('the key is in use', 5000, async () => (await ask(b, '/me', { token: key })).ok)

      using watch = stopwatch()
      expect((await ask(a, `/keys/${id}`, { method: 'DELETE' })).status).toBe(200)
      const revoked = watch.ms
      await until('the other node refuses it', 5000, async () => {
        return (await ask(b, '/me', { token: key })).status === 401
      })
      await Promise.all(ends)
      expect((await recv).status).toBe(401)
      expect((await post(`${b.url}/mcp`, initialize(), { ...mine, ...session })).status).toBe(401)
      expect(watch.ms - revoked).toBeLessThan(1500)
    },
    within,
  )

  test(
    'limits count what a key uses on all nodes',
    async () => {
      const { a, addKey, b } = await t()
      const { key } = await addKey(a, { can: ['reply'], limits: { open: 1, bytes_per_day: 1000 } })
      const upload = (node: ClusterNode, size: number) =>
        ask(node, '/media', { token: key, body: new Uint8Array(size), headers: { 'x-filename': 'a.bin' } })
      expect((await upload(a, 600)).status).toBe(200)
      const events = await ask(a, '/events', { token: key })
      expect(events.status).toBe(200)
      // The other node uses the key too, and hears of it within a second or two.
      await until('a second stream is refused', 10_000, async () => {
        const second = await ask(b, '/events', { token: key })
        await second.body?.cancel()
        return second.status === 429
      })
      const refused = await upload(b, 600)
      expect([refused.status, (await refused.json()).code]).toEqual([429, 'rate_limited'])
      expect((await upload(b, 300)).status).toBe(200)
      await events.body?.cancel()
      await until('the stream is closed for both', 10_000, async () => {
        const next = await ask(b, '/events', { token: key })
        await next.body?.cancel()
        return next.status === 200
      })
    },
    within,
  )

  test(
    'the audit log has what was done on any node',
    async () => {
      const { a, addKey, b, json, user } = await t()
      const { id, key } = await addKey(a)
      for (const node of [a, b])
        await json(node, '/tools/default/send', { token: key, body: { to: user, text: `audit ${node.pid}` } })
      const lines = await json(b, '/audit?limit=100')
      const own = lines.filter(
        ({ principal, operation }: Json) => principal === `key:${id}` && operation === 'send',
      )
      expect(own).toHaveLength(2)
    },
    within,
  )

  test(
    'a file uploaded to one node is sent by the other, and what was received is downloaded anywhere',
    async () => {
      const { a, b, bot, json, user, wechat } = await t()
      const bytes = crypto.getRandomValues(new Uint8Array(2000))
      const { upload_id } = await json(a, '/media', {
        body: bytes,
        headers: { 'x-filename': 'a.bin' },
      })
      const sent = await json(b, '/tools/default/send', {
        body: { to: user, media: [{ kind: 'file', upload_id }] },
      })
      expect(sent.status).toBe('accepted')
      const given = await fetch(`${wechat}/phone/media?kind=file&name=b.bin&from=${user}&to=${bot}`, {
        method: 'POST',
        body: bytes,
      })
      const { message_id } = (await given.json()) as Json
      for (const node of [a, b])
        await until('its bytes are there', 10_000, async () => {
          const answer = await ask(node, `/media/${message_id}/0`)
          return answer.ok && Buffer.from(await answer.arrayBuffer()).equals(Buffer.from(bytes))
        })
    },
    within,
  )

  test(
    'media links of a webhook open on any node',
    async () => {
      const { a, addWebhook, b, bot, user, wechat } = await t()
      using hook = receiver()
      await addWebhook(hook.url)
      await fetch(`${wechat}/phone/media?kind=file&name=c.bin&from=${user}&to=${bot}`, {
        method: 'POST',
        body: new Uint8Array(100),
      })
      const link = await until('the delivery has a link', 20_000, () => {
        for (const { text } of hook.got) {
          const found = /\/shared\/[^"\\]+/.exec(text)
          if (found) return found[0]
        }
        return undefined
      })
      for (const node of [a, b]) {
        const answer = await fetch(`${node.url}${link}`)
        expect([answer.status, (await answer.arrayBuffer()).byteLength]).toEqual([200, 100])
      }
    },
    within,
  )

  /** The cookie as a browser has it for another node, to which a balancer leads by one address. */
  const onPort = (cookie: string, node: ClusterNode) =>
    cookie.replace(/_\d+=/, `_${new URL(panelOf(node)).port}=`)

  test(
    'a sign-in to the panel counts on every node, and so does its end',
    async () => {
      const { a, addKey, b } = await t()
      for (const token of [master, (await addKey(a)).key]) {
        const signIn = await fetch(`${panelOf(a)}/api/sign-in`, {
          method: 'POST',
          headers: { 'content-type': 'application/json', origin: panelOf(a) },
          body: JSON.stringify({ token }),
        })
        expect(signIn.status).toBeLessThan(300)
        const page = pageHeaders(cookieOf(signIn.headers))
        const list = (node: ClusterNode) =>
          fetch(`${panelOf(node)}/api/call/list_conversations`, {
            method: 'POST',
            headers: {
              ...page,
              cookie: onPort(page.cookie, node),
              'content-type': 'application/json',
              origin: panelOf(node),
            },
            body: '{}',
          })
        for (const node of [a, b]) expect((await list(node)).status).toBe(200)
        const stream = await fetch(`${panelOf(b)}/api/events`, {
          headers: { ...page, cookie: onPort(page.cookie, b) },
        })
        expect(stream.status).toBe(200)
        const signOut = await fetch(`${panelOf(a)}/api/sign-out`, {
          method: 'POST',
          headers: { ...page, 'content-type': 'application/json', origin: panelOf(a) },
          body: '{}',
        })
        expect(signOut.status).toBeLessThan(300)
        for (const node of [a, b]) expect((await list(node)).status).toBe(401)
        await stream.text()
      }
    },
    within,
  )

  test(
    'an MCP session goes on at another node; for another caller it does not',
    async () => {
      const { a, addKey, b } = await t()
      const { key } = await addKey(a)
      const mine = { authorization: `Bearer ${key}` }
      const session = await openSession(`${a.url}/mcp`, undefined, mine)
      const list = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }
      const there = await post(`${b.url}/mcp`, list, { ...mine, ...session })
      expect([there.status, (await there.text()).includes('"recv"')]).toEqual([200, true])
      const { key: other } = await addKey(b)
      const theirs = await post(`${b.url}/mcp`, list, { authorization: `Bearer ${other}`, ...session })
      expect(theirs.status).toBe(404)
    },
    within,
  )

  test(
    'an event stream resumes at another node without a gap',
    async () => {
      const { a, b, say } = await t()
      const headers = { authorization: `Bearer ${master}` }
      const isMessage = ({ data }: { data?: Json }) => data?.type === 'message.received'
      const read = async (node: ClusterNode, wanted: number, from = {}, onOpen = async () => {}) => {
        await using source = await eventSource(`${node.url}/events`, { ...headers, ...from })
        await onOpen()
        const heard: string[] = []
        while (heard.length < wanted) {
          const frame = await source.next()
          if (!frame) throw new Error('the stream ended')
          if (isMessage(frame)) heard.push(frame.data.message?.text ?? frame.data.data?.text)
        }
        return { heard, lastId: source.lastId! }
      }
      const { heard, lastId } = await read(a, 1, {}, async () => void (await say('stream 1')))
      await say('stream 2')
      await say('stream 3')
      const rest = await read(b, 2, { 'last-event-id': lastId })
      expect([...heard, ...rest.heard]).toEqual(['stream 1', 'stream 2', 'stream 3'])
    },
    within,
  )

  test(
    'a link to an event stream opens once, on any node',
    async () => {
      const { a, b, json } = await t()
      const { url } = await json(a, '/events/link', { body: {} })
      const path = new URL(url, a.url)
      const first = await fetch(`${b.url}${path.pathname}${path.search}`)
      expect(first.status).toBe(200)
      await first.body?.cancel()
      for (const node of [a, b])
        expect((await fetch(`${node.url}${path.pathname}${path.search}`)).status).toBe(403)
    },
    within,
  )

  test(
    'what one node queued is approved or cancelled by the other',
    async () => {
      const { a, addKey, b, json, texts, user } = await t()
      const { key } = await addKey(a, { can: ['read', 'draft'] })
      const draft = async (text: string) =>
        await json(a, '/tools/default/send', { token: key, body: { to: user, text } })
      await draft('approved')
      await draft('cancelled')
      const list = await json(b, '/outbox')
      const [yes, no] = ['approved', 'cancelled'].map(text =>
        list.find((entry: Json) => JSON.stringify(entry).includes(`"${text}"`)),
      )
      await json(b, `/outbox/${yes.outbox_id}/approve`, { body: {} })
      await json(b, `/outbox/${no.outbox_id}`, { method: 'DELETE' })
      await until('the user has it', 15_000, async () => (await texts()).includes('approved'))
      expect(await texts()).not.toContain('cancelled')
      expect(await json(a, '/outbox')).toEqual([])
    },
    within,
  )
})
