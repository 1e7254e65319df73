/** What callers with keys get while things happen: streams, waiting calls, notifications and deliveries. */
import { expect, test } from 'bun:test'
import { eventTypes } from '../../src/model/event.ts'
import type { NewKeyInput } from '../../src/model/key.ts'
import { owner } from '../../src/model/principal.ts'
import { operations } from '../../src/operations/operations.ts'
import { receiver } from '../push/receiver.ts'
import { pageHeaders } from '../support/admin.ts'
import { forFile } from '../support/folder.ts'
import { bearerOf, type Caller, readStream, startDoors } from './matrix-doors.ts'
import { makeThings, markersOf, setUpWorld, type Things } from './matrix-world.ts'

const masterToken = 'correct-horse-battery-staple'
const world = forFile(await setUpWorld())
const { foreign, live, neighbour, own } = world
const doors = forFile(await startDoors(live, masterToken))
const { gateway, sandbox } = live
const last = `Last${own.tag}`

interface Listener extends Caller {
  readonly name: string
  /** Things that it must not see anything of. */
  readonly others: readonly Things[]
  /** Words of those things that it may see. */
  readonly allowed: readonly string[]
}

async function addListener(
  name: string,
  input: Partial<NewKeyInput>,
  others: readonly Things[],
  allowed: readonly string[] = [],
): Promise<Listener> {
  const { key } = await gateway.keys.add({ name, can: ['read', 'webhooks'], ...input }, owner)
  const by = (await gateway.keys.authenticate(key))!
  return { name, token: key, cookie: await doors.signIn(key), by, others, allowed }
}

const accounts = [foreign, neighbour].flatMap(({ session, loggingIn }) => [session, loggingIn])
// A key for a user sees the accounts, and those that are being logged in.
accounts.push('Loginxfrankx')
const listeners = [
  await addListener('session', { sessions: [own.session] }, [foreign]),
  await addListener('user', { users: [own.user] }, [foreign, neighbour], accounts),
  await addListener('session and user', { sessions: [own.session], users: [own.user] }, [foreign, neighbour]),
]
const wholeReader = await addListener('reader', { can: ['read'] }, [])
const auditor = await addListener('auditor', { can: ['events', 'audit', 'webhooks'] }, [])
const master: Listener = { name: 'owner', token: masterToken, by: owner, others: [], allowed: [] }

const say = (text: string, { bot, user }: Things) => sandbox.say(text, { from: user, to: bot })
const conversationOf = ({ session, user }: Things) =>
  `svc://conversations/${session}/${encodeURIComponent(user)}`

const operationNamed = (name: string) => operations.find(one => one.name === name)!

/** What a door gives a listener, up to its own last message. */
interface Line {
  readonly what: string
  readonly listener: Listener
  readonly text: Promise<string>
}

/** Opens everything that goes on by itself. */
async function listen(listener: Listener): Promise<Line[]> {
  const headers = bearerOf(listener)
  const line = (what: string, text: Promise<string>): Line => ({ what, listener, text })
  const upTo = (word: string) => (text: string) => text.includes(word)
  const events = await fetch(`${doors.url}/events?after=0`, { headers })
  const panel = await fetch(`${doors.panelUrl}/api/events`, {
    headers: pageHeaders(listener.cookie ?? ''),
  })
  const uris = [
    'svc://inbox',
    'svc://sessions',
    'svc://users',
    ...[own, neighbour, foreign].map(conversationOf),
  ]
  const notifications = { resourceSubscriptions: uris, resourcesListChanged: true }
  const mcp = await doors.openMcp('subscriptions/listen', { notifications }, listener)
  const poll = async (): Promise<string> => {
    let text = ''
    for (let polls = 0; polls < 20 && !text.includes(last); polls++) {
      const body = JSON.stringify({ timeout: 20, consumer: 'waits' })
      const json = { ...headers, 'content-type': 'application/json' }
      const answer = await fetch(`${doors.url}/tools/default/recv`, { method: 'POST', headers: json, body })
      text += await answer.text()
    }
    return text
  }
  const followed = async () =>
    (await doors.doors.gate.call(operationNamed('follow_messages'), { after: 0 }, listener)).text
  return [
    line('GET /events', readStream(events, upTo(last))),
    line('GET /api/events', readStream(panel, upTo(last))),
    line(
      'subscriptions/listen',
      readStream(mcp, text => text.split(conversationOf(own)).length > 2),
    ),
    line('recv', poll()),
    line('follow_messages', followed()),
  ]
}

