import { afterEach, expect, test } from 'bun:test'
import { X509Certificate } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { isSvcError, type SvcError } from '../../src/model/error.ts'
import { isPublicAddress, ownAddresses } from '../../src/platform/address.ts'
import { apiFetch, type FetchPublicOptions, fetchPublic, fetchTrusting } from '../../src/platform/fetch.ts'
import { rawServer } from '../support/servers.ts'
import { certificate, privateKey } from './certificate.ts'

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

function server(answer: (request: Request) => Response | Promise<Response>, tls = false): number {
  const running = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    fetch: answer,
    ...(tls && { tls: { cert: certificate, key: privateKey } }),
  })
  closing.push(() => running.stop(true))
  return running.port!
}

/** A name of the test leads to loopback; the guard is told to let that one server pass. */
const here: Partial<FetchPublicOptions> = {
  resolve: async () => [{ address: '127.0.0.1', family: 4 }],
  allow: () => true,
}
/** Of an answer. */
const half = 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345'
const limits = { maxBytes: 1 << 20, timeoutMs: 60_000 }
const got = async (body: ReadableStream<Uint8Array>) => new Uint8Array(await new Response(body).arrayBuffer())
const failure = (work: Promise<unknown>): Promise<SvcError> =>
  work.then(
    () => {
      throw new Error('did not fail')
    },
    error => {
      if (isSvcError(error)) return error
      throw error
    },
  )

test('a known certificate is trusted whatever it names; to another one nothing is sent', async () => {
  const reached: string[] = []
  const port = server(async request => {
    reached.push(`${request.method} ${request.headers.get('authorization')} ${await request.text()}`)
    return request.method === 'DELETE' ? new Response(null, { status: 204 }) : Response.json({ ok: true })
  }, true)
  const url = `https://127.0.0.1:${port}/x`
  const secret = { method: 'POST', headers: { authorization: 'Bearer secret' }, body: 'hello' }
  const { fingerprint256 } = new X509Certificate(certificate)
  const answer = await fetchTrusting(fingerprint256, url, secret)
  expect([answer.status, answer.headers.get('content-type'), await answer.json()]).toEqual([
    200,
    expect.stringContaining('application/json'),
    { ok: true },
  ])
  expect((await fetchTrusting('any', url, { method: 'DELETE' })).status).toBe(204)
  const other = fingerprint256.replace(/^../, fingerprint256.startsWith('00') ? '01' : '00')
  for (let tries = 0; tries < 20; tries++)
    expect(await fetchTrusting(other, url, secret).catch(({ code }) => code)).toBe('ERR_CERT_INVALID')
  const aborted = fetchTrusting(fingerprint256, url, { signal: AbortSignal.abort(new Error('left')) })
  expect(await aborted.catch(({ message }) => message)).toBe('left')
  expect(reached).toEqual(['POST Bearer secret hello', 'DELETE null '])
})

test('only public unicast addresses count as public', () => {
  const open = [
    '8.8.8.8',
    '1.1.1.1',
    '2606:4700::1111',
    '::ffff:8.8.8.8',
    '64:ff9b::808:808',
    '223.255.255.254',
  ]
  const closed = [
    ['0.0.0.0', '0.1.2.3', '10.0.0.1', '100.64.0.1', '127.0.0.1', '127.255.255.255', '169.254.169.254'],
    ['172.16.0.1', '172.31.255.255', '192.0.0.8', '192.0.2.1', '192.88.99.1', '192.168.1.1', '198.18.0.1'],
    ['198.51.100.1', '203.0.113.1', '224.0.0.1', '239.255.255.250', '240.0.0.1', '255.255.255.255'],
    ['::', '::1', '::7f00:1', '::ffff:127.0.0.1', '::ffff:10.0.0.1', '::ffff:0:7f00:1', '64:ff9b::7f00:1'],
    ['64:ff9b::a9fe:a9fe', '64:ff9b:1::808:808', '100::1', '2001::1', '2001:db8::1', '2002:7f00:1::'],
    [
      '3fff::1',
      '5f00::1',
      'fc00::1',
      'fd00:ec2::254',
      'fe80::1',
      'fec0::1',
      'ff02::1',
      'localhost',
      '',
      '1.2.3.4.5',
    ],
  ].flat()
  expect(open.filter(address => !isPublicAddress(address, []))).toEqual([])
  expect(closed.filter(address => isPublicAddress(address, []))).toEqual([])
})

