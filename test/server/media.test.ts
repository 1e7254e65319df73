import { describe, expect, test } from 'bun:test'
import { createHash, randomBytes } from 'node:crypto'
import { SvcError } from '../../src/model/error.ts'
import { createLog } from '../../src/platform/log.ts'
import { BodyDeadlines, limitStream, smallBytes } from '../../src/server/body.ts'
import { formatDisposition } from '../../src/server/media-answer.ts'
import { boundaryOf, readFilePart } from '../../src/server/multipart.ts'
import { failure, fieldsOf } from '../support/failure.ts'
import { forFile } from '../support/folder.ts'
import { raw, startRest } from '../support/rest.ts'
import { until } from '../support/until.ts'

const rest = forFile(await startRest({ maxUploadBytes: 3_000_000 }))

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')

/** The bytes as a stream of chunks of this size. */
const streamOf = (bytes: Uint8Array, chunk: number) => {
  let at = 0
  return new ReadableStream<Uint8Array>({
    pull(controller) {
      if (at >= bytes.length) return controller.close()
      controller.enqueue(bytes.slice(at, at + chunk))
      at += chunk
    },
  })
}

describe('POST /media', () => {
  const upload = (query: string, body: BodyInit, headers: Record<string, string> = {}) =>
    fetch(`${rest.url}/media${query}`, { method: 'POST', body, headers })

  test('raw bytes arrive whole, with name and kind from the query', async () => {
    const bytes = randomBytes(1_000_000)
    const response = await upload('?file_name=%E5%9B%BE%2B1.png&kind=image', bytes, {
      'content-type': 'image/png',
    })
    expect(response.status).toBe(200)
    expect(await response.json()).toEqual({
      upload_id: expect.any(String),
      size: 1_000_000,
      expires_at: expect.any(Number),
    })
    expect(rest.gateway.uploads.at(-1)).toEqual({
      bytes: 1_000_000,
      sha256: sha256(bytes),
      file_name: '图+1.png',
      kind: 'image',
    })
  })

  test('its digest is given where it is asked for, in the query or in the form', async () => {
    const bytes = randomBytes(10_000)
    const form = new FormData()
    form.set('digest', 'sha256')
    form.set('file', new File([bytes], 'a.bin'))
    for (const response of [await upload('?digest=sha256', bytes), await upload('', form)])
      expect(await response.json()).toMatchObject({ size: 10_000, sha256: sha256(bytes) })
    const refused = await upload('?digest=md5', bytes)
    expect([refused.status, (await refused.json()).code]).toEqual([422, 'invalid_arguments'])
  })

  test('a form arrives as browsers build it', async () => {
    const bytes = randomBytes(300_000)
    const form = new FormData()
    form.set('kind', 'file')
    form.set('file', new File([bytes], '报告 "最终".pdf'))
    const response = await upload('', form)
    expect(response.status).toBe(200)
    expect(rest.gateway.uploads.at(-1)).toEqual({
      bytes: 300_000,
      sha256: sha256(bytes),
      file_name: '报告 "最终".pdf',
      kind: 'file',
    })
  })

  test('a form arrives as curl builds it, and the query wins over it', async () => {
    const body =
      '--x\r\nContent-Disposition: form-data; name="file_name"\r\n\r\ninner.txt\r\n--x\r\n' +
      'Content-Disposition: form-data; name="upload"; filename="a\\"b.txt"\r\nContent-Type: text/plain\r\n\r\nhi\r\n--x--\r\n'
    const type = { 'content-type': 'multipart/form-data; boundary=x' }
    expect((await upload('', body, type)).status).toBe(200)
    expect(rest.gateway.uploads.at(-1)).toMatchObject({ bytes: 2, file_name: 'inner.txt' })
    expect((await upload('?file_name=outer.txt', body, type)).status).toBe(200)
    expect(rest.gateway.uploads.at(-1)).toMatchObject({ bytes: 2, file_name: 'outer.txt' })
  })

  test.each([
    ['?kind=sticker', 'x', 'invalid_arguments', 422],
    ['?file_nam=x', 'x', 'invalid_arguments', 422],
    ['?token=x', 'x', 'invalid_arguments', 422],
    ['', '', 'invalid_arguments', 422],
    ['', 'x'.repeat(3_000_001), 'payload_too_large', 413],
  ])('%s with a wrong argument or size is refused', async (query, body, code, status) => {
    const response = await upload(query, body)
    const problem = (await response.json()) as { code: string }
    expect([problem.code, response.status]).toEqual([code, status])
  })

  test('a chunked upload beyond the limit is cut off, one within it arrives', async () => {
    const head = 'POST /media HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n'
    const chunk = `80000\r\n${'x'.repeat(0x80000)}\r\n`
    const answer = await raw(rest.server, `${head}${chunk.repeat(6)}0\r\n\r\n`)
    expect(answer).toStartWith('HTTP/1.1 413 ')
    expect(answer).toContain('"code":"payload_too_large"')
    expect(await raw(rest.server, `${head}${chunk.repeat(5)}0\r\n\r\n`)).toStartWith('HTTP/1.1 200 ')
    expect(rest.gateway.uploads.at(-1)?.bytes).toBe(5 * 0x80000)
  })

  test('a form cut short is refused, not taken for a smaller file', async () => {
    const before = rest.gateway.uploads.length
    const whole = '--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nhello\r\n--x--\r\n'
    for (const end of [10, 60, 75, whole.length - 8, whole.length - 4]) {
      const response = await upload('', whole.slice(0, end), {
        'content-type': 'multipart/form-data; boundary=x',
      })
      expect(response.status).toBe(422)
    }
    expect(rest.gateway.uploads.length).toBe(before)
  })

  test.each([
    ['an upload', 'POST /media HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nhalf'],
    [
      'an upload without a length',
      'POST /media HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n',
    ],
    [
      'a form',
      'POST /media HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 1000\r\n\r\n--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nhalf',
    ],
    ['media', 'GET /media/1/0 HTTP/1.1\r\nHost: localhost\r\n\r\n'],
  ])(
    'who hangs up in the middle of %s leaves no upload, and is no unexpected error',
    async (_what, request) => {
      const lines: string[] = []
      await using rest = await startRest({ log: createLog('WARNING', line => void lines.push(line)) })
      const { media } = rest.gateway
      const { accept, open } = media
      const over = Promise.withResolvers<void>()
      media.accept = (...given) => accept(...given).finally(over.resolve)
      media.open = (asked, signal) => {
        const left = new Promise<never>((_, reject) => {
          signal.addEventListener('abort', () => reject(signal.reason))
        })
        return Promise.all([open(asked, signal).catch(() => {}), left]).finally(
          over.resolve,
        ) as Promise<never>
      }
      const asked = rest.gateway.nextCall
      await raw(rest.server, socket => {
        socket.write(request)
        void asked.then(() => socket.destroy())
      })
      await over.promise
      expect((await rest.call('sessions')).status).toBe(200)
      expect(rest.gateway.uploads).toEqual([])
      expect(lines).toEqual([])
    },
  )
})

