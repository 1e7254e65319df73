import { expect, test } from 'bun:test'
import { type Clock, systemClock } from '../../src/platform/clock.ts'
import { given } from '../support/given.ts'
import { type Answer, ilink } from '../support/ilink-client.ts'
import { type TestSandbox, withSandbox } from '../support/sandbox.ts'
import { until } from '../support/until.ts'

const it = given(withSandbox)

const textsOf = (answer: Answer): string[] | undefined =>
  answer.msgs?.map(
    (message: { item_list: { text_item: { text: string } }[] }) => message.item_list[0]?.text_item.text,
  )
/** Sooner than a hold is over by itself. */
const held = (sandbox: TestSandbox, count: number) =>
  until(`${count} polls are held`, 20_000, () => sandbox.world.core.stats.polls_now === count)
const bind = (sandbox: TestSandbox) => {
  const bot = sandbox.bot()
  return { ...bot, ...ilink(sandbox.url, bot.token) }
}

test('by default a batch comes again until a newer cursor is presented, and then no more', async () => {
  await using sandbox = await withSandbox({ switches: { hold_ms: 20 } })
  const bot = bind(sandbox)
  await sandbox.say('one')
  const first = await bot.poll()
  expect(textsOf(first)).toEqual(['one'])
  expect(textsOf(await bot.poll())).toEqual(['one'])
  await sandbox.say('two')
  expect(textsOf(await bot.poll(first.get_updates_buf))).toEqual(['two'])
  expect(textsOf(await bot.poll())).toEqual(['two'])
  const empty = await bot.poll((await bot.poll()).get_updates_buf)
  expect(empty).toMatchObject({ ret: 0, msgs: [], longpolling_timeout_ms: 35_000 })
  expect(empty.get_updates_buf.length).toBeGreaterThan(0)
})

test('without replay what was returned is gone; with replay always any old cursor brings it back', async () => {
  await using sandbox = await withSandbox({ switches: { hold_ms: 20, replay: 'never' } })
  const bot = bind(sandbox)
  const start = (await bot.poll()).get_updates_buf
  await sandbox.say('one')
  const first = await bot.poll(start)
  expect(textsOf(first)).toEqual(['one'])
  expect(textsOf(await bot.poll(start))).toEqual([])
  await sandbox.say('two')
  await sandbox.switches({ replay: 'always' })
  await bot.poll((await bot.poll(first.get_updates_buf)).get_updates_buf)
  expect(textsOf(await bot.poll(first.get_updates_buf))).toEqual(['two'])
  await sandbox.switches({ empty_cursor: 'replay_all' })
  expect(textsOf(await bot.poll())).toEqual(['one', 'two'])
})

it('of two polls the newer one is given the message: who begins another has most likely left the one before', async sandbox => {
  const bot = bind(sandbox)
  const leaving = new AbortController()
  const polls: ReturnType<typeof bot.poll>[] = []
  for (const count of [1, 2]) {
    polls.push(bot.poll('', leaving.signal))
    await held(sandbox, count)
  }
  const [older, newer] = polls
  const left = older!.catch(() => 'left')
  await sandbox.say('x')
  expect(textsOf(await newer!)).toEqual(['x'])
  leaving.abort()
  expect(await left).toBe('left')
})

test('a poll that its client leaves while it begins the next one is not counted beside it; one that stays is', async () => {
  /** How long a client that leaves may take to be heard of is for the test to say. */
  const moment = Promise.withResolvers<void>()
  const sleep: Clock['sleep'] = (ms, signal) => (ms <= 200 ? moment.promise : systemClock.sleep(ms, signal))
  await using sandbox = await withSandbox({ clock: { ...systemClock, sleep } })
  const bot = bind(sandbox)
  const leaving = new AbortController()
  const older = bot.poll('', leaving.signal).catch(() => 'left')
  await held(sandbox, 1)
  const newer = bot.poll()
  await held(sandbox, 2)
  leaving.abort()
  expect(await older).toBe('left')
  await held(sandbox, 1)
  moment.resolve()
  // Others that asked later are answered: what follows from the moment has happened.
  for (let nth = 0; nth < 3; nth++) await sandbox.phone('GET', 'stats')
  expect(sandbox.pollsAtOnce[bot.bot_id]).toBe(1)

  const third = bot.poll()
  await until('counted', 30_000, () => sandbox.pollsAtOnce[bot.bot_id] === 2)
  for (const text of ['a', 'b']) await sandbox.say(text)
  await Promise.all([newer, third])
})

