import { expect, test } from 'bun:test'
import type { Gateway } from '../../src/gateway/gateway-api.ts'
import type { Message } from '../../src/model/message.ts'
import { type Admin, type AdminOptions, cookieOf, pageHeaders, startAdmin } from '../support/admin.ts'
import { testClock } from '../support/clock.ts'
import { failure } from '../support/failure.ts'
import type { Json } from '../support/rest.ts'

interface Event {
  id?: string
  event: string
  data: Json
}

interface Reader extends AsyncDisposable {
  /** The next event that fits; the others stay for later. */
  next(fits: (event: Event) => boolean): Promise<Event>
  /** Resolves when the service has ended the stream. */
  readonly ended: Promise<void>
}

const withinMs = 30_000

/** Follows the live changes as EventSource does. */
async function listen(admin: Admin, headers: Record<string, string> = {}): Promise<Reader> {
  const leave = new AbortController()
  const response = await fetch(`${admin.url}/api/events`, { headers, signal: leave.signal })
  expect(response.status).toBe(200)
  expect(response.headers.get('content-type')).toBe('text/event-stream')
  const waiting: Event[] = []
  let wake = () => {}
  const ended = (async () => {
    let text = ''
    const decoder = new TextDecoder()
    try {
      for await (const chunk of response.body!) {
        text += decoder.decode(chunk, { stream: true })
        for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
          const fields = Object.fromEntries(
            text
              .slice(0, end)
              .split('\n')
              .map(line => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]),
          )
          text = text.slice(end + 2)
          if (fields.event) waiting.push({ ...fields, data: JSON.parse(fields.data ?? '') } as Event)
          wake()
        }
      }
    } catch (error) {
      if (!leave.signal.aborted) throw error
    }
  })()
  ended.catch(() => {})
  return {
    ended,
    async next(fits) {
      const deadline = AbortSignal.timeout(withinMs)
      for (;;) {
        const found = waiting.findIndex(fits)
        if (found >= 0) return waiting.splice(found, 1)[0]!
        if (deadline.aborted) throw new Error('no such event came')
        await new Promise<void>(resolve => {
          wake = resolve
          deadline.addEventListener('abort', () => resolve(), { once: true })
        })
      }
    },
    async [Symbol.asyncDispose]() {
      leave.abort()
      await ended.catch(() => {})
    },
  }
}

const named = (name: string) => (event: Event) => event.event === name

/** A door that counts what it asks of the gateway. */
async function counted(options: AdminOptions = {}) {
  const count = { looks: 0, subscriptions: 0, listening: 0 }
  const say: ((message: Message) => void)[] = []
  const between = (gateway: Gateway): Gateway => ({
    ...gateway,
    health: () => {
      count.looks++
      return gateway.health()
    },
    changes: {
      subscribe(listener) {
        count.subscriptions++
        count.listening++
        const tell = (message: Message) => listener.message?.(message, 'received')
        say.push(tell)
        const stop = gateway.changes.subscribe(listener)
        return () => {
          count.listening--
          say.splice(say.indexOf(tell), 1)
          stop()
        }
      },
    },
  })
  return { count, say, admin: await startAdmin({ between, ...options }) }
}

test('hello, then a message as it comes, and a sent one as it is sent and settled', async () => {
  await using admin = await startAdmin()
  await using reader = await listen(admin)
  expect((await reader.next(() => true)).event).toBe('hello')
  await admin.test.sandbox.say('你好 <b>')
  const came = await reader.next(named('message'))
  expect(came.data).toMatchObject({ direction: 'received', text: '你好 <b>', session: 'default' })
  expect(came.id).toBe(String(came.data.id))
  const to = came.data.from_user
  expect((await admin.call('POST', '/api/call/send', { to, text: 'an answer' })).status).toBe(200)
  const states: string[] = []
  for (let tries = 0; states.at(-1) !== 'accepted' && tries < 5; tries++) {
    const { data } = await reader.next(named('message'))
    expect(data).toMatchObject({ direction: 'sent', text: 'an answer', to_user: to })
    states.push(data.status)
  }
  expect(states.at(-1)).toBe('accepted')
  // The right to answer changed with it.
  admin.test.clock.advance(1000)
  const told = await reader.next(
    ({ event, data }) => event === 'sessions' && data.sessions[0].users[0]?.remaining === 9,
  )
  expect(told.data.sessions[0].name).toBe('default')
})

test('a login, a rename and a logout are told, with the status', async () => {
  const { admin, count } = await counted()
  await using _end = admin
  await using reader = await listen(admin)
  await reader.next(named('hello'))
  const names = (event: Event) => event.data.sessions.map((one: { name: string }) => one.name).join()
  const see = async (wanted: string) => {
    admin.test.clock.advance(1000)
    await reader.next(event => event.event === 'sessions' && names(event) === wanted)
  }
  // What it compares with has been read by then.
  await admin.test.until('it was looked at once', () => {
    admin.test.clock.advance(1000)
    return count.looks > 1
  })
  await admin.test.connect('second')
  await see('default,second')
  admin.test.clock.advance(1000)
  // The node's own start may be told before, as another status.
  const status = await reader.next(({ event, data }) => event === 'status' && data.session_count === 2)
  expect(status.data).toMatchObject({ version: '1.2.3' })
  await admin.call('POST', '/api/sessions/second/rename', { new_name: 'third' })
  await see('default,third')
  await admin.call('POST', '/api/sessions/third/logout', {})
  await see('default')
})

