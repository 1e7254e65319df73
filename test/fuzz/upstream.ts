/** A WeChat that answers as it is told to: honestly, or with replies that no honest one sends. On 127.0.0.1. */
import { createCipheriv } from 'node:crypto'
import fc from 'fast-check'
import { secrets } from './secrets.ts'
import { jsonText, type Spoiled, spoiled } from './values.ts'

/** Endpoints whose replies are spoiled. */
const endpoints = [
  ...['getupdates', 'sendmessage', 'getconfig', 'sendtyping', 'getuploadurl', 'get_bot_qrcode'],
  ...['get_qrcode_status', 'upload', 'download'],
] as const
type Endpoint = (typeof endpoints)[number]

/** One reply. */
export interface Reply {
  status: number
  body: string
  headers?: Record<string, string>
}

export interface Upstream extends AsyncDisposable {
  readonly url: string
  /** Requests at a listener of this machine that nobody may be led to. */
  readonly ledAstray: string[]
  /** The next reply of this endpoint. */
  arm(endpoint: Endpoint, reply: Reply): void
  /** Forgets the replies that nobody asked for, but those to logins under way. */
  disarm(): void
  /** Whether an account with this token waits for messages now. */
  polls(token: string): boolean
  /** The cursor that its last poll came with: where a message is given again when it was not acknowledged. */
  cursorOf(token: string): string | undefined
  /** Answers the poll of an account, once there is one. @returns false when none came in time */
  answer(token: string, reply: Reply, withinMs?: number): Promise<boolean>
}

const mediaKey = Buffer.from(secrets.aesKey, 'hex')
const cipher = createCipheriv('aes-128-ecb', mediaKey, null)
const stored = Buffer.concat([cipher.update(Buffer.alloc(3000, 'media')), cipher.final()])

export async function startUpstream(): Promise<Upstream> {
  const ledAstray: string[] = []
  const armed = new Map<Endpoint, Reply[]>()
  const waiting = new Map<string, Set<(reply: Reply) => void>>()
  const cursors = new Map<string, string>()
  let sent = 7_470_000_000_000_000_000n
  let codes = 0
  const looks = new Map<string, number>()
  const astray = Bun.serve({
    ...{ hostname: '127.0.0.1', port: 0 },
    fetch(request) {
      if (!new URL(request.url).pathname.startsWith('/ilink')) ledAstray.push(request.url)
      return new Response('inner')
    },
  })

  const held = (token: string, signal: AbortSignal) =>
    new Promise<Reply>(resolve => {
      const mine = waiting.get(token) ?? new Set()
      waiting.set(token, mine)
      const end = (reply: Reply) => {
        clearTimeout(timer)
        mine.delete(end)
        resolve(reply)
      }
      const timer = setTimeout(() => end(json({ ret: 0, msgs: [], get_updates_buf: 'c' })), 20_000)
      signal.addEventListener('abort', () => end(json({})), { once: true })
      mine.add(end)
    })

  const honest: Record<Endpoint, (request: Request) => Reply | Promise<Reply>> = {
    getupdates: request => held(tokenOf(request), request.signal),
    sendmessage: () => text(`{"ret":0,"message_id":${++sent}}`),
    getconfig: () => json({ ret: 0, typing_ticket: secrets.ticket }),
    sendtyping: () => json({ ret: 0 }),
    getuploadurl: () =>
      json({ ret: 0, upload_full_url: `${server.url.origin}/c2c/upload?taskid=${secrets.upload}` }),
    get_bot_qrcode: () =>
      json({
        ret: 0,
        qrcode: `code${++codes}`,
        qrcode_img_content: `https://liteapp.weixin.qq.com/q/${codes}`,
      }),
    get_qrcode_status(request) {
      const code = new URL(request.url).searchParams.get('qrcode') ?? ''
      looks.set(code, (looks.get(code) ?? 0) + 1)
      return json({ ret: 0, status: looks.get(code)! > 2 ? 'expired' : 'wait' })
    },
    upload: () => ({ status: 200, body: '', headers: { 'x-encrypted-param': secrets.param } }),
    download: () => ({ status: 200, body: '' }),
  }
  const server = Bun.serve({
    ...{ hostname: '127.0.0.1', port: 0, idleTimeout: 0, development: false },
    async fetch(request): Promise<Response> {
      const endpoint = new URL(request.url).pathname.split('/').at(-1) as Endpoint
      const asked = request.method === 'POST' ? await request.text() : ''
      if (endpoint === 'getupdates')
        cursors.set(tokenOf(request), /"get_updates_buf":"(\w*)"/.exec(asked)?.[1] ?? '')
      const reply =
        (endpoint !== 'getupdates' && armed.get(endpoint)?.shift()) || (await honest[endpoint]?.(request))
      if (endpoint === 'download' && reply?.body === '') return new Response(stored)
      if (!reply) return Response.json({ ret: 0 })
      return new Response(reply.body, {
        status: reply.status,
        headers: { 'content-type': 'application/json', ...reply.headers },
      })
    },
  })
  return {
    url: server.url.origin,
    ledAstray,
    arm: (endpoint, reply) => void armed.set(endpoint, [...(armed.get(endpoint) ?? []), reply]),
    disarm() {
      // A login asks by itself, later.
      for (const endpoint of armed.keys()) if (endpoint !== 'get_qrcode_status') armed.delete(endpoint)
    },
    cursorOf: token => cursors.get(token),
    polls: token => (waiting.get(token)?.size ?? 0) > 0,
    async answer(token, reply, withinMs = 30_000) {
      const until = performance.now() + withinMs
      for (;;) {
        const poll = [...(waiting.get(token) ?? [])].at(-1)
        if (poll) {
          poll(reply)
          return true
        }
        if (performance.now() > until) return false
        await Bun.sleep(1)
      }
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([server.stop(true), astray.stop(true)])
    },
  }
}

