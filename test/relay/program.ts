/**
 * A program that speaks WeChat's protocol, to be killed at any moment: it keeps its cursor in a file, and writes down what it got and
 * what became of its answers.
 *
 * Arguments: kind (tencent: Tencent's own client; weilink: as WeiLink polls and sends), address, token, user, name, folder.
 */
import { createDecipheriv, createHash } from 'node:crypto'
import { appendFileSync, existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { tencentClient } from '../support/tencent-client.ts'
import { relayProgram } from './protocol.ts'

const [, , kind = '', base = '', token = '', user = '', name = '', dir = ''] = process.argv
const cursorFile = join(dir, `${name}.cursor`)
const note = (...words: string[]) => appendFileSync(join(dir, `${name}.log`), `${words.join('\t')}\n`)
const pause = () => new Promise(resolve => setTimeout(resolve, 200))

// biome-ignore lint/suspicious/noExplicitAny: answers of any form
type Message = any
interface Client {
  poll(cursor: string): Promise<{ msgs?: Message[]; get_updates_buf?: string }>
  /** @returns whether it was sent; undefined if that is not known */
  answer(message: Message, text: string): Promise<boolean | undefined>
  md5(message: Message): Promise<string>
}

const payloadOf = (item: Message) => item.image_item ?? item.voice_item ?? item.file_item ?? item.video_item
/** The id of the message that an item quotes, its partial text, or its whole one. */
function quotedIn({ ref_msg }: Message): string {
  if (!ref_msg) return ''
  const { message_item, partial_text, svr_id } = ref_msg
  const text = partial_text ? `${partial_text.start}…${partial_text.end}` : message_item?.text_item?.text
  return [svr_id ?? message_item?.msg_id ?? '', text ?? ''].join(' ')
}
const md5Of = (bytes: Uint8Array) => createHash('md5').update(bytes).digest('hex')

async function tencent(): Promise<Client> {
  const load = tencentClient(base, dir)
  const api = await load('api/api')
  const { sendMessageWeixin } = await load('messaging/send')
  const { downloadMediaFromItem } = await load('media/media-download')
  await api.notifyStart({ baseUrl: base, token }).catch(() => {})
  return {
    poll: cursor => api.getUpdates({ baseUrl: base, token, get_updates_buf: cursor, timeoutMs: 35_000 }),
    // It sends once and never again.
    answer: ({ context_token: contextToken }, text) =>
      sendMessageWeixin({ to: user, text, opts: { baseUrl: base, token, contextToken } }).then(
        () => true,
        () => undefined,
      ),
    async md5(message) {
      let md5 = ''
      const saveMedia = async (bytes: Uint8Array) => {
        md5 = md5Of(bytes)
        return { path: dir }
      }
      const [log, errLog] = [() => {}, () => {}]
      const deps = { cdnBaseUrl: `${base}/ilink/c2c`, saveMedia, log, errLog, label: 'test' }
      // It fetches once: a file that svc was killed over is fetched again here.
      while (md5 === '') {
        await downloadMediaFromItem(message.item_list[0], deps)
        if (md5 === '') await pause()
      }
      return md5
    },
  }
}

function weilink(): Client {
  const program = relayProgram(base, '', token, user)
  return {
    async poll(cursor) {
      const { status, body } = await program.post('getupdates', { get_updates_buf: cursor })
      if (status !== 200) throw new Error(`HTTP ${status}`)
      return body
    },
    async answer({ message_id }, text) {
      for (;;) {
        const client_id = `weilink:${name}:${message_id}`
        const sent = await program.say(text, { client_id }).catch(() => undefined)
        if (sent?.status === 200) return sent.body.ret === 0
        // svc does not know whether it was sent, and never sends it again.
        if (sent?.status === 504) return undefined
        await pause()
      }
    },
    async md5(message) {
      const { media } = payloadOf(message.item_list[0])
      const key = Buffer.from(Buffer.from(media.aes_key, 'base64').toString('latin1'), 'hex')
      const decipher = createDecipheriv('aes-128-ecb', key, null)
      const response = await fetch(media.full_url)
      if (!response.ok) throw new Error(`HTTP ${response.status}`)
      return md5Of(Buffer.concat([decipher.update(await response.bytes()), decipher.final()]))
    },
  }
}

const client = kind === 'tencent' ? await tencent() : weilink()
let cursor = existsSync(cursorFile) ? readFileSync(cursorFile, 'utf8') : ''
for (;;) {
  try {
    const { msgs = [], get_updates_buf } = await client.poll(cursor)
    for (const message of msgs) {
      const [item] = message.item_list
      const md5 = item.text_item ? '' : await client.md5(message)
      const said = item.text_item?.text ?? md5
      note('got', said, String(message.message_id), quotedIn(item))
      const attempt = kind === 'tencent' ? ` ${crypto.randomUUID()}` : ''
      const text = `${name}: ${said}${attempt}`
      note('sent', text, String(await client.answer(message, text)))
    }
    if (get_updates_buf) {
      cursor = get_updates_buf
      writeFileSync(`${cursorFile}.new`, cursor)
      renameSync(`${cursorFile}.new`, cursorFile)
    }
  } catch {
    await pause()
  }
}
