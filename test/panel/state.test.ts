/** The state of the panel without a browser: answers that come late or overtake each other. */

import { afterAll, beforeAll, expect, spyOn, test } from 'bun:test'
import { owner } from '../../src/model/principal.ts'
import { write } from '../support/panel.ts'
import { type PanelState, withPanelState } from '../support/panel-state.ts'

const sessions = [
  'default',
  'flood',
  'asks',
  'waits',
  'drafts',
  'silent',
  'read',
  'answered',
  'burst',
  'marked',
  'later',
  'away',
  'once',
  'long',
  'leaves',
  'other',
]
let panel: PanelState
let live: typeof import('../../admin/live.ts')
beforeAll(async () => {
  panel = await withPanelState({ sessions })
  live = await import('../../admin/live.ts')
  const { follow } = await import('../../admin/follow.ts')
  follow(20)
  await panel.until('it follows', () => live.status.value !== undefined)
})
afterAll(() => panel?.[Symbol.asyncDispose]())

const userOf = (session: string) => panel.bots.get(session)!.user_id
const talk = (session: string) => live.conversationOf(session, userOf(session))
/** Waits until the list shows a message. */
const isListed = (session: string, text: string) =>
  panel.until(`${text} is listed`, () => talk(session)?.last_message.text === text)
/** The user of a session sends many messages at once. */
const burst = (session: string, count: number) =>
  panel.sandbox.phone('POST', 'bulk', {
    count,
    text: `${session} {n}`,
    from: userOf(session),
    to: panel.bots.get(session)!.bot_id,
  })
async function threadOf(session: string) {
  const { threadOf: openThread } = await import('../../admin/conversations/thread.ts')
  const thread = openThread(session, userOf(session))
  return { thread, texts: () => thread.messages.value.map(({ text }) => text) }
}

test('an answer that is older than the events since then removes nothing from a conversation', async () => {
  await write(panel, 'first')
  await isListed('default', 'first')
  const slow = panel.hold(/list_messages$/)
  const { thread, texts } = await threadOf('default')
  const opened = thread.open()
  await slow.asked
  await write(panel, 'second')
  await isListed('default', 'second')
  slow.release()
  await opened
  expect(texts()).toEqual(['first', 'second'])
})

test('that the store fails is not told as a service that does not answer', async () => {
  const failing = panel.hold(/list_accounts$/)
  const refreshed = live.refresh().catch(live.onUnheard.call)
  await failing.asked
  failing.release(Response.json({ code: 'store_unavailable', detail: 'why' }, { status: 503 }))
  await refreshed
  expect([live.online.value, live.storeFails.value]).toEqual([false, true])
  await panel.until('it is loaded again', () => live.online.value)
  const lost = panel.hold(/list_accounts$/)
  const lostly = live.refresh().catch(live.onUnheard.call)
  await lost.asked
  lost.release(Promise.reject(new Error('cut')))
  await lostly
  expect([live.online.value, live.storeFails.value]).toEqual([false, false])
  await panel.until('it is loaded once more', () => live.online.value)
})

test('read marks during a request cause at most one more request for the list', async () => {
  for (const text of ['one', 'two']) await write(panel, text, 'flood')
  await isListed('flood', 'two')
  await live.refresh()
  const { messages } = await panel.gateway.history.page({ limit: 2, offset: 0 })
  const mark = { session: 'flood', user_id: userOf('flood'), up_to: messages[1]!.id }
  const read = () =>
    fetch('/api/call/mark_read', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(mark),
    })
  const questions = () => panel.asked(/list_conversations$/)
  const before = questions()
  const slow = panel.hold(/list_conversations$/)
  await read()
  await slow.asked
  for (let times = 0; times < 20; times++) await read()
  // The events of the marks came before this one.
  await write(panel, 'three', 'flood')
  await isListed('flood', 'three')
  slow.release()
  await panel.until('it was asked once more', () => questions() === before + 2)
  const old = live.conversations.value
  await panel.until('that was answered', () => live.conversations.value !== old)
  await write(panel, 'four', 'flood')
  await isListed('flood', 'four')
  expect(questions()).toBe(before + 2)
  expect(talk('flood')?.unread).toBe(3)
})