test('addresses of public ranges at which a cloud answers its own machines are refused, in every form', () => {
  const closed = [
    ...['168.63.129.16', '::ffff:168.63.129.16', '::ffff:a83f:8110', '64:ff9b::a83f:8110'],
    ...['192.80.8.124', '::ffff:192.80.8.124', '64:ff9b::c050:87c'],
  ]
  expect(closed.filter(address => isPublicAddress(address, []))).toEqual([])
  expect(isPublicAddress('168.63.129.17', [])).toBe(true)
})

test("this machine's own public addresses are refused, in every form", () => {
  expect(ownAddresses()).toContain('127.0.0.1')
  const own = ['127.0.0.1', '8.8.4.4', '2606:4700:0:0::1111', 'fe80::1%eth0']
  const closed = ['8.8.4.4', '::ffff:8.8.4.4', '64:ff9b::808:404', '2606:4700::1111']
  expect(closed.filter(address => isPublicAddress(address, own))).toEqual([])
  expect(['8.8.8.8', '2606:4700::1112'].filter(address => !isPublicAddress(address, own))).toEqual([])
})

test('a URL that names a local address in any spelling is refused before anything is sent', async () => {
  let asked = 0
  const port = server(() => new Response(String(++asked)))
  const hosts = [
    [
      '127.0.0.1',
      'localhost',
      '2130706433',
      '0x7f.1',
      '0177.0.0.1',
      '127.1',
      '0.0.0.0',
      '0',
      '[::1]',
      '[::]',
    ],
    ['[::ffff:127.0.0.1]', '[::ffff:7f00:1]', '[::7f00:1]', '[64:ff9b::7f00:1]', '①②⑦.0.0.1', '127.0.0.1.'],
    ['0x7f000001', '017700000001', '0x7f.0x0.0x0.0x1', '127.0.1', '127。0。0。1', '%31%32%37.0.0.1'],
    ['LOCALHOST'],
    ['[2002:7f00:1::]', '[fe80::1]', '[fd00::1]', '[fec0::1]', '[::127.0.0.1]', '[0:0:0:0:0:0:0:1]'],
  ].flat()
  for (const host of hosts) {
    const error = await failure(fetchPublic(`http://${host}:${port}/`, limits))
    expect([host, error.code]).toEqual([host, 'forbidden'])
  }
  expect(asked).toBe(0)
})

test('a name that leads to a local address, if only among others, is refused', async () => {
  for (const address of [
    '127.0.0.1',
    '10.1.2.3',
    '169.254.169.254',
    '::1',
    'fd00::1',
    '::ffff:192.168.0.1',
    '168.63.129.16',
  ]) {
    const resolve = async () => [
      { address: '93.184.215.14', family: 4 },
      { address, family: address.includes(':') ? 6 : 4 },
    ]
    const error = await failure(fetchPublic('http://rebind.test/', { ...limits, resolve }))
    expect([address, error.code]).toEqual([address, 'forbidden'])
  }
})

test('the connection goes to the address that was checked, and a name is looked up once', async () => {
  const port = server(request => new Response(`${request.headers.get('host')}`))
  let lookups = 0
  const { body } = await fetchPublic(`http://pinned.invalid:${port}/x`, {
    ...limits,
    allow: () => true,
    // A second look would find nothing here, and the system's own would find no such name.
    resolve: async () => (++lookups === 1 ? [{ address: '127.0.0.1', family: 4 }] : []),
  })
  expect(new TextDecoder().decode(await got(body))).toBe(`pinned.invalid:${port}`)
  expect(lookups).toBe(1)
})

test('over TLS the certificate must be for the name, although an address is connected to', async () => {
  const port = server(request => new Response(`tls ${request.headers.get('host')}`), true)
  const options = { ...limits, ...here, ca: certificate }
  const { body } = await fetchPublic(`https://example.test:${port}/`, options)
  expect(new TextDecoder().decode(await got(body))).toBe(`tls example.test:${port}`)
  const wrongName = await failure(fetchPublic(`https://other.test:${port}/`, options))
  expect(wrongName.message).toContain('ALTNAME')
  const untrusted = await failure(fetchPublic(`https://example.test:${port}/`, { ...limits, ...here }))
  expect(untrusted.code).toBe('invalid_arguments')
})

test('every redirect is checked again', async () => {
  let reached = false
  const inner = server(() => {
    reached = true
    return new Response('secret')
  })
  const outer = server(() => Response.redirect(`http://127.0.0.1:${inner}/`))
  const error = await failure(
    fetchPublic(`http://outer.test:${outer}/`, {
      ...limits,
      ...here,
      allow: url => url.hostname === 'outer.test',
    }),
  )
  expect(error.code).toBe('forbidden')
  expect(reached).toBe(false)
})

