/** What Deno does otherwise than Bun, and svc must not. */
import { expect, test } from 'bun:test'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { certificate, privateKey } from '../platform/certificate.ts'
import { deno, denoEnv, denoOrNone, denoRun } from '../support/deno.ts'
import { ended } from '../support/ended.ts'
import { overhear } from '../support/overheard.ts'
import { freePort } from '../support/port.ts'
import { logIn, startService } from '../support/service.ts'
import { until } from '../support/until.ts'

const here = (name: string) => join(import.meta.dir, name)
const main = join(import.meta.dir, '../../src/main.ts')
const env = { PATH: process.env.PATH ?? '', HOME: '/nonexistent', ...denoEnv }
const onDeno = test.skipIf(!deno)

/** A program under way whose output is watched. */
function start(command: string[]) {
  const child = Bun.spawn(command, { env, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' })
  const all = overhear(child)
  return {
    child,
    stderr: () => all.stderr,
    said: (words: string | RegExp) =>
      until(
        `"${words}"`,
        30_000,
        () => (words instanceof RegExp ? words.exec(all.stdout)?.[1] : all.stdout.includes(words)),
        () => all.stdout + all.stderr,
      ),
    out: () => all.stdout,
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await child.exited
    },
  }
}

async function asking(url: string, path: string, body = '{}'): Promise<Socket> {
  const { port, host } = new URL(url)
  const socket = connect(Number(port), '127.0.0.1')
  socket.on('error', () => {})
  await new Promise<void>(resolve => socket.once('connect', resolve))
  const head = `POST ${path} HTTP/1.1\r\nhost: ${host}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}`
  socket.write(`${head}\r\n\r\n${body}`)
  return socket
}

onDeno(
  `${denoOrNone}: a client that leaves is heard, while it waits and while it listens; one that got its answer did not leave`,
  async () => {
    await using server = start(denoRun(here('waiting-server.ts')))
    const url = await server.said(/listening on (\S+)\n/)
    expect(await (await fetch(`${url}/whole`, { method: 'POST', body: '{}' })).text()).toBe('whole')
    for (const path of ['/wait', '/events']) {
      const socket = await asking(url as string, path)
      await server.said(`asked ${path} 2`)
      if (path === '/events') await new Promise(resolve => socket.once('data', resolve))
      socket.destroy()
      await server.said(`left ${path}`)
    }
    expect(server.out()).not.toContain('left /whole')
    // Deno's warning about the signal is not for those who run svc.
    expect(server.stderr()).toBe('')
  },
)

onDeno(`${denoOrNone}: a recv whose caller left takes no message along`, async () => {
  await using service = await startService({ command: denoRun(main), env: denoEnv })
  await logIn(service)
  const socket = await asking(service.url, '/tools/default/recv', '{"timeout":60}')
  // It waits when the next call, which begins later, is answered.
  await service.call('recv', { timeout: 0, consumer: 'another' })
  socket.destroy()
  await service.call('recv', { timeout: 0, consumer: 'another' })
  await service.phone('say', { text: 'for whoever is there' })
  // Before a lease lapses, 30 s: who is gone holds nothing.
  const { body } = await service.call('recv', { timeout: 25 })
  expect(body).toMatchObject([{ text: 'for whoever is there' }])
})

onDeno.each([10, 3_000_000])(
  `${denoOrNone}: an answer of %d letters that had to wait has left the process before it counts as written`,
  async size => {
    await using server = start([
      ...denoRun(join(import.meta.dir, '../faults/support/dies-when-settled.ts')),
      ...['rest', 'later', String(size)],
    ])
    const url = await server.said(/listening on (\S+)\n/)
    const response = await fetch(`${url}/tools/default/recv`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ timeout: 50 }),
    })
    const messages = (await response.json()) as { text: string }[]
    expect(messages.map(({ text }) => text.length)).toEqual([size])
    await server.child.exited
    expect(server.child.signalCode).toBe('SIGKILL')
  },
)

onDeno(`${denoOrNone}: a request that fails is named as on Bun`, async () => {
  const refused = `http://127.0.0.1:${freePort()}/`
  const breaking = Bun.listen({
    port: 0,
    hostname: '127.0.0.1',
    socket: { data: socket => void socket.end() },
  })
  const other = Bun.listen({
    port: 0,
    hostname: '127.0.0.1',
    socket: { data: socket => void socket.write('HTTP/1.1 well OK\r\n\r\n') },
  })
  using plain = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: () => new Response(),
    tls: { cert: certificate, key: privateKey },
  })
  const urls = [
    ...[refused, 'http://no-such-host.invalid/', 'no address', `http://127.0.0.1:${breaking.port}/`],
    ...[`http://127.0.0.1:${other.port}/`, plain.url.href],
  ]
  const codes = async (runtime: string[]) => {
    const { stdout, stderr } = await ended([...runtime, ...urls], { cwd: '/', env })
    return [stdout.split('\n').slice(0, -1), stderr]
  }
  const program = here('failing-requests.ts')
  const wanted = ['ECONNREFUSED', 'ENOTFOUND', 'ERR_INVALID_URL', 'ECONNRESET', 'not HTTP']
  try {
    expect(await codes([process.execPath, program])).toEqual([[...wanted, 'DEPTH_ZERO_SELF_SIGNED_CERT'], ''])
    expect(await codes(denoRun(program))).toEqual([[...wanted, 'ERR_CERT_INVALID'], ''])
  } finally {
    breaking.stop(true)
    other.stop(true)
  }
})

onDeno(`${denoOrNone}: what a database refuses is named as on Bun`, async () => {
  const program = here('failing-database.ts')
  const refusals = ['BUSY', 'BUSY', 'READONLY', 'FULL', 'NOTADB', 'CANTOPEN']
  for (const runtime of [[process.execPath, program], denoRun(program)]) {
    const { stdout, stderr } = await ended(runtime, { cwd: '/', env })
    expect([stdout.split('\n').slice(0, -1), stderr]).toEqual([refusals.map(name => `SQLITE_${name}`), ''])
  }
})

onDeno(`${denoOrNone}: a small file replaced by one of its size and time is seen, as on Bun`, async () => {
  const program = here('replaced-files.ts')
  const said = ['alice', 'carol', 'bobby'].map(name => `{"name":"${name}"}`).map(text => `${text} ${text}`)
  for (const runtime of [[process.execPath, program], denoRun(program)]) {
    const { stdout, stderr } = await ended(runtime, { cwd: '/', env })
    expect([stdout.split('\n').slice(0, -1), stderr]).toEqual([said, ''])
  }
})