test('a burst of messages is drawn once per frame, in the list and in the conversation, and is complete', async () => {
  await write(panel, 'before the burst', 'burst')
  await isListed('burst', 'before the burst')
  const { thread, texts } = await threadOf('burst')
  await thread.open()
  const drawn = { list: 0, chat: 0 }
  const count = (what: keyof typeof drawn) => () => {
    drawn[what]++
  }
  const ends = [live.conversations.subscribe(count('list')), thread.messages.subscribe(count('chat'))]
  // `subscribe` calls both at once.
  Object.assign(drawn, { list: 0, chat: 0 })
  const before = panel.frames()
  await burst('burst', 500)
  await panel.until('all are there', () => texts().length === 501)
  const frames = panel.frames() - before
  for (const end of ends) end()
  expect(drawn.chat).toBeLessThanOrEqual(frames)
  // The reply window may change in the same frame.
  expect(drawn.list).toBeLessThanOrEqual(2 * frames)
  expect(texts()).toEqual([
    'before the burst',
    ...Array.from({ length: 500 }, (_none, nth) => `burst ${nth + 1}`),
  ])
  expect(talk('burst')).toMatchObject({ unread: 100, last_message: { text: 'burst 500' } })
})

test('a read mark in the middle of a burst is counted without a request', async () => {
  await write(panel, 'first', 'marked')
  await isListed('marked', 'first')
  await live.refresh()
  await burst('marked', 30)
  await panel.until('all are listed', () => talk('marked')?.unread === 31)
  const { messages } = await panel.gateway.history.page({
    limit: 1,
    offset: 0,
    session: 'marked',
    text_contains: 'marked 20',
  })
  const asked = panel.asked(/list_conversations$/)
  const { call } = await import('../../admin/api.ts')
  await call('mark_read', { session: 'marked', user_id: userOf('marked'), up_to: messages[0]!.id })
  await panel.until('ten are left', () => talk('marked')?.unread === 10)
  expect(panel.asked(/list_conversations$/)).toBe(asked)
  await live.refresh()
  expect(talk('marked')?.unread).toBe(10)
})

test('the number of kept rows is limited, and a reader far back keeps their place', async () => {
  const { Thread } = await import('../../admin/conversations/thread.ts')
  const { messages } = await panel.gateway.history.page({ limit: 1, offset: 0, session: 'burst' })
  const like = (id: number) => ({ ...messages[0]!, id })
  const some = (from: number, count: number) =>
    Array.from({ length: count }, (_none, nth) => like(from + nth))
  const thread = new Thread('burst', 'nobody')
  for (let from = 1; from < 10_000; from += 250) thread.receive(some(from, 250))
  expect(thread.messages.value.length).toBeLessThanOrEqual(2500)
  expect(thread.messages.value.at(-1)?.id).toBe(10_000)
  expect(thread.hasOlder.value).toBe(true)
  const first = thread.messages.value[0]!.id
  thread.isAtEnd = false
  for (let from = 10_001; from < 20_000; from += 250) thread.receive(some(from, 250))
  expect(thread.messages.value.length).toBeLessThanOrEqual(2500)
  expect(thread.messages.value[0]!.id).toBe(first)
  expect(thread.hasNewer.value).toBe(true)
  thread.close()
})

test('items that come faster than frames are passed on in frames, a limited number in each', async () => {
  const { onceAFrame } = await import('../../admin/frames.ts')
  const passed: number[][] = []
  const put = onceAFrame<number>(250, some => passed.push([...some]))
  for (let nth = 0; nth < 600; nth++) put(nth, nth % 2 === 0 ? undefined : 'newest')
  expect(passed).toEqual([])
  await panel.until('all is passed on', () => passed.flat().at(-1) === 599)
  // Of the items with a kind, only the newest.
  expect(passed.flat()).toEqual([...Array.from({ length: 300 }, (_none, nth) => 2 * nth), 599])
  expect(passed.map(some => some.length)).toEqual([250, 51])
})

