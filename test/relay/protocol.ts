/** A small program that speaks WeChat's protocol. */
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import { parseLossless } from '../../src/platform/lossless.ts'

// biome-ignore lint/suspicious/noExplicitAny: tests read any field of an answer
type Json = any

/** What the program got for a call: the status of HTTP, and the fields of the answer. */
interface Answer {
  readonly status: number
  readonly body: Json
  readonly text: string
  readonly headers: Headers
}

export interface RelayProgram {
  readonly token: string
  /** Id of its key. */
  readonly id: string
  /** Where it goes on reading. */
  cursor: string
  /** Calls any endpoint. */
  post(name: string, body?: unknown, init?: RequestInit): Promise<Answer>
  /** Polls once, and goes on from there. */
  poll(init?: RequestInit): Promise<Json[]>
  /** Polls until that many messages came. */
  read(count: number): Promise<Json[]>
  say(text: string, more?: object): Promise<Answer>
  upload(bytes: Uint8Array, type?: number, more?: object): Promise<Answer>
  /** Sends a file that was uploaded. */
  sendFile(param: string, name: string): Promise<Answer>
  /** Fetches the file of an item, as the program would. */
  fetchFile(payload: Json): Promise<Uint8Array>
}

/** @param to the user whom it answers */
export function relayProgram(base: string, id: string, token: string, to: string): RelayProgram {
  const program: RelayProgram = {
    id,
    token,
    cursor: '',
    async post(name, body = {}, init = {}) {
      const response = await fetch(`${base}/ilink/bot/${name}`, {
        method: 'POST',
        body: typeof body === 'string' ? body : JSON.stringify(body),
        headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
        ...init,
      })
      const text = await response.text()
      const isJson = response.headers.get('content-type')?.includes('json')
      return {
        status: response.status,
        headers: response.headers,
        text,
        body: isJson ? parseLossless(text) : text,
      }
    },
    async poll(init) {
      const { body } = await program.post('getupdates', { get_updates_buf: program.cursor }, init)
      program.cursor = body.get_updates_buf || program.cursor
      return body.msgs ?? []
    },
    async read(count) {
      const all: Json[] = []
      while (all.length < count) all.push(...(await program.poll()))
      return all
    },
    say: (text, more) =>
      program.post('sendmessage', {
        msg: {
          ...{ from_user_id: '', to_user_id: to, client_id: crypto.randomUUID(), message_type: 2 },
          item_list: [{ type: 1, text_item: { text } }],
          message_state: 2,
          ...more,
        },
      }),
    async upload(bytes, type = 3, more) {
      const key = randomBytes(16)
      const cipher = createCipheriv('aes-128-ecb', key, null)
      const encrypted = Buffer.concat([cipher.update(bytes), cipher.final()])
      const { body } = await program.post('getuploadurl', {
        ...{
          filekey: randomBytes(16).toString('hex'),
          media_type: type,
          to_user_id: to,
          no_need_thumb: true,
        },
        ...{ rawsize: bytes.length, rawfilemd5: createHash('md5').update(bytes).digest('hex') },
        ...{ filesize: encrypted.length, aeskey: key.toString('hex'), ...more },
      })
      if (!body.upload_full_url) return { status: 200, body, text: '', headers: new Headers() }
      const response = await fetch(body.upload_full_url, { method: 'POST', body: encrypted })
      const text = await response.text()
      return { status: response.status, body: text, text, headers: response.headers }
    },
    sendFile: (encrypt_query_param, file_name) =>
      program.say('', {
        item_list: [{ type: 4, file_item: { file_name, media: { encrypt_query_param, encrypt_type: 1 } } }],
      }),
    async fetchFile({ media }) {
      const key = Buffer.from(Buffer.from(media.aes_key, 'base64').toString('latin1'), 'hex')
      const response = await fetch(media.full_url)
      const decipher = createDecipheriv('aes-128-ecb', key, null)
      return Buffer.concat([decipher.update(await response.bytes()), decipher.final()])
    },
  }
  return program
}
