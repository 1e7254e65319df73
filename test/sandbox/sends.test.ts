import { expect, test } from 'bun:test'
import { type Clock, systemClock } from '../../src/platform/clock.ts'
import { given } from '../support/given.ts'
import { ilink } from '../support/ilink-client.ts'
import { type TestSandbox, withSandbox } from '../support/sandbox.ts'

const it = given(withSandbox)

const hour = 3_600_000
/** What is bound to seconds: its time passes only where a test says so. */
const stillClock = (): Clock => {
  const at = Date.now()
  return { ...systemClock, now: () => at }
}
const heard = async (sandbox: TestSandbox) => {
  const bot = sandbox.bot()
  await sandbox.say('hi')
  const client = ilink(sandbox.url, bot.token)
  const { msgs } = await client.poll()
  const token = String(msgs[0].context_token)
  return {
    ...bot,
    ...client,
    say: (text: string, more?: object) => client.send(bot.user_id, text, token, more),
    contextToken: token,
  }
}

it('a user must write first; the window closes after 24 hours and opens with the next word', async sandbox => {
  const silent = sandbox.bot(await sandbox.addUser())
  expect(await ilink(sandbox.url, silent.token).send(silent.user_id, 'x')).toMatchObject({
    ret: -2,
    errmsg: 'prepare failed',
  })

  const bot = await heard(sandbox)
  await sandbox.advance(23.9 * hour)
  expect((await bot.say('in time')).ret).toBe(0)
  await sandbox.advance(0.2 * hour)
  expect((await bot.say('late')).ret).toBe(-2)
  await sandbox.switches({ window: 'silent_drop' })
  expect((await bot.say('late')).text).toBe('{"ret":0}')
  await sandbox.switches({ window: 'refuse' })
  await sandbox.say('again')
  expect((await bot.say('answer')).ret).toBe(0)
  expect((await sandbox.messages({ from: 'bot' })).map(message => message.items[0]?.text)).toEqual([
    'in time',
    'answer',
  ])
  // The newest of each, whoever wrote last.
  const newest = async (from: 'bot' | 'user') =>
    (await sandbox.messages({ from, limit: 1 }))[0]?.items[0]?.text
  expect([await newest('user'), await newest('bot')]).toEqual(['again', 'answer'])
})

test('the third send within a second is refused, and the thirteenth in five minutes until it was quiet', async () => {
  await using sandbox = await withSandbox({ clock: stillClock(), switches: { burst: 'on', quota: 0 } })
  const bot = await heard(sandbox)
  expect([(await bot.say('1')).ret, (await bot.say('2')).ret, (await bot.say('3')).ret]).toEqual([0, 0, -2])
  for (let n = 0; n < 9; n++) {
    await sandbox.advance(1000)
    expect((await bot.say(`slow ${n}`)).ret).toBe(0)
  }
  await sandbox.advance(1000)
  expect((await bot.say('thirteenth')).ret).toBe(-2)
  await sandbox.advance(4.5 * 60_000)
  expect((await bot.say('too soon')).ret).toBe(-2)
  await sandbox.advance(5 * 60_000)
  expect((await bot.say('after quiet')).ret).toBe(0)
})

it('refusals by size, receiver, items and missing fields', async sandbox => {
  const bot = await heard(sandbox)
  expect((await bot.say('好'.repeat(5461))).ret).toBe(0)
  expect((await bot.say(`${'好'.repeat(5461)}ab`)).ret).toBe(-2)
  expect((await bot.say('', { item_list: [] })).ret).toBe(-2)
  for (const to of [bot.user_id.toLowerCase(), `user:${bot.user_id}`, '', 'nobody@im.wechat'])
    expect(await bot.send(to, 'x')).toMatchObject({ ret: -3, errmsg: 'invalid arguments' })
  expect(await bot.post('getconfig', {})).toMatchObject({ ret: -2, errmsg: 'ilink_user_id required' })
  expect(await bot.post('sendtyping', {})).toMatchObject({ ret: -2, errmsg: 'ilink_user_id required' })
  expect((await bot.post('getuploadurl', { to_user_id: 'nobody@im.wechat' })).text).toBe('{"ret":-1}')
})

