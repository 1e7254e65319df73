/**
 * The world of the matrix of access: two accounts, their users, and everything else that belongs to somebody.
 * All words of one owner contain its tag, so that a leaked byte is found by it.
 */
import { createDirectCall } from '../../src/model/call.ts'
import { owner, type Principal } from '../../src/model/principal.ts'
import type { Operation } from '../../src/operations/operation.ts'
import type { JsonSchema } from '../../src/operations/schema.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'
import { countStatements } from '../support/statements.ts'

/** What calls may be about. */
export interface Things {
  readonly tag: string
  readonly session: string
  readonly bot: string
  readonly user: string
  readonly name: string
  /** Ids of a text and of a file that the user sent. */
  readonly said: string
  readonly message: string
  /** Row id of the file. */
  readonly row: number
  /** Ids of sends that wait. The last one is about a file. */
  readonly entries: readonly string[]
  /** Row id of the file that waits. */
  readonly file: number
  readonly webhook: string
  readonly key: string
  /** Name of a program of the relay. */
  readonly relay: string
  readonly invitation: string
  readonly login: string
  /** Name of the session that is being logged in. */
  readonly loggingIn: string
  readonly upload: string
  /** Path of a file that the owner saved. */
  readonly saved: string
  /** Name of an agent that the user talks with, and the ids of its turn and question. */
  readonly agent: string
  readonly turn: number
  readonly question: number
  /** Id of something that the agent is to do for the user. */
  readonly time: number
  /** Id of a question of the owner to the user. */
  readonly asked: number
}

const { signal } = new AbortController()
const textOf = (tag: string) => `Text${tag}`
const bytesOf = (tag: string) => new TextEncoder().encode(`Bytes${tag}`.padEnd(30, '.'))

/** Makes what belongs to one user of an account. */
export async function makeThings(
  t: TestGateway,
  session: string,
  user: string,
  tag: string,
  by: Principal = owner,
): Promise<Things> {
  const { gateway } = t
  const bot = t.bots.get(session)!.bot_id
  const { message_id: said } = await t.sandbox.say(textOf(tag), { from: user, to: bot })
  await t.sandbox.media('file', bytesOf(tag), { name: `File${tag}.txt`, from: user, to: bot })
  const { message_id: message, id: row } = await t.until('the file is here', async () => {
    const { messages } = await gateway.history.page({ user_id: user, session, limit: 2, offset: 0 })
    return messages.find(({ msg_type }) => msg_type === 'FILE')
  })
  await gateway.inbox.begin(`Reader${tag}`)
  await t.until('the user may be answered', async () => {
    const users = await gateway.users.list({ session })
    return users.some(({ user_id }) => user_id === user)
  })
  await gateway.users.name({ user_id: user, session, name: `Name${tag}` })
  const upload = async () => {
    const body = new Blob([bytesOf(tag)]).stream()
    return (await gateway.media.accept({ body, file_name: `Wait${tag}.txt` }, signal)).upload_id
  }
  const entries: string[] = []
  for (let nth = 0; nth < 4; nth++) {
    const media = nth === 3 ? [{ kind: 'file' as const, upload_id: await upload() }] : []
    const { outbox_id } = await t.send(
      {
        ...{ to: user, session, approval: 'nobody', idempotency_key: `Once${tag}${nth}`, media },
        ...(nth < 3 && { text: `Draft${tag}${nth}` }),
      },
      { by },
    )
    entries.push(outbox_id!)
  }
  const { parts } = await gateway.outbox.get(owner, entries.at(-1)!)
  // Nobody listens there.
  const types = ['session.muted' as const]
  const url = `http://127.0.0.1:9/Hook${tag}`
  const hook = await gateway.webhooks.add(owner, { url, types, session, user, allow_private: true })
  const key = await gateway.keys.add({ name: `Key${tag}`, can: ['read'], users: [user] }, owner)
  const { name: relay } = await gateway.relayClients.add(owner, {
    name: `Relay${tag}`,
    session,
    users: [user],
  })
  const invited = await gateway.invitations.add(owner, { name: `Invited${tag}` })
  const loggingIn = `Login${tag}`
  const login = await gateway.logins.begin(owner, loggingIn, false, signal)
  const { path: saved } = await gateway.media.download({ message_id: message, item: 0 }, createDirectCall())
  await gateway.conversations.markRead(session, user, 1)
  await gateway.events.startReader(await gateway.events.getHead(), `Events${tag}`)
  const agent = `Agent${tag}`
  const { agents } = gateway
  const turn = await agents.addTurn({ agent, session, user, source: 'message', messages: [row] })
  await agents.claim({ agent, session, user })
  await agents.changeTurn(turn.id, { status: 'running', error: `Error${tag}` })
  const question = await agents.ask({
    ...{ turn: turn.id, text: `Asks${tag}`, code: `Code${tag}`, expires_at: Number.MAX_SAFE_INTEGER },
    options: [{ id: 'yes', name: 'Yes', kind: 'allow_once' }],
  })
  const { id: time } = await agents.addTime({
    ...{
      agent,
      session,
      user_id: user,
      prompt: `Later${tag}`,
      rule: { at: 4e12 },
      zone: 'UTC',
      due_at: 4e12,
    },
    made_by: 'owner',
  })
  const { id: asked } = await gateway.asks.ask(
    { to: user, session, text: `Ask${tag}`, choices: ['yes', 'no'], timeout: 600 },
    createDirectCall({ by }),
  )
  return {
    asked,
    ...{
      relay,
      tag,
      session,
      bot,
      user,
      said,
      message,
      row,
      entries,
      loggingIn,
      agent,
      turn: turn.id,
      question,
      time,
    },
    ...{ name: `Name${tag}`, file: parts[0]!.id!, webhook: hook.id, key: key.id, invitation: invited.id },
    ...{ login: login.login_id!, upload: await upload(), saved },
  }
}