test('a reader a little above the end keeps the rows there while messages come', async () => {
  const { Thread } = await import('../../admin/conversations/thread.ts')
  const { messages } = await panel.gateway.history.page({ limit: 1, offset: 0, session: 'burst' })
  const some = (from: number, count: number) =>
    Array.from({ length: count }, (_none, nth) => ({ ...messages[0]!, id: from + nth }))
  for (const [read, isLeft] of [
    [2430, [true, false]],
    [1300, [true, true]],
    [20, [false, true]],
  ] as const) {
    const thread = new Thread('burst', 'nobody')
    thread.receive(some(1, 2450))
    thread.isAtEnd = false
    thread.readsAt = read
    thread.receive(some(2451, 60))
    const rows = thread.messages.value
    expect(rows.length).toBe(2000)
    expect([thread.hasOlder.value, thread.hasNewer.value]).toEqual([...isLeft])
    expect(rows.filter(({ id }) => Math.abs(id - read) < 20).length).toBeGreaterThan(37)
    // Also when very many come at once.
    thread.receive(some(2511, 9000))
    expect(thread.messages.value.filter(({ id }) => Math.abs(id - read) < 20).length).toBeGreaterThan(37)
    thread.close()
  }
})

test('a hidden page takes all items at once', async () => {
  const { onceAFrame } = await import('../../admin/frames.ts')
  const passed: number[] = []
  const put = onceAFrame<number>(250, some => passed.push(some.length))
  Object.assign(document, { hidden: true })
  for (let nth = 0; nth < 600; nth++) put(nth)
  await panel.until('all is passed on', () => passed.length > 0)
  Object.assign(document, { hidden: false })
  expect(passed).toEqual([600])
})

test('an invalid event and a listener that throws do not stop other events', async () => {
  const errors = spyOn(console, 'error').mockImplementation(() => {})
  const heard: string[] = []
  const ends = [
    live.onMessages(() => {
      throw new Error('a listener')
    }),
    live.onMessages(messages => heard.push(...messages.map(({ text }) => text))),
  ]
  live.queueEvent(() => JSON.parse('{'))
  await write(panel, 'all the same')
  await isListed('default', 'all the same')
  for (const end of ends) end()
  expect(heard).toContain('all the same')
  expect(errors.mock.calls.length).toBeGreaterThan(1)
  errors.mockRestore()
})

test('a late answer brings no removed webhook back', async () => {
  const { endpoints, loadEndpoints, webhooks } = await import('../../admin/webhooks/endpoints.ts')
  const { id } = await panel.gateway.webhooks.add(owner, { url: 'http://127.0.0.1:9/', allow_private: true })
  const slow = panel.hold(/list_webhooks$/)
  const first = loadEndpoints()
  await slow.asked
  await loadEndpoints()
  expect(endpoints.value).toHaveLength(1)
  await webhooks.remove(id)
  slow.release()
  await first
  expect(endpoints.value).toEqual([])
})

test('a late answer removes no send that waits for approval', async () => {
  const { askOutbox, followAnswer } = await import('../../admin/answers.ts')
  const slow = panel.hold(/list_outbox$/)
  const asks: Promise<unknown>[] = []
  const taken: number[] = []
  const ask = () => {
    const answer = askOutbox()
    asks.push(answer)
    return answer
  }
  const end = followAnswer(
    ask,
    0,
    all => taken.push(all.length),
    error => {
      throw error
    },
  )
  await slow.asked
  await panel.send({ session: 'asks', to: userOf('asks'), text: 'May it go out?', approval: 'nobody' })
  await write(panel, 'again', 'asks')
  await panel.until('it is known', () => taken.includes(1))
  slow.release()
  await asks[0]
  await new Promise(resolve => setImmediate(resolve))
  expect(new Set(taken)).toEqual(new Set([1]))
  end()
})