test('kick_older answers the older poll empty', async () => {
  await using sandbox = await withSandbox({ switches: { pollers: 'kick_older' } })
  const bot = bind(sandbox)
  const older = bot.poll()
  await held(sandbox, 1)
  const newer = bot.poll()
  expect(textsOf(await older)).toEqual([])
  await sandbox.say('x')
  expect(textsOf(await newer)).toEqual(['x'])
})

it('ids are bare integers up to the largest uint64, and a text that looks like one is left alone', async sandbox => {
  const bot = bind(sandbox)
  const text = '"message_id":"12345678901234567890"'
  await sandbox.say(text, { message_id: '18446744073709551615' })
  const answer = await bot.poll()
  expect(answer.text).toContain('"message_id":18446744073709551615,')
  expect(textsOf(answer)).toEqual([text])
  await sandbox.raw(
    `{"message_id": 9007199254740993, "from_user_id": "x@im.wechat", "odd": [null], "item_list": []}`,
    bot.bot_id,
  )
  const { text: raw } = await bot.poll(answer.get_updates_buf)
  expect(raw).toContain(
    '{"message_id": 9007199254740993, "from_user_id": "x@im.wechat", "odd": [null], "item_list": []}',
  )
})

it('ids rise, lie above 2^53 and stay apart over a restart', async sandbox => {
  const bot = bind(sandbox)
  const ids = [(await sandbox.say('a')).message_id, (await sandbox.say('b')).message_id]
  await sandbox.restart()
  ids.push((await sandbox.say('c')).message_id)
  expect(ids.map(BigInt).every((id, at, all) => id > 2n ** 53n && (at === 0 || id > all[at - 1]!))).toBe(true)
  expect(textsOf(await bot.poll())).toEqual(['a', 'b', 'c'])
})

test('duplicates come with the same id, a new id, or a new token', async () => {
  await using sandbox = await withSandbox({ switches: { duplicate_after_ms: 1 } })
  const bot = bind(sandbox)
  for (const duplicate of ['same_id', 'new_id', 'new_token'] as const) {
    await sandbox.switches({ duplicate })
    await sandbox.say('twice')
    const cursor = (await bot.poll()).get_updates_buf
    const [first] = (await bot.poll()).msgs
    let again = (await bot.poll()).msgs[1]
    if (!again) [again] = (await bot.poll(cursor)).msgs
    expect(again.item_list).toEqual(first.item_list)
    expect(again.message_id === first.message_id).toBe(duplicate === 'same_id')
    expect(again.context_token === first.context_token).toBe(duplicate !== 'new_token')
    // The next one is not to bring them again: a poll that is held has taken the place it came with.
    const leaving = new AbortController()
    const left = bot.poll((await bot.poll()).get_updates_buf, leaving.signal).catch(() => 'left')
    await held(sandbox, 1)
    leaving.abort()
    expect(await left).toBe('left')
    await held(sandbox, 0)
  }
})

test('doubled slashes and odd header spelling are tolerated', async () => {
  await using sandbox = await withSandbox({ switches: { hold_ms: 1 } })
  const bot = bind(sandbox)
  const response = await fetch(`${sandbox.url}//ilink/bot/getupdates`, {
    method: 'POST',
    headers: { AUTHORIZATION: `bearer ${bot.token}` },
    body: '{"get_updates_buf":"","base_info":{"x":1},"unknown":true}',
  })
  expect(response.headers.get('content-type')).toBe('application/json')
  const text = await response.text()
  expect(Number(response.headers.get('content-length'))).toBe(Buffer.byteLength(text))
  expect(JSON.parse(text).ret).toBe(0)
})
