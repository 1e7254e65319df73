import { describe, expect, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { Api } from '../../src/ilink/api.ts'
import {
  clientVersionOf,
  exchange,
  type ILinkError,
  type ILinkErrorKind,
  isILinkError,
  joinUrl,
  type Request,
  randomUin,
} from '../../src/ilink/http.ts'
import { createLog } from '../../src/platform/log.ts'
import { failure } from '../support/failure.ts'
import { httpServer, json, plainFetch, rawServer } from '../support/servers.ts'
import { until } from '../support/until.ts'

const request = (url: string, more: Partial<Request> = {}): Request => ({
  url,
  method: 'POST',
  headers: {},
  body: '{}',
  timeoutMs: 5000,
  ...more,
})

const ask = (url: string, more?: Partial<Request>) => exchange(plainFetch, request(url, more))

describe('replies', () => {
  const good: [name: string, body: string][] = [
    ['no ret at all', '{"a":1}'],
    ['ret 0', '{"ret":0}'],
    ['null results', '{"ret":null,"errcode":null,"errmsg":null}'],
    ['zeros in quotes', '{"ret":"0","errcode":""}'],
    ['an errmsg alone', '{"errmsg":"ok"}'],
  ]
  for (const [name, body] of good) {
    test(`${name} is success`, async () => {
      await using server = httpServer(() => json(body))
      expect((await ask(server.url)).fields).toEqual(JSON.parse(body))
    })
  }

  const bad: [
    name: string,
    body: string,
    kind: ILinkErrorKind,
    facts: ILinkError['facts'],
    init?: ResponseInit,
  ][] = [
    [
      'errcode -14 without ret',
      '{"errcode":-14,"errmsg":"session timeout"}',
      'expired',
      { errcode: -14, ret: undefined },
    ],
    ['ret -14 without errcode', '{"ret":-14}', 'expired', { ret: -14 }],
    ['ret 0 with errcode -14', '{"ret":0,"errcode":-14}', 'expired', { ret: 0, errcode: -14 }],
    ['errcode 0 with ret -14', '{"ret":-14,"errcode":0}', 'expired', {}],
    ['-14 in quotes', '{"errcode":"-14"}', 'expired', {}],
    ['ret -2', '{"ret":-2,"errmsg":"prepare failed"}', 'refused', { ret: -2, errmsg: 'prepare failed' }],
    ['errcode -3 alone', '{"errcode":-3}', 'refused', { errcode: -3 }],
    ['null', 'null', 'malformed', {}],
    ['an array', '[]', 'malformed', {}],
    ['a string', '"ok"', 'malformed', {}],
    ['a number', '0', 'malformed', {}],
    ['nothing', '', 'malformed', {}],
    ['HTML', '<html><body>hi</body></html>', 'malformed', {}],
    ['JSON cut short', '{"ret":0,"msgs":[{"mess', 'malformed', {}],
    ['two documents', '{}{}', 'malformed', {}],
    ['HTTP 500', 'oops', 'http', { status: 500 }, { status: 500 }],
    ['HTTP 524 with HTML', '<html>timeout</html>', 'http', { status: 524 }, { status: 524 }],
    ['HTTP 500 with a result', '{"ret":-1}', 'http', { status: 500, ret: -1 }, { status: 500 }],
    ['HTTP 401', '{"error":"Invalid token"}', 'http', { status: 401 }, { status: 401 }],
    ['HTTP 401 with -14', '{"errcode":-14}', 'expired', { status: 401 }, { status: 401 }],
    ['HTTP 500 with -14', '{"errcode":-14}', 'expired', { status: 500 }, { status: 500 }],
    ['HTTP 400 with a result', '{"ret":-2}', 'refused', { status: 400, ret: -2 }, { status: 400 }],
    [
      'a redirect',
      '',
      'http',
      { status: 302 },
      { status: 302, headers: { location: 'http://127.0.0.1:1/' } },
    ],
  ]
  for (const [name, body, kind, facts, init] of bad) {
    test(`${name} is ${kind}`, async () => {
      await using server = httpServer(() => json(body, init))
      const error = await failure(ask(server.url))
      expect(isILinkError(error, kind)).toBe(true)
      expect(error).toMatchObject({ facts, ...(kind === 'expired' && { code: 'session_expired' }) })
      expect((error as ILinkError).facts.neverSent).not.toBe(true)
    })
  }

  test('an empty reply passes where it is expected', async () => {
    await using server = httpServer(() => new Response(''))
    expect((await ask(server.url, { emptyOk: true })).fields).toEqual({})
  })

  test('ids arrive whole, in the fields and in the text', async () => {
    await using server = httpServer(() => json('{"ret":0,"message_id":18446744073709551615}'))
    const { fields, text } = await ask(server.url)
    expect(fields.message_id).toBe('18446744073709551615')
    expect(text).toBe('{"ret":0,"message_id":"18446744073709551615"}')
  })

  test('a reply in chunks that split characters is put together', async () => {
    const bytes = Buffer.from('{"t":"你好👋"}')
    await using server = httpServer(
      () =>
        new Response(
          new ReadableStream({
            async start(controller) {
              for (const byte of bytes) {
                controller.enqueue(new Uint8Array([byte]))
                await Bun.sleep(0)
              }
              controller.close()
            },
          }),
        ),
    )
    expect((await ask(server.url)).fields).toEqual({ t: '你好👋' })
  })

  test('a compressed reply is unpacked', async () => {
    const packed = Bun.gzipSync(Buffer.from('{"ret":0,"x":"y"}'))
    await using server = httpServer(() => new Response(packed, { headers: { 'content-encoding': 'gzip' } }))
    expect((await ask(server.url)).fields).toEqual({ ret: 0, x: 'y' })
  })

  test('a reply that says it is too large is not read', async () => {
    await using server = await rawServer(socket =>
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${65 * 1024 * 1024}\r\n\r\n{`),
    )
    expect(isILinkError(await failure(ask(server.url)), 'malformed')).toBe(true)
  })

  test('a reply that unpacks to more than the limit is left', async () => {
    const packed = Bun.gzipSync(new Uint8Array(65 * 1024 * 1024))
    await using server = httpServer(() => new Response(packed, { headers: { 'content-encoding': 'gzip' } }))
    const error = await failure(ask(server.url))
    expect(isILinkError(error, 'malformed')).toBe(true)
    expect(error.message).toContain('larger than')
  })
})

describe('connections', () => {
  for (const [what, meets, neverSent] of [
    ['nobody listens', 'http://127.0.0.1:1', true],
    ['an unknown host', 'http://no-such-host.invalid/', true],
    ['an address that is none', 'not an address', true],
    ['reset before the reply', (socket: Socket) => socket.resetAndDestroy(), false],
  ] as const) {
    test(`${what}: network, ${neverSent ? 'certainly not' : 'perhaps'} sent`, async () => {
      await using server = await rawServer(typeof meets === 'string' ? () => {} : meets)
      const error = await failure(ask(typeof meets === 'string' ? meets : server.url))
      expect(error).toMatchObject({ kind: 'network', facts: { neverSent }, code: 'upstream_error' })
    })
  }

  for (const [how, reply] of [
    ['of the reply', 'content-type: application/json\r\ncontent-length: 500\r\n\r\n{"ret":0}'],
    ['of a chunked reply', 'transfer-encoding: chunked\r\n\r\n9\r\n{"ret":0}\r\n'],
  ] as const) {
    test(`closed in the middle ${how} is an error, not a short reply`, async () => {
      await using server = await rawServer(socket => socket.end(`HTTP/1.1 200 OK\r\n${reply}`))
      const error = await failure(ask(server.url))
      expect([isILinkError(error, 'network'), isILinkError(error, 'malformed')]).toContain(true)
    })
  }

  const isLinux = process.platform === 'linux'
  test.skipIf(!isLinux)(
    'a reply that came in time to a process that was stopped past its deadline is read (skipped but on Linux)',
    async () => {
      const from = JSON.stringify(import.meta.resolve('../../src/ilink/http.ts'))
      const asking = JSON.stringify(request('', { timeoutMs: 500 }))
      // It answers itself, and stops with the reply on its way: nobody else has to be in time.
      const program = `
      const { exchange } = await import(${from})
      const { createServer } = await import('node:net')
      const server = createServer(socket => socket.once('data', () => {
        socket.write('HTTP/1.1 200 OK\\r\\ncontent-length: 12\\r\\n\\r\\n{"msgs":[1]}')
        process.kill(process.pid, 'SIGSTOP')
      }))
      await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
      const url = 'http://127.0.0.1:' + server.address().port
      const result = await exchange(fetch, { ...${asking}, url }).catch(error => error.kind)
      console.log(JSON.stringify(result))
      process.exit()`
      const child = Bun.spawn([process.execPath, '-e', program], { stdout: 'pipe', stderr: 'inherit' })
      try {
        await until('it stands still', 30_000, async () =>
          / T /.test(await readFile(`/proc/${child.pid}/stat`, 'utf8')),
        )
        const stoodFrom = performance.now()
        await until('its deadline is over', 30_000, () => performance.now() - stoodFrom > 550)
        child.kill('SIGCONT')
        expect(JSON.parse(await new Response(child.stdout).text())).toMatchObject({ fields: { msgs: [1] } })
      } finally {
        child.kill('SIGKILL')
      }
    },
  )

  test('no reply in time: timeout', async () => {
    await using server = await rawServer(() => {})
    const error = await failure(ask(server.url, { timeoutMs: 50 }))
    expect(error).toMatchObject({ kind: 'timeout', facts: { status: undefined }, code: 'upstream_timeout' })
  })

  test('an abort gives the reason of the caller, before and during the request', async () => {
    await using server = await rawServer(() => {})
    const stop = new AbortController()
    const pending = failure(ask(server.url, { signal: stop.signal }))
    const reason = new Error('caller left')
    stop.abort(reason)
    expect(await pending).toBe(reason)
    expect(await failure(ask(server.url, { signal: stop.signal }))).toBe(reason)
  })

  test('an abort in the middle of the reply gives the reason too', async () => {
    const stop = new AbortController()
    const reason = new Error('caller left')
    await using server = await rawServer(socket => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{', () => stop.abort(reason))
    })
    expect(await failure(ask(server.url, { signal: stop.signal }))).toBe(reason)
  })

  test('calls leave one listener on the signal of their caller, however many they are', async () => {
    await using server = httpServer(() => json({}))
    const stop = new AbortController()
    let listeners = 0
    const { addEventListener, removeEventListener } = stop.signal
    stop.signal.addEventListener = ((...args: Parameters<typeof addEventListener>) => {
      listeners++
      addEventListener.apply(stop.signal, args)
    }) as typeof addEventListener
    stop.signal.removeEventListener = ((...args: Parameters<typeof removeEventListener>) => {
      listeners--
      removeEventListener.apply(stop.signal, args)
    }) as typeof removeEventListener
    for (let calls = 0; calls < 5; calls++) await ask(server.url, { signal: stop.signal })
    expect(listeners).toBe(1)
  })

  test('what is read says in plain words that it is WeChat, and what to do, and never an endpoint', async () => {
    const gone = httpServer(() => json({}))
    await gone[Symbol.asyncDispose]()
    await using resets = await rawServer(socket => socket.resetAndDestroy())
    await using silent = await rawServer(() => {})
    await using page = httpServer(() => new Response('<html>Please sign in</html>'))
    await using absent = httpServer(() => json('{}', { status: 404 }))
    await using broken = httpServer(() => json('{}', { status: 502 }))
    const read: [url: string, said: RegExp, hint: RegExp][] = [
      [gone.url, /^WeChat cannot be reached \((ECONNREFUSED|ConnectionRefused)\)$/, /online.*svc doctor/],
      [resets.url, /^the connection to WeChat broke \(\w+\)$/, /online.*svc doctor/],
      [silent.url, /^WeChat did not answer in time$/, /online.*svc doctor/],
      [page.url, /^WeChat answered with a web page$/, /in its place.*sign-in/],
      [absent.url, /^WeChat answered with HTTP 404$/, /in its place.*--upstream-url/],
      [broken.url, /^WeChat answered with HTTP 502$/, /again later/],
    ]
    const api = new Api({ fetch: plainFetch, channelVersion: '2.4.9', version: '1.0.0' })
    for (const [url, said, hint] of read) {
      // Only the silent one is to be given up.
      const timeoutMs = url === silent.url ? 300 : 30_000
      const error = (await failure(ask(`${url}/ilink/bot/getupdates`, { timeoutMs }))) as ILinkError
      expect(error.message).toMatch(said)
      expect(error.hint).toMatch(hint)
      if (url !== silent.url) expect((await failure(api.getBotQrcode(url, []))).message).toMatch(said)
    }
  })

  test('a log line says a broken connection once, without the advice for programmers', async () => {
    const gone = httpServer(() => json({}))
    await gone[Symbol.asyncDispose]()
    await using resets = await rawServer(socket => socket.resetAndDestroy())
    for (const url of [gone.url, resets.url]) {
      const lines: string[] = []
      const error = await failure(ask(url))
      createLog('INFO', line => void lines.push(line)).warn('poll failed', { error })
      expect(lines.join('')).toMatch(/ WARNING poll failed error="[^"()]+ \(\w+\)"\n$/)
    }
  })

  test('what WeChat says is shown on one short line, whatever it is made of', async () => {
    const deep = `${'['.repeat(3000)}${']'.repeat(3000)}`
    for (const [said, shown] of [
      ['"no"', 'no'],
      ['42', '42'],
      ['{"code":7,"why":["a"]}', '{"code":7,"why":["a"]}'],
      ['["a",null]', '["a",null]'],
      ['"a\\nb\\u0000\\u001b[31m\\u202e"', undefined],
      [JSON.stringify('x'.repeat(900_000)), undefined],
      [deep, undefined],
      ['""', ''],
      ['null', ''],
    ] as const) {
      await using server = httpServer(
        () =>
          new Response(`{"ret":-1,"errmsg":${said}}`, { headers: { 'content-type': 'application/json' } }),
      )
      const error = await failure(ask(server.url))
      const { errmsg = '' } = (error as ILinkError).facts
      if (shown !== undefined) expect(errmsg).toBe(shown)
      expect(errmsg.length).toBeLessThanOrEqual(200)
      expect(error.message).not.toMatch(/[\p{Cc}\u202e]|object Object/u)
    }
  })

  test('errors tell neither tokens nor addresses', async () => {
    const url = 'http://127.0.0.1:1/ilink?encrypted_query_param=topsecret&qrcode=topsecret'
    const refused = await failure(ask(url, { headers: { Authorization: 'Bearer topsecret' } }))
    await using server = httpServer(() =>
      json({ ret: -2, errmsg: 'bad token 0123@im.bot:topsecret Bearer topsecret' }),
    )
    const said = await failure(ask(server.url))
    for (const error of [refused, said]) {
      expect(error.message).not.toContain('topsecret')
      expect(JSON.stringify((error as ILinkError).details ?? {})).not.toContain('topsecret')
    }
    expect(said.message).toContain('bad token')
  })
})

describe('joinUrl', () => {
  const cases: [base: string, expected: string][] = [
    ['https://h', 'https://h/ilink/x'],
    ['https://h/', 'https://h/ilink/x'],
    ['https://h//', 'https://h/ilink/x'],
    ['https://h:8/prefix', 'https://h:8/prefix/ilink/x'],
    ['https://h/prefix/', 'https://h/prefix/ilink/x'],
  ]
  test('an address of nothing but slashes, as upstream may name one', () => {
    const slashes = '/'.repeat(4_000_000)
    expect(joinUrl(`https://h${slashes}x${slashes}`, 'ilink/x')).toBe(`https://h${slashes}x/ilink/x`)
  })
  for (const [base, expected] of cases) test(base, () => expect(joinUrl(base, 'ilink/x')).toBe(expected))
})

describe('headers', () => {
  const versions: [string, string][] = [
    ['2.4.9', '132105'],
    ['1.0.11', '65547'],
    ['1.0.2', '65538'],
    ['2.4.9-beta.1', '132105'],
    ['3', '196608'],
    ['', '0'],
    ['x.y.z', '0'],
  ]
  for (const [version, expected] of versions)
    test(`client version of "${version}"`, () => expect(clientVersionOf(version)).toBe(expected))

  test('X-WECHAT-UIN is base64 of a decimal uint32, fresh each time', () => {
    const uins = Array.from({ length: 50 }, randomUin)
    for (const uin of uins) {
      const number = Number(atob(uin))
      expect(atob(uin)).toMatch(/^\d{1,10}$/)
      expect(number).toBeLessThan(2 ** 32)
    }
    expect(new Set(uins).size).toBeGreaterThan(45)
  })
})