test('redirects are followed relative to where they stand, five at most', async () => {
  const port = server(request => {
    const left = Number(new URL(request.url).pathname.slice(1))
    return left === 0
      ? new Response('there')
      : new Response(null, { status: 302, headers: { location: `${left - 1}` } })
  })
  const { body } = await fetchPublic(`http://x.test:${port}/5`, { ...limits, ...here })
  expect(new TextDecoder().decode(await got(body))).toBe('there')
  const error = await failure(fetchPublic(`http://x.test:${port}/6`, { ...limits, ...here }))
  expect(error.message).toContain('redirects more than 5 times')
})

test('other schemes, credentials and malformed URLs are refused, also as the target of a redirect', async () => {
  for (const url of [
    'file:///etc/passwd',
    'ftp://x.test/',
    'http://u:p@x.test/',
    'nonsense',
    'data:text/plain,x',
  ]) {
    expect((await failure(fetchPublic(url, limits))).code).toBe('invalid_arguments')
  }
  const port = server(() => new Response(null, { status: 302, headers: { location: 'file:///etc/passwd' } }))
  const error = await failure(fetchPublic(`http://x.test:${port}/?key=s3cret`, { ...limits, ...here }))
  expect(error.message).toBe('the URL cannot be fetched: only http and https are allowed')
})

test('what is announced or turns out larger than the cap is refused', async () => {
  const announced = server(() => new Response(new Uint8Array(2001)))
  const error = await failure(
    fetchPublic(`http://x.test:${announced}/`, { ...limits, ...here, maxBytes: 2000 }),
  )
  expect(error.code).toBe('payload_too_large')

  let given = 0
  const endless = server(
    () =>
      new Response(
        new ReadableStream({
          pull(controller) {
            given += 65_536
            controller.enqueue(new Uint8Array(65_536))
          },
        }),
      ),
  )
  const { body } = await fetchPublic(`http://x.test:${endless}/`, { ...limits, ...here, maxBytes: 1 << 20 })
  expect((await failure(got(body))).code).toBe('payload_too_large')
  expect(given).toBeLessThan(64 << 20)
})

test('a small answer that unpacks to a large one is stopped at the cap', async () => {
  const bomb = gzipSync(new Uint8Array(64 << 20))
  const port = server(() => new Response(bomb, { headers: { 'content-encoding': 'gzip' } }))
  const { body } = await fetchPublic(`http://x.test:${port}/`, { ...limits, ...here })
  expect((await failure(got(body))).code).toBe('payload_too_large')
})

test('an answer compressed against our wish arrives unpacked', async () => {
  const port = server(
    () =>
      new Response(gzipSync('plain text'), {
        headers: { 'content-encoding': 'gzip', 'content-type': 'text/plain' },
      }),
  )
  const { body, contentType, size } = await fetchPublic(`http://x.test:${port}/`, { ...limits, ...here })
  expect(new TextDecoder().decode(await got(body))).toBe('plain text')
  expect(contentType).toBe('text/plain')
  expect(size).toBeUndefined()
})

test('a server that never answers, falls silent or takes too long is given up', async () => {
  await using mute = await rawServer(() => {})
  const silent = await failure(fetchPublic(`http://x.test:${mute.port}/`, { ...limits, ...here, idleMs: 50 }))
  expect(silent.message).toContain('silent')
  const late = await failure(
    fetchPublic(`http://x.test:${mute.port}/`, { ...limits, ...here, timeoutMs: 50 }),
  )
  expect(late.message).toContain('longer than 0.05 s')

  await using stuck = await rawServer(socket => socket.write(half))
  // One that is given up before its answer begins says nothing of the body: the machine stood still.
  const begun = async (options: { idleMs?: number; timeoutMs?: number }) => {
    for (let tries = 0; ; tries++) {
      try {
        return await fetchPublic(`http://x.test:${stuck.port}/`, { ...limits, ...here, ...options })
      } catch (error) {
        if (tries === 10) throw error
      }
    }
  }
  const { body } = await begun({ idleMs: 50 })
  expect((await failure(got(body))).message).toContain('silent')

  const slow = await begun({ timeoutMs: 80 })
  expect((await failure(got(slow.body))).message).toContain('longer than 0.08 s')
})