describe('the form reader', () => {
  // Its first byte is chosen: a random one completes the delimiter before it once in 256 runs.
  const content = Buffer.concat([Buffer.from('Y'), randomBytes(5000)])
  // Nearly a delimiter, several times, also at the very end.
  const tricky = Buffer.concat([
    content,
    Buffer.from('\r\n--bound\r\n--bounda\r\r\n--boundar'),
    content,
    Buffer.from('\r\n--'),
  ])
  const form = Buffer.concat([
    Buffer.from(
      'preamble\r\n--boundary\r\nContent-Disposition: form-data; name="kind"\r\n\r\nfile\r\n--boundary  \r\ncontent-type: a/b\r\nCONTENT-DISPOSITION: form-data; name="f"; filename*=UTF-8\'\'%E5%9B%BE.png; filename="x.png"\r\n\r\n',
    ),
    tricky,
    Buffer.from('\r\n--boundary--\r\nepilogue'),
  ])

  test.each([1, 2, 3, 7, 16, 100, 4096, 100_000])('finds the same in chunks of %d bytes', async size => {
    const part = await readFilePart(streamOf(form, size), 'boundary')
    expect(part.fields).toEqual({ kind: 'file' })
    expect(part.fileName).toBe('图.png')
    expect(sha256(await Bun.readableStreamToBytes(part.body))).toBe(sha256(tricky))
  })

  test('a second file, or a field behind the file, is refused', async () => {
    const text =
      '--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n1\r\n--x\r\nContent-Disposition: form-data; name="b"\r\n\r\n2\r\n--x--'
    const part = await readFilePart(streamOf(Buffer.from(text), 9), 'x')
    const reading = (async () => Bun.readableStreamToBytes(part.body))()
    expect(fieldsOf(await failure(reading))).toEqual(['body'])
  })

  test.each([
    ['no file at all', '--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--x--'],
    ['no delimiter', 'a'.repeat(100_000)],
    ['endless headers', `--x\r\n${'a: b\r\n'.repeat(10_000)}`],
    ['a huge field', `--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n${'1'.repeat(100_000)}`],
    ['many fields', `${'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n'.repeat(30)}--x--`],
    ['nothing', ''],
  ])('%s is refused', async (_what, text) => {
    expect(fieldsOf(await failure(readFilePart(streamOf(Buffer.from(text), 1000), 'x')))).toEqual(['body'])
  })

  test('a field named like a part of Object.prototype is a field', async () => {
    const text =
      '--x\r\nContent-Disposition: form-data; name="__proto__"\r\n\r\n1\r\n--x\r\nContent-Disposition: form-data; name="file"\r\n\r\n\r\n--x--'
    const part = await readFilePart(streamOf(Buffer.from(text), 1000), 'x')
    expect(Object.keys(part.fields)).toEqual(['__proto__'])
  })

  test.each([
    ['multipart/form-data; boundary=abc', 'abc'],
    ['multipart/form-data; charset=utf-8; boundary="a b"', 'a b'],
    ['Multipart/Form-Data;boundary=a;x=y', 'a'],
    ['multipart/form-data', undefined],
    ['multipart/mixed; boundary=a', undefined],
    ['image/png', undefined],
    [null, undefined],
  ])('the boundary of %p is %p', (type, boundary) => {
    expect(boundaryOf(type)).toBe(boundary)
  })
})