/**
 * Returns things that do not exist, of the same form.
 *
 * @param stranger a user whom WeChat knows, but who wrote to nobody here: WeChat says who is none of its users
 */
export function unknownLike(things: Things, stranger = 'nobody@im.wechat'): Things {
  const tag = 'xnonex'
  const others = (text: string) => text.replaceAll(/[0-9]/g, '9')
  return {
    ...things,
    tag,
    session: things.session.replace(things.tag, tag),
    bot: `unknown${things.bot.slice(7)}`,
    user: stranger,
    name: things.name.replace(things.tag, tag),
    said: others(things.said),
    message: others(things.message),
    row: 99_999,
    entries: things.entries.map(() => '99999'),
    file: 99_999,
    webhook: 'wh_0000000000000000',
    key: '00000000',
    relay: things.relay.replace(things.tag, tag),
    invitation: 'inv_000000000000',
    login: things.login.replaceAll(/[0-9a-f]/g, '0'),
    loggingIn: things.loggingIn.replace(things.tag, tag),
    upload: things.upload.replaceAll(/[0-9a-f]/g, '0'),
    saved: things.saved.replace(things.tag, tag),
    agent: things.agent.replace(things.tag, tag),
    turn: 99_999,
    question: 99_999,
    time: 99_999,
    asked: 99_999,
  }
}

/** Sets up the world. The gateway that receives is `live`. */
export async function setUpWorld() {
  // A login that waits reads its row after each commit of any call.
  const count = countStatements(/FROM login_flow/)
  const sessions = { own: 'Workxannax', foreign: 'Homexcarlx' }
  const live = await withGateway({ sessions: Object.values(sessions) })
  const [work, home] = [live.bots.get(sessions.own)!, live.bots.get(sessions.foreign)!]
  const bert = await live.sandbox.addUser('Personxbertx')
  const stranger = await live.sandbox.addUser('Personxdorax')
  const own = await makeThings(live, sessions.own, work.user_id, 'xannax')
  const neighbour = await makeThings(live, sessions.own, bert, 'xbertx')
  const foreign = await makeThings(live, sessions.foreign, home.user_id, 'xcarlx')
  // Quotes of what is not theirs to read.
  for (const { said } of [neighbour, foreign])
    await live.sandbox.say(`Quote${own.tag}`, { from: own.user, to: own.bot, quote: said, how: 'id' })
  await live.until('the quotes are here', async () => {
    const quotes = { text_contains: `Quote${own.tag}`, limit: 2, offset: 0 }
    return (await live.gateway.history.page(quotes)).messages.length === 2
  })
  return {
    ...{ live, count, own, neighbour, foreign, stranger },
    async [Symbol.asyncDispose]() {
      await live[Symbol.asyncDispose]()
      count[Symbol.dispose]()
    },
  }
}

/** Kind of the thing whose id an operation takes as `id`. */
const kindOfId = ({
  name,
  right,
}: Operation): 'webhook' | 'key' | 'turn' | 'question' | 'time' | 'asked' | 'invitation' | 'entry' => {
  if (right === 'ask') return 'asked'
  if (right === 'invitations') return 'invitation'
  if (right === 'agents') return (['question', 'time'] as const).find(kind => name.includes(kind)) ?? 'turn'
  return right === 'webhooks' ? 'webhook' : right === 'keys' ? 'key' : 'entry'
}

