/** What is stored of a house that is as full as it may be: messages, webhooks, users. */
import { createServer, type Server } from 'node:net'
import { systemClock } from '../../src/platform/clock.ts'
import { silentLog } from '../../src/platform/log.ts'
import type { ReceivedMessage } from '../../src/storage/messages.ts'
import { openStorage } from '../../src/storage/sqlite/open.ts'
import { insert } from '../storage/support.ts'
import { message, type Reply, textItem } from './upstream.ts'

export interface Crowd {
  messages: number
  webhooks: number
  users: number
}

/** A phrase each pair of whose letters stands in every text, and which none of them has. */
export const scattered = 'hello world'
/** Arguments that lead further than the first check. */
export const known: Readonly<Record<string, unknown>> = {
  ...{ session: 'default', session_name: 'work', old_name: 'work', new_name: 'work', name: 'work' },
  ...{ to: 'a@im.wechat', user_id: 'a@im.wechat', user: 'a@im.wechat', message_id: '7400000000000000001' },
  ...{ id: 'wh_50', row: 1, item: 0, login_id: 'x', up_to: 1, kind: 'file', digest: 'sha256' },
  ...{ timeout: 0, timeout_seconds: 0, hours: 720, since: 0, until: 4_000_000_000_000 },
  ...{ text_contains: scattered, after: 0, from: '2020-01-01', consumer: 'crowd' },
}

/** A path with its parameters. */
export const placeOf = (path: string): string =>
  path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(String(known[name] ?? 1)))

/** The only event that webhooks get: what is measured is one call at a time. */
const seldom = 'endpoint.disabled'
const bot = '000000000001@im.bot'

const userOf = (nth: number) => `user-${nth}-${'a'.repeat(40)}@im.wechat`

function storedMessage(nth: number, { messages, users }: Crowd): ReceivedMessage {
  const id = String(7_400_000_000_000_000_000n + BigInt(nth))
  // Some are as long as texts of people get, and some repeat the beginning of the phrase.
  const plain = `world ${nth} o w, hello: 你好 `
  const text =
    nth % 50 === 0 ? plain.repeat(500) : nth % 50 === 1 ? 'hello worl! d ld o w '.repeat(700) : plain
  const user = userOf(nth % users)
  const wire = { ...message({ id, user, items: [textItem(text)] }), create_time_ms: 1_780_000_000_000 + nth }
  return {
    ...{ message_id: id, derived_id: '', from_user: user, msg_type: 'TEXT', text, timed: true },
    ...{ timestamp: Date.now() - messages + nth, contentHash: String(nth), raw: JSON.stringify(wire) },
  }
}

/** Fills the store of a data directory. @param receivers where the first webhooks go; the others lead nowhere */
export async function fillStore(dir: string, crowd: Crowd, receivers: readonly string[]): Promise<void> {
  const options = { clock: systemClock, log: silentLog, maxAgeDays: 0, maxCount: 0 }
  const storage = await openStorage({ ...options, dir })
  const { store } = storage
  const batch = 1000
  for (let from = 0; from < crowd.messages; from += batch) {
    const count = Math.min(batch, crowd.messages - from)
    const some = Array.from({ length: count }, (_, nth) => storedMessage(from + nth, crowd))
    await insert({ storage }, some, 'default', bot)
  }
  const position = await store.events.getHead()
  const values = Object.fromEntries(Array.from({ length: 15 }, (_, nth) => [`X-${nth}`, 'v'.repeat(340)]))
  for (let nth = 0; nth < crowd.webhooks; nth++) {
    const url = receivers[nth] ?? `http://127.0.0.1:1/${'x'.repeat(1900)}`
    await store.webhooks.add({
      ...{
        id: `wh_${nth}`,
        url,
        types: [seldom],
        headers: values,
        secrets: [{ secret: `whsec_${'a'.repeat(44)}` }],
      },
      ...{ link_key: 'a'.repeat(44), allow_private: true, replies: nth % 2 === 0, created_at: nth, position },
    })
  }
  await storage.close()
}

/** An answer of WeChat with a message of each of so many users. */
export const ofUsers = (count: number, cursor: string): Reply =>
  withMessages(
    Array.from({ length: count }, (_, nth) =>
      message({
        id: String(7_410_000_000_000_000_000n + BigInt(nth)),
        user: userOf(nth),
        items: [textItem('hi')],
      }),
    ),
    cursor,
  )

export const withMessages = (msgs: unknown[], cursor: string): Reply => ({
  status: 200,
  body: JSON.stringify({ ret: 0, msgs, get_updates_buf: cursor }),
})

/** What servers say that do not want to be done. */
const endless = {
  hints: ['', 'HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n'],
  headers: ['HTTP/1.1 200 OK\r\n', 'X-A: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\n'],
  chunks: ['HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n', '1\r\na\r\n'],
} as const
export type Endless = keyof typeof endless
export const allEndless = Object.keys(endless) as Endless[]

/** A server that never comes to its end. */
export async function endlessServer(kind: Endless): Promise<AsyncDisposable & { url: string }> {
  const [head, piece] = endless[kind]
  const block = Buffer.from(piece.repeat(Math.ceil(65_536 / piece.length)))
  const server: Server = createServer(socket => {
    socket.on('error', () => {})
    socket.once('data', () => {
      socket.write(head)
      const go = () => {
        if (!socket.destroyed) socket.write(block, () => setImmediate(go))
      }
      go()
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  return {
    url: `http://127.0.0.1:${port}/hook`,
    async [Symbol.asyncDispose]() {
      server.close()
    },
  }
}
