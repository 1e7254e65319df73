import { describe, expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import type { Socket } from 'node:net'
import { type CdnOptions, createCdn } from '../../src/ilink/cdn.ts'
import { decryptStream, encryptStream, paddedSizeOf } from '../../src/ilink/crypto.ts'
import type { MediaReference } from '../../src/ilink/decode.ts'
import type { Fetch, ILinkError } from '../../src/ilink/http.ts'
import { isSvcError, SvcError } from '../../src/model/error.ts'
import { type Clock, systemClock } from '../../src/platform/clock.ts'
import { fetchPublic } from '../../src/platform/fetch.ts'
import { codeOf, failure } from '../support/failure.ts'
import { httpServer, plainFetch, rawServer } from '../support/servers.ts'

/** Pauses between attempts pass at once, and are counted. */
function hasty(): Clock & { slept: number[] } {
  const slept: number[] = []
  return { ...systemClock, slept, sleep: async ms => void slept.push(ms) }
}

const cdnWith = (options: Partial<CdnOptions> = {}) =>
  createCdn({ fetch: plainFetch, trusted: () => true, clock: hasty(), ...options })

// The same every time: one key in 256 would take the last block of another's for a whole one.
const key = Buffer.from('0123456789abcdef')
const plain = Buffer.alloc(200_001, 'as good as random')
const upload = (url: string, more: object = {}) => ({
  url: `${url}/upload?x=1`,
  cdnUrl: `${url}/c2c`,
  filekey: 'f k',
  cipherSize: paddedSizeOf(plain.length),
  body: () => encryptStream([plain], key),
  ...more,
})

const accepted = () => new Response('', { headers: { 'x-encrypted-param': 'down' } })

/** A CDN that reads each body, keeps method and digest, and answers with the next of `answers` (the last for good). */
function scripted(...answers: ((request: Request) => Response)[]) {
  const seen: { method: string; path: string; bytes: number; type: string | null; plain: string }[] = []
  const server = httpServer(async request => {
    const bytes = new Uint8Array(await request.arrayBuffer())
    const hash = createHash('md5')
    if (bytes.length % 16 === 0 && bytes.length > 0)
      for await (const part of decryptStream([bytes.slice()], key)) hash.update(part)
    const { pathname, search } = new URL(request.url)
    seen.push({
      method: request.method,
      path: pathname + search,
      bytes: bytes.length,
      type: request.headers.get('content-type'),
      plain: hash.digest('hex'),
    })
    const answer = answers[Math.min(seen.length, answers.length) - 1]!
    return answer(request)
  })
  return Object.assign(server, { seen })
}

const status =
  (code: number, headers: Record<string, string> = {}) =>
  () =>
    new Response('', { status: code, headers })
const only = (method: string, other: number) => (request: Request) =>
  request.method === method ? accepted() : new Response('', { status: other })
const plainMd5 = createHash('md5').update(plain).digest('hex')

describe('upload', () => {
  test('the bytes arrive whole, encrypted, with their length', async () => {
    await using server = scripted(accepted)
    expect(await cdnWith().upload(upload(server.url))).toEqual({ downloadParam: 'down' })
    expect(server.seen).toEqual([
      {
        method: 'PUT',
        path: '/upload?x=1',
        bytes: paddedSizeOf(plain.length),
        type: 'application/octet-stream',
        plain: plainMd5,
      },
    ])
  })

  test('without a full address it is built of the parameter', async () => {
    await using server = scripted(accepted)
    await cdnWith().upload(upload(server.url, { url: undefined, uploadParam: 'a+b&c' }))
    expect(server.seen[0]!.path).toBe('/c2c/upload?encrypted_query_param=a%2Bb%26c&filekey=f%20k')
  })

  test('a parameter that no address can hold is asked for all the same', async () => {
    await using server = httpServer(() => new Response(null, { status: 400 }))
    const uploading = cdnWith().upload({ ...upload(server.url), url: undefined, uploadParam: 'a\ud800' })
    expect(await failure(uploading)).toMatchObject({ kind: 'http', facts: { status: 400 } })
  })

  test('the older name of the parameter counts', async () => {
    await using server = scripted(() => new Response('', { headers: { 'x-encrypted-query-param': 'old' } }))
    expect(await cdnWith().upload(upload(server.url))).toEqual({ downloadParam: 'old' })
  })

  for (const refusal of [404, 405]) {
    test(`PUT answered with ${refusal} is tried as POST, and the host remembered`, async () => {
      await using server = scripted(only('POST', refusal))
      const cdn = cdnWith()
      await cdn.upload(upload(server.url))
      await cdn.upload(upload(server.url))
      expect(server.seen.map(({ method }) => method)).toEqual(['PUT', 'POST', 'POST'])
      expect(server.seen[1]!.plain).toBe(plainMd5)
    })
  }

  test('a host that changes its mind is followed', async () => {
    await using server = scripted(only('POST', 404), only('POST', 404), only('PUT', 404))
    const cdn = cdnWith()
    await cdn.upload(upload(server.url))
    await cdn.upload(upload(server.url))
    expect(server.seen.map(({ method }) => method)).toEqual(['PUT', 'POST', 'POST', 'PUT'])
  })

  test('404 to both methods is the end', async () => {
    await using server = scripted(status(404))
    expect(await failure(cdnWith().upload(upload(server.url)))).toMatchObject({
      kind: 'http',
      facts: { status: 404 },
    })
    expect(server.seen.map(({ method }) => method)).toEqual(['PUT', 'POST'])
  })

  test("WeChat's own CDN gets POST at once, and never PUT", async () => {
    const methods: string[] = []
    const fetch: Fetch = async (_url, { method }) => {
      methods.push(method)
      return new Response('', {
        status: methods.length === 1 ? 404 : 200,
        headers: { 'x-encrypted-param': 'p' },
      })
    }
    const cdn = cdnWith({ fetch })
    const url = 'https://novac2c.cdn.weixin.qq.com/c2c/upload?x=1'
    expect(await failure(cdn.upload(upload('', { url })))).toMatchObject({ facts: { status: 404 } })
    await cdn.upload(upload('', { url }))
    expect(methods).toEqual(['POST', 'POST'])
  })

  test('4xx ends it at once, in the words of the CDN', async () => {
    await using server = scripted(status(403, { 'x-error-message': 'probe preview error' }))
    const error = await failure(cdnWith().upload(upload(server.url)))
    expect(error).toMatchObject({ kind: 'http', facts: { status: 403, errmsg: 'probe preview error' } })
    expect(error.message).toContain('probe preview error')
    expect(server.seen).toHaveLength(1)
  })

  const passing: [name: string, answer: () => Response][] = [
    ['HTTP 500', status(500)],
    ['201', status(201, { 'x-encrypted-param': 'p' })],
    ['200 without the parameter', status(200)],
  ]
  for (const [name, answer] of passing) {
    test(`${name} is tried again, from the first byte, with pauses`, async () => {
      await using server = scripted(answer, answer, accepted)
      const clock = hasty()
      expect(await cdnWith({ clock }).upload(upload(server.url))).toEqual({ downloadParam: 'down' })
      expect(server.seen.map(({ plain }) => plain)).toEqual([plainMd5, plainMd5, plainMd5])
      expect(clock.slept).toHaveLength(2)
      expect(clock.slept[1]!).toBeGreaterThan(0)
    })
    test(`${name} three times is the end`, async () => {
      await using server = scripted(answer)
      expect(await failure(cdnWith().upload(upload(server.url)))).toMatchObject({ kind: 'http' })
      expect(server.seen).toHaveLength(3)
    })
  }

  test('a broken connection is tried again', async () => {
    let connections = 0
    await using server = await rawServer(socket => {
      connections++
      socket.resetAndDestroy()
    })
    expect(await failure(cdnWith().upload(upload(server.url)))).toMatchObject({ kind: 'network' })
    expect(connections).toBe(3)
  })

  test('a CDN that neither reads nor answers runs into the limit of silence', async () => {
    await using server = await rawServer(socket => socket.pause())
    const small = { cipherSize: 16, body: () => encryptStream([Buffer.from('small')], key) }
    expect(await failure(cdnWith({ idleMs: 50 }).upload(upload(server.url, small)))).toMatchObject({
      kind: 'timeout',
    })
  })

  test('one that never answers is left alone once its silence in all attempts together is too long', async () => {
    for (const [patienceMs, tries] of [
      [1000, 3],
      [100, 2],
      [40, 1],
    ] as const) {
      let tried = 0
      await using server = await rawServer(socket => socket.resume())
      const body = () => {
        tried++
        return encryptStream([Buffer.from('small')], key)
      }
      const small = { cipherSize: 16, body }
      const error = await failure(cdnWith({ idleMs: 50, patienceMs }).upload(upload(server.url, small)))
      expect(error).toMatchObject({ kind: 'timeout', code: 'upstream_timeout' })
      expect([patienceMs, tried]).toEqual([patienceMs, tries])
    }
  })

  test('what lies in buffers has its own time, however little silence is left', async () => {
    // 50 kB have 5 s. The answer comes later than all the silence that is borne.
    const bytes = Buffer.alloc(50_000)
    let tried = 0
    await using server = httpServer(async request => {
      await request.arrayBuffer()
      tried++
      for (const began = performance.now(); performance.now() - began < 50; ) await Bun.sleep(5)
      return accepted()
    })
    const large = { cipherSize: paddedSizeOf(bytes.length), body: () => encryptStream([bytes], key) }
    const cdn = cdnWith({ idleMs: 10, patienceMs: 10 })
    expect(await cdn.upload(upload(server.url, large))).toEqual({ downloadParam: 'down' })
    expect(tried).toBe(1)
  })

  test('a source that fails ends it with its own error', async () => {
    await using server = scripted(accepted)
    const body = () =>
      encryptStream(
        (async function* () {
          yield plain
          throw new Error('disk gone')
        })(),
        key,
      )
    expect((await failure(cdnWith().upload(upload(server.url, { body })))).message).toBe('disk gone')
  })

  for (const [name, bytes] of [
    ['shorter', 1000],
    ['longer', 300_000],
  ] as const) {
    test(`a source that turns out ${name} ends it as the caller's mistake`, async () => {
      await using server = scripted(accepted)
      const body = () => encryptStream([Buffer.alloc(bytes)], key)
      const error = await failure(cdnWith().upload(upload(server.url, { body })))
      expect(isSvcError(error, 'invalid_arguments')).toBe(true)
    })
  }

  test('an abort gives the reason of the caller, and closes the source', async () => {
    await using server = await rawServer(socket => socket.pause())
    const stop = new AbortController()
    const closed = Promise.withResolvers<void>()
    const begun = Promise.withResolvers<void>()
    const body = async function* () {
      try {
        for (;;) {
          yield new Uint8Array(1 << 20)
          begun.resolve()
        }
      } finally {
        closed.resolve()
      }
    }
    const pending = failure(
      cdnWith().upload(upload(server.url, { body, cipherSize: 2 ** 32, signal: stop.signal })),
    )
    await begun.promise
    const reason = new Error('caller left')
    stop.abort(reason)
    expect(await pending).toBe(reason)
    await closed.promise
  })

  test('a server that refuses early leaves no source open', async () => {
    await using server = httpServer(() => new Response('', { status: 403 }))
    const closed = Promise.withResolvers<void>()
    const body = async function* () {
      try {
        for (;;) {
          yield new Uint8Array(1 << 16)
          await Bun.sleep(0)
        }
      } finally {
        closed.resolve()
      }
    }
    const error = await failure(cdnWith().upload(upload(server.url, { body, cipherSize: 2 ** 30 })))
    expect((error as ILinkError).kind).toMatch(/http|network/)
    await closed.promise
  })
})

describe('download', () => {
  const cipher = async () => {
    const parts: Uint8Array[] = []
    for await (const part of encryptStream([plain], key)) parts.push(Buffer.from(part))
    return Buffer.concat(parts)
  }
  const media = (more: Partial<MediaReference> = {}, info: MediaReference['info'] = {}): MediaReference => ({
    kind: 'file',
    size: plain.length,
    ...more,
    info: { encrypt_query_param: 'a+b&c', aes_key: key.toString('hex'), ...info },
  })
  const bytesOf = async (stream: ReadableStream<Uint8Array>) =>
    Buffer.from(await new Response(stream).arrayBuffer())

  test('decrypts what the parameter leads to, and knows the size', async () => {
    const bytes = await cipher()
    const paths: string[] = []
    await using server = httpServer(request => {
      paths.push(request.url.slice(server.url.length))
      return new Response(bytes)
    })
    const { stream, size } = await cdnWith().download(media(), { cdnUrl: `${server.url}/c2c/` })
    expect((await bytesOf(stream)).equals(plain)).toBe(true)
    expect(size).toBe(plain.length)
    expect(paths).toEqual(['/c2c/download?encrypted_query_param=a%2Bb%26c'])
  })

  test('a parameter that no address can hold is asked for all the same', async () => {
    await using server = httpServer(() => new Response(null, { status: 400 }))
    const reference = media({}, { encrypt_query_param: 'a\ud800' })
    expect(await codeOf(cdnWith().download(reference, { cdnUrl: server.url }))).toBe('media_expired')
  })

  test('the full URL goes first, as it is', async () => {
    const bytes = await cipher()
    const paths: string[] = []
    await using server = httpServer(request => {
      paths.push(request.url.slice(server.url.length))
      return new Response(bytes)
    })
    const full_url = `${server.url}/d?encrypted_query_param=x%2By&taskid=1`
    await bytesOf(
      (await cdnWith().download(media({}, { full_url }), { cdnUrl: 'http://127.0.0.1:1' })).stream,
    )
    expect(paths).toEqual(['/d?encrypted_query_param=x%2By&taskid=1'])
  })

  test('a stated size that does not fit the ciphertext is not repeated', async () => {
    const bytes = await cipher()
    await using server = httpServer(() => new Response(bytes))
    const opened = await cdnWith().download(media({ size: plain.length - 100 }), { cdnUrl: server.url })
    expect(opened.size).toBeUndefined()
    await opened.stream.cancel()
  })

  test('an image without any key is plain', async () => {
    await using server = httpServer(() => new Response(plain))
    const image = media({ kind: 'image' }, { encrypt_query_param: 'x', aes_key: undefined })
    const { stream, size } = await cdnWith().download(image, { cdnUrl: server.url })
    expect((await bytesOf(stream)).equals(plain)).toBe(true)
    expect(size).toBe(plain.length)
  })

  const refused: [name: string, reference: MediaReference, code: string][] = [
    ['a file without a key', media({}, { aes_key: undefined }), 'upstream_error'],
    ['a key that is none', media({}, { aes_key: 'x' }), 'upstream_error'],
    ['no address', media({}, { encrypt_query_param: undefined }), 'no_media'],
    [
      'a full URL of another scheme alone',
      media({}, { encrypt_query_param: undefined, full_url: 'file:///etc/passwd' }),
      'no_media',
    ],
  ]
  for (const [name, reference, code] of refused) {
    test(`${name} is ${code}`, async () => {
      expect(await failure(cdnWith().download(reference, { cdnUrl: 'http://127.0.0.1:1' }))).toMatchObject({
        code,
      })
    })
  }

  for (const code of [400, 403, 404, 410]) {
    test(`HTTP ${code} is media_expired, at once`, async () => {
      let asked = 0
      await using server = httpServer(() => {
        asked++
        return new Response('', { status: code, headers: { 'x-error-message': 'gone' } })
      })
      expect(await codeOf(cdnWith().download(media(), { cdnUrl: server.url }))).toBe('media_expired')
      expect(asked).toBe(1)
    })
  }

  test('HTTP 500 is tried again', async () => {
    const bytes = await cipher()
    let asked = 0
    await using server = httpServer(() =>
      ++asked < 3 ? new Response('', { status: 500 }) : new Response(bytes),
    )
    const { stream } = await cdnWith().download(media(), { cdnUrl: server.url })
    expect((await bytesOf(stream)).equals(plain)).toBe(true)
  })

  const head = 'HTTP/1.1 200 OK\r\ncontent-length: 4096\r\n\r\n'
  const chunked = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1000\r\n'
  const some = 'x'.repeat(64)
  const image = media({ kind: 'image' }, { aes_key: undefined })
  const failing: [name: string, meets: (socket: Socket) => unknown, code: string, of?: MediaReference][] = [
    ['HTTP 500 for good', socket => socket.end('HTTP/1.1 500 No\r\n\r\n'), 'upstream_error'],
    ['a broken line', socket => socket.resetAndDestroy(), 'upstream_error'],
    ['silence', () => {}, 'upstream_timeout'],
    ['silence in the middle', socket => socket.write(head + some), 'upstream_timeout'],
    ['an end before the stated length', socket => socket.end(head + some), 'upstream_error'],
    ['an end in the middle of a chunk', socket => socket.end(chunked + some), 'upstream_error'],
    ['a plain image cut short', socket => socket.end(head + some), 'upstream_error', image],
  ]
  for (const [name, meets, code, reference = media()] of failing) {
    test(`${name} is ${code}`, async () => {
      await using server = await rawServer(meets)
      // A silence is waited for where there is nothing else to come.
      const opened = cdnWith(code === 'upstream_timeout' ? { idleMs: 50 } : {})
        .download(reference, { cdnUrl: server.url })
        .then(({ stream }) => bytesOf(stream))
      expect(await failure(opened)).toMatchObject({ code })
    })
  }

  test('another key fails a long stream with upstream_error, and a short one before it is opened', async () => {
    const bytes = await cipher()
    for (const length of [bytes.length, 64]) {
      // In halves: what comes whole with the first read is checked before it is opened.
      const halves = [bytes.subarray(0, length / 2), bytes.subarray(length / 2, length)]
      const start = (body: ReadableStreamDefaultController) => {
        for (const half of halves) body.enqueue(half)
        body.close()
      }
      const fetch = async () => new Response(new ReadableStream({ start }))
      const cdnUrl = 'http://127.0.0.1:1'
      const opening = cdnWith({ fetch }).download(media({}, { aes_key: '0'.repeat(32) }), { cdnUrl })
      const isOpened = await opening.then(
        () => true,
        () => false,
      )
      expect(isOpened).toBe(length > 64)
      expect(await codeOf(opening.then(({ stream }) => bytesOf(stream)))).toBe('upstream_error')
    }
  })

  test('an abort fails the stream with the reason of the caller', async () => {
    const begun = Promise.withResolvers<void>()
    await using server = await rawServer(socket => {
      socket.write(head + 'x'.repeat(64))
      begun.resolve()
    })
    const stop = new AbortController()
    const opened = cdnWith()
      .download(media(), { cdnUrl: server.url, signal: stop.signal })
      .then(({ stream }) => bytesOf(stream))
    const pending = failure(opened)
    await begun.promise
    const reason = new Error('caller left')
    stop.abort(reason)
    expect(await pending).toBe(reason)
  })

  test('a cancelled stream closes the connection', async () => {
    const closed = Promise.withResolvers<void>()
    await using server = await rawServer(socket => {
      socket.on('close', () => closed.resolve())
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n`)
      const fill = () => {
        while (!socket.destroyed && socket.write(Buffer.alloc(65536)));
      }
      socket.on('drain', fill)
      fill()
    })
    const { stream } = await cdnWith().download(media(), { cdnUrl: server.url })
    const reader = stream.getReader()
    await reader.read()
    await reader.cancel()
    await closed.promise
  })

  describe('from an address that is not ours', () => {
    const full_url = 'http://elsewhere.example/x'
    const elsewhere = (guarded: CdnOptions['guarded']) =>
      cdnWith({
        guarded,
        trusted: url => url.hostname === '127.0.0.1',
        fetch: () => expect.unreachable() as never,
      })

    test('goes through the guard, and never through the plain fetch', async () => {
      const bytes = await cipher()
      const asked: string[] = []
      const cdn = elsewhere(async (url, { allow }) => {
        asked.push(url)
        expect(allow?.(new URL(url))).toBe(false)
        return { body: new Response(bytes).body!, size: bytes.length }
      })
      const { stream, size } = await cdn.download(media({}, { full_url }), { cdnUrl: 'http://127.0.0.1:1' })
      expect((await bytesOf(stream)).equals(plain)).toBe(true)
      expect(size).toBe(plain.length)
      expect(asked).toEqual([full_url])
    })

    for (const [what, thrown, code] of [
      ['a refusal of the guard stays what it is', 'forbidden', 'forbidden'],
      ['a failure is not blamed on the caller', 'invalid_arguments', 'upstream_error'],
    ] as const) {
      test(what, async () => {
        const cdn = elsewhere(async () => {
          throw new SvcError(thrown, 'it cannot be fetched')
        })
        const downloading = cdn.download(media({}, { full_url }), { cdnUrl: 'http://127.0.0.1:1' })
        expect(await failure(downloading)).toMatchObject({ code })
      })
    }

    for (const [http, code] of [
      [404, 'media_expired'],
      [500, 'upstream_error'],
    ] as const) {
      test(`HTTP ${http} through the real guard is ${code}`, async () => {
        await using server = httpServer(() => new Response('', { status: http }))
        const guarded: CdnOptions['guarded'] = (url, limits) =>
          fetchPublic(url, { ...limits, allow: () => true })
        const reference = media({}, { full_url: `${server.url}/x` })
        const cdn = cdnWith({ trusted: () => false, guarded })
        expect(await failure(cdn.download(reference, { cdnUrl: 'http://127.0.0.1:1' }))).toMatchObject({
          code,
        })
      })
    }

    test('the real guard refuses addresses of this machine', async () => {
      await using server = httpServer(() => new Response(plain))
      const cdn = cdnWith({ trusted: () => false })
      const reference = media({}, { full_url: `${server.url}/x` })
      expect(await codeOf(cdn.download(reference, { cdnUrl: 'http://127.0.0.1:1' }))).toBe('forbidden')
    })
  })
})
