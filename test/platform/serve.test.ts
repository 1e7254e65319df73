import { afterAll, afterEach, describe, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { connect as connectPlain, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect as connectSecure } from 'node:tls'
import { followCertificate } from '../../src/platform/certificate.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { waitUntilWritten } from '../../src/platform/flush.ts'
import { silentLog } from '../../src/platform/log.ts'
import { type RunningServer, type ServeOptions, serve } from '../../src/platform/serve.ts'
import { Tasks } from '../../src/platform/tasks.ts'
import { folderOfFile } from '../support/folder.ts'
import { stopwatch } from '../support/stopwatch.ts'
import { certificate, privateKey } from './certificate.ts'

const folder = folderOfFile()
const files = { cert: join(folder, 'a.crt'), key: join(folder, 'a.key') }
writeFileSync(files.cert, certificate)
writeFileSync(files.key, privateKey)
const live = await followCertificate(files, silentLog, new Tasks(systemClock))
afterAll(() => live.close())

const running: RunningServer[] = []
afterEach(async () => {
  for (const server of running.splice(0)) await server.stop(0)
})
async function startServer(
  fetch: ServeOptions['fetch'],
  options: Partial<ServeOptions> = {},
): Promise<RunningServer> {
  const server = await serve({ hostname: '127.0.0.1', port: 0, fetch, ...options })
  running.push(server)
  return server
}

describe.each(['http', 'https'] as const)('%s', scheme => {
  const options = scheme === 'https' ? { certificate: live } : {}
  const start = (fetch: ServeOptions['fetch'], more: Partial<ServeOptions> = {}) =>
    startServer(fetch, { ...options, ...more })
  const fetch = (url: string, init: RequestInit = {}) =>
    globalThis.fetch(url, { ...init, tls: { rejectUnauthorized: false } } as RequestInit)
  const connect = (port: number, host: string, onOpen: () => void): Socket =>
    scheme === 'https'
      ? connectSecure({ port, host, rejectUnauthorized: false }, onOpen)
      : connectPlain(port, host, onOpen)

  /** What the server answers to these bytes, until it closes or has sent a whole answer without body. */
  function raw(server: RunningServer, text: string): Promise<string> {
    return new Promise((resolve, reject) => {
      let answer = ''
      const socket = connect(server.port, server.hostname, () => socket.write(text))
      socket.on('data', data => {
        answer += data
        const length = /content-length: (\d+)/i.exec(answer)?.[1]
        const head = answer.indexOf('\r\n\r\n')
        if (head > 0 && length !== undefined && answer.length >= head + 4 + Number(length)) socket.destroy()
      })
      socket.on('close', () => resolve(answer))
      socket.on('error', reject)
    })
  }
  const opened = (server: RunningServer): Promise<Socket> =>
    new Promise(resolve => {
      const socket = connect(server.port, server.hostname, () => resolve(socket))
      socket.on('error', () => {})
    })

  test('it listens on a free port, names its URL and tells the peer', async () => {
    const server = await start((_request, { remoteAddress }) => new Response(remoteAddress ?? 'unknown'))
    expect(server.url).toBe(`${scheme}://127.0.0.1:${server.port}`)
    expect(await (await fetch(server.url)).text()).toBe('127.0.0.1')
    const six = await start(() => new Response('six'), { hostname: '::1' })
    expect(six.url).toBe(`${scheme}://[::1]:${six.port}`)
    expect(await (await fetch(six.url)).text()).toBe('six')
  })

  test('a port in use is an error with its code', async () => {
    const server = await start(() => new Response())
    const error = await serve({
      hostname: '127.0.0.1',
      certificate: options.certificate,
      port: server.port,
      fetch: () => new Response(),
    }).catch(e => e)
    expect(error.code).toBe('EADDRINUSE')
  })

  describe('two requests in one write', () => {
    const head = (method: string, path: string, more = '') =>
      `${method} ${path} HTTP/1.1\r\nHost: localhost\r\n${more}\r\n`
    const post = (path: string, body: string, more = '') =>
      head('POST', path, `Content-Length: ${body.length}\r\n${more}`) + body

    /** All that comes until the connection ends, or the text holds `last`; and how it ended. */
    const talk = (server: RunningServer, text: string, last = '(end)') =>
      new Promise<{ text: string; end: string }>(resolve => {
        let answer = ''
        let end = 'open'
        const socket = connect(server.port, server.hostname, () => socket.write(text))
        socket.on('data', data => {
          answer += data
          if (answer.includes(last)) socket.destroy()
        })
        socket.on('end', () => {
          end = 'FIN'
        })
        socket.on('error', ({ message }) => {
          end = message
        })
        socket.on('close', () => resolve({ text: answer, end }))
      })

    const served = async () => {
      const asked: string[] = []
      const waits = Promise.withResolvers<void>()
      const left = Promise.withResolvers<void>()
      const server = await start(async request => {
        const { pathname } = new URL(request.url)
        asked.push(pathname)
        if (pathname === '/refused') return new Response('(refused)', { status: 413 })
        if (pathname === '/closing')
          return new Response('(closing)', { status: 401, headers: { connection: 'close' } })
        if (pathname === '/waits') {
          request.signal.addEventListener('abort', () => left.resolve(), { once: true })
          await waits.promise
        }
        return new Response(`(${pathname} ${await request.text()})`)
      })
      return { asked, server, waits, left }
    }

    test.each([
      [head('GET', '/a') + head('GET', '/end'), ['(/a )']],
      [post('/a', 'hello') + head('GET', '/end'), ['(/a hello)']],
      [head('GET', '/a') + post('/b', 'hello') + head('GET', '/end'), ['(/a )', '(/b hello)']],
      [post('/refused', 'x'.repeat(300_000)) + head('GET', '/end'), ['(refused)']],
      [post('/a', 'hello', 'Expect: 100-continue\r\n') + head('GET', '/end'), ['(/a hello)']],
    ])('what needs no waiting is answered in order: %#', async (text, answers) => {
      const { server } = await served()
      const { text: got } = await talk(server, text, '(/end )')
      expect([...got.matchAll(/\([^)]*\)/g)].map(([one]) => one)).toEqual([...answers, '(/end )'])
    })

    test('behind an answer that closes the connection nothing runs, and its end is clean', async () => {
      const { asked, server } = await served()
      const { text, end } = await talk(server, post('/closing', 'hello') + head('GET', '/b'))
      expect([text.includes('(closing)'), end, asked]).toEqual([true, 'FIN', ['/closing']])
    })

    // Bun 1.4.5 knows one request of a connection at a time: see the top of `serve.ts`. A failure here tells that it changed.
    test('behind an answer that has to wait the connection ends, without a reset or a second run', async () => {
      const { asked, left, server, waits } = await served()
      const { text, end } = await talk(server, head('GET', '/waits') + head('GET', '/b'))
      await left.promise
      expect({ text, end, asked }).toEqual({ text: '', end: 'FIN', asked: ['/waits'] })
      waits.resolve()
    })
  })

  test('a request without a usable Host gets 400 and never reaches the handler', async () => {
    let reached = 0
    const server = await start(request => {
      reached++
      return new Response(new URL(request.url).pathname)
    })
    const bad = [
      'GET /x HTTP/1.0\r\n\r\n',
      'GET /x HTTP/1.1\r\n\r\n',
      'GET /x HTTP/1.1\r\nHost:\r\n\r\n',
      'GET /x HTTP/1.1\r\nHost: a b\r\n\r\n',
      'GET /x HTTP/1.1\r\nHost: [::1\r\n\r\n',
      'GET /x HTTP/1.1\r\nHost: a:port\r\n\r\n',
      'GET /x HTTP/1.1\r\nHost: a.test\r\nHost: a.test\r\n\r\n',
      'GET /x HTTP/1.1\r\nHost: a.test\r\nX: 1\r\nHOST: b.test\r\n\r\n',
      'GET /x HTTP/1.1\r\nHost: a.test,b.test\r\n\r\n',
      'GET /x HTTP/1.1\r\nHost: b.test@a.test\r\n\r\n',
    ]
    const refused = async () => {
      for (const text of bad)
        expect([text, (await raw(server, text)).slice(0, 12)]).toEqual([text, 'HTTP/1.1 400'])
    }
    await refused()
    expect(reached).toBe(0)
    for (const host of ['a.test', 'A.TEST:80', '[::1]:8000'])
      expect(await raw(server, `GET /x HTTP/1.1\r\nHost: ${host}\r\n\r\n`)).toEndWith('/x')
    // One that passed is remembered, and lets no other in.
    expect(await raw(server, 'GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n')).toEndWith('/x')
    await refused()
    expect(reached).toBe(4)
  })

  test('a request body arrives as it is sent, and who reads slowly slows the sender', async () => {
    const chunkBytes = 1 << 20
    const offered = 256
    let received = 0
    const gate = Promise.withResolvers<void>()
    const started = Promise.withResolvers<void>()
    const server = await start(async request => {
      for await (const chunk of request.body ?? []) {
        received += chunk.byteLength
        started.resolve()
        await gate.promise
      }
      return new Response('done')
    })
    let pulled = 0
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (pulled++ === offered) controller.close()
        else controller.enqueue(new Uint8Array(chunkBytes))
      },
    })
    const answer = fetch(server.url, { method: 'POST', body, duplex: 'half' } as RequestInit)
    await started.promise
    // The sender stands still once the buffers on the way are full: nothing more is pulled in many turns of the loop.
    let before = -1
    for (let calm = 0, turns = 0; calm < 200 && turns < 20_000; turns++) {
      calm = pulled === before ? calm + 1 : 0
      before = pulled
      await new Promise(resolve => setImmediate(resolve))
    }
    expect(pulled).toBeLessThan(64)
    gate.resolve()
    expect(await (await answer).text()).toBe('done')
    expect(received).toBe(offered * chunkBytes)
  })

  test('a stop lets what runs finish, and takes nothing new', async () => {
    const gate = Promise.withResolvers<void>()
    const inside = Promise.withResolvers<void>()
    const server = await start(async () => {
      inside.resolve()
      await gate.promise
      return new Response('finished')
    })
    const answer = fetch(server.url)
    await inside.promise
    const stopped = server.stop(60_000)
    const refused = await fetch(server.url).catch(error => error.code)
    expect(refused).toBe('ECONNREFUSED')
    gate.resolve()
    expect(await (await answer).text()).toBe('finished')
    await stopped
  })

  test('an answer with a length tells when it is written; a stop waits for the word', async () => {
    const told: (boolean | undefined)[] = []
    const server = await start((request, peer) => {
      peer.accept()
      void waitUntilWritten(request)?.then(written => told.push(written))
      return new Response('x'.repeat(1000))
    })
    const answer = await fetch(server.url)
    expect(answer.headers.get('content-length')).toBe('1000')
    await answer.text()
    await server.stop(5000)
    expect(told).toEqual([true])
  })

  test('a stop ends though a stream, a silent connection and an idle one are open', async () => {
    const inside = Promise.withResolvers<void>()
    const server = await start(request => {
      if (new URL(request.url).pathname !== '/events') return new Response('x')
      inside.resolve()
      return new Response(
        new ReadableStream({ start: controller => controller.enqueue(new TextEncoder().encode(':\n')) }),
      )
    })
    await (await fetch(server.url)).text()
    const silent = await opened(server)
    const half = await opened(server)
    half.write('POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\n12')
    const stream = await fetch(`${server.url}/events`)
    await inside.promise
    const reading = stream.text().then(
      () => 'ended',
      () => 'cut',
    )
    using watch = stopwatch()
    await Promise.all([server.stop(100), server.stop(100)])
    expect(watch.ms).toBeLessThan(2000)
    expect(await reading).toMatch(/ended|cut/)
    silent.destroy()
    half.destroy()
  })

  test('a stop ends though a handler never answers', async () => {
    const inside = Promise.withResolvers<void>()
    const server = await start(() => {
      inside.resolve()
      return new Promise<Response>(() => {})
    })
    const answer = fetch(server.url).catch(error => error.code)
    await inside.promise
    await server.stop(20)
    expect(await answer).toBe('ECONNRESET')
  })

  test('a stop with nothing under way does not wait for idle connections', async () => {
    const server = await start(() => new Response('x'))
    await (await fetch(server.url)).text()
    using watch = stopwatch()
    await server.stop(60_000)
    expect(watch.ms).toBeLessThan(1000)
  })
})