test('a body that stops coming is given up', async () => {
  const given: unknown[] = []
  let cancelled = false
  const source = new ReadableStream<Uint8Array>({
    start: to => to.enqueue(new Uint8Array(3)),
    cancel() {
      cancelled = true
    },
  })
  const broke = (error: unknown) => given.push(error)
  const body = limitStream(source, { maxBytes: 100 }, { withinMs: 50, broke, senders: new BodyDeadlines(10) })
  const reader = body.getReader()
  expect((await reader.read()).value?.length).toBe(3)
  expect(await failure(reader.read())).toMatchObject({ code: 'invalid_arguments' })
  expect(given).toMatchObject([{ code: 'invalid_arguments' }])
  expect(cancelled).toBe(true)
})

test('a body that trickles in is given up, and one at a fair pace is not, however long it takes', async () => {
  /** Reads a body of chunks, one after each check of the deadlines. @returns how many came */
  const readAll = async (bytes: number, count: number) => {
    const senders = new BodyDeadlines(10)
    let left = count
    const source = new ReadableStream<Uint8Array>({
      async pull(to) {
        const before = senders.elapsedMs
        await until('a check', 10_000, () => senders.elapsedMs > before)
        if (left-- > 0) to.enqueue(new Uint8Array(bytes))
        else to.close()
      },
    })
    const body = limitStream(source, { maxBytes: count * bytes }, { withinMs: 100, senders })
    let read = 0
    for await (const chunk of body) read += chunk.length / bytes
    return read
  }
  expect(await failure(readAll(1, 40))).toMatchObject({ code: 'invalid_arguments' })
  expect(await readAll(smallBytes, 40)).toBe(40)
})

