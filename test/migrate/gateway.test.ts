/** What came over works: a real gateway receives, answers and downloads with it, against the simulated WeChat. */
import { expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createDirectCall } from '../../src/model/call.ts'
import { withGateway } from '../support/gateway.ts'
import { ilink } from '../support/ilink-client.ts'
import { withSandbox } from '../support/sandbox.ts'
import {
  fingerprint,
  folders,
  move,
  openClawAccount,
  seconds,
  weiLinkLog,
  weiLinkSession,
} from './profile.ts'

test('a session of WeiLink goes on in svc: old messages are history, new ones come, answers and old media work', async () => {
  await using at = await folders()
  // An answer without a context token, or with one that was not taken over, is refused.
  await using sandbox = await withSandbox({ switches: { missing_context_token: 'refuse' } })
  const bot = sandbox.bot()
  const picture = crypto.getRandomValues(new Uint8Array(50_000))
  await sandbox.say('before the move')
  await sandbox.media('image', picture)

  // What WeiLink had received, as it keeps it.
  const { text } = await ilink(sandbox.url, bot.token).poll()
  const ids = [...text.matchAll(/"message_id":(\d+)/g)].map(([, id]) => id!)
  const answer = JSON.parse(text)
  expect(answer.msgs).toHaveLength(2)
  const { context_token: token } = answer.msgs[1]
  const { media, aeskey, url = '' } = answer.msgs[1].item_list[0].image_item
  const now = Date.now()
  await weiLinkSession(at.from, '工作', {
    ...{
      bot: bot.bot_id,
      user: bot.user_id,
      token: bot.token,
      base_url: sandbox.url,
      cursor: answer.get_updates_buf,
    },
    contexts: { [bot.user_id]: { t: token, ts: seconds(now), sc: 1 } },
  })
  {
    using log = weiLinkLog(at.from)
    const row = { user: bot.user_id, bot: bot.bot_id, at: now }
    const kept = { encrypt_query_param: '', encrypt_type: 0, ...media, aes_key: aeskey ?? media.aes_key }
    // WeiLink drops the address of an image that has a key of its own.
    if (aeskey) kept.full_url = ''
    log.add(
      { ...row, message_id: ids[0]!, text: 'before the move' },
      { ...row, message_id: ids[1]!, msg_type: 2, more: { image: { media: kept, url } } },
      { ...row, sent: true, text: 'an old answer' },
    )
  }
  const before = fingerprint(at.from)
  expect((await move('weilink', at)).applied.history.added).toBe(3)

  await using test = await withGateway({ sandbox, dir: at.into, sessions: [] })
  const { gateway } = test
  expect(await gateway.accounts.list()).toMatchObject([{ name: '工作', connected: true, is_default: true }])
  await sandbox.say('after the move')
  expect((await test.receive(1)).map(({ text }) => text)).toEqual(['after the move'])
  expect(await test.recv({ timeout: 0, after: 0 })).toMatchObject([{ text: 'after the move' }])

  const sent = await test.send({ to: bot.user_id, text: 'an answer' })
  expect(sent).toMatchObject({ success: true, status: 'accepted', session: '工作' })
  await sandbox.seen(messages => messages.some(({ items }) => items[0]?.text === 'an answer'))

  const call = createDirectCall()
  const file = await gateway.media.download(
    { message_id: ids[1]!, item: 0, save_dir: join(at.root, 'saved') },
    { ...call, local: true },
  )
  expect(
    createHash('sha256')
      .update(await readFile(file.path))
      .digest('hex'),
  ).toBe(createHash('sha256').update(picture).digest('hex'))
  const page = await gateway.history.page({ limit: 50, offset: 0, session: '工作' })
  expect(page.messages.map(({ text, direction, msg_type }) => [text, direction, msg_type])).toEqual([
    ['an answer', 'sent', 'TEXT'],
    ['after the move', 'received', 'TEXT'],
    ['an old answer', 'sent', 'TEXT'],
    ['', 'received', 'IMAGE'],
    ['before the move', 'received', 'TEXT'],
  ])
  expect(fingerprint(at.from)).toEqual(before)
})

test('the first thing svc does with it may be an answer: the context token that came over carries it', async () => {
  await using at = await folders()
  await using sandbox = await withSandbox({ switches: { missing_context_token: 'refuse' } })
  const bot = sandbox.bot()
  await sandbox.say('hi')
  const { msgs, get_updates_buf } = await ilink(sandbox.url, bot.token).poll()
  const id = bot.bot_id.replace(/[@.]/g, '-')
  await Bun.write(join(at.from, 'openclaw-weixin', 'accounts.json'), JSON.stringify([id]))
  await openClawAccount(at.from, id, {
    account: { token: bot.token, baseUrl: sandbox.url, userId: bot.user_id },
    sync: { get_updates_buf },
    contexts: { [bot.user_id]: msgs[0].context_token },
  })
  const { plan } = await move('openclaw', at)
  expect(plan.sessions[0]?.source.bot_id).toBe(bot.bot_id)
  await using test = await withGateway({ sandbox, dir: at.into, sessions: [] })
  expect(await test.send({ to: bot.user_id, text: 'hello from svc' })).toMatchObject({ status: 'accepted' })
  await sandbox.seen(messages => messages.some(({ items }) => items[0]?.text === 'hello from svc'))
})