const tokenOf = (request: Request) => request.headers.get('authorization')?.slice(7) ?? ''
const text = (body: string, status = 200): Reply => ({ status, body })
const json = (value: unknown): Reply => text(JSON.stringify(value))

/** A message of a user, as upstream spells it. */
export const message = (fields: { id: string; user: string; items: unknown[] }) => ({
  message_id: fields.id,
  from_user_id: fields.user,
  to_user_id: 'bot@im.bot',
  client_id: `client-${fields.id}`,
  create_time_ms: 1_790_000_000_001 + (Number(fields.id.slice(-6)) || 0),
  ...{ session_id: 's', message_type: 1, message_state: 2 },
  item_list: fields.items,
  context_token: secrets.context,
})
export const textItem = (content: string) => ({
  type: 1,
  create_time_ms: 1_790_000_000_001,
  is_completed: true,
  text_item: { text: content },
})

const media = {
  encrypt_query_param: secrets.param,
  aes_key: Buffer.from(secrets.aesKey).toString('base64'),
  encrypt_type: 1,
}
/** One of each kind, with every field there is. */
export const mediaItems = [
  {
    type: 2,
    image_item: {
      media,
      thumb_media: media,
      aeskey: secrets.aesKey,
      url: 'ab12',
      mid_size: 3008,
      hd_size: 3008,
      thumb_height: 10,
      thumb_width: 10,
    },
  },
  {
    type: 3,
    voice_item: {
      media,
      encode_type: 4,
      bits_per_sample: 16,
      sample_rate: 16_000,
      playtime: 3000,
      text: 'said',
    },
  },
  { type: 4, file_item: { media, file_name: 'a.txt', md5: 'd41d8cd98f00b204e9800998ecf8427e', len: '3000' } },
  {
    type: 5,
    video_item: {
      media,
      video_size: 3008,
      play_length: 10,
      video_md5: 'd41d8cd98f00b204e9800998ecf8427e',
      thumb_media: media,
    },
  },
]
/** The id of the first message that every account got. */
export const firstId = '7460000000000000001'
const quotes = [
  { svr_id: firstId },
  {
    svr_id: firstId,
    partial_text: {
      start: 'fir',
      end: 'st',
      startindex: 0,
      endindex: 0,
      quotemd5: '8b04d5e3775d298e78455efc5ca404d5',
    },
  },
  { title: 'first', message_item: { ...textItem('first'), msg_id: firstId } },
]

const aMessage = fc
  .record({
    id: fc.integer({ min: 2, max: 999_999 }),
    user: fc.constantFrom('a@im.wechat', 'b@im.wechat'),
    items: fc.array(fc.constantFrom<object>(textItem('hello'), textItem('hello'), ...mediaItems), {
      minLength: 1,
      maxLength: 3,
    }),
    quote: fc.option(fc.constantFrom(...quotes), { freq: 3 }),
  })
  .map(({ id, user, items: [first, ...others], quote }) =>
    message({
      id: `74600000000${String(id).padStart(8, '0')}`,
      user,
      items: [quote ? { ...first, ref_msg: quote } : first, ...others],
    }),
  )