describe('GET /media/{message_id}/{item}', () => {
  const serve = (file_name: string, content_type: string, bytes: Uint8Array = randomBytes(100)) => {
    rest.gateway.opened = () => ({ stream: streamOf(bytes, 65_536), file_name, content_type })
    return bytes
  }

  test('the bytes arrive whole, with type and name in any script', async () => {
    const bytes = serve('合同 "v1".png', 'image/png', randomBytes(3_000_000))
    const response = await fetch(`${rest.url}/media/18446744073709551615/2`)
    expect(response.status).toBe(200)
    expect(sha256(await response.bytes())).toBe(sha256(bytes))
    expect(response.headers.get('content-type')).toBe('image/png')
    expect(response.headers.get('content-disposition')).toBe(
      `inline; filename="__ _v1_.png"; filename*=UTF-8''%E5%90%88%E5%90%8C%20%22v1%22.png`,
    )
    expect(response.headers.get('x-content-type-options')).toBe('nosniff')
    expect(response.headers.get('content-security-policy')).toContain('sandbox')
    expect(rest.gateway.asked.at(-1)?.request).toMatchObject({ message_id: '18446744073709551615', item: 2 })
  })

  test('ids with a colon, encoded or not, are one id', async () => {
    serve('a', 'image/png')
    for (const path of ['/media/local:abc/0', '/media/local%3Aabc/0']) {
      await (await fetch(`${rest.url}${path}`)).bytes()
      expect(rest.gateway.asked.at(-1)?.request).toMatchObject({ message_id: 'local:abc', item: 0 })
    }
  })

  test.each([
    ['text/html'],
    ['image/svg+xml'],
    ['application/pdf'],
    ['application/xml'],
    ['text/javascript'],
    ['application/octet-stream'],
    ['text/html; charset=utf-8'],
    ['image/png\r\nx-evil: 1'],
    ['video/x+xml'],
    ['text/plain'],
  ])('content of type %p is only saved, never shown', async type => {
    serve('a.html', type)
    const response = await fetch(`${rest.url}/media/1/0`)
    expect(response.status).toBe(200)
    expect(response.headers.get('content-disposition')).toStartWith('attachment')
    expect(response.headers.get('content-type')).toBe('application/octet-stream')
    expect(response.headers.get('x-evil')).toBeNull()
    await response.bytes()
  })

  test('failures before the first byte are problems', async () => {
    rest.gateway.opened = undefined
    const response = await fetch(`${rest.url}/media/1/0`)
    expect([response.status, ((await response.json()) as { code: string }).code]).toEqual([
      404,
      'message_not_found',
    ])
    rest.gateway.failures.set('open', new SvcError('media_expired', 'gone'))
    expect((await fetch(`${rest.url}/media/1/0`)).status).toBe(410)
    rest.gateway.failures.clear()
  })

  test.each([['x'], ['-1'], ['1.5'], ['1000'], ['0x1'], ['%00'], ['1e2']])(
    'item %s is refused',
    async item => {
      const response = await fetch(`${rest.url}/media/1/${item}`)
      expect(response.status).toBe(422)
    },
  )

  describe('Range', () => {
    const bytes = randomBytes(200_000)
    const open = (size: number | undefined = bytes.length, given = bytes) => {
      let cancelled = 0
      rest.gateway.opened = () => {
        const reader = streamOf(given, 7001).getReader()
        const stream = new ReadableStream<Uint8Array>({
          async pull(controller) {
            const { done, value } = await reader.read()
            if (done) controller.close()
            else controller.enqueue(value)
          },
          cancel: () => void cancelled++,
        })
        return { stream, size, file_name: 'a.mp4', content_type: 'video/mp4' }
      }
      return { cancelled: () => cancelled }
    }
    const ask = async (headers: Record<string, string>, path = '/media/1/0') => {
      const answer = await fetch(`${rest.url}${path}`, { headers })
      return { answer, body: new Uint8Array(await answer.arrayBuffer()) }
    }

    test.each([
      ['bytes=0-0', 0, 1],
      ['bytes=0-99', 0, 100],
      ['bytes=15-16', 15, 17],
      ['bytes=7000-7001', 7000, 7002],
      ['bytes=7001-14001', 7001, 14_002],
      ['bytes=100-', 100, 200_000],
      ['bytes=199999-', 199_999, 200_000],
      ['bytes=-1', 199_999, 200_000],
      ['bytes=-70000', 130_000, 200_000],
      ['bytes=-999999999', 0, 200_000],
      ['bytes=0-999999999', 0, 200_000],
      ['bytes=5-99999999999999999999999', 5, 200_000],
      ['Bytes = 3-5', 3, 6],
    ])('%s is that part', async (range, from, end) => {
      open()
      const { answer, body } = await ask({ range })
      expect(answer.status).toBe(206)
      expect(answer.headers.get('content-range')).toBe(`bytes ${from}-${end - 1}/200000`)
      expect(answer.headers.get('content-type')).toBe('video/mp4')
      expect(body.length).toBe(end - from)
      expect(sha256(body)).toBe(sha256(bytes.subarray(from, end)))
    })

    test.each([
      ['bytes=0-1,5-6'],
      ['bytes=0-1,'],
      ['bytes=9-3'],
      ['bytes=-'],
      ['bytes='],
      ['bytes=a-b'],
      ['bytes=0x0-0x9'],
      ['bytes=-5-9'],
      ['bytes=1.5-9'],
      ['items=0-1'],
      ['0-1'],
      [''],
    ])('%j is none: the whole', async range => {
      open()
      const { answer, body } = await ask({ range })
      expect([answer.status, answer.headers.get('accept-ranges')]).toEqual([200, 'bytes'])
      expect(answer.headers.has('content-range')).toBe(false)
      expect(sha256(body)).toBe(sha256(bytes))
    })

    test.each([['bytes=200000-'], ['bytes=200000-200001'], ['bytes=-0'], ['bytes=99999999999999999999-']])(
      '%s is not there',
      async range => {
        const opened = open()
        const { answer, body } = await ask({ range })
        expect([answer.status, answer.headers.get('content-range')]).toEqual([416, 'bytes */200000'])
        expect(answer.headers.get('content-type')).toBe('application/problem+json')
        expect(JSON.parse(new TextDecoder().decode(body))).toMatchObject({
          ...{ status: 416, code: 'invalid_arguments' },
        })
        expect(opened.cancelled()).toBe(1)
      },
    )

    test('of nothing there is no part', async () => {
      open(0, Buffer.alloc(0))
      const { answer } = await ask({ range: 'bytes=0-' })
      expect([answer.status, answer.headers.get('content-range')]).toEqual([416, 'bytes */0'])
    })

    test('what comes after the part is not fetched', async () => {
      const opened = open()
      expect((await ask({ range: 'bytes=10-19' })).body.length).toBe(10)
      await until('the source is closed', 30_000, () => opened.cancelled() === 1)
    })

    test('where the size is not known, the whole comes, and the gateway was asked for it', async () => {
      open(undefined)
      rest.gateway.asked.length = 0
      const { opened } = rest.gateway
      rest.gateway.opened = () => ({ ...opened!(), size: undefined })
      const { answer, body } = await ask({ range: 'bytes=0-9' })
      expect([answer.status, body.length]).toEqual([200, bytes.length])
      await ask({})
      expect(rest.gateway.asked.map(({ request }) => (request as { sized?: boolean }).sized)).toEqual([
        true,
        false,
      ])
    })

    test('If-Range and If-None-Match know the bytes by their ETag', async () => {
      open()
      const { answer: whole } = await ask({})
      const etag = whole.headers.get('etag')!
      expect(etag).toMatch(/^"[\w-]+"$/)
      expect((await ask({}, '/media/1/1')).answer.headers.get('etag')).not.toBe(etag)
      const range = 'bytes=0-9'
      expect((await ask({ range, 'if-range': etag })).answer.status).toBe(206)
      for (const other of ['"another"', `W/${etag}`, 'Wed, 21 Oct 2026 07:28:00 GMT'])
        expect((await ask({ range, 'if-range': other })).answer.status).toBe(200)
      for (const known of [etag, `"x", W/${etag}`, '*']) {
        const { answer, body } = await ask({ 'if-none-match': known })
        expect([answer.status, answer.headers.get('etag'), body.length]).toEqual([304, etag, 0])
      }
    })

    test('HEAD tells the size, whatever range it names', async () => {
      open()
      const answer = await fetch(`${rest.url}/media/1/0`, { method: 'HEAD', headers: { range: 'bytes=0-9' } })
      expect([answer.status, answer.headers.get('content-length')]).toEqual([200, '200000'])
      expect(answer.headers.get('accept-ranges')).toBe('bytes')
    })

    test('a stream that ends before the part does breaks the answer', async () => {
      open(300_000)
      expect(await failure(ask({ range: 'bytes=199000-250000' }))).toBeInstanceOf(Error)
    })
  })

  test('who hangs up in the middle ends the stream at its source', async () => {
    const cancelled = Promise.withResolvers<void>()
    rest.gateway.opened = () => ({
      stream: new ReadableStream({
        pull: controller => controller.enqueue(new Uint8Array(1_000_000)),
        cancel: () => cancelled.resolve(),
      }),
      file_name: 'endless',
      content_type: 'video/mp4',
    })
    await raw(
      rest.server,
      'GET /media/1/0 HTTP/1.1\r\nHost: localhost\r\n\r\n',
      text => text.length > 100_000,
    )
    await cancelled.promise
  })

  test('HEAD opens and closes without reading', async () => {
    let pulled = 0
    const cancelled = Promise.withResolvers<void>()
    rest.gateway.opened = () => ({
      stream: new ReadableStream(
        {
          pull: controller => {
            pulled++
            controller.enqueue(new Uint8Array(10))
          },
          cancel: () => cancelled.resolve(),
        },
        { highWaterMark: 0 },
      ),
      file_name: 'a.png',
      content_type: 'image/png',
    })
    const response = await fetch(`${rest.url}/media/1/0`, { method: 'HEAD' })
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'image/png'])
    await cancelled.promise
    expect(pulled).toBe(0)
  })
})

test.each([
  ['a.png', `attachment; filename="a.png"; filename*=UTF-8''a.png`],
  ['a\r\nb', `attachment; filename="a__b"; filename*=UTF-8''a__b`],
  ['../../x', `attachment; filename=".._.._x"; filename*=UTF-8''.._.._x`],
  ["it's (1)*!", `attachment; filename="it's (1)*!"; filename*=UTF-8''it%27s%20%281%29%2A%21`],
  ['\ud800x', `attachment; filename="_x"; filename*=UTF-8''%EF%BF%BDx`],
  ['', `attachment; filename="file"; filename*=UTF-8''file`],
])('the name %j stands in the header as %s', (name, header) => {
  expect(formatDisposition('attachment', name)).toBe(header)
})
