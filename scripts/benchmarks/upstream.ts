/**
 * The canned upstream and CDN, in its own process. It prepares all answers before the requests, so that it is
 * never the bottleneck. Control calls are POSTs to `/control/…` with JSON.
 */
import { createCipheriv } from 'node:crypto'
import process from 'node:process'
import { parseArgs } from 'node:util'
import { createMessage, createRandom, toWireText } from './texts.ts'

const { values } = parseArgs({
  args: process.argv.slice(2),
  options: { 'hold-ms': { type: 'string', default: '30000' } },
})
const holdMs = Number(values['hold-ms'])

interface Backlog {
  /** A cursor of another run begins at the start. */
  run: number
  /** The replies to the polls of each session, in order; `''`: of any session. */
  replies: Map<string, Uint8Array[]>
  /** Sessions that have not asked with their last cursor. */
  left: Set<string>
  startedAt: number | undefined
  took: PromiseWithResolvers<number>
}

interface Parked {
  session: string
  /** Version that the client reports. */
  version: string
  answer(body: string): void
}

let backlog: Backlog | undefined
/** The version that the client of a session reported with its last poll, by session. */
const pollers = new Map<string, string>()
const parked = new Set<Parked>()
let onParked = Promise.withResolvers<void>()
let polls = 0
let sent = Date.now()

const json = { headers: { 'content-type': 'application/json' } }
const createEmptyReply = () => Response.json({ ret: 0, msgs: [], get_updates_buf: '' })

const parkedOf = (name?: string) => [...parked].filter(({ session }) => !name || session.endsWith(`:${name}`))

/** Holds a poll until a message comes; answers with no messages after the hold. */
function hold(session: string, version: string, request: Request): Promise<Response> {
  return new Promise(resolve => {
    const timer = setTimeout(() => end(createEmptyReply()), holdMs)
    const entry: Parked = { session, version, answer: body => end(new Response(body, json)) }
    const end = (response: Response) => {
      clearTimeout(timer)
      parked.delete(entry)
      resolve(response)
    }
    request.signal.addEventListener('abort', () => end(createEmptyReply()), { once: true })
    parked.add(entry)
    onParked.resolve()
    onParked = Promise.withResolvers()
  })
}

async function getUpdates(request: Request): Promise<Response> {
  polls++
  const { get_updates_buf: cursor, base_info } = (await request.json()) as {
    get_updates_buf: string
    base_info?: { channel_version: string }
  }
  const session = request.headers.get('authorization') ?? ''
  pollers.set(session, base_info?.channel_version ?? '')
  const own = backlog && [...backlog.replies.keys()].find(name => !name || session.endsWith(`:${name}`))
  if (backlog && own !== undefined) {
    const [run, at = 0] = (cursor || '0').split('/').map(Number)
    const replies = backlog.replies.get(own)!
    const next = run === backlog.run ? at : 0
    backlog.startedAt ??= performance.now()
    if (next < replies.length) return new Response(replies[next] as BodyInit, json)
    backlog.left.delete(own)
    if (backlog.left.size === 0) backlog.took.resolve(performance.now() - backlog.startedAt)
  }
  return hold(session, base_info?.channel_version ?? '', request)
}

const key = Buffer.from('000102030405060708090a0b0c0d0e0f', 'hex')
const block = new Uint8Array(1024 * 1024)
for (let i = 0; i < block.length; i++) block[i] = (i * 31 + (i >> 8)) & 0xff
const cipher = createCipheriv('aes-128-ecb', key, null)
// In ECB, equal blocks encrypt to equal blocks: one encrypted MiB is repeated, and the padding ends it.
const cipherBlock = new Uint8Array(cipher.update(block))
const cipherEnd = new Uint8Array(cipher.final())

/** Streams `size` bytes (whole MiB) of ciphertext or plaintext from memory. */
function download(size: number, plain: boolean): Response {
  let left = size / block.length
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (left-- > 0) return controller.enqueue(plain ? block : cipherBlock)
        if (!plain) controller.enqueue(cipherEnd)
        controller.close()
      },
    },
    { highWaterMark: 0 },
  )
  return new Response(body, { headers: { 'content-length': String(plain ? size : size + cipherEnd.length) } })
}