test('a draft replaces no line of the list, also after it was declined; approved, it is the line', async () => {
  const { askOutbox, drafted, outbox } = await import('../../admin/answers.ts')
  const { talkKey } = await import('../../admin/talks.ts')
  const { session, to } = { session: 'drafts', to: userOf('drafts') }
  await write(panel, 'a question', session)
  await isListed(session, 'a question')
  const ids: string[] = []
  for (const text of ['no', 'yes'])
    ids.push((await panel.send({ session, to, text, approval: 'nobody' })).outbox_id!)
  const { outbox: waiting } = panel.gateway
  /** Waits until the events of everything before it have come. */
  const isHeard = async (text: string) => {
    await write(panel, text, 'other')
    await isListed('other', text)
  }
  const said = async () => {
    outbox.value = await askOutbox()
    const shown = talk(session)?.last_message.text
    await live.refresh()
    return [shown, talk(session)?.last_message.text, drafted.value.has(talkKey(session, to))]
  }
  await isHeard('after the drafts')
  expect(await said()).toEqual(['a question', 'a question', true])
  await waiting.cancel(owner, ids[0]!)
  await isHeard('after it was declined')
  expect(await said()).toEqual(['a question', 'a question', true])
  await waiting.approve(owner, ids[1]!)
  await isListed(session, 'yes')
  expect(await said()).toEqual(['yes', 'yes', false])
})

test('of two languages, the one chosen last is shown', async () => {
  const { chooseLanguage, language } = await import('../../admin/i18n.ts')
  const slow = panel.hold(/\/locales\/zh\.json$/)
  const first = chooseLanguage('zh')
  await slow.asked
  await chooseLanguage('en')
  slow.release()
  await first
  expect(language.value).toBe('en')
})

test('a search that returns to an earlier result stops being busy', async () => {
  const { keyOfSearch, Search } = await import('../../admin/conversations/search.ts')
  await write(panel, 'a blue one')
  const [found, narrower] = [keyOfSearch('blue', {}), keyOfSearch('blue one', {})]
  const search = new Search()
  search.ask(found)
  await panel.until('it is found', () => search.found.value?.key === found)
  const slow = panel.hold(/list_messages$/)
  search.ask(narrower)
  await slow.asked
  expect(search.busy.value).toBe(true)
  search.ask(found)
  slow.release()
  expect([search.busy.value, search.found.value?.key]).toEqual([false, found])
})

test('messages that came during an interruption are in the list and in the conversation', async () => {
  await write(panel, 'before', 'silent')
  await isListed('silent', 'before')
  const { thread, texts } = await threadOf('silent')
  await thread.open()
  // A proxy rejects the stream once.
  const [rejected, late] = [panel.holdRequest(/^\/api\/events$/), panel.holdRequest(/^\/api\/events$/)]
  const again = await panel.silence()
  await panel.until('it is known', () => !live.online.value)
  const [asked, caughtUp] = [panel.asked(/list_conversations$/), panel.asked(/list_messages$/)]
  await again()
  await rejected.asked
  rejected.release(new Response('', { status: 503 }))
  await panel.until('all was asked for again', () => panel.asked(/list_conversations$/) > asked)
  await panel.until('also the conversation', () => panel.asked(/list_messages$/) > caughtUp)
  await late.asked
  await panel.until('there is no stream yet', () => !live.online.value)
  await write(panel, 'said in between', 'silent')
  late.release()
  await isListed('silent', 'said in between')
  await panel.until('and in the conversation', () => texts().includes('said in between'))
  expect(texts()).toEqual(['before', 'said in between'])
})

