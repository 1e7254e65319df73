import { describe, expect, test } from 'bun:test'
import { type Account, Api } from '../../src/ilink/api.ts'
import { createOutgoingMessage, createTextItem, withContextToken } from '../../src/ilink/encode.ts'
import type { Fetch } from '../../src/ilink/http.ts'
import { failure } from '../support/failure.ts'
import { httpServer, json, plainFetch, rawServer } from '../support/servers.ts'

interface Seen {
  method: string
  path: string
  headers: Record<string, string>
  body: unknown
}

/** A server that answers everything with `body` and keeps what it was asked. */
function recording(body: unknown, init?: ResponseInit) {
  const seen: Seen[] = []
  const server = httpServer(async request => {
    const text = await request.text()
    const { pathname, search } = new URL(request.url)
    seen.push({
      method: request.method,
      path: pathname + search,
      headers: Object.fromEntries(request.headers),
      body: text === '' ? undefined : JSON.parse(text),
    })
    return json(body, init)
  })
  return Object.assign(server, { seen })
}

const apiWith = (fetch: Fetch = plainFetch) =>
  new Api({ fetch, channelVersion: '2.4.9', version: '0.1.0+c83edfc47863' })
const api = apiWith()
const account = (url: string): Account => ({ base_url: url, token: ' 0123@im.bot:secret ' })
const base_info = { channel_version: '2.4.9', bot_agent: 'svc/0.1.0' }

describe('requests', () => {
  test('an authenticated POST: path, headers, base_info', async () => {
    await using server = recording({ ret: 0 })
    await api.getUpdates(account(`${server.url}/prefix/`), 'cursor', 1000)
    const { method, path, headers, body } = server.seen[0]!
    expect(method).toBe('POST')
    expect(path).toBe('/prefix/ilink/bot/getupdates')
    expect(body).toEqual({ get_updates_buf: 'cursor', base_info })
    expect(headers).toMatchObject({
      'content-type': 'application/json',
      authorizationtype: 'ilink_bot_token',
      authorization: 'Bearer 0123@im.bot:secret',
      'ilink-app-id': 'bot',
      'ilink-app-clientversion': '132105',
    })
    expect(atob(headers['x-wechat-uin']!)).toMatch(/^\d+$/)
  })

  test('the QR code: no authorization, no base_info, at most ten tokens, newest first', async () => {
    await using server = recording({ qrcode: 'k', qrcode_img_content: 'https://q' })
    const tokens = Array.from({ length: 12 }, (_, i) => `t${i}`)
    expect(await api.getBotQrcode(server.url, tokens)).toEqual({
      qrcode: 'k',
      qrcode_img_content: 'https://q',
    })
    const { method, path, headers, body } = server.seen[0]!
    expect([method, path]).toEqual(['POST', '/ilink/bot/get_bot_qrcode?bot_type=3'])
    expect(body).toEqual({ local_token_list: tokens.slice(0, 10) })
    expect(headers.authorization).toBeUndefined()
    expect(headers.authorizationtype).toBe('ilink_bot_token')
    expect(headers['x-wechat-uin']).toBeString()
  })

  test('the QR status: a GET with escaped values and no authorization', async () => {
    await using server = recording({ ret: 0, status: 'scaned' })
    await api.getQrcodeStatus(server.url, 'a+b&c=', '1 2')
    const { method, path, headers } = server.seen[0]!
    expect(method).toBe('GET')
    expect(new URL(path, server.url).searchParams.get('qrcode')).toBe('a+b&c=')
    expect(new URL(path, server.url).searchParams.get('verify_code')).toBe('1 2')
    expect(headers.authorization).toBeUndefined()
    expect(headers['ilink-app-clientversion']).toBe('132105')
  })

  const bodies: [name: string, call: (to: Account) => Promise<unknown>, path: string, body: unknown][] = [
    [
      'sendmessage',
      to =>
        api.sendMessage(
          to,
          withContextToken(
            createOutgoingMessage({ to: 'u', item: createTextItem('你好'), clientId: 'c' }),
            't',
          ),
        ),
      'sendmessage',
      {
        msg: {
          from_user_id: '',
          to_user_id: 'u',
          client_id: 'c',
          message_type: 2,
          message_state: 2,
          item_list: [{ type: 1, text_item: { text: '你好' } }],
          context_token: 't',
        },
      },
    ],
    ['getconfig', to => api.getConfig(to, 'u', 't'), 'getconfig', { ilink_user_id: 'u', context_token: 't' }],
    ['getconfig without a token', to => api.getConfig(to, 'u'), 'getconfig', { ilink_user_id: 'u' }],
    [
      'typing',
      to => api.sendTyping(to, { userId: 'u', ticket: 'k', typing: true }),
      'sendtyping',
      { ilink_user_id: 'u', typing_ticket: 'k', status: 1 },
    ],
    [
      'typing ends',
      to => api.sendTyping(to, { userId: 'u', ticket: 'k', typing: false }),
      'sendtyping',
      { ilink_user_id: 'u', typing_ticket: 'k', status: 2 },
    ],
    ['notifystart', to => api.notifyStart(to), 'msg/notifystart', {}],
    ['notifystop', to => api.notifyStop(to), 'msg/notifystop', {}],
  ]
  for (const [name, call, path, body] of bodies) {
    test(name, async () => {
      await using server = recording({ ret: 0 })
      await call(account(server.url))
      expect(server.seen[0]).toMatchObject({
        method: 'POST',
        path: `/ilink/bot/${path}`,
        body: { ...(body as object), base_info },
      })
    })
  }

  test('getuploadurl', async () => {
    await using server = recording({ upload_full_url: 'https://c/u', upload_param: 'p' })
    const upload = {
      filekey: 'f',
      kind: 'voice',
      to: 'u',
      size: 5,
      md5: 'ABC',
      cipherSize: 16,
      aesKeyHex: 'k',
    } as const
    expect(await api.getUploadUrl(account(server.url), upload)).toEqual({ url: 'https://c/u' })
    expect(server.seen[0]!.body).toEqual({
      filekey: 'f',
      media_type: 3,
      to_user_id: 'u',
      rawsize: 5,
      rawfilemd5: 'abc',
      filesize: 16,
      aeskey: 'k',
      no_need_thumb: true,
      base_info,
    })
    for (const none of [undefined, '', 'http://', 'x y', 'file:///etc/passwd']) {
      await using legacy = recording({ upload_full_url: none, upload_param: 'p' })
      expect(await api.getUploadUrl(account(legacy.url), upload)).toEqual({ uploadParam: 'p' })
      await using empty = recording({ ret: 0, upload_full_url: none })
      expect(await failure(api.getUploadUrl(account(empty.url), upload))).toMatchObject({ kind: 'malformed' })
    }
  })
})