it('accepted is not shown: a client_id used before, a voice, an item without its media', async sandbox => {
  const bot = await heard(sandbox)
  await bot.say('first', { client_id: 'same' })
  await bot.say('second', { client_id: 'same' })
  const { media } = await bot.upload(bot.user_id, 4, new Uint8Array(100))
  await bot.say('', { item_list: [{ type: 3, voice_item: { media } }] })
  await bot.say('', { item_list: [{ type: 2, image_item: { media: { ...media, encrypt_type: 0 } } }] })
  await bot.say('', {
    item_list: [{ type: 2, image_item: { media: { ...media, encrypt_query_param: 'x' } } }],
  })
  const raw = Buffer.from(Buffer.from(media.aes_key, 'base64').toString(), 'hex').toString('base64')
  await bot.say('', { item_list: [{ type: 4, file_item: { media: { ...media, aes_key: raw } } }] })
  const seen = await sandbox.messages({ from: 'bot' })
  expect(seen.map(message => message.shown)).toEqual([true, false, false, false, false, false])
  expect(seen.map(message => message.why ?? '')).toEqual([
    '',
    'client_id used before: only the first content is shown',
    'WeChat does not show voice sent by a bot',
    'encrypt_type is not 1',
    'encrypt_query_param is not known to the CDN',
    'aes_key is not base64 of the hex of the key used for the upload',
  ])
})

it('the answer to a send comes with its id, without, or empty', async sandbox => {
  const bot = await heard(sandbox)
  await sandbox.switches({ send_reply: 'ret' })
  expect((await bot.say('a')).text).toBe('{"ret":0}')
  await sandbox.switches({ send_reply: 'empty' })
  expect((await bot.say('b')).text).toBe('{}')
})

it('quotes arrive in every form that was seen', async sandbox => {
  const bot = await heard(sandbox)
  const text = 'one two one two one'
  const sent = await bot.say(text)
  const [message] = await sandbox.messages({ from: 'bot' })
  const id = message!.message_id
  expect(sent.text).toContain(id)
  for (const how of ['id', 'full', 'type0', 'type8'] as const) await sandbox.say(how, { quote: id, how })
  await sandbox.say('part', { quote: id, part: 'two one two' })
  const answer = await bot.poll()
  const refs = answer.msgs
    .slice(1)
    .map((one: { item_list: { ref_msg: object }[] }) => one.item_list[0]?.ref_msg)
  expect(answer.text).toContain(`"ref_msg":{"svr_id":${id}}`)
  expect(refs[1]).toMatchObject({ title: text, message_item: { type: 1, text_item: { text } } })
  expect(refs[2]).toMatchObject({ message_item: { type: 0 } })
  expect(refs[3]).toMatchObject({ message_item: { type: 8 } })
  expect(refs[4].partial_text).toMatchObject({
    start: 'two one ',
    startindex: 0,
    end: ' one two',
    endindex: 0,
  })
})

test('typing shows until it is cancelled, a message comes, or it runs out', async () => {
  await using sandbox = await withSandbox({ clock: stillClock() })
  const bot = await heard(sandbox)
  const typing = async () => {
    const { users } = await sandbox.phone<{ users: { peers: { typing: boolean }[] }[] }>('GET', 'state')
    return users[0]!.peers.some(peer => peer.typing)
  }
  const config = await bot.post('getconfig', { ilink_user_id: bot.user_id })
  expect(config.ret).toBe(0)
  const type = (status: number) =>
    bot.post('sendtyping', { ilink_user_id: bot.user_id, typing_ticket: config.typing_ticket, status })
  await type(1)
  expect(await typing()).toBe(true)
  await type(2)
  expect(await typing()).toBe(false)
  await type(1)
  await sandbox.advance(6001)
  expect(await typing()).toBe(false)
})