test('messages that were read or answered elsewhere count as read', async () => {
  for (const session of ['read', 'answered']) {
    await write(panel, `${session} later`, session)
    await isListed(session, `${session} later`)
  }
  const all = live.unread.value
  const { messages } = await panel.gateway.history.page({ limit: 1, offset: 0, text_contains: 'read later' })
  const { call } = await import('../../admin/api.ts')
  await call('mark_read', { session: 'read', user_id: userOf('read'), up_to: messages[0]!.id })
  await panel.until('one is read', () => live.unread.value === all - 1)
  await panel.send({ session: 'answered', to: userOf('answered'), text: 'an answer' })
  await panel.until('the other is answered', () => live.unread.value === all - 2)
  expect([talk('read')?.unread, talk('answered')?.unread]).toEqual([0, 0])
})

test('a mark as unread reaches every panel and lasts until the end of the conversation is seen again', async () => {
  await write(panel, 'come back to me', 'later')
  await isListed('later', 'come back to me')
  const { call } = await import('../../admin/api.ts')
  const { mark } = await import('../../admin/conversations/read-marks.ts')
  await mark(talk('later')!)
  await panel.until('it is read here', () => talk('later')?.unread === 0)
  // By another panel.
  await call('mark_unread', { session: 'later', user_id: userOf('later') })
  await panel.until('it is told', () => talk('later')?.unread === 1)
  await write(panel, 'and again', 'later')
  await panel.until('one more', () => talk('later')?.unread === 2)
  await mark(talk('later')!)
  await panel.until('it is read', () => talk('later')?.unread === 0)
  await mark(talk('later')!)
  // The events of both marks may come after the answer.
  await panel.until('it is unread', async () => {
    await live.refresh()
    return talk('later')?.unread === 1
  })
  const { last_message } = talk('later')!
  await call('mark_read', { session: 'later', user_id: userOf('later'), up_to: last_message.id })
  await panel.until('it is read', () => talk('later')?.unread === 0)
})

test('unanswered messages are resent when the service is back, once, by the same key', async () => {
  const { deskOf } = await import('../../admin/conversations/desks.ts')
  await write(panel, 'are you there?', 'away')
  await isListed('away', 'are you there?')
  const desk = deskOf('away', userOf('away'))
  const sent = async () =>
    (await panel.sandbox.messages({ from: 'bot', user: userOf('away') })).map(({ items }) => items[0]?.text)
  const failed = () => desk.outgoing.value.filter(({ state }) => state.value === 'failed').length
  // The service accepts it, and the answer is lost.
  const lost = panel.hold(/call\/send$/)
  desk.write('taken')
  desk.send()
  await lost.asked
  const again = await panel.silence()
  lost.release(Response.error())
  await panel.until('it is known', () => !live.online.value)
  desk.write('not taken')
  desk.send()
  await panel.until('one waits at least', () => failed() > 0)
  await again()
  await panel.until('all is sent', async () => live.online.value && (await sent()).includes('not taken'))
  await panel.until('nothing is left', () => desk.outgoing.value.length === 0)
  expect(await sent()).toEqual(['taken', 'not taken'])
})

/** A desk with one message that got no answer and that the service never got. */
async function unanswered(session: string) {
  const { deskOf } = await import('../../admin/conversations/desks.ts')
  await write(panel, 'hi', session)
  await isListed(session, 'hi')
  const lose = () => panel.holdRequest(/call\/send$/)
  const desk = deskOf(session, userOf(session))
  const failed = () => desk.outgoing.value.some(({ state }) => state.value === 'failed')
  const isLost = async (lost: ReturnType<typeof lose>) => {
    await lost.asked
    lost.release(Promise.reject(new TypeError('the line is cut')))
    await panel.until('it failed', failed)
  }
  const first = lose()
  desk.write('not answered')
  desk.send()
  await isLost(first)
  const flip = () => {
    live.online.value = false
    live.online.value = true
  }
  /** Sends another message. @returns all texts that were sent by then */
  const sentBefore = async (text: string) => {
    const other = deskOf(session, userOf(session))
    other.write(text)
    other.send()
    const sent = async () =>
      (await panel.sandbox.messages({ from: 'bot', user: userOf(session) })).map(
        ({ items }) => items[0]?.text,
      )
    await panel.until(`${text} is sent`, async () => (await sent()).includes(text))
    return sent()
  }
  return { desk, deskOf, failed, flip, isLost, lose, sentBefore }
}

