import { expect, test } from 'bun:test'
import { ilink } from '../support/ilink-client.ts'
import { withSandbox } from '../support/sandbox.ts'

test('a bot logs in by QR code, hears what its user says and answers', async () => {
  await using sandbox = await withSandbox()
  const qr = await ilink(sandbox.url).post('get_bot_qrcode?bot_type=3', { local_token_list: [] })
  expect(qr.ret).toBe(0)
  expect(String(qr.qrcode_img_content)).toStartWith('https://')
  await sandbox.scanAndConfirm()
  const done = await ilink(sandbox.url).get(`get_qrcode_status?qrcode=${qr.qrcode}`)
  expect(done).toMatchObject({ ret: 0, status: 'confirmed', baseurl: sandbox.url })
  expect(String(done.ilink_bot_id)).toMatch(/^[0-9a-f]{12}@im\.bot$/)

  const bot = ilink(sandbox.url, String(done.bot_token))
  const waiting = bot.post('getupdates', { get_updates_buf: '' })
  const said = await sandbox.say('hello')
  const got = await waiting
  expect(got.msgs).toMatchObject([
    {
      from_user_id: done.ilink_user_id,
      message_type: 1,
      message_state: 2,
      item_list: [{ type: 1, text_item: { text: 'hello' } }],
    },
  ])
  expect(got.text).toContain(`"message_id":${said.message_id},`)

  const sent = await bot.send(String(done.ilink_user_id), 'hi', String(got.msgs[0]?.context_token))
  expect(sent.text).toMatch(/^\{"ret":0,"message_id":\d{17,20}\}$/)
  expect(await sandbox.messages({ from: 'bot' })).toMatchObject([
    { from: 'bot', shown: true, items: [{ kind: 'text', text: 'hi' }] },
  ])
})
