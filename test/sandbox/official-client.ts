/**
 * Runs Tencent's own client modules against a sandbox.
 *
 * Arguments: sandbox address, folder for its files. Prints one JSON line per step.
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { tencentClient } from '../support/tencent-client.ts'

const [, , sandboxUrl = '', dir = ''] = process.argv
const load = tencentClient(sandboxUrl, dir)
const tell = (step: string, facts: object) => console.log(JSON.stringify({ step, ...facts }))

const { startWeixinLoginWithQr, waitForWeixinLogin } = await load('auth/login-qr')
const api = await load('api/api')
const { sendMessageWeixin } = await load('messaging/send')
const { sendWeixinMediaFile } = await load('messaging/send-media')
const { downloadMediaFromItem } = await load('media/media-download')
const { resolvePartialQuote } = await load('messaging/partial-quote')
const { monitorWeixinProvider } = await load('monitor/monitor')

const started = await startWeixinLoginWithQr({ accountId: 'test' })
tell('qr', { url: started.qrcodeUrl })
const login = await waitForWeixinLogin({ sessionKey: started.sessionKey, timeoutMs: 60_000 })
const { botToken: token, baseUrl, userId } = login
tell('login', { connected: login.connected, accountId: login.accountId, baseUrl, userId })
tell('start', await api.notifyStart({ baseUrl, token }))

let cursor = ''
// Messages by their order; the parent says them one after the other.
async function next() {
  for (let tries = 0; tries < 20; tries++) {
    const answer = await api.getUpdates({ baseUrl, token, get_updates_buf: cursor, timeoutMs: 35_000 })
    cursor = answer.get_updates_buf || cursor
    if (answer.msgs?.length) return answer.msgs[0]
  }
  throw new Error('no message')
}

tell('listening', {})
const heard = await next()
tell('heard', { text: heard.item_list[0].text_item.text, id: String(heard.message_id) })
const contextToken = heard.context_token
const config = await api.getConfig({ baseUrl, token, ilinkUserId: userId, contextToken })
await api.sendTyping({
  baseUrl,
  token,
  body: { ilink_user_id: userId, typing_ticket: config.typing_ticket, status: 1 },
})
tell('typing', { ret: config.ret })

const opts = { baseUrl, token, contextToken }
const sent = await sendMessageWeixin({ to: userId, text: 'from the official client', opts })
tell('sent', { id: String(sent.serverMessageId) })
for (const [name, size] of [
  ['picture.png', 100_000],
  ['film.mp4', 70_000],
  ['paper.pdf', 33_333],
] as const) {
  const filePath = join(dir, name)
  await writeFile(filePath, new Uint8Array(size).fill(7))
  await sendWeixinMediaFile({ filePath, to: userId, text: '', opts, cdnBaseUrl: `${sandboxUrl}/c2c` })
}
tell('uploaded', {})

for (let n = 0; n < 4; n++) {
  const message = await next()
  const saved: { md5: string; size: number }[] = []
  const saveMedia = async (bytes: Uint8Array) => {
    saved.push({ md5: new Bun.CryptoHasher('md5').update(bytes).digest('hex'), size: bytes.length })
    return { path: dir }
  }
  const deps = {
    cdnBaseUrl: `${sandboxUrl}/c2c`,
    saveMedia,
    log() {},
    errLog: (text: string) => tell('error', { text }),
    label: 'test',
  }
  await downloadMediaFromItem(message.item_list[0], deps)
  tell('downloaded', { saved })
}
const quoting = await next()
const { partial_text } = quoting.item_list[0].ref_msg
tell('quote', {
  svr_id: String(quoting.item_list[0].ref_msg.svr_id),
  part: resolvePartialQuote('from the official client', partial_text).resolved,
})

// Its own loop: /echo is answered without any model behind it.
const stop = new AbortController()
const loop = monitorWeixinProvider({
  ...{ baseUrl, token, accountId: 'test', cdnBaseUrl: `${sandboxUrl}/c2c`, config: {}, channelRuntime: {} },
  abortSignal: stop.signal,
})
tell('loop', {})
for await (const line of console) if (line === 'stop') break
stop.abort()
await loop
tell('stop', await api.notifyStop({ baseUrl, token }))
process.exit(0)
