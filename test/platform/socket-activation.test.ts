/** A socket that systemd holds, with what is like any other: the caller's address, https, a new certificate. */
import { expect, test } from 'bun:test'
import { copyFileSync } from 'node:fs'
import { connect as connectPlain } from 'node:net'
import { join } from 'node:path'
import { connect as connectSecure, TLSSocket } from 'node:tls'
import { fileURLToPath } from 'node:url'
import { listActivatedFds } from '../../src/platform/process.ts'
import { findActivatedSocket } from '../../src/platform/socket-activation.ts'
import { hasOpenssl, makePair } from '../support/certificate.ts'
import { folderOfFile } from '../support/folder.ts'
import { overhear } from '../support/overheard.ts'
import { freePort } from '../support/port.ts'
import { until } from '../support/until.ts'

const activate = Bun.which('systemd-socket-activate')
const named = (name: string) => `${name}${activate ? '' : ' (no systemd-socket-activate here)'}`
const program = fileURLToPath(new URL('activated.ts', import.meta.url))
const folder = folderOfFile()

/** Connects from 127.0.0.9 and asks once. @returns the answer, and the fingerprint of the certificate */
const ask = (port: number, isSecure: boolean) =>
  new Promise<{ text: string; fingerprint: string | undefined }>((resolve, reject) => {
    const plain = connectPlain({ host: '127.0.0.1', port, localAddress: '127.0.0.9' })
    const socket = isSecure ? connectSecure({ socket: plain, rejectUnauthorized: false }) : plain
    let text = ''
    socket.on('data', chunk => {
      text += chunk
    })
    socket.on('error', reject)
    plain.on('error', reject)
    const fingerprint = () =>
      socket instanceof TLSSocket ? socket.getPeerCertificate().fingerprint256 : undefined
    let seen: string | undefined
    socket.on(isSecure ? 'secureConnect' : 'connect', () => {
      seen = fingerprint()
      socket.write('GET / HTTP/1.1\r\nhost: svc\r\nconnection: close\r\n\r\n')
    })
    socket.on('close', () => resolve({ text, fingerprint: seen }))
  })

/** Starts the server when the first connection comes, as systemd does. */
function startActivated(ports: readonly number[], port: number, files: readonly string[] = []) {
  const listens = ports.flatMap(each => ['-l', `127.0.0.1:${each}`])
  const child = Bun.spawn([activate!, ...listens, process.execPath, program, String(port), ...files], {
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  const output = overhear(child)
  return {
    output,
    ready: until(
      'it waits for a connection',
      10_000,
      () => output.stderr.split('Listening on').length > ports.length,
    ),
    end: () => child.stdin.end(),
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await output.exited
    },
  }
}

test.skipIf(!activate)(
  named('the second of two sockets is served, with the address of the caller'),
  async () => {
    const [other, port] = [freePort(), freePort()]
    await using server = startActivated([other, port], port)
    await server.ready
    const answers = await Promise.all([1, 2, 3].map(() => ask(port, false)))
    for (const { text } of answers) expect(text).toEndWith('\r\n\r\n127.0.0.9')
    expect(server.output.stdout).toBe(`http://127.0.0.1:${port}\n`)
    server.end()
    expect(await server.output.exited).toBe(0)
  },
)

test.skipIf(!(activate && hasOpenssl))(
  named('https, and a new certificate, on the same socket'),
  async () => {
    const [first, second] = [makePair(folder, 'first'), makePair(folder, 'second')]
    const files = [join(folder, 'cert'), join(folder, 'key')] as const
    const use = (pair: typeof first) => {
      copyFileSync(pair.cert, files[0])
      copyFileSync(pair.key, files[1])
    }
    use(first)
    const port = freePort()
    await using server = startActivated([port], port, files)
    await server.ready
    const before = await ask(port, true)
    expect(before.text).toEndWith('\r\n\r\n127.0.0.9')
    use(second)
    const after = await until('the new certificate is shown', 20_000, async () => {
      const seen = await ask(port, true)
      expect(seen.text).toEndWith('\r\n\r\n127.0.0.9')
      return seen.fingerprint !== before.fingerprint && seen
    })
    expect(after.fingerprint).toBeDefined()
  },
)

test('the sockets of another process, of no port, and of none at all are left alone', async () => {
  const own = { LISTEN_PID: String(process.pid), LISTEN_FDS: '2' }
  expect(listActivatedFds(own)).toEqual([3, 4])
  expect(listActivatedFds({ ...own, LISTEN_PID: '1' })).toEqual([])
  for (const count of ['0', '-1', 'x', '', undefined])
    expect(listActivatedFds({ ...own, LISTEN_FDS: count })).toEqual([])
  expect(await findActivatedSocket(0, [0])).toBeUndefined()
  // No socket of the internet, and none at all.
  expect(await findActivatedSocket(9, [0, 1000])).toBeUndefined()
})
