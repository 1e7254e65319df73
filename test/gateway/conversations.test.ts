/** Who talks to whom, the newest first. */
import { expect, test } from 'bun:test'
import { SvcError } from '../../src/model/error.ts'
import { owner, panel } from '../../src/model/principal.ts'
import { failure } from '../support/failure.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'

const shown = async (t: TestGateway, filter?: Parameters<typeof t.gateway.conversations.list>[0]) =>
  (await t.gateway.conversations.list(filter)).map(
    ({ session, last_message, unread, remaining }) =>
      `${session}: ${last_message.text} (${unread} unread, ${remaining ?? 'no'} answers)`,
  )

test('each session and user is one conversation, with what is unread and what may be answered', async () => {
  await using t = await withGateway({ sessions: ['one', 'two'] })
  const [one, two] = [t.bots.get('one')!, t.bots.get('two')!]
  const third = await t.sandbox.addUser('third')
  await t.sandbox.say('a', { from: one.user_id, to: one.bot_id })
  await t.receive(1)
  await t.sandbox.say('b', { from: two.user_id, to: two.bot_id })
  await t.sandbox.say('c', { from: two.user_id, to: two.bot_id })
  await t.receive(2)
  await t.sandbox.say('d', { from: third, to: one.bot_id })
  await t.receive(1)
  await t.until('all may be answered', async () => (await t.gateway.accounts.list())[0]?.user_count === 2)
  await t.send({ to: one.user_id, session: 'one', text: 'answer' })
  const all = [
    'one: answer (0 unread, 9 answers)',
    'one: d (1 unread, 10 answers)',
    'two: c (2 unread, 10 answers)',
  ]
  expect(await shown(t)).toEqual(all)
  for (const limit of [0, 1, 2, 3, 4]) expect(await shown(t, { limit })).toEqual(all.slice(0, limit))
  expect(await shown(t, { session: 'TWO' })).toEqual(all.slice(2))
  expect(await shown(t, { user_id: third })).toEqual(all.slice(1, 2))
  expect(await shown(t, { user_id: third, session: 'two' })).toEqual([])
  expect(await shown(t, { session: 'nobody' })).toEqual([])
  expect(await failure(shown(t, { session: '../x' }))).toMatchObject({ code: 'invalid_arguments' })

  await t.gateway.conversations.markRead('two', two.user_id, Number.MAX_SAFE_INTEGER)
  await t.gateway.accounts.logout('one')
  expect(await shown(t)).toEqual([
    'one: answer (0 unread, no answers)',
    'one: d (1 unread, no answers)',
    'two: c (0 unread, 10 answers)',
  ])
  expect(await shown(t, { session: 'one', limit: 1 })).toEqual(['one: answer (0 unread, no answers)'])
})

test('a conversation stands where its answer was sent, also one that waited for approval', async () => {
  await using t = await withGateway({ sessions: ['one', 'two'] })
  const [one, two] = [t.bots.get('one')!, t.bots.get('two')!]
  const says = (text: string, { bot_id: to, user_id: from }: typeof one, minutesAgo: number) =>
    t.sandbox.raw(
      {
        message_id: minutesAgo,
        from_user_id: from,
        to_user_id: to,
        message_type: 1,
        message_state: 2,
        create_time_ms: t.clock.now() - minutesAgo * 60_000,
        context_token: 'c',
        item_list: [{ type: 1, text_item: { text } }],
      },
      to,
    )
  await says('a', one, 20)
  await t.receive(1)
  const draft = { to: one.user_id, session: 'one', approval: 'nobody' } as const
  const { outbox_id } = await t.send({ ...draft, text: 'approved late' })
  await says('b', one, 9)
  await says('c', two, 5)
  await t.receive(2)
  const before = ['two: c (1 unread, 10 answers)', 'one: b (2 unread, 10 answers)']
  expect(await shown(t)).toEqual(before)
  const declined = await t.send({ ...draft, text: 'declined' })
  expect(await shown(t)).toEqual(before)
  await t.gateway.outbox.cancel(owner, declined.outbox_id!)
  expect(await shown(t)).toEqual(before)
  await t.gateway.outbox.approve(owner, outbox_id!)
  const after = ['one: approved late (1 unread, 9 answers)', 'two: c (1 unread, 10 answers)']
  expect(await shown(t)).toEqual(after)
  expect(await shown(t, { limit: 1 })).toEqual(after.slice(0, 1))
})

test('a send to somebody who never wrote leaves no conversation', async () => {
  await using t = await withGateway()
  const bot = t.bots.get('default')!
  const silent = await t.sandbox.addUser('silent')
  for (const to of ['nobody@im.wechat', silent, silent])
    expect(await failure(t.send({ to, text: 'hello?' }))).toBeInstanceOf(SvcError)
  expect((await t.gateway.history.page({ limit: 10, offset: 0 })).messages).not.toEqual([])
  expect(await shown(t)).toEqual([])
  // What may still go out is one, and so is everything of a user who wrote.
  await t.send({ to: silent, text: 'later', when_closed: 'queue' })
  expect(await shown(t)).toEqual(['default: later (0 unread, no answers)'])
  const [waiting] = await t.gateway.outbox.list(owner)
  await t.gateway.outbox.cancel(panel, waiting!.outbox_id)
  expect(await shown(t)).toEqual([])
  await t.sandbox.say('hi', { from: bot.user_id, to: bot.bot_id })
  await t.receive(1)
  expect(await shown(t)).toHaveLength(1)
})