async function upload(request: Request): Promise<Response> {
  let size = 0
  for await (const chunk of request.body ?? []) size += chunk.byteLength
  return new Response(String(size), { headers: { 'x-encrypted-param': `up${size}` } })
}

// biome-ignore lint/suspicious/noExplicitAny: bodies made by the benchmarks themselves
async function control(path: string, body: any): Promise<Response> {
  switch (path) {
    /** `sessions`: names of those that get messages, each as many, and their accounts; default: any one. */
    case 'backlog': {
      const next = createRandom(body.run)
      const sessions: { name: string; to: string }[] = body.sessions ?? [{ name: '', to: body.to }]
      const repliesTo = (to: string, first: number) =>
        Array.from({ length: body.batches }, (_, batch) => {
          const messages = Array.from({ length: body.size }, (_, i) =>
            toWireText(createMessage(body.run, first + batch * body.size + i, to, body.users, next)),
          )
          return new TextEncoder().encode(
            `{"ret":0,"msgs":[${messages.join(',')}],"get_updates_buf":"${body.run}/${batch + 1}","longpolling_timeout_ms":${holdMs}}`,
          )
        })
      const replies = new Map(
        sessions.map(({ name, to }, nth) => [name, repliesTo(to, nth * body.batches * body.size)]),
      )
      backlog = {
        run: body.run,
        replies,
        left: new Set(replies.keys()),
        startedAt: undefined,
        took: Promise.withResolvers(),
      }
      for (const one of body.sessions ? [...parked] : [])
        one.answer(`{"ret":0,"msgs":[],"get_updates_buf":"0/${body.run}"}`)
      return Response.json({ batches: body.batches })
    }
    /** Returns the ms from the first poll to the poll that shows that everything is committed. */
    case 'took':
      return Response.json({ ms: await backlog?.took.promise })
    /** Resolves once this many polls are held, of one session if it is named. */
    case 'parked':
      while ((body.session ? parkedOf(body.session).length : parked.size) < body.count) await onParked.promise
      return Response.json({ count: parked.size, polls })
    /** Returns the version that the client of a session's held poll reports. */
    case 'poller':
      return Response.json({ version: parkedOf(body.session)[0]?.version })
    /** Returns how many sessions were polled so far, and how many last by a client that reports this version. */
    case 'pollers':
      return Response.json({
        all: pollers.size,
        by: [...pollers.values()].filter(version => version === body.version).length,
      })
    /** Answers one held poll with one message; `wait`: the next one, if none is held now. */
    case 'say': {
      // With its cursor, a session would get the backlog once more.
      backlog = undefined
      while (body.wait && parkedOf(body.session).length === 0) await onParked.promise
      const [entry] = parkedOf(body.session)
      const message: string =
        body.message ??
        toWireText(createMessage(body.run, body.n, body.to, 1, createRandom(body.run + body.n)))
      entry?.answer(`{"ret":0,"msgs":[${message}],"get_updates_buf":"${body.run}-${body.n}"}`)
      return Response.json({ said: entry !== undefined })
    }
    default:
      return new Response(null, { status: 404 })
  }
}

const server: Bun.Server<undefined> = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  idleTimeout: 0,
  development: false,
  maxRequestBodySize: Number.MAX_SAFE_INTEGER,
  async fetch(request): Promise<Response> {
    const url = new URL(request.url)
    if (url.pathname === '/ilink/bot/getupdates') return getUpdates(request)
    if (url.pathname.startsWith('/control/')) return control(url.pathname.slice(9), await request.json())
    if (url.pathname === '/c2c/download') {
      return download(Number(url.searchParams.get('encrypted_query_param')), url.searchParams.has('plain'))
    }
    if (url.pathname === '/c2c/upload') return upload(request)
    if (url.pathname === '/ilink/bot/getuploadurl') {
      return Response.json({ ret: 0, upload_full_url: `${server.url.origin}/c2c/upload` })
    }
    return Response.json({ ret: 0, message_id: String(++sent) })
  },
})
console.log(`ready ${server.url.origin}`)