test('streams, waiting calls and deliveries have nothing of others', async () => {
  using stack = new DisposableStack()
  const hooks = listeners.map(listener => ({ listener, hook: stack.use(receiver()) }))
  for (const { hook, listener } of hooks)
    await gateway.webhooks.add(listener.by, { url: hook.url, allow_private: true })
  const lines = (await Promise.all(listeners.map(listen))).flat()

  for (const things of [foreign, neighbour]) {
    await say(`Later${things.tag}`, things)
    await live.send({ to: things.user, session: things.session, text: `Sent${things.tag}` })
    await gateway.users.name({ user_id: things.user, session: things.session, name: `Other${things.tag}` })
    await gateway.conversations.markRead(things.session, things.user, things.row)
    await gateway.outbox.cancel(owner, things.entries[0]!)
  }
  const friend = await sandbox.addUser('Personxfrankx')
  await makeThings(live, foreign.session, friend, 'xfrankx')
  await gateway.accounts.rename(foreign.session, `Other${foreign.session}`)
  await gateway.webhooks.remove(owner, foreign.webhook)
  await gateway.keys.revoke(foreign.key, owner)
  await live.until('the others have written', async () => {
    const { messages } = await gateway.history.page({ text_contains: 'Later', limit: 9, offset: 0 })
    return messages.length === 2
  })
  await say(last, own)
  await live.soon('it is delivered to each', () => hooks.every(({ hook }) => hook.texts().includes(last)))

  const wrong: unknown[] = []
  const check = (what: string, { allowed, name, others }: Listener, text: string) => {
    const shown = allowed.reduce((rest, word) => rest.replaceAll(word, ''), text)
    for (const marker of [...others.flatMap(markersOf), 'xfrankx'])
      if (shown.includes(marker)) wrong.push([name, what, marker, text])
  }
  for (const { what, listener, text } of lines) {
    const heard = await text
    // The first message of a subscription repeats what the client subscribed to.
    const isMcp = what === 'subscriptions/listen'
    const news = isMcp ? heard.split('notifications/resources/updated').slice(1).join() : heard
    expect([
      listener.name,
      what,
      news.includes(isMcp ? conversationOf(own) : last) || what === 'follow_messages',
    ]).toEqual([listener.name, what, true])
    check(what, listener, news)
  }
  for (const { hook, listener } of hooks)
    for (const { headers, text } of hook.got)
      check('delivery', listener, `${JSON.stringify([...headers])} ${text}`)
  expect(wrong).toEqual([])
}, 60_000)

test('each kind of event reaches those who may see it', async () => {
  // Its webhook is switched off with the key.
  const ending = await addListener('ending', {}, [])
  await gateway.webhooks.add(ending.by, { url: 'https://1.1.1.1/ending', types: ['session.muted'] })
  await gateway.keys.revoke(ending.by.id!, owner)
  const names = { old_name: own.session, new_name: `New${own.session}` }
  await doors.doors.rest.call(operationNamed('rename_session'), names, master)
  await live.until('its end is in the log', async () => {
    const { events } = await gateway.events.readPage('0', { limit: 9, types: ['endpoint.disabled'] })
    return events.length > 0
  })
  // The last event, which everybody here may see.
  await say('End', own)
  const kindsOf = async (listener: Listener, query: string) => {
    const response = await fetch(`${doors.url}/events?after=0${query}`, { headers: bearerOf(listener) })
    if (response.status !== 200) return response.status
    const text = await readStream(response, heard => heard.includes(query ? 'audit.line' : '"End"'))
    return eventTypes.filter(type => text.includes(`"type":"${type}"`))
  }
  const messages = ['message.received', 'message.status'] as const
  const expected: [Listener, string, unknown][] = [
    [master, '', [...messages, 'session.status', 'endpoint.disabled']],
    [auditor, '', [...messages, 'session.status', 'endpoint.disabled']],
    // Only a key with the right "webhooks" learns about webhooks.
    [wholeReader, '', [...messages, 'session.status']],
    [listeners[0]!, '', [...messages, 'session.status']],
    [listeners[1]!, '', messages],
    [listeners[2]!, '', messages],
    [master, '&types=audit.line', ['audit.line']],
    [auditor, '&types=audit.line', ['audit.line']],
    [auditor, '&types=audit.line,backup.failed', 403],
    ...[wholeReader, ...listeners].map(one => [one, '&types=audit.line', 403] as [Listener, string, unknown]),
  ]
  for (const [listener, query, kinds] of expected)
    expect<unknown>([listener.name, query, await kindsOf(listener, query)]).toEqual([
      listener.name,
      query,
      kinds,
    ])
})
