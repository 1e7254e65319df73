import { describe, expect, test } from 'bun:test'
import { errorCodes, errorKindOf, SvcError } from '../../src/model/error.ts'
import { toProblemResponse } from '../../src/server/errors.ts'
import { forFile } from '../support/folder.ts'
import { headAndGet, type Json, raw, startRest } from '../support/rest.ts'

const rest = forFile(await startRest({ maxUploadBytes: 1000 }))

const json = { 'content-type': 'application/json' }

/** The answer must be a whole problem, whatever went wrong. */
async function problem(response: Response): Promise<Json> {
  expect(response.headers.get('content-type')).toBe('application/problem+json')
  expect(response.headers.get('x-content-type-options')).toBe('nosniff')
  const body = (await response.json()) as Json
  expect(body.status).toBe(response.status)
  expect(errorCodes).toContain(body.code)
  expect(body.type).toBe(`urn:svc:problem:${body.code}`)
  expect(body.title).toBe(errorKindOf(body.code).title)
  expect(body.detail.length).toBeGreaterThan(5)
  expect(body.hint.length).toBeGreaterThan(5)
  expect(JSON.stringify(body)).not.toMatch(/ at .*\.ts|node_modules|\/work\//)
  return body
}

const post = (path: string, body?: BodyInit | null, headers: Record<string, string> = json) =>
  fetch(`${rest.url}${path}`, { method: 'POST', body, headers })

describe('a failure is always a problem', () => {
  test.each([
    ['no JSON', 'hello', 'bad_json', 400],
    ['half of JSON', '{"timeout":', 'bad_json', 400],
    ['an empty body', '', 'bad_json', 400],
    ['JSON with a trailing comma', '{"timeout":1,}', 'bad_json', 400],
    ['two JSON values', '{}{}', 'bad_json', 400],
    ['NaN', '{"timeout":NaN}', 'bad_json', 400],
    ['an array', '[]', 'invalid_arguments', 422],
    ['a string', '"x"', 'invalid_arguments', 422],
    ['null', 'null', 'invalid_arguments', 422],
    ['an unknown key', '{"wait":1}', 'invalid_arguments', 422],
    ['a wrong type', '{"timeout":"5"}', 'invalid_arguments', 422],
    ['a number beyond all', '{"timeout":1e999}', 'invalid_arguments', 422],
    ['nesting 100,000 deep', `${'['.repeat(100_000)}${']'.repeat(100_000)}`, undefined, undefined],
    [
      'an unknown key nested deep',
      `{"a":${'{"a":'.repeat(5000)}1${'}'.repeat(5000)}}`,
      'invalid_arguments',
      422,
    ],
    ['more than 1 MiB', `{"session":"${'x'.repeat(1024 * 1024)}"}`, 'payload_too_large', 413],
  ])('%s', async (_what, body, code, status) => {
    const response = await post('/tools/default/recv', body)
    const found = await problem(response)
    if (code === undefined) expect([400, 422]).toContain(response.status)
    else expect([found.code, response.status]).toEqual([code, status as number])
  })

  test.each([
    [[0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d], 3],
    [[0xef, 0xbb, 0xbf, 0x7b, 0xc0], 5],
    [[0x22, 0xef, 0xbf, 0xbd, 0xe5, 0x90], 5],
  ])('bytes that are not UTF-8: %j', async (bytes, byte) => {
    const found = await problem(await post('/tools/default/recv', new Uint8Array(bytes)))
    expect(found).toMatchObject({ code: 'bad_json', details: { byte } })
  })

  test('what is no JSON is told with its place, and not with what stands there', async () => {
    for (const path of ['/tools/default/send', '/webhooks']) {
      const found = await problem(await post(path, '{\n  "text": "geheim",\n}'))
      expect(found).toMatchObject({ code: 'bad_json', details: { line: 3, column: 1 } })
      expect(JSON.stringify(found)).not.toContain('geheim')
    }
    const twice = await problem(await post('/tools/default/recv', '\ufeff\ufeff{}'))
    expect(twice.details).toEqual({ line: 1, column: 1 })
    expect((await post('/tools/default/recv', '\ufeff{"timeout":0}')).status).toBe(200)
  })

  test('what is too large is told what works there', async () => {
    const large = (bytes: number) => `{"text":"${'x'.repeat(bytes)}"}`
    const hint = async (path: string, body: string, headers?: Record<string, string>) => {
      const found = await problem(await post(path, body, headers))
      expect([path, found.code]).toEqual([path, 'payload_too_large'])
      return found.hint as string
    }
    const ofSend = await hint('/tools/default/send', large(25 * 1024 * 1024))
    expect(ofSend).toContain(' /media ')
    expect(ofSend).toContain('upload_id')
    const ofFile = await hint('/media', 'x'.repeat(1001), {})
    expect(ofFile).toContain('--max-upload')
    for (const path of ['/tools/default/history', '/webhooks']) {
      const ofJson = await hint(path, large(1024 * 1024))
      expect(ofJson).not.toMatch(/--max-upload|\/media/)
    }
    const data = { to: 'a@b', media: [{ kind: 'file', data: 'A'.repeat(23 * 1024 * 1024) }] }
    expect(await hint('/tools/default/send', JSON.stringify(data))).toContain('upload_id')
  })

  test.each([
    ['none', undefined],
    ['text/plain', 'text/plain'],
    ['a form', 'application/x-www-form-urlencoded'],
    ['multipart', 'multipart/form-data; boundary=x'],
    ['another charset', 'application/json; charset=latin1'],
    ['a look-alike', 'application/jsonp'],
    ['two in one', 'text/plain, application/json'],
  ])('content type: %s', async (_what, type) => {
    const head = type === undefined ? '' : `Content-Type: ${type}\r\n`
    const answer = await raw(
      rest.server,
      `POST /tools/default/sessions HTTP/1.1\r\nHost: localhost\r\n${head}Content-Length: 2\r\n\r\n{}`,
    )
    expect(answer).toStartWith('HTTP/1.1 415 ')
    expect(answer).toContain('"code":"unsupported_media_type"')
  })

  test.each([
    ['application/json'],
    ['application/json; charset=utf-8'],
    ['Application/JSON;charset="UTF-8"'],
    ['application/json;'],
  ])('content type %s is taken', async type => {
    expect((await post('/tools/default/sessions', '{}', { 'content-type': type })).status).toBe(200)
  })

  test('a compressed body', async () => {
    const response = await post('/tools/default/sessions', new Uint8Array(Bun.gzipSync('{}')), {
      ...json,
      'content-encoding': 'gzip',
    })
    expect((await problem(response)).code).toBe('unsupported_media_type')
  })

  test.each([
    ['POST', '/tools/default/nope', 404, 'not_found', undefined],
    ['POST', '/tools/other/recv', 404, 'not_found', undefined],
    ['POST', '/tools/default/recv/', 404, 'not_found', undefined],
    ['POST', '/tools/default/RECV', 404, 'not_found', undefined],
    ['GET', '/nowhere', 404, 'not_found', undefined],
    ['GET', '/docs/../../etc/passwd', 404, 'not_found', undefined],
    ['GET', '/docs/%2e%2e/package.json', 404, 'not_found', undefined],
    ['GET', '/media/1', 404, 'not_found', undefined],
    ['GET', '/tools/default/recv', 405, 'method_not_allowed', 'POST, OPTIONS'],
    ['PUT', '/tools/default/recv', 405, 'method_not_allowed', 'POST, OPTIONS'],
    ['DELETE', '/tools', 405, 'method_not_allowed', 'GET, HEAD, OPTIONS'],
    ['POST', '/docs', 405, 'method_not_allowed', 'GET, HEAD, OPTIONS'],
    ['PATCH', '/media', 405, 'method_not_allowed', 'POST, OPTIONS'],
    ['POST', '/media/1/0', 405, 'method_not_allowed', 'GET, HEAD, OPTIONS'],
    ['DELETE', '/outbox', 405, 'method_not_allowed', 'GET, HEAD, OPTIONS'],
    ['POST', '/outbox/7', 405, 'method_not_allowed', 'GET, DELETE, HEAD, OPTIONS'],
    ['GET', '/outbox/7/approve', 405, 'method_not_allowed', 'POST, OPTIONS'],
  ])('%s %s', async (method, path, status, code, allow) => {
    const answer = await raw(
      rest.server,
      `${method} ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n`,
    )
    expect(answer).toStartWith(`HTTP/1.1 ${status} `)
    expect(answer).toContain(`"code":"${code}"`)
    if (allow) expect(answer.toLowerCase()).toContain(`\r\nallow: ${allow.toLowerCase()}\r\n`)
  })

  test('HEAD answers as GET without the body, and 405 where there is no GET', async () => {
    const statuses: number[] = []
    for (const path of [
      ...['/', '/docs', '/docs/page.js', '/tools', '/users', '/outbox', '/webhooks', '/metrics', '/healthz'],
      ...['/openapi.json', '/asyncapi.json', '/events', '/events?after=x', '/tools/default/recv'],
      ...['/nowhere', '/media', '/media/1/0', '/shared/a/b/0'],
    ]) {
      const { head, get } = await headAndGet(`${rest.url}${path}`)
      expect({ path, ...head }).toEqual({ path, ...get })
      statuses.push(head.status)
    }
    expect(new Set(statuses)).toEqual(new Set([302, 200, 405, 404, 422]))
    const { head, get } = await headAndGet(`${rest.url}/tools`, { 'accept-encoding': 'gzip' })
    expect(head).toEqual(get)
  })

  test('HEAD of a stream opens none, and moves no reader', async () => {
    const begun: unknown[] = []
    const { startReader } = rest.gateway.events
    rest.gateway.events.startReader = async (after, consumer) => {
      begun.push(consumer)
      return after ?? ''
    }
    const { subscribe } = rest.gateway.changes
    let followed = 0
    rest.gateway.changes.subscribe = listener => {
      followed++
      return subscribe(listener)
    }
    const head = await fetch(`${rest.url}/events?consumer=me`, { method: 'HEAD' })
    expect([head.status, head.headers.get('content-type')]).toEqual([200, 'text/event-stream'])
    expect(head.headers.has('content-length')).toBe(false)
    expect([begun, followed]).toEqual([[undefined], 0])
    Object.assign(rest.gateway.events, { startReader })
    Object.assign(rest.gateway.changes, { subscribe })
  })

  test('OPTIONS names the methods and grants nothing to other origins', async () => {
    const response = await fetch(`${rest.url}/tools/default/recv`, { method: 'OPTIONS' })
    expect([response.status, response.headers.get('allow')]).toEqual([204, 'POST, OPTIONS'])
    expect([...response.headers.keys()].filter(name => name.startsWith('access-control'))).toEqual([])
    expect((await fetch(`${rest.url}/nowhere`, { method: 'OPTIONS' })).status).toBe(404)
  })

  test('rate_limited carries Retry-After, unauthorized WWW-Authenticate', async () => {
    rest.gateway.failures.set('send', new SvcError('rate_limited', 'slow down please', { retryAfter: 6.2 }))
    const response = await post('/tools/default/send', '{"to":"u@x","text":"x"}')
    rest.gateway.failures.clear()
    expect([response.status, response.headers.get('retry-after')]).toEqual([429, '7'])
    expect((await problem(response)).retry_after).toBe(6.2)
    expect(toProblemResponse(new SvcError('unauthorized', 'no')).headers.get('www-authenticate')).toBe(
      'Bearer realm="svc"',
    )
  })
})

describe('bodies that lie about their size', () => {
  const head = (more: string) =>
    `POST /tools/default/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n${more}\r\n\r\n`

  test('an announced size beyond the limit is refused before the body comes', async () => {
    const answer = await raw(rest.server, head('Content-Length: 1048577'))
    expect(answer).toStartWith('HTTP/1.1 413 ')
    expect(answer).toContain('"code":"payload_too_large"')
  })

  test('a chunked body is counted', async () => {
    const chunk = `10000\r\n${' '.repeat(0x10000)}\r\n`
    const answer = await raw(rest.server, socket => {
      socket.write(head('Transfer-Encoding: chunked'))
      for (let i = 0; i < 20; i++) socket.write(chunk)
      socket.write('0\r\n\r\n')
    })
    expect(answer).toStartWith('HTTP/1.1 413 ')
    const small = await raw(rest.server, `${head('Transfer-Encoding: chunked')}1\r\n{\r\n1\r\n}\r\n0\r\n\r\n`)
    expect(small).toStartWith('HTTP/1.1 200 ')
  })

  test('a body shorter than announced runs nothing when the sender goes', async () => {
    const before = rest.gateway.asked.length
    await raw(rest.server, socket => {
      socket.write(`${head('Content-Length: 20')}{}`, () => socket.end())
    })
    expect((await rest.call('sessions')).status).toBe(200)
    expect(rest.gateway.asked.length).toBe(before + 1)
  })

  test('two different sizes, or a size that is none, are refused', async () => {
    for (const more of [
      'Content-Length: 2\r\nContent-Length: 3',
      'Content-Length: -1',
      'Content-Length: 2x',
      'Content-Length: 2\r\nTransfer-Encoding: chunked',
    ]) {
      const answer = await raw(rest.server, `${head(more)}{}`)
      expect(answer === '' || /^HTTP\/1\.1 4\d\d /.test(answer)).toBe(true)
    }
  })

  // Each hides a second call in what one reader takes for the body of the first, and another for the next request.
  const chunks = '2\r\n{}\r\n0\r\n\r\n'
  const hidden =
    'POST /tools/default/logout HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}'
  test.each([
    ['a length and chunks', 'Content-Length: 4\r\nTransfer-Encoding: chunked\r\n', chunks],
    [
      'chunks and a length',
      `Transfer-Encoding: chunked\r\nContent-Length: ${chunks.length + hidden.length}\r\n`,
      chunks,
    ],
    ['two lengths', `Content-Length: 2\r\nContent-Length: ${2 + hidden.length}\r\n`, '{}'],
    ['a list of lengths', `Content-Length: 2, ${2 + hidden.length}\r\n`, '{}'],
    ['a length with a sign', 'Content-Length: +2\r\n', '{}'],
    ['a hexadecimal length', 'Content-Length: 0x2\r\n', '{}'],
    ['a name with a space', 'Content Length: 2\r\n', '{}'],
    ['another coding', 'Transfer-Encoding: xchunked\r\n', chunks],
    ['two codings', 'Transfer-Encoding: chunked, identity\r\n', chunks],
    ['a coding twice', 'Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n', chunks],
    ['a space before the colon', 'Transfer-Encoding : chunked\r\n', chunks],
    ['a vertical tab', 'Transfer-Encoding:\v chunked\r\n', chunks],
    ['a folded line', 'Content-Length: 2\r\nX: a\r\n Transfer-Encoding: chunked\r\n', '{}'],
    ['a folded coding', 'Transfer-Encoding:\r\n chunked\r\n', chunks],
    ['a bare LF', 'X: a\nContent-Length: 2\r\n', '{}'],
    ['a bare CR', 'X: a\rContent-Length: 2\r\n', '{}'],
    ['a NUL', 'X: a\0\r\nContent-Length: 2\r\n', '{}'],
    ['a chunk beyond 64 bits', 'Transfer-Encoding: chunked\r\n', '10000000000000002\r\n{}\r\n0\r\n\r\n'],
    ['a chunk below 0', 'Transfer-Encoding: chunked\r\n', '-2\r\n{}\r\n0\r\n\r\n'],
    ['chunks that end in LF', 'Transfer-Encoding: chunked\r\n', '2\n{}\n0\n\n'],
  ])('%s hides no second call', async (_what, headers, body) => {
    const before = rest.gateway.asked.length
    // Head and body arrive together, as a proxy would pass them on; the server ends the connection.
    const answer = await raw(rest.server, head(headers) + body + hidden, () => false)
    expect(answer === '' || /^HTTP\/1\.1 [45]\d\d /.test(answer)).toBe(true)
    expect(answer.match(/HTTP\/1\.1/g)?.length ?? 0).toBeLessThan(2)
    expect(rest.gateway.asked.length).toBe(before)
  })

  test('send takes more than 1 MiB, up to 24 MiB', async () => {
    const body = (bytes: number) =>
      JSON.stringify({ to: 'u@x', media: [{ kind: 'file', data: 'A'.repeat(bytes) }] })
    expect((await post('/tools/default/send', body(3 * 1024 * 1024))).status).toBe(200)
    expect((await post('/tools/default/send', body(24 * 1024 * 1024))).status).toBe(413)
  })
})

test('an integer beyond 2^53 in the body arrives whole', async () => {
  const response = await post('/tools/default/download', '{"message_id": 18446744073709551615}')
  expect(response.status).toBe(200)
  expect(rest.gateway.asked.at(-1)?.request).toEqual({ message_id: '18446744073709551615', item: 0 })
})