describe.skipIf(process.platform === 'win32')('a Unix socket', () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-socket-'))
  afterAll(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 's.sock')
  const ask = async () => (await fetch('http://localhost/x', { unix: path })).text()

  test('is for its user alone, and goes with its server', async () => {
    const server = await startServer(({ url }) => new Response(url), { socket: path })
    expect(server.url).toBe(`unix:${path}`)
    expect(statSync(path).mode & 0o777).toBe(0o600)
    expect(await ask()).toBe('http://localhost/x')
    await server.stop(0)
    expect(existsSync(path)).toBe(false)
  })

  test('of a dead process is replaced; a live one and another file are not', async () => {
    // Closed without being removed, as the kernel does for a process that was killed.
    const script = `const s=require('net').createServer().listen(${JSON.stringify(path)},()=>process.kill(process.pid,'SIGKILL'))`
    await Bun.spawn([process.execPath, '-e', script]).exited
    expect(existsSync(path)).toBe(true)
    const server = await startServer(() => new Response('live'), { socket: path })
    const error = await startServer(() => new Response('second'), { socket: path }).catch(e => e)
    expect(error.code).toBe('EADDRINUSE')
    expect(await ask()).toBe('live')
    await server.stop(0)
    writeFileSync(path, 'mine')
    expect((await startServer(() => new Response(), { socket: path }).catch(e => e)).code).toBe('EEXIST')
    expect(readFileSync(path, 'utf8')).toBe('mine')
  })
})