test('an unanswered message is resent only once by itself, however often the service comes and goes', async () => {
  const { desk, failed, flip, isLost, lose, sentBefore } = await unanswered('once')
  const second = lose()
  flip()
  await isLost(second)
  flip()
  expect(await sentBefore('by hand')).toEqual(['by hand'])
  expect(failed()).toBe(true)
  desk.retry(desk.outgoing.value[0]!)
  await panel.until('it is sent', () => desk.outgoing.value.length === 0)
})

test('after a sign-out nothing of that person is sent for the next one', async () => {
  const { desk, deskOf, flip, sentBefore } = await unanswered('leaves')
  live.signedOut.value = true
  live.signedOut.value = false
  flip()
  expect(deskOf('leaves', userOf('leaves'))).not.toBe(desk)
  expect(await sentBefore('mine')).toEqual(['mine'])
  desk.drop(desk.outgoing.value[0]!)
})

test('an old unanswered message is not resent by itself', async () => {
  const { desk, failed, flip, sentBefore } = await unanswered('long')
  const { call } = await import('../../admin/api.ts')
  panel.clock.step(11 * 60_000)
  await call('status', {})
  flip()
  expect(await sentBefore('new')).toEqual(['new'])
  expect(failed()).toBe(true)
  desk.drop(desk.outgoing.value[0]!)
})

// This test is the last: the rename causes requests up to a second later.
test('an answer that is older than the events since then removes nothing from the list', async () => {
  const slow = panel.hold(/list_conversations$/)
  // After a rename the panel loads everything again.
  await panel.gateway.accounts.rename('other', 'another')
  panel.clock.advance(1000)
  await slow.asked
  await write(panel, 'third')
  await isListed('default', 'third')
  const before = live.conversations.value
  slow.release()
  await panel.until('the answer was taken in', () => live.conversations.value !== before)
  expect(talk('default')?.last_message.text).toBe('third')
})

test('the tabs: a contact waits until an answer went out, and can be answered while the window is open', async () => {
  const { tabs } = await import('../../admin/conversations/list-tabs.tsx')
  const { session, to } = { session: 'waits', to: userOf('waits') }
  const shown = () => Object.entries(tabs).flatMap(([tab, { has }]) => (has(talk(session)!) ? [tab] : []))
  const answer = async (text: string, how: object = {}) => {
    await panel.send({ session, to, text, ...how }).catch(() => {})
    await panel.until(`${text} is settled`, () => {
      const { last_message: last } = talk(session)!
      return last.text === text && last.status !== 'sending'
    })
    // How often the contact may be answered, and when it was, comes with the accounts.
    await live.refresh()
    return shown()
  }
  await write(panel, 'a question', session)
  await isListed(session, 'a question')
  expect(shown()).toEqual(['all', 'unread', 'waiting', 'open'])
  await panel.sandbox.fail('sendmessage', 'ret', { times: 1, code: -3 })
  expect(await answer('refused')).toEqual(['all', 'unread', 'waiting', 'open'])
  expect(await answer('an answer')).toEqual(['all', 'open'])
  // What is refused after an answer makes nobody wait.
  await panel.sandbox.fail('sendmessage', 'ret', { times: 1, code: -3 })
  expect(await answer('refused again')).toEqual(['all', 'open'])
  await write(panel, 'one more question', session)
  await isListed(session, 'one more question')
  expect(shown()).toEqual(['all', 'unread', 'waiting', 'open'])
  live.sessions.value = live.sessions.value!.map(one => ({ ...one, status: 'expired' as const }))
  expect(shown()).toEqual(['all', 'unread', 'waiting'])
  await live.refresh()
})
