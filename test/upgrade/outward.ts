/** What svc brings to others: webhooks, subscriptions of MCP Events, streams, and notices of topics. */
import { createHmac } from 'node:crypto'
import { expectMatch } from '../../scripts/smoke/expected.ts'
import { receiver } from '../push/receiver.ts'
import { newSecret } from '../support/events-receiver.ts'
import { EventsClient } from '../support/mcp-events.ts'
import { freePort } from '../support/port.ts'
import type { Json } from '../support/service.ts'
import { until } from '../support/until.ts'
import { join, type Story, shown } from './home.ts'

/** An endpoint that was away, and gets what it missed. */
export const webhooks: Story = {
  async live(home) {
    const user = await join(home, 'hooks', 'Hugo')
    const port = freePort()
    using hook = receiver(() => 200, port)
    const args = ['--allow-private', '--session', 'hooks', '--types', 'message.received', '--json']
    const { id } = JSON.parse(await home.svc('webhook', 'add', hook.url, ...args))
    await home.say(user, 'delivered')
    await until('it is delivered', 30_000, () => hook.texts().length > 0)
    hook.answer = () => 500
    await home.say(user, 'missed')
    await until('it is missed', 30_000, () => hook.got.some(({ status }) => status === 500))
    return { user, port, id }
  },
  async still(home, { id, port, user }) {
    expectMatch(await home.ask(`GET /webhooks/${id}`), {
      status: 'failing',
      session: 'hooks',
      tries: { done: 1 },
    })
    using hook = receiver(() => 200, port)
    await home.say(user, 'and now')
    await home.ask(`POST /webhooks/${id}/resume`)
    await until('what it missed comes', 30_000, () => hook.texts().length >= 2)
    expectMatch(hook.texts(), ['missed', 'and now'])
  },
}

/** A client of MCP whose subscription lasts, and a named reader of the stream of events. */
export const subscriptions: Story = {
  async live(home) {
    const user = await join(home, 'mcp', 'Mo')
    const secret = newSecret()
    const delivery = { mode: 'webhook', url: home.callback.url, secret }
    home.callback.secrets.push(secret)
    const client = new EventsClient(`${home.url}/mcp`, home.headers)
    const { id } = await client.call('events/subscribe', {
      name: 'message.received',
      arguments: { account: 'mcp' },
      delivery,
      ttlMs: 3_600_000,
    })
    const first = await home.say(user, 'subscribed')
    await until('the subscriber has it', 30_000, () => home.callback.events().length > 0)
    const stop = new AbortController()
    const stream = await fetch(`${home.url}/events?consumer=stream`, {
      headers: home.headers,
      signal: stop.signal,
    })
    stop.abort()
    expectMatch(stream.status, 200)
    return { user, id, first: first.message_id }
  },
  async still(home, { user }) {
    await home.say(user, 'still subscribed')
    const texts = () => home.callback.events().map(({ body }) => body.data.text)
    await until('the subscriber has it', 30_000, () => texts().includes('still subscribed'))
    expectMatch(texts(), ['still subscribed'])
  },
}

/** Notices of two topics: one that was sent, and one that waits with its file, since its topic is paused. */
export const notices: Story = {
  async live(home) {
    const user = await join(home, 'topics', 'Tom')
    await home.say(user, 'notify me')
    const secret = 'It-is-a-secret-of-the-topic'
    await home.ask('POST /topics', {
      name: 'alerts',
      to: [user],
      session: 'topics',
      secret,
      priorities: { sev1: 'high' },
    })
    await home.ask('POST /topics', { name: 'later', to: [user], session: 'topics', keep_seconds: 86_400 })
    await home.svc('topic', 'change', 'later', '--pause', 'on')
    await home.ask('POST /topics/alerts/notices', {
      title: 'Disk',
      text: 'is full',
      priority: 'high',
      fingerprint: 'disk',
    })
    await until('the notice is sent', 30_000, async () => (await shown(home, user)).length > 0)
    await home.svc(
      'notify',
      'later',
      'with a file',
      '--title',
      'Later',
      '--file',
      `${home.dir}/media/note.txt`,
    )
    return { user, secret, shown: await shown(home, user) }
  },
  async still(home, left) {
    const { user } = left
    const topics: Json[] = await home.ask('GET /topics')
    expectMatch(
      topics
        .map(({ name, people, waiting }) => [name, people.map((one: Json) => one.user_id), waiting])
        .sort(),
      [
        ['alerts', [user], 0],
        ['later', [user], 1],
      ],
    )
    expectMatch(await shown(home, user), left.shown)
    await home.svc('topic', 'change', 'later', '--pause', 'off')
    await until('what waited comes, with its file', 30_000, async () => {
      const texts = JSON.stringify((await shown(home, user)).slice(left.shown.length))
      return ['with a file', 'note.txt'].every(words => texts.includes(words))
    })
    const body = JSON.stringify({ title: 'Signed', text: 'by a sender' })
    const signature = createHmac('sha256', left.secret).update(body).digest('hex')
    const signed = await fetch(`${home.url}/notify/alerts`, {
      ...{ method: 'POST', body },
      headers: {
        'content-type': 'application/json',
        'x-github-event': 'svc',
        'x-hub-signature-256': `sha256=${signature}`,
      },
    })
    expectMatch(signed.status, 200)
  },
}