test('an answer that breaks off is an error, not a shorter file', async () => {
  await using cut = await rawServer(socket => socket.end(half))
  const { body } = await fetchPublic(`http://x.test:${cut.port}/`, { ...limits, ...here })
  expect((await failure(got(body))).code).toBe('invalid_arguments')

  const chunks = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n'
  await using chunked = await rawServer(socket => socket.end(chunks))
  const second = await fetchPublic(`http://x.test:${chunked.port}/`, { ...limits, ...here })
  expect((await failure(got(second.body))).code).toBe('invalid_arguments')
})

test('an abort by the caller ends the fetch with its reason, before and after the answer began', async () => {
  await using stuck = await rawServer(socket => socket.write(half))
  await using mute = await rawServer(() => {})
  const reason = new Error('gone')
  const early = new AbortController()
  const waiting = fetchPublic(`http://x.test:${mute.port}/`, { ...limits, ...here, signal: early.signal })
  early.abort(reason)
  expect(await waiting.catch(error => error)).toBe(reason)
  const late = new AbortController()
  const { body } = await fetchPublic(`http://x.test:${stuck.port}/`, {
    ...limits,
    ...here,
    signal: late.signal,
  })
  const reading = got(body).catch(error => error)
  late.abort(reason)
  expect(await reading).toBe(reason)
})

test('failures of the other server are the URL’s fault and do not repeat its query', async () => {
  const port = server(() => new Response('no', { status: 404 }))
  const missing = await failure(fetchPublic(`http://x.test:${port}/a?sig=s3cret`, { ...limits, ...here }))
  expect(missing.code).toBe('invalid_arguments')
  expect(missing.message).toContain('HTTP 404')
  const refused = await failure(fetchPublic('http://x.test:1/a?sig=s3cret', { ...limits, ...here }))
  expect(refused.code).toBe('invalid_arguments')
  expect(refused.message).toContain('(ECONNREFUSED)')
  for (const error of [missing, refused]) expect(error.message).not.toContain('s3cret')
})

test('the file name comes from the header, else from the path', async () => {
  const names: [string | undefined, string, string | undefined][] = [
    ['attachment; filename="a b.pdf"', '/x', 'a b.pdf'],
    ['attachment; filename=plain.pdf', '/x', 'plain.pdf'],
    ["attachment; filename=x; filename*=UTF-8''%E4%BD%A0.pdf", '/x', '你.pdf'],
    [undefined, '/dir/%E5%A5%BD.png', '好.png'],
    [undefined, '/%zz.png', '%zz.png'],
    [undefined, '/', undefined],
  ]
  for (const [disposition, path, expected] of names) {
    const port = server(
      () => new Response('x', { headers: disposition ? { 'content-disposition': disposition } : {} }),
    )
    const { fileName, body } = await fetchPublic(`http://x.test:${port}${path}`, { ...limits, ...here })
    await body.cancel()
    expect(fileName).toBe(expected)
  }
})

test('neither a token nor a body follows a redirect of apiFetch', async () => {
  let reached = 0
  const other = server(() => new Response(String(++reached)))
  const port = server(
    () => new Response(null, { status: 307, headers: { location: `http://127.0.0.1:${other}/` } }),
  )
  const response = await apiFetch(`http://127.0.0.1:${port}/`, {
    method: 'POST',
    headers: { authorization: 'Bearer t' },
    body: '{}',
  })
  expect(response.status).toBe(307)
  expect(reached).toBe(0)
})

test('apiFetch gives up at its deadline and at its caller’s wish', async () => {
  await using mute = await rawServer(() => {})
  const late = await apiFetch(`http://127.0.0.1:${mute.port}/`, { timeoutMs: 30 }).catch(error => error)
  expect(late.name).toBe('TimeoutError')
  const reason = new Error('gone')
  const gone = await apiFetch(`http://127.0.0.1:${mute.port}/`, {
    timeoutMs: 10_000,
    signal: AbortSignal.abort(reason),
  }).catch(error => error)
  expect(gone).toBe(reason)
})

test('apiFetch streams a body of announced length', async () => {
  const port = server(async request => {
    const length = request.headers.get('content-length')
    return new Response(`${length} ${(await request.arrayBuffer()).byteLength}`)
  })
  async function* chunks() {
    for (let i = 0; i < 16; i++) yield new Uint8Array(65_536)
  }
  const response = await apiFetch(`http://127.0.0.1:${port}/`, {
    method: 'POST',
    headers: { 'content-length': String(16 * 65_536) },
    body: chunks(),
  })
  expect(await response.text()).toBe('1048576 1048576')
})
