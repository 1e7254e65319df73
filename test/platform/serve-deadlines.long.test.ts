/** Which connections are closed, and when: it takes as long as the longest of the deadlines. */
import { expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { connect as connectPlain, type Socket } from 'node:net'
import { join } from 'node:path'
import { connect as connectSecure } from 'node:tls'
import { followCertificate, type LiveCertificate } from '../../src/platform/certificate.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { silentLog } from '../../src/platform/log.ts'
import { serve } from '../../src/platform/serve.ts'
import { Tasks } from '../../src/platform/tasks.ts'
import { folderOfTest } from '../support/folder.ts'
import { until } from '../support/until.ts'
import { certificate, privateKey } from './certificate.ts'

/** Opens a certificate of a file. */
async function openCertificate(): Promise<LiveCertificate> {
  const folder = folderOfTest()
  const files = { cert: join(folder, 'a.crt'), key: join(folder, 'a.key') }
  writeFileSync(files.cert, certificate)
  writeFileSync(files.key, privateKey)
  return followCertificate(files, silentLog, new Tasks(systemClock))
}

test.each(['http', 'https'])(
  '%s: strangers are closed, whatever they do; an accepted call waits, and has a deadline only where nobody reads',
  async scheme => {
    if (!process.versions.bun) return
    const live = scheme === 'https' ? await openCertificate() : undefined
    const gate = Promise.withResolvers<void>()
    let accepted = 0
    const server = await serve({
      // Bun counts in steps of four seconds: of four there may be next to nothing left, before the deadline is lifted.
      ...{ hostname: '127.0.0.1', port: 0, answerSeconds: 12, certificate: live },
      fetch: async (request, peer) => {
        const { pathname } = new URL(request.url)
        if (pathname === '/open') return new Response('x')
        if (pathname === '/body') return new Response(await request.text())
        if (pathname === '/stranger') return new Promise<Response>(() => {})
        peer.accept()
        accepted++
        if (pathname === '/wait') await gate.promise
        if (pathname === '/unread')
          return new Response(
            new ReadableStream({
              pull: to => to.enqueue(new Uint8Array(65_536)),
              cancel: () => void open.delete('unread'),
            }),
          )
        return new Response('waited')
      },
    })
    const open = new Set<string>()
    const say = async (name: string, text: string, then?: (socket: Socket) => void) => {
      const { port, hostname: host } = server
      const socket = live
        ? connectSecure({ port, host, rejectUnauthorized: false })
        : connectPlain(port, host)
      await new Promise<void>(resolve => socket.once(live ? 'secureConnect' : 'connect', resolve))
      open.add(name)
      let answer = ''
      socket.on('error', () => {})
      socket.on('data', data => {
        answer += data
      })
      socket.on('close', () => open.delete(name))
      socket.write(text)
      then?.(socket)
      return () => answer
    }
    const drip = (text: string) => (socket: Socket) => {
      const timer = setInterval(() => socket.write(text), 500)
      socket.on('close', () => clearInterval(timer))
    }
    const host = 'HTTP/1.1\r\nHost: a.test\r\n'
    const waiting = await say('wait', `GET /wait ${host}\r\n`)
    await say('unread', `GET /unread ${host}\r\n`, socket => socket.pause())
    await say('silent', '')
    for (const bytes of live ? ['', '\x16\x03\x01\x02\x00\x01'] : []) {
      const name = `a handshake of ${bytes.length} bytes`
      const socket = connectPlain(server.port, server.hostname, () => socket.write(bytes, 'latin1'))
      open.add(name)
      socket.on('error', () => {})
      socket.on('close', () => open.delete(name))
    }
    await say('half a header', 'GET /open HTTP/1.1\r\nHo')
    await say('a header that drips', `GET /open ${host}`, drip('x: y\r\n'))
    await say('done', `GET /open ${host}\r\n`)
    await say('half a body', `POST /body ${host}Content-Length: 9\r\n\r\nx`)
    await say('a body that drips', `POST /body ${host}Content-Length: 999999\r\n\r\nx`, drip('x'))
    await say('not accepted', `GET /stranger ${host}\r\n`)
    await until(
      'all but the one that waits are closed',
      60_000,
      () => open.size === 1,
      () => [...open].join(),
    )
    expect([accepted, ...open]).toEqual([2, 'wait'])
    gate.resolve()
    await until('it is answered', 10_000, () => waiting().endsWith('waited'))
    await server.stop(0)
    live?.close()
  },
  120_000,
)
