/**
 * A subscriber of MCP Events that may be killed at any time: a program that writes each event to a file, with the cursor
 * after it, and goes on from there when it starts again. Arguments: the file, a mode, and the address of svc, which is read
 * from a file, as it changes with each start of svc. In the mode `webhook`: also port, certificate and key.
 */
import { appendFileSync, readFileSync } from 'node:fs'
import process from 'node:process'
import { EventsClient, type Json } from './mcp-events.ts'

const [, , file = '', mode = '', addressFile = '', token = '', port = '0', cert = '', key = ''] = process.argv
const name = 'message.received'
const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`

const read = (path: string) => {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

/** The cursor of the last whole line; null before the first. */
const savedCursor = (): string | null => {
  const lines = read(file).split('\n').slice(0, -1)
  return lines.length === 0 ? null : JSON.parse(lines.at(-1)!).cursor
}
/** One write, so that a killed program leaves whole lines, or one without an end. */
const save = (events: Json[], cursor: string) => {
  const broken = read(file).at(-1) === '\n' || read(file) === '' ? '' : '\n'
  const lines = [...events.map(({ data }) => ({ text: data.text, user: data.from_user, cursor })), { cursor }]
  appendFileSync(file, `${broken}${lines.map(line => `${JSON.stringify(line)}\n`).join('')}`)
}

const client = () => new EventsClient(`${read(addressFile)}/mcp`, { authorization: `Bearer ${token}` })

async function poll(): Promise<void> {
  const { cursor, events, hasMore } = await client().poll(name, savedCursor(), { maxEvents: 20 })
  save(events, cursor)
  if (!hasMore) await Bun.sleep(50)
}

async function push(): Promise<void> {
  await using stream = await client().stream({ name, cursor: savedCursor() })
  for (;;) {
    const message = await stream.next()
    if (!message?.params) throw new Error('the stream ended')
    const isEvent = message.method === 'notifications/events/event'
    save(isEvent ? [message.params] : [], message.params.cursor)
  }
}

async function renew(): Promise<void> {
  const delivery = { mode: 'webhook', url: `https://127.0.0.1:${port}/hook`, secret }
  const made = await client().call('events/subscribe', {
    name,
    delivery,
    cursor: savedCursor(),
    ttlMs: 60_000,
  })
  if (savedCursor() === null) save([], made.cursor)
  await Bun.sleep(1000)
}

if (mode === 'webhook')
  Bun.serve({
    hostname: '127.0.0.1',
    port: Number(port),
    tls: { cert: Bun.file(cert), key: Bun.file(key) },
    async fetch(request) {
      const body = (await request.json()) as Json
      if (body.type === 'verification') return Response.json({ challenge: body.challenge })
      if (body.eventId) save([body], body.cursor)
      return new Response(null, { status: 204 })
    },
  })
const step = { poll, push, webhook: renew }[mode]
for (;;) await step?.().catch(() => Bun.sleep(50))
