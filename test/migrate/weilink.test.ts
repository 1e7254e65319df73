/** A whole folder of WeiLink's comes over, and stays as it was. */
import { expect } from 'bun:test'
import { chmodSync, closeSync, existsSync, openSync, writeSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { mediaOf } from '../../src/ilink/decode.ts'
import { given } from '../support/given.ts'
import {
  contexts,
  fingerprint,
  folders,
  json,
  mediaInfo,
  move,
  openLog,
  rowsOf,
  seconds,
  told,
  weiLinkLog,
  weiLinkSession,
} from './profile.ts'

const it = given(folders)

const hour = 3_600_000
const now = Date.now()
const botA = 'aaaaaaaaaaaa@im.bot'
const botB = 'bbbbbbbbbbbb@im.bot'

it('sessions, context tokens, default session and history come over; the source stays byte for byte', async at => {
  const { from, into } = at
  await weiLinkSession(from, 'default', {
    bot: botA,
    user: 'o1@im.wechat',
    cursor: 'buf-a',
    created: now - 48 * hour,
  })
  await weiLinkSession(from, '工作', {
    ...{ bot: botB, user: 'o2@im.wechat', cursor: 'buf-b', created: now - 24 * hour },
    contexts: {
      'o2@im.wechat': {
        ...{ t: 'ctx-o2', ts: seconds(now - hour), sc: 4, send_ts: seconds(now - hour / 2) },
        first_seen: seconds(now - 900 * hour),
      },
      'Old@im.wechat': { send_ts: seconds(now - 100 * hour), first_seen: seconds(now - 101 * hour) },
      'timeless@im.wechat': { t: 'ctx-timeless', ts: 0.0 },
    },
  })
  await writeFile(join(from, '.default_session'), '工作')
  // Written and not yet in the file itself: it stands in the -wal.
  using log = weiLinkLog(from)
  log.add(
    { message_id: '7000000000000000002', text: 'second', at: now - 2 * hour, context_token: 'c2' },
    { message_id: '9223372036854775807', text: '你好，第一', at: now - 3 * hour },
    { sent: true, text: 'an answer', at: now - hour, user: 'o2@im.wechat', bot: botB },
  )
  const before = fingerprint(from)

  const dry = await move('weilink', at, { dryRun: true })
  expect(existsSync(into)).toBe(false)
  expect(dry.plan.tally).toMatchObject({ received: 2, sent: 1 })
  const { applied, findings } = await move('weilink', at)
  expect(fingerprint(from)).toEqual(before)
  expect(applied.history).toEqual({ added: 3, leftOut: 0 })
  expect(told(findings, 'problem')).toEqual([])

  expect(json(into, 'default', 'token.json')).toEqual({
    ...{ bot_id: botA, token: `${botA}:pretend`, base_url: 'https://ilinkai.weixin.qq.com' },
    ...{ user_id: 'o1@im.wechat', cursor: 'buf-a', created_at: now - 48 * hour },
  })
  expect(json(into, '工作', 'token.json')).toMatchObject({ bot_id: botB, cursor: 'buf-b' })
  expect(contexts(into, '工作')).toEqual({
    'o2@im.wechat': {
      ...{ token: 'ctx-o2', received_at: now - hour, used: 4 },
      ...{ last_sent_at: now - hour / 2, first_seen: now - 900 * hour },
    },
    'Old@im.wechat': { used: 0, last_sent_at: now - 100 * hour, first_seen: now - 101 * hour },
    'timeless@im.wechat': { token: 'ctx-timeless', used: 0, first_seen: 0 },
  })
  expect(await Bun.file(join(into, '.default_session')).text()).toBe('工作\n')

  const rows = await rowsOf(into)
  expect(
    rows.map(({ id, message_id, session, direction, text }) => [id, message_id, session, direction, text]),
  ).toEqual([
    [1, '9223372036854775807', 'default', 'received', '你好，第一'],
    [2, '7000000000000000002', 'default', 'received', 'second'],
    [3, expect.stringMatching(/^local:weilink-[0-9a-f]{24}$/), '工作', 'sent', 'an answer'],
  ])
  expect(rows.map(({ timestamp }) => timestamp)).toEqual([now - 3 * hour, now - 2 * hour, now - hour])
  expect(JSON.parse(rows[1]!.raw)).toEqual({
    ...{ message_id: '7000000000000000002', from_user_id: 'o1@im.wechat', to_user_id: botA },
    ...{ create_time_ms: now - 2 * hour, message_type: 1, message_state: 2 },
    ...{ item_list: [{ type: 1, text_item: { text: 'second' } }], context_token: 'c2' },
  })
  expect(rows[2]).toMatchObject({ status: 'accepted', bot_id: botB })
})

it('the same move again brings nothing, and later messages alone', async at => {
  await weiLinkSession(at.from, 'default', {
    bot: botA,
    contexts: { 'o1@im.wechat': { t: 'x', ts: seconds(now) } },
  })
  using log = weiLinkLog(at.from)
  log.add(
    { message_id: '1', text: 'a', at: now - 9 },
    { sent: true, text: 'b', at: now - 8 },
    // Twice the same words in the same millisecond are two messages; so are two without an id.
    { sent: true, text: 'b', at: now - 8 },
    { text: 'nameless', at: now - 7 },
    { text: 'nameless', at: now - 7 },
  )
  expect((await move('weilink', at)).applied.history.added).toBe(5)
  const token = fingerprint(join(at.into, 'default'))
  const again = await move('weilink', at)
  expect(again.applied.history.added).toBe(0)
  expect(again.applied.sessions.get('default')).toEqual({ login: 'kept', users: 0 })
  expect(fingerprint(join(at.into, 'default'))).toEqual(token)
  log.add({ message_id: '2', text: 'later', at: now })
  expect((await move('weilink', at)).applied.history.added).toBe(1)
  expect((await rowsOf(at.into)).map(({ text }) => text)).toEqual([
    'a',
    'b',
    'b',
    'nameless',
    'nameless',
    'later',
  ])
})

it('media keep their place and key, quotes their text, in the shape of upstream', async at => {
  await weiLinkSession(at.from, 'default', { bot: botA })
  using log = weiLinkLog(at.from)
  const hex = '00112233445566778899aabbccddeeff'
  const b64 = Buffer.from(hex).toString('base64')
  const row = (message_id: string, msg_type: number, more: object) => ({
    message_id,
    msg_type,
    at: now + Number(message_id),
    more: { ...more },
  })
  log.add(
    row('1', 2, {
      image: {
        media: mediaInfo({ encrypt_query_param: 'q1', aes_key: hex, encrypt_type: 1 }),
        url: '3057',
        thumb_width: 120,
        thumb_height: 90,
        hd_size: 0,
      },
    }),
    row('2', 2, {
      image: {
        media: mediaInfo({ encrypt_query_param: 'q2', aes_key: b64 }),
        url: '',
        thumb_width: 0,
        thumb_height: 0,
        hd_size: 77,
      },
    }),
    row('3', 3, {
      voice: {
        media: mediaInfo({ full_url: 'https://cdn/v', aes_key: b64 }),
        playtime: 2300,
        text: '语音',
        encode_type: 4,
        bits_per_sample: 16,
        sample_rate: 16000,
      },
    }),
    row('4', 4, {
      file: {
        media: mediaInfo({ encrypt_query_param: 'q4', aes_key: b64 }),
        file_name: '报告.pdf',
        file_size: '12345',
        md5: 'abc',
      },
    }),
    row('5', 5, {
      video: {
        media: mediaInfo({ encrypt_query_param: 'q5', aes_key: b64 }),
        play_length: 9,
        video_md5: 'd',
        thumb_width: 3,
        thumb_height: 4,
      },
    }),
    { ...row('6', 1, { ref_msg: { msg_type: 1, text: 'what was said' } }), text: 're' },
    {
      ...row('7', 1, {
        ref_msg: { msg_type: 2, image: { media: mediaInfo({ encrypt_query_param: 'q7' }), url: '' } },
      }),
      text: 're picture',
    },
    row('8', 4, { file: { media: mediaInfo(), file_name: 'gone.txt', file_size: '', md5: '' } }),
    row('9', 1, {}),
  )
  const { plan, findings } = await move('weilink', at)
  expect(plan.tally).toEqual({ received: 9, sent: 0, damaged: 0, empty: 1, mediaLost: 1 })
  expect(told(findings, 'warning').join()).toContain('messages whose media address is missing: 1.')
  expect(told(findings, 'note').join()).toContain('did not understand them: 1.')
  const rows = await rowsOf(at.into)
  const items = rows.map(({ raw }) => JSON.parse(raw).item_list)
  expect(items[0]).toEqual([
    {
      type: 2,
      image_item: {
        media: { encrypt_query_param: 'q1', encrypt_type: 1 },
        aeskey: hex,
        url: '3057',
        thumb_width: 120,
        thumb_height: 90,
      },
    },
  ])
  expect(items[1]).toEqual([
    { type: 2, image_item: { media: { encrypt_query_param: 'q2', aes_key: b64 }, hd_size: 77 } },
  ])
  expect(items[3]).toEqual([
    {
      type: 4,
      file_item: {
        media: { encrypt_query_param: 'q4', aes_key: b64 },
        file_name: '报告.pdf',
        len: '12345',
        md5: 'abc',
      },
    },
  ])
  expect(items[5]).toEqual([
    {
      type: 1,
      text_item: { text: 're' },
      ref_msg: { message_item: { type: 1, text_item: { text: 'what was said' } } },
    },
  ])
  expect(rows.map(({ msg_type }) => msg_type)).toEqual([
    ...(['IMAGE', 'IMAGE', 'VOICE', 'FILE', 'VIDEO', 'TEXT', 'TEXT', 'FILE', 'UNKNOWN'] as const),
  ])
  expect(mediaOf(rows[0]!.raw, 0)).toMatchObject({
    kind: 'image',
    info: { encrypt_query_param: 'q1', aes_key: hex },
  })
  expect(mediaOf(rows[2]!.raw, 0)).toMatchObject({
    kind: 'voice',
    info: { full_url: 'https://cdn/v', aes_key: b64 },
  })
  expect(mediaOf(rows[3]!.raw, 0)).toMatchObject({ fileName: '报告.pdf', size: 12345 })
})

it('damaged parts are told, and the rest comes over', async at => {
  const { from, into } = at
  await weiLinkSession(from, 'whole', { bot: botA, contexts: { 'o1@im.wechat': 'not an entry' } })
  await weiLinkSession(from, 'cut', { bot: botB, contexts: { 'o2@im.wechat': { t: 'x', ts: seconds(now) } } })
  await writeFile(join(from, 'cut', 'token.json'), '{"bot_id": "bbbb')
  await weiLinkSession(from, 'blank', { bot: 'cccccccccccc@im.bot' })
  await writeFile(join(from, 'blank', 'contexts.json'), '')
  await mkdir(join(from, 'nobody'))
  await writeFile(join(from, 'nobody', 'token.json'), '{"bot_id": "", "token": ""}')
  using log = weiLinkLog(from)
  log.add(
    { message_id: '1', text: 'good', at: now - 3 },
    { message_id: '2', text: 'its JSON is cut', at: now - 2, data: '{"from_user": "o1' },
    { message_id: '3', msg_type: 2, at: now - 1, data: '' },
    // Of the session whose credentials are lost: they wait under its name.
    { message_id: '4', text: 'to the lost one', at: now, user: 'o2@im.wechat', bot: botB },
  )
  const { plan, applied, findings } = await move('weilink', at)
  const problems = told(findings, 'problem')
  expect(problems).toContainEqual(expect.stringContaining('session "cut": its token.json does not parse'))
  expect(problems).toContainEqual(expect.stringContaining('session "blank": its contexts.json is empty'))
  expect(problems).toContainEqual(
    expect.stringContaining('session "nobody": its token.json has no bot id or no token'),
  )
  expect(problems).toContainEqual(expect.stringContaining('session "whole": its contexts.json'))
  expect(problems).toContainEqual(expect.stringContaining('damaged messages: 2.'))
  expect(problems.join()).not.toContain('bbbb')
  expect(plan.tally.damaged).toBe(2)
  expect([...applied.sessions.keys()].sort()).toEqual(['blank', 'whole'])
  expect(existsSync(join(into, 'cut'))).toBe(false)
  const rows = await rowsOf(into)
  expect(rows.map(({ text, msg_type, session }) => [text, msg_type, session])).toEqual([
    ['good', 'TEXT', 'whole'],
    ['its JSON is cut', 'TEXT', 'whole'],
    ['', 'IMAGE', 'whole'],
    ['to the lost one', 'TEXT', 'bbbbbbbbbbbb'],
  ])
})

it('of a damaged database, and of a file that is none, the sessions come over', async at => {
  await weiLinkSession(at.from, 'default', { bot: botA })
  {
    using log = weiLinkLog(at.from)
    const rows = Array.from({ length: 3000 }, (_, i) => ({
      message_id: String(i + 1),
      text: `number ${i} `.repeat(20),
      at: now + i,
    }))
    log.add(...rows)
  }
  const path = join(at.from, 'messages.db')
  // One page in the middle, of rows.
  const size = Bun.file(path).size
  const file = openSync(path, 'r+')
  writeSync(file, Buffer.alloc(4096, 0xff), 0, 4096, Math.floor(size / 3 / 4096) * 4096)
  closeSync(file)
  const before = fingerprint(at.from)
  const { findings } = await move('weilink', at)
  expect(fingerprint(at.from)).toEqual(before)
  expect(told(findings, 'problem').join()).toContain('too damaged')
  expect(json(at.into, 'default', 'token.json')).toMatchObject({ bot_id: botA })

  await writeFile(path, 'this is no database, whatever its name says')
  const none = await move('weilink', { from: at.from, into: join(at.root, 'other') })
  expect(told(none.findings, 'problem')).toEqual([expect.stringContaining('messages.db is no database')])
  expect(json(at.root, 'other', 'default', 'token.json')).toMatchObject({ bot_id: botA })
})

it('the layout of the first versions is the session default; a folder that cannot be read is told', async at => {
  await weiLinkSession(at.from, '', { bot: botA, contexts: { 'o1@im.wechat': { t: 'x', ts: seconds(now) } } })
  const { applied, findings } = await move('weilink', at)
  expect([...applied.sessions.keys()]).toEqual(['default'])
  expect(contexts(at.into, 'default')).toMatchObject({ 'o1@im.wechat': { token: 'x' } })
  expect(told(findings, 'note').join()).toContain('there is no history')
  if (process.getuid?.() === 0) return
  chmodSync(join(at.from, 'token.json'), 0)
  expect(told((await move('weilink', at)).findings, 'problem').join()).toContain('cannot be read (EACCES)')
})

it('messages of an earlier login go to the session of the same person, those of strangers stand by themselves', async at => {
  await weiLinkSession(at.from, 'work', { bot: botA, user: 'o1@im.wechat' })
  await weiLinkSession(at.from, 'home', {
    bot: botB,
    contexts: { 'o2@im.wechat': { t: 'x', ts: seconds(now) } },
  })
  using log = weiLinkLog(at.from)
  log.add(
    { message_id: '1', text: 'by the person', at: now - 4, bot: 'dddddddddddd@im.bot', user: 'o1@im.wechat' },
    { message_id: '2', text: 'by a user', at: now - 3, bot: 'eeeeeeeeeeee@im.bot', user: 'o2@im.wechat' },
    { message_id: '3', text: 'by a stranger', at: now - 2, bot: 'ffffffffffff@im.bot', user: 'o9@im.wechat' },
    { message_id: '4', text: 'no bot', at: now - 1, bot: '', user: 'o9@im.wechat' },
  )
  const { findings } = await move('weilink', at)
  expect((await rowsOf(at.into)).map(({ session, bot_id }) => [session, bot_id])).toEqual([
    ['work', 'dddddddddddd@im.bot'],
    ['home', 'eeeeeeeeeeee@im.bot'],
    ['ffffffffffff', 'ffffffffffff@im.bot'],
    ['unknown', ''],
  ])
  expect(told(findings, 'note').filter(text => text.includes('without a session'))).toHaveLength(4)
})

it('no reader is given a message of before: not the one that begins at the beginning, nor one by row id', async at => {
  await weiLinkSession(at.from, 'default', { bot: botA })
  using log = weiLinkLog(at.from)
  log.add(
    { message_id: '1', text: 'five years old', at: now - 5 * 365 * 24 * hour },
    { sent: true, text: 'x', at: now },
  )
  const { findings } = await move('weilink', at)
  expect(told(findings, 'warning').join()).toContain('messages older than 30 days: 1.')
  const store = await openLog(at.into)
  try {
    expect(await store.consumers.claim('default', { limit: 10 })).toBeUndefined()
    expect(await store.consumers.claim('default', { limit: 10, session: 'default' })).toBeUndefined()
    expect(await store.log.listAfter(0, { limit: 10, direction: 'received' })).toEqual([])
    expect(await store.backlog.listRecent(0, { limit: 10, direction: 'received' })).toEqual([])
    const page = await store.log.search({ direction: 'received', limit: 10, offset: 0 })
    expect(page.rows.map(({ text, direction }) => [text, direction])).toEqual([
      ['five years old', 'received'],
    ])
    expect((await store.log.search({ text_contains: 'years', limit: 10, offset: 0 })).total).toBe(1)
  } finally {
    await store.maintenance.close()
  }
})
