/**
 * A minimal iLink client for tests of the simulated WeChat. It shares no code with svc, so that neither
 * hides the other's mistakes.
 */
import { createCipheriv, createHash, randomBytes } from 'node:crypto'

// biome-ignore lint/suspicious/noExplicitAny: tests read any field of an answer
export type Answer = Record<string, any> & { text: string; http: number }

export const ilink = (url: string, token?: string) => {
  const headers = {
    'content-type': 'application/json',
    AuthorizationType: 'ilink_bot_token',
    ...(token && { Authorization: `Bearer ${token}` }),
  }
  const read = async (response: Response): Promise<Answer> => {
    const text = await response.text()
    const fields = text.startsWith('{') ? JSON.parse(text) : {}
    return { ...fields, text, http: response.status }
  }
  const post = async (path: string, body: object, signal?: AbortSignal) =>
    read(
      await fetch(`${url}/ilink/bot/${path}`, {
        method: 'POST',
        headers,
        body: JSON.stringify(body),
        signal,
      }),
    )
  return {
    post,
    get: async (path: string) => read(await fetch(`${url}/ilink/bot/${path}`, { headers })),
    poll: (cursor = '', signal?: AbortSignal) => post('getupdates', { get_updates_buf: cursor }, signal),
    send: (to: string, text: string, contextToken?: string, more: object = {}) =>
      post('sendmessage', {
        msg: {
          from_user_id: '',
          to_user_id: to,
          client_id: randomBytes(8).toString('hex'),
          message_type: 2,
          message_state: 2,
          item_list: [{ type: 1, text_item: { text } }],
          context_token: contextToken,
          ...more,
        },
      }),
    /** Calls getuploadurl and uploads the file; `media` is the wire's media object. */
    async upload(to: string, mediaType: number, plain: Uint8Array) {
      const key = randomBytes(16)
      const cipher = createCipheriv('aes-128-ecb', key, null)
      const body = Buffer.concat([cipher.update(plain), cipher.final()])
      const place = await post('getuploadurl', {
        filekey: randomBytes(16).toString('hex'),
        media_type: mediaType,
        to_user_id: to,
        rawsize: plain.length,
        rawfilemd5: createHash('md5').update(plain).digest('hex'),
        filesize: body.length,
        aeskey: key.toString('hex'),
        no_need_thumb: true,
      })
      const response = await fetch(String(place.upload_full_url), { method: 'POST', body })
      return {
        place,
        response,
        cipher: body,
        key,
        media: {
          encrypt_query_param: response.headers.get('x-encrypted-param') ?? '',
          aes_key: Buffer.from(key.toString('hex')).toString('base64'),
          encrypt_type: 1,
        },
      }
    },
  }
}