const reply = (msgs: unknown) => ({
  ret: 0,
  errcode: 0,
  msgs,
  get_updates_buf: 'cursor',
  longpolling_timeout_ms: 20_000,
})
const nowhere = ['http://127.0.0.1:1', '127.0.0.1:1', 'x y', 'http://', '']
/** Many messages, each with something of its own. */
const spoiledMessages: fc.Arbitrary<Spoiled> = fc
  .array(spoiled(aMessage, nowhere), { minLength: 1, maxLength: 12, size: 'max' })
  .map(messages => {
    // More than a megabyte is not what a chat brings.
    let size = 0
    const some = messages.filter(({ value }) => {
      size += jsonText(value).length
      return size < 1_000_000
    })
    return {
      value: reply(some.map(({ value }) => value)),
      places: some.flatMap(({ places }) => places.map(place => `msgs.*.${place}`)),
    }
  })

const replies: Record<Endpoint, fc.Arbitrary<unknown>> = {
  getupdates: fc.array(aMessage, { minLength: 1, maxLength: 3 }).map(reply),
  sendmessage: fc.constant({ ret: 0, errcode: 0, errmsg: '', message_id: '7470000000000000001' }),
  getconfig: fc.constant({ ret: 0, errmsg: '', typing_ticket: secrets.ticket }),
  sendtyping: fc.constant({ ret: 0, errmsg: '' }),
  getuploadurl: fc.constant({ ret: 0, upload_full_url: 'http://127.0.0.1:1/c2c/upload', upload_param: 'p' }),
  get_bot_qrcode: fc.constant({
    ret: 0,
    qrcode: 'spoiled',
    qrcode_img_content: 'https://liteapp.weixin.qq.com/q/1',
  }),
  get_qrcode_status: fc
    .constantFrom(
      'wait',
      'scaned',
      'need_verifycode',
      'verify_code_blocked',
      'expired',
      'scaned_but_redirect',
      'binded_redirect',
      'confirmed',
    )
    .map(status => ({
      ret: 0,
      status,
      redirect_host: '127.0.0.1:1',
      bot_token: secrets.confirmed,
      ilink_bot_id: 'late@im.bot',
      baseurl: 'http://127.0.0.1:1',
      ilink_user_id: 'late@im.wechat',
    })),
  upload: fc.constant({}),
  download: fc.constant({}),
}
/** Bodies that are no reply at all. */
const junk = fc.constantFrom(
  '',
  'null',
  '[]',
  '"a"',
  '{"ret":0,"msgs":[{"item_list":',
  '<html>504</html>',
  '{"ret":0}{"ret":0}',
  '\ufeff{"ret":0}',
  '{"msgs":[],"msgs":[1]}',
)
const statuses = fc.oneof(
  { arbitrary: fc.constant(200), weight: 12 },
  { arbitrary: fc.constantFrom(201, 204, 302, 401, 404, 500, 524), weight: 1 },
)

export interface SpoiledReply {
  endpoint: Endpoint
  reply: Reply
  places: string[]
}

/** Replies of every endpoint, most of them to polls. */
export const spoiledReply: fc.Arbitrary<SpoiledReply> = fc
  .oneof(
    { arbitrary: fc.constant<Endpoint>('getupdates'), weight: 12 },
    { arbitrary: fc.constantFrom(...endpoints), weight: 8 },
  )
  .chain(endpoint =>
    fc
      .record({
        body: fc.oneof(
          { arbitrary: spoiled(replies[endpoint], nowhere), weight: 15 },
          { arbitrary: spoiledMessages, weight: endpoint === 'getupdates' ? 30 : 0 },
          { arbitrary: junk.map((body): Spoiled => ({ value: body, places: ['(body)'] })), weight: 1 },
        ),
        status: statuses,
      })
      .map(({ body: { value, places }, status }) => ({
        endpoint,
        places,
        reply: {
          status,
          body: places[0] === '(body)' ? (value as string) : jsonText(value),
          ...(status === 302 && { headers: { location: 'http://127.0.0.1:1/' } }),
        },
      })),
  )