describe('both result fields count on every endpoint', () => {
  const calls: Record<string, (to: Account) => Promise<unknown>> = {
    getBotQrcode: to => api.getBotQrcode(to.base_url, []),
    getUpdates: to => api.getUpdates(to, '', 1000),
    sendMessage: to => api.sendMessage(to, {}),
    getConfig: to => api.getConfig(to, 'u'),
    sendTyping: to => api.sendTyping(to, { userId: 'u', ticket: 'k', typing: true }),
    getUploadUrl: to =>
      api.getUploadUrl(to, {
        filekey: '',
        kind: 'file',
        to: '',
        size: 0,
        md5: '',
        cipherSize: 16,
        aesKeyHex: '',
      }),
    notifyStart: to => api.notifyStart(to),
    notifyStop: to => api.notifyStop(to),
  }
  for (const [name, call] of Object.entries(calls)) {
    test(name, async () => {
      for (const [reply, kind] of [
        [{ errcode: -14 }, 'expired'],
        [{ ret: -14 }, 'expired'],
        [{ errcode: -2 }, 'refused'],
        [{ ret: -2 }, 'refused'],
      ] as const) {
        await using server = recording(reply)
        expect(await failure(call(account(server.url)))).toMatchObject({ kind })
      }
    })
  }
})