/** Returns the values of an input key that lead to these things; none for a key that names nothing. */
export function valuesOf(operation: Operation, key: string, things: Things): readonly unknown[] {
  const { entries, tag } = things
  switch (key) {
    case 'id':
      return kindOfId(operation) === 'entry' ? entries : [things[kindOfId(operation) as 'key']]
    case 'session':
      // A login is followed by the name of its session.
      return operation.right === 'login' ? [things.loggingIn, things.session] : [things.session]
    case 'session_name':
    case 'old_name':
      return [things.session]
    case 'name':
      if (operation.name === 'remove_relay') return [things.relay]
      if (operation.name === 'remove_consumer') return [`Reader${tag}`]
      if (operation.right === 'login') return [things.loggingIn, things.session]
      return operation.right === 'rename' || operation.right === 'logout' ? [things.session] : []
    case 'user':
    case 'to':
    case 'add':
    case 'remove': {
      const names = [things.user, things.name]
      return operation.inputSchema.properties?.[key]?.type === 'array' ? names.map(name => [name]) : names
    }
    case 'user_id':
      return [things.user, things.name]
    case 'bot_id':
      return [things.bot]
    case 'message_id':
      return [things.message, things.said, String(things.row)]
    case 'message':
      return [things.row]
    case 'row':
      return [things.file, things.row]
    case 'login_id':
      return [things.login]
    case 'webhook':
      return [things.webhook]
    case 'agent':
      return [things.agent]
    case 'key':
      return [things.key, `Key${tag}`]
    case 'principal':
      return [`key:${things.key}`]
    case 'consumer':
      return operation.right === 'events' ? [`Events${tag}`] : [`Reader${tag}`]
    case 'text_contains':
      return [textOf(tag), tag]
    case 'media':
      return [[{ kind: 'file', upload_id: things.upload }]]
    case 'image_path':
    case 'voice_path':
    case 'file_path':
    case 'video_path':
      return [things.saved]
    case 'sessions':
      return [[things.session]]
    case 'users':
      return [[things.user]]
    default:
      return []
  }
}

/** Input keys that name nothing that belongs to somebody. */
export const plainKeys: ReadonlySet<string> = new Set(
  `ack address after allow_login allow_private answers attach_private before browser by can client_id choices click count cursor digest
  direction dry_run event expires expires_at file file_name fingerprint for force format fresh from grants headers hours
  idempotency_key if_none_match if_range inviter item keep_old_seconds keep_seconds kind kinds known language
  last_event_id leases left limit limits max_age_ms max_priority max_uses min_priority msg_type name new_name number offset only operation
  option outcome paused_until priorities priority prompt qr quiet range read replies request_id resolved rewrite save_dir secret seen
  send_at signature since source tags template text time_zone timeout title tools topic topics trusted ttl_ms
  turns_per_day type types typing until up_to url verify_code wait when when_closed words zone`.split(/\s+/),
)

/** Values that an operation needs beside the things, where the schema does not show them. */
const extras: Readonly<Record<string, unknown>> = {
  can: ['history'],
  choices: ['yes', 'no'],
  read: true,
  text: 'Hello',
  from: 1,
  new_name: 'Renamed',
  url: 'https://1.1.1.1/new',
  types: ['session.muted'],
  file: 'the bytes',
  when: 'tomorrow 8:00',
}

let names = 0
/** Returns an input about these things with all keys that the operation needs. */
export function inputAbout(operation: Operation, things: Things): Record<string, unknown> {
  const { properties = {}, required = [] } = operation.inputSchema
  // Without a session, some calls mean the default one.
  const needsSession = operation.effect !== 'read' && operation.right !== 'recv'
  const isNeeded = (key: string) =>
    required.includes(key) ||
    key === 'timeout' ||
    key === 'can' ||
    (key === 'text' && 'to' in properties) ||
    (key === 'types' && 'url' in properties) ||
    (needsSession && key !== 'sessions' && isAboutSessions(operation, key))
  const input: Record<string, unknown> = {}
  for (const key of Object.keys(properties).filter(isNeeded)) {
    const [value] = valuesOf(operation, key, things)
    const shown = properties[key]?.examples?.[0] ?? properties[key]?.enum?.[0] ?? 1
    input[key] = value ?? (key === 'timeout' ? (properties[key]?.minimum ?? 0) : extras[key]) ?? shown
  }
  // No two keys in use have the same name.
  if (operation.name === 'add_key' || operation.name === 'add_relay') input.name = `new ${names++}`
  return input
}

/** Whether an input key names a session by its name. */
export const isAboutSessions = ({ right }: Operation, key: string): boolean =>
  ['session', 'session_name', 'old_name', 'sessions', 'bot_id'].includes(key) ||
  (key === 'name' && (right === 'rename' || right === 'logout' || right === 'login'))

/** Returns the words and ids by which these things are recognized in an answer. */
export const markersOf = (things: Things): string[] => {
  const { entries, invitation, key, message, tag, user, webhook } = things
  const [person = ''] = user.split('@')
  return [tag, person, message, webhook, key, invitation].concat(entries.map(id => `"outbox_id":"${id}"`))
}

/** Returns values of an input key that reach as far as possible. */
export function reachOf(key: string, { enum: words, maximum, type }: JsonSchema): readonly unknown[] {
  const far: Readonly<Record<string, readonly unknown[]>> = {
    limit: [1, maximum],
    offset: [0, 1, 2],
    before: [99_999],
    after: [type === 'string' ? '0' : 0],
    since: [0],
    until: [Number.MAX_SAFE_INTEGER],
    hours: [maximum],
    count: [maximum],
    text_contains: ['Text', 'x'],
  }
  return words ?? far[key] ?? []
}
