/** What one build of svc leaves in a data directory, and what the next one has to find there. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expectMatch } from '../../scripts/smoke/expected.ts'
import { type Json, logIn, type Service } from '../support/service.ts'
import { stopwatch } from '../support/stopwatch.ts'
import { until } from '../support/until.ts'

/** Answers as they were given before; message ids and texts, that is, and no times of now. */
export interface Left {
  user: string
  /** Newest first. */
  messages: Json[]
  /** Received by none of the readers yet, by name. */
  unread: Record<string, string[]>
  /** How many things the bot has said, as the phone counts. */
  shown: number
  /** What it will say when the user writes. */
  waiting: Json[]
  /** Of the message that brought a file. */
  file: string
}

const picture = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==',
  'base64',
)
const report = Buffer.from('三季度:一切顺利\r\n')

/** Two accounts, every kind of message, readers at different places, an outbox where this build has one. */
export async function live(service: Service): Promise<Left> {
  const tools = await (await fetch(`${service.url}/tools`)).json()
  const queues = JSON.stringify(tools).includes('when_closed')
  await service.phone('switches', { burst: 'off', full_url: 'omitted' })
  const mei = await service.phone('users', { name: 'Mei 梅' })
  await logIn(service, 'home', mei.id)
  await logIn(service, 'work')
  await answered(service, 'set_default', { session_name: 'work' })

  // Readers begin with what comes after their first call. This one stays behind.
  await answered(service, 'recv', { consumer: 'slow', timeout: 0 })
  await service.phone('say', { text: '你好,机器人! 给我一张图?' })
  await service.phone('say', { text: 'the quarterly report, please' })
  const [hello] = await receive(service, 2)
  const user: string = hello.from_user
  await receive(service, 1, { consumer: 'slow', limit: 1 })

  await answered(service, 'send', { to: user, text: '好的,马上 👌' })
  const { upload_id } = await posted(`${service.url}/media?file_name=dot.png`, picture)
  await answered(service, 'send', { to: user, media: [{ kind: 'image', upload_id }] })
  const name = encodeURIComponent('报告.txt')
  await posted(`${service.phoneUrl}/phone/media?kind=file&name=${name}`, report)
  const [file] = await receive(service, 1)
  await answered(service, 'download', { message_id: file.message_id })
  await posted(`${service.phoneUrl}/phone/media?kind=image&name=dot.png`, picture)

  // Its answers used up, the rest waits. Texts that follow each other go out as one.
  for (let more = queues ? 10 : 0; more > 0; more--) {
    await answered(service, 'send', { to: user, text: `answer ${more}` })
  }
  const later = [{ text: 'for later' }, { text: '以后再说' }, { media: [{ kind: 'image', upload_id }] }]
  for (const message of queues ? later : []) {
    const { status } = await answered(service, 'send', { to: user, ...message, when_closed: 'queue' })
    expectMatch(status, 'queued')
  }
  const waiting = queues ? [{ kind: 'text', text: 'for later\n\n以后再说' }, { kind: 'image' }] : []
  // One that nobody has read.
  const messages = await until('the picture is stored', 30_000, async () => {
    const stored = await history(service)
    return (
      stored.some(({ msg_type, direction }) => msg_type === 'IMAGE' && direction === 'received') && stored
    )
  })
  const received = messages.filter(({ direction }) => direction === 'received').reverse()
  const ids = received.map(({ message_id }) => message_id)
  const unread = { default: ids.slice(3), slow: ids.slice(1) }
  const { length } = await shown(service)
  return { user, messages, unread, waiting, shown: length, file: file.message_id }
}

/** All of it is there and goes on. @throws Error that says what is not */
export async function stillAll(service: Service, left: Left, dir: string): Promise<void> {
  const { user } = left
  const sessions: Json[] = await answered(service, 'sessions')
  expectMatch(
    sessions.toSorted((a, b) => a.name.localeCompare(b.name)),
    [
      { name: 'home', connected: true, status: 'connected', is_default: false },
      { name: 'work', connected: true, status: 'connected', is_default: true },
    ],
  )
  expectMatch(await history(service), left.messages)
  for (const [needle, total] of [
    ['机器', 1],
    ['report', 1],
    ['马上', 1],
    ['absent', 0],
  ] as const) {
    const found = await answered(service, 'history', { text_contains: needle })
    expectMatch([needle, found.total, found.messages.length], [needle, total, total])
  }
  expectMatch(await readFile(join(dir, 'media/downloads/报告.txt')), report)
  const again = await fetch(`${service.url}/media/${left.file}/0`)
  expectMatch([again.status, Buffer.from(await again.arrayBuffer())], [200, report])

  // Every reader goes on where it was.
  for (const [consumer, ids] of Object.entries(left.unread)) {
    const got = await receive(service, ids.length, consumer === 'default' ? {} : { consumer })
    expectMatch([consumer, got.map(({ message_id }) => message_id)], [consumer, ids])
    expectMatch(await answered(service, 'recv', { timeout: 0, consumer }), [])
  }

  // The user writes: what waited goes out, in order, once.
  await service.phone('say', { text: 'are you still there?' })
  const [fresh] = await receive(service, 1)
  expectMatch(fresh, { text: 'are you still there?', from_user: user, session: 'work' })
  const outbox = async (): Promise<Json[]> => (await fetch(`${service.url}/outbox`)).json()
  await until('nothing waits', 30_000, async () => (await outbox()).length === 0)
  expectMatch((await shown(service)).slice(left.shown), left.waiting)
  expectMatch(await answered(service, 'send', { to: user, text: '我还在' }), {
    status: 'accepted',
    session: 'work',
  })
  expectMatch((await shown(service)).slice(left.shown), [...left.waiting, { kind: 'text', text: '我还在' }])
  expectMatch(await answered(service, 'recv', { timeout: 0 }), [])
}

/** What the bot said, as the phone shows it. */
async function shown(service: Service): Promise<Json[]> {
  const { messages } = (await (await fetch(`${service.phoneUrl}/phone/messages?from=bot`)).json()) as Json
  return messages.flatMap(({ items }: Json) => items)
}

/** The whole history, of each message what never changes. */
async function history(service: Service): Promise<Json[]> {
  const { messages, total } = await answered(service, 'history', { limit: 100 })
  expectMatch(messages.length, total)
  return messages.map(
    ({ id, message_id, session, direction, from_user, to_user, text, timestamp, msg_type }: Json) => ({
      ...{ id, message_id, session, direction, from_user, to_user, text, timestamp, msg_type },
    }),
  )
}

/** Messages, until there are so many. */
async function receive(service: Service, count: number, input: Json = {}): Promise<Json[]> {
  const got: Json[] = []
  using watch = stopwatch()
  while (got.length < count) {
    if (watch.ms > 25_000) throw new Error(`${got.length} of ${count} messages came in time`)
    got.push(...(await answered(service, 'recv', { timeout: 5, ...input })))
  }
  return got
}

async function answered(service: Service, tool: string, input: Json = {}): Promise<Json> {
  const { status, body } = await service.call(tool, input)
  if (status !== 200) throw new Error(`${tool} ${JSON.stringify(input)}: ${status} ${JSON.stringify(body)}`)
  return body
}

async function posted(url: string, body: BodyInit): Promise<Json> {
  const response = await fetch(url, { method: 'POST', body })
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`)
  return response.json()
}