describe('getUpdates', () => {
  const updates = async (reply: unknown) => {
    await using server = recording(reply)
    return await api.getUpdates(account(server.url), 'old', 1000)
  }

  test('messages come with their exact text, ids whole', async () => {
    const first =
      '{"message_id":18446744073709551615, "seq":7,"item_list":[{"msg_id":9007199254740993,"x":1.0}]}'
    const second =
      '{"message_id":1,"item_list":[{"type":1,"text_item":{"text":"{\\"message_id\\":9007199254740993}"}}]}'
    const { messages, cursor, nextHoldMs } = await updates(
      `{"ret":0,"msgs":[${first},${second}],"get_updates_buf":"new","longpolling_timeout_ms":25000}`,
    )
    expect(messages[0]!.raw).toBe(
      '{"message_id":"18446744073709551615", "seq":7,"item_list":[{"msg_id":"9007199254740993","x":1.0}]}',
    )
    expect(messages[0]!.message?.message_id).toBe('18446744073709551615')
    expect(JSON.parse(messages[1]!.raw)).toEqual(JSON.parse(second))
    expect([cursor, nextHoldMs]).toEqual(['new', 25000])
  })

  const empty: [name: string, reply: unknown, expected: unknown][] = [
    ['no msgs', {}, { messages: [], cursor: undefined, nextHoldMs: undefined }],
    [
      'null msgs',
      { msgs: null, get_updates_buf: null, longpolling_timeout_ms: null },
      { messages: [], cursor: undefined, nextHoldMs: undefined },
    ],
    ['msgs of another type', { msgs: 'x' }, { messages: [] }],
    ['an empty cursor', { msgs: [], get_updates_buf: '' }, { cursor: undefined }],
    ['a hold of 0', { longpolling_timeout_ms: 0 }, { nextHoldMs: undefined }],
    ['a negative hold', { longpolling_timeout_ms: -5 }, { nextHoldMs: undefined }],
    ['an absurd hold', { longpolling_timeout_ms: 1e12 }, { nextHoldMs: 300_000 }],
  ]
  for (const [name, reply, expected] of empty)
    test(`${name} is tolerated`, async () =>
      expect((await updates(reply)) as unknown).toMatchObject(expected as object))

  test('what is no object among the messages is left out, the others keep their texts', async () => {
    const { messages } = await updates({ msgs: [null, { client_id: 'a' }, 5, [], { client_id: 'b' }] })
    expect(messages.map(({ raw }) => raw)).toEqual(['{"client_id":"a"}', '{"client_id":"b"}'])
  })

  /** Runs the deadline down at once, by giving up on requests as a passed deadline does. */
  const impatient: Fetch = (url, init) => {
    const { signal } = init
    return plainFetch(url, { ...init, signal: AbortSignal.any([signal!, AbortSignal.timeout(20)]) })
  }

  test('silence for the whole hold means no messages and the same cursor', async () => {
    await using server = await rawServer(() => {})
    const brief = new Api({ fetch: plainFetch, channelVersion: '2.4.9', version: '0', holdSlackMs: 30 })
    expect(await brief.getUpdates(account(server.url), 'c', 20)).toEqual({ messages: [] })
  })

  test('a connection that fails otherwise is an error', async () => {
    await using server = await rawServer(() => {})
    expect(await failure(apiWith(impatient).getUpdates(account(server.url), 'c', 60_000))).toMatchObject({
      kind: 'network',
    })
  })
})

describe('getQrcodeStatus', () => {
  const waits: [name: string, body: string, init?: ResponseInit][] = [
    ['HTTP 524 with HTML', '<html>', { status: 524 }],
    ['HTTP 500', '', { status: 500 }],
    ['HTML with 200', '<html>'],
    ['an empty reply', ''],
    ['null', 'null'],
    ['a refusal', '{"ret":-1}'],
  ]
  for (const [name, body, init] of waits) {
    test(`${name} means wait`, async () => {
      await using server = httpServer(() => json(body, init))
      expect(await api.getQrcodeStatus(server.url, 'k')).toMatchObject({
        status: 'wait',
        error: { code: 'upstream_error' },
      })
    })
  }

  test('no server means wait', async () => {
    expect(await api.getQrcodeStatus('http://127.0.0.1:1', 'k')).toMatchObject({
      status: 'wait',
      error: { facts: { neverSent: true } },
    })
  })

  test('an abort means wait', async () => {
    await using server = await rawServer(() => {})
    const stop = new AbortController()
    const pending = api.getQrcodeStatus(server.url, 'k', undefined, stop.signal)
    stop.abort()
    expect(await pending).toMatchObject({ status: 'wait', error: { kind: 'network' } })
  })

  test('a reply without a status means wait, without an error', async () => {
    await using server = recording({ ret: 0 })
    expect(await api.getQrcodeStatus(server.url, 'k')).toEqual({ status: 'wait' })
  })

  test('everything that a login needs comes through', async () => {
    const reply = {
      status: 'confirmed',
      bot_token: 't',
      ilink_bot_id: 'b',
      baseurl: 'https://x',
      ilink_user_id: 'u',
      redirect_host: 'h',
    }
    await using server = recording({ ret: 0, ...reply })
    expect(await api.getQrcodeStatus(server.url, 'k')).toEqual(reply)
  })
})

describe('sendMessage', () => {
  const replies: [name: string, reply: unknown, expected: string | undefined][] = [
    ['a large id', '{"ret":0,"message_id":18446744073709551615}', '18446744073709551615'],
    ['a short id', '{"ret":0,"message_id":42}', '42'],
    ['no id', '{}', undefined],
    ['an id of 0', '{"message_id":0}', undefined],
    ['an empty reply', '', undefined],
  ]
  for (const [name, reply, expected] of replies) {
    test(`${name}: ${expected}`, async () => {
      await using server = recording(reply)
      expect((await api.sendMessage(account(server.url), {})).message_id).toBe(expected)
    })
  }
})

test('getBotQrcode without a code is malformed', async () => {
  await using server = recording({ ret: 0, qrcode: 'k' })
  expect(await failure(api.getBotQrcode(server.url, []))).toMatchObject({ kind: 'malformed' })
  for (const qrcode_img_content of [`https://${'a'.repeat(3000)}`, 'https://\ud800']) {
    await using odd = recording({ qrcode: 'q', qrcode_img_content })
    expect(await failure(api.getBotQrcode(odd.url, []))).toMatchObject({ kind: 'malformed' })
  }
})