test('ten panels cost one reading, and none costs nothing', async () => {
  // The panel's time alone stands still: a node whose time does loses the lease of its sessions.
  const doorClock = testClock({ runs: false })
  const { admin, count } = await counted({ doorClock })
  await using _end = admin
  const before = count.looks
  doorClock.advance(10_000)
  await admin.test.sandbox.say('nobody looks')
  await admin.test.receive(1)
  expect([count.looks - before, count.subscriptions]).toEqual([0, 0])
  {
    await using readers = new AsyncDisposableStack()
    const all = await Promise.all(Array.from({ length: 10 }, () => listen(admin)))
    for (const reader of all) readers.use(reader)
    for (const reader of all) await reader.next(named('hello'))
    await admin.test.until('the first look', () => count.looks > before)
    const once = count.looks
    expect(count.subscriptions).toBe(1)
    await admin.test.sandbox.say('ten look')
    for (const reader of all) expect((await reader.next(named('message'))).data.text).toBe('ten look')
    await admin.test.until('the next look', () => {
      doorClock.wake(1000)
      return count.looks > once
    })
    expect(count.looks - once).toBeLessThan(5)
  }
  await admin.test.until('all have left', () => count.listening === 0)
  const last = count.looks
  doorClock.advance(10_000)
  await admin.call('POST', '/api/call/list_outbox')
  expect(count.looks).toBe(last)
})

test('a reader that does not read is cut off, and the others go on', async () => {
  const { admin, say } = await counted({ start: false })
  await using _end = admin
  const idle = await admin.app.fetch(
    new Request('http://127.0.0.1/api/events', { headers: { host: 'localhost' } }),
  )
  await using reader = await listen(admin)
  await reader.next(named('hello'))
  const message = { id: 1, text: 'x'.repeat(200_000), direction: 'received' } as unknown as Message
  for (let sent = 0; sent < 40; sent++) {
    for (const listener of [...say]) listener({ ...message, id: sent })
    await reader.next(({ event, data }) => event === 'message' && data.id === sent)
  }
  const read = async () => {
    for await (const _chunk of idle.body!);
  }
  expect((await failure(read())).message).toContain('too slow')
  for (const listener of [...say]) listener({ ...message, id: 100, text: 'still here' })
  expect((await reader.next(({ data }) => data.id === 100)).data.text).toBe('still here')
})

test('the stop of the service ends the streams, and opens none', async () => {
  const { admin, count } = await counted()
  await using _end = admin
  await using reader = await listen(admin)
  await reader.next(named('hello'))
  admin.app.beginShutdown()
  await reader.ended
  expect(count.listening).toBe(0)
  expect((await admin.call('GET', '/api/events')).status).toBe(503)
})

test('signing out ends the streams of that sign-in at once, running out ends them too', async () => {
  const clock = testClock()
  await using admin = await startAdmin({ token: 'secret', doorClock: clock })
  const signIn = async () => {
    const { headers } = await admin.call('POST', '/api/sign-in', { token: 'secret' })
    return pageHeaders(cookieOf(headers))
  }
  const [one, other] = [await signIn(), await signIn()]
  await using first = await listen(admin, one)
  await using second = await listen(admin, other)
  for (const reader of [first, second]) await reader.next(named('hello'))
  await admin.call('POST', '/api/sign-out', {}, one)
  await first.ended
  await admin.test.sandbox.say('who hears?')
  expect((await second.next(named('message'))).data.text).toBe('who hears?')
  clock.advance(31 * 24 * 60 * 60_000)
  await second.ended
})

test('the list has the newest message in short, however long it is', async () => {
  await using admin = await startAdmin()
  // The cut falls into the middle of a character.
  const text = `a${'😀'.repeat(2000)}`
  await admin.test.sandbox.say(text)
  const [received] = await admin.test.receive(1)
  const { last_message } = (await admin.call('POST', '/api/call/list_conversations')).body[0]
  const { timestamp, ...rest } = last_message
  expect(rest).toEqual({
    id: received!.id,
    direction: 'received',
    text: `a${'😀'.repeat(99)}\ufffd`,
    items: [],
  })
  expect(timestamp).toBeNumber()
})

test('marks reach every panel, and hours are counted, empty ones too', async () => {
  await using admin = await startAdmin()
  const call = async (name: string, input: object = {}) =>
    (await admin.call('POST', `/api/call/${name}`, input)).body
  await admin.test.sandbox.say('a')
  await admin.test.receive(1)
  const { session, user_id, unread, last_message } = (await call('list_conversations'))[0]
  expect(unread).toBe(1)
  await using reader = await listen(admin)
  await reader.next(named('hello'))
  const read = { session, user_id, up_to: last_message.id }
  expect(await call('mark_read', read)).toEqual({ success: true })
  expect((await reader.next(named('read'))).data).toEqual(read)
  expect((await call('list_conversations'))[0].unread).toBe(0)
  for (let times = 0; times < 2; times++) {
    expect(await call('mark_unread', { session, user_id })).toEqual({ success: true })
    expect((await reader.next(named('unread'))).data).toEqual({ session, user_id })
    expect((await call('list_conversations'))[0].unread).toBe(1)
  }
  await call('send', { to: user_id, text: 'answered' })
  expect((await call('list_conversations'))[0].unread).toBe(0)

  const hours: { from: number; received: number; sent: number }[] = await call('count_messages', { hours: 5 })
  expect(hours.map(({ from }) => from - hours[0]!.from)).toEqual([0, 1, 2, 3, 4].map(n => n * 3_600_000))
  const sum = (of: 'received' | 'sent') => hours.reduce((all, hour) => all + hour[of], 0)
  expect([sum('received'), sum('sent')]).toEqual([1, 1])
  expect((await call('count_messages')).length).toBe(24)
})
