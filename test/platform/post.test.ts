/** POST to addresses that somebody gave: what hostile and broken receivers can do. */
import { describe, expect, test } from 'bun:test'
import { createServer, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { isReachableAddress } from '../../src/platform/address.ts'
import { Poster, type PosterOptions, TimedOut } from '../../src/platform/post.ts'
import { reasonOf } from '../../src/platform/system-error.ts'
import { failure } from '../support/failure.ts'
import { until } from '../support/until.ts'
import { expiredCertificate, privateKey } from './certificate.ts'

const never = new AbortController().signal
const body = '{"a":"好"}'

function poster(url: string, more: Partial<PosterOptions> = {}) {
  const made = new Poster(url, { allowPrivate: true, timeoutMs: 10_000, ...more })
  return Object.assign(made, { [Symbol.dispose]: () => made.close() })
}

/** A server that answers each request with what `talk` writes. */
async function raw(talk: (socket: Socket, request: string) => void) {
  const sockets = new Set<Socket>()
  const requests: string[] = []
  const server = createServer(socket => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('data', chunk => {
      requests.push(chunk.toString())
      talk(socket, chunk.toString())
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  return {
    ...{ port, requests, sockets, url: `http://127.0.0.1:${port}/hook` },
    [Symbol.dispose]() {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}

const head = (status: string, ...lines: string[]) => [`HTTP/1.1 ${status}`, ...lines, '', ''].join('\r\n')

test('one body with its length, not chunked, on connections that are kept', async () => {
  using server = await raw(socket => socket.write(`${head('200 OK', 'Content-Length: 2')}ok`))
  using own = poster(server.url)
  for (let nth = 0; nth < 3; nth++)
    expect(await own.post({ 'x-a': '1' }, body, never)).toEqual({ status: 200 })
  expect(server.requests[0]).toMatch(/^POST \/hook HTTP\/1\.1\r\n/)
  expect(server.requests[0]?.toLowerCase()).toContain(`content-length: ${Buffer.byteLength(body)}\r\n`)
  expect(server.requests[0]?.toLowerCase()).not.toContain('transfer-encoding')
  expect(server.sockets.size).toBeLessThan(3)
})

test('a redirect is an answer like any other', async () => {
  using other = await raw(() => {})
  using server = await raw(socket =>
    socket.write(head('302 Found', `Location: ${other.url}`, 'Content-Length: 0')),
  )
  using own = poster(server.url)
  expect(await own.post({}, body, never)).toEqual({ status: 302 })
  expect(other.sockets.size).toBe(0)
})

test('an answer in chunks, and one that closes, are answers', async () => {
  using chunked = await raw(socket =>
    socket.write(`${head('200 OK', 'Transfer-Encoding: chunked')}2\r\nok\r\n0\r\n\r\n`),
  )
  using closing = await raw(socket => socket.end(`${head('503 No', 'Retry-After: 7')}sorry`))
  using one = poster(chunked.url)
  using two = poster(closing.url)
  expect(await one.post({}, body, never, 100)).toEqual({ status: 200, text: 'ok' })
  expect(await two.post({}, body, never, 100)).toEqual({ status: 503, retryAfter: '7' })
})

test('the beginning of any other answer is returned where it is wanted, and its connection is kept', async () => {
  let answer = `${head('500 No', 'Content-Length: 18')}database is locked`
  using server = await raw(socket => socket.write(answer))
  using own = poster(server.url)
  for (let nth = 0; nth < 3; nth++)
    expect(await own.post({}, body, never, 0, 8)).toEqual({ status: 500, text: 'database' })
  expect(server.sockets.size).toBeLessThan(3)
  expect((await own.post({}, body, never, 0, 100)).text).toBe('database is locked')
  answer = head('204 None')
  expect(await own.post({}, body, never, 0, 100)).toEqual({ status: 204, text: '' })
  // An answer that does not end is what came of it.
  answer = `${head('200 OK', 'Content-Length: 1000')}begin`
  expect(await own.post({}, body, never, 0, 100)).toEqual({ status: 200, text: 'begin' })
})

test('of an answer without end only what is wanted is read, and it counts', async () => {
  let written = 0
  let ended = false
  using server = await raw(socket => {
    socket.write(head('200 OK', `Content-Length: ${1024 ** 3}`))
    const chunk = Buffer.alloc(64 * 1024, 'x')
    const more = () => {
      while (written < 1024 ** 3 && !socket.destroyed) {
        written += chunk.length
        if (!socket.write(chunk)) return void socket.once('drain', more)
      }
    }
    socket.once('close', () => {
      ended = true
    })
    more()
  })
  using own = poster(server.url)
  expect(await own.post({}, body, never)).toEqual({ status: 200 })
  const { text } = await own.post({}, body, never, 1000)
  expect(text).toBe('x'.repeat(1000))
  while (!ended) await new Promise(resolve => setTimeout(resolve, 5))
  expect(written).toBeLessThan(64 * 1024 * 1024)
})

describe('what takes too long', () => {
  const slow: Record<string, (socket: Socket) => void> = {
    hangs: () => {},
    'drips its head': socket => {
      socket.write('HTTP/1.1 200 OK\r\nx-slow: ')
      const timer = setInterval(() => socket.write('H'), 20)
      socket.once('close', () => clearInterval(timer))
    },
  }
  test.each(Object.entries(slow))('%s', async (_name, talk) => {
    using server = await raw(talk)
    using own = poster(server.url, { timeoutMs: 300 })
    const failed = await own.post({}, body, never).catch((error: Error) => error)
    expect(failed).toMatchObject({ name: 'TimedOut' })
  })

  test('an answer that drips is an answer, and its text is what came in time', async () => {
    using server = await raw(socket => {
      socket.write(`${head('200 OK', 'Content-Length: 1000000')}begin`)
      const timer = setInterval(() => socket.write('x'), 20)
      socket.once('close', () => clearInterval(timer))
    })
    using patient = poster(server.url)
    expect(await patient.post({}, body, never)).toEqual({ status: 200 })
    using own = poster(server.url, { timeoutMs: 400 })
    const failed = await own.post({}, body, never, 100_000).catch((error: Error) => error)
    expect(failed).toMatchObject({ name: 'TimedOut' })
  })

  test('the caller’s signal ends it', async () => {
    using server = await raw(() => {})
    using own = poster(server.url)
    const stop = new AbortController()
    const ended = own.post({}, body, stop.signal).catch((error: Error) => error)
    stop.abort(new Error('enough'))
    expect(await ended).toMatchObject({ message: 'enough' })
  })
})

test('what answers nothing, or nonsense, is a failure', async () => {
  using server = await raw(socket => socket.end('no http\r\n\r\n'))
  using own = poster(server.url)
  expect(await own.post({}, body, never).catch(() => 'failed')).toBe('failed')
  using nobody = poster('http://127.0.0.1:1/')
  expect(await nobody.post({}, body, never).catch(() => 'failed')).toBe('failed')
})

test('an expired certificate is a failure, and told as one', async () => {
  const server = createTlsServer({ cert: expiredCertificate, key: privateKey }, () => {})
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  const here = { ca: expiredCertificate, resolve: async () => [{ address: '127.0.0.1', family: 4 }] }
  using own = poster(`https://example.test:${port}/`, here)
  const failed = await own.post({}, body, never).catch((error: Error) => error)
  server.close()
  expect(failed).toMatchObject({ code: 'CERT_HAS_EXPIRED' })
  expect(reasonOf(failed)).toContain('certificate')
})

test('the address that was checked is the one connected to, by name and by number', async () => {
  using server = await raw(socket => socket.write(head('200 OK', 'Content-Length: 0')))
  const forbidden = (url: string, more: Partial<PosterOptions>) =>
    poster(url, more)
      .post({}, body, never)
      .then(
        () => 'went',
        error => (error as { code?: string }).code,
      )
  const leadsTo = (address: string) => ({ resolve: async () => [{ address, family: 4 }] })
  expect(await forbidden(server.url, { allowPrivate: false })).toBe('forbidden')
  const named = `http://hook.example:${server.port}/`
  expect(await forbidden(named, { allowPrivate: false, ...leadsTo('127.0.0.1') })).toBe('forbidden')
  expect(await forbidden(named, { allowPrivate: true, ...leadsTo('169.254.169.254') })).toBe('forbidden')
  expect(await forbidden('http://169.254.169.254/', { allowPrivate: true })).toBe('forbidden')
  expect(await forbidden(named, { allowPrivate: true, ...leadsTo('127.0.0.1') })).toBe('went')
})

test('private networks and this machine may be reached where that is allowed; link-local and metadata never', () => {
  for (const yes of [
    '127.0.0.1',
    '::1',
    '10.0.0.7',
    '192.168.1.5',
    '172.20.0.3',
    'fd12::5',
    '100.64.3.4',
    '1.1.1.1',
  ])
    expect([yes, isReachableAddress(yes)]).toEqual([yes, true])
  for (const no of [
    ...['169.254.169.254', 'fe80::1', '168.63.129.16', 'fd00:ec2::254', '100.100.100.200', '0.0.0.0'],
    ...['224.0.0.1'],
    ...['::ffff:169.254.169.254', '255.255.255.255', 'nonsense', '64:ff9b::a9fe:a9fe'],
  ])
    expect([no, isReachableAddress(no)]).toEqual([no, false])
})

test('some interim answers are passed over, and one who says nothing else has failed', async () => {
  const hints = head('103 Early Hints', 'Link: </a>; rel=preload')
  using honest = await raw(socket => socket.write(hints.repeat(3) + head('200 OK', 'Content-Length: 0')))
  using own = poster(honest.url)
  expect(await own.post({}, body, never)).toEqual({ status: 200 })
  let ended = false
  using endless = await raw(socket => {
    socket.once('close', () => {
      ended = true
    })
    socket.write(hints.repeat(1000))
  })
  using other = poster(endless.url, { timeoutMs: 3_600_000 })
  expect(await failure(other.post({}, body, never))).not.toBeInstanceOf(TimedOut)
  await until('it hung up', 10_000, () => ended)
})

test('chunks of one byte, thousands at once, are read while others have their turn', async () => {
  const chunks = '1\r\na\r\n'.repeat(8192)
  using server = await raw(socket => {
    socket.write(head('200 OK', 'Transfer-Encoding: chunked'))
    const more = () => !socket.destroyed && socket.write(chunks, () => setImmediate(more))
    more()
  })
  using own = poster(server.url, { timeoutMs: 3_600_000 })
  let rounds = 0
  let looking = setImmediate(function look() {
    rounds++
    looking = setImmediate(look)
  })
  // Each counts as 64 bytes.
  expect((await own.post({}, body, never, 64 * 30_000)).text).toBe('a'.repeat(30_000))
  clearImmediate(looking)
  expect(rounds).toBeGreaterThan(3)
})
