/** A service that serves https, and whose certificate is replaced. Also on Deno and in the binary. */
import { expect, test } from 'bun:test'
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { hasOpenssl, makePair, type Pair } from '../support/certificate.ts'
import { folderOfFile } from '../support/folder.ts'
import { overhear } from '../support/overheard.ts'
import { type Json, logIn, type Service, startService } from '../support/service.ts'
import { svcProgram } from '../support/svc-program.ts'
import { until } from '../support/until.ts'

const folder = folderOfFile()
const files = { cert: join(folder, 'tls.crt'), key: join(folder, 'tls.key') }
const args = ['--tls-cert', files.cert, '--tls-key', files.key, '--admin-port', '0', '--metrics-port', '0']
const tls = { rejectUnauthorized: false }
const onOpenssl = test.skipIf(!hasOpenssl)

const use = (pair: Pair) => {
  copyFileSync(pair.cert, files.cert)
  copyFileSync(pair.key, files.key)
}

/** Runs a command of svc on the directory of a service. */
async function run(
  service: Service,
  words: readonly string[],
  input = '',
): Promise<{ code: number; stdout: string }> {
  const env = { PATH: process.env.PATH ?? '', HOME: folder, SVC_BASE_PATH: service.dir, SVC_SANDBOX: '1' }
  const child = Bun.spawn([...svcProgram, ...words], {
    env,
    stdin: new TextEncoder().encode(input),
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const output = overhear(child)
  return { code: await output.exited, stdout: output.stdout }
}

/** The name in the certificate that a new connection gets. */
const nameAt = (url: string) =>
  new Promise<string>((resolve, reject) => {
    const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', ...tls }, () => {
      resolve(String(socket.getPeerCertificate().subject.CN))
      socket.destroy()
    })
    socket.on('error', reject)
  })

const initialize = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
}

/** Opens an MCP session with its stream. */
async function openMcp(url: string) {
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
  const post = (body: unknown, more = {}) =>
    fetch(`${url}/mcp`, { method: 'POST', headers: { ...headers, ...more }, body: JSON.stringify(body), tls })
  const answer = await post(initialize)
  await answer.text()
  const session = { 'mcp-session-id': answer.headers.get('mcp-session-id')! }
  await post({ jsonrpc: '2.0', method: 'notifications/initialized' }, session)
  const stream = await fetch(`${url}/mcp`, { headers: { accept: 'text/event-stream', ...session }, tls })
  return {
    stream: watch(stream),
    list: async () => (await post({ jsonrpc: '2.0', id: 2, method: 'tools/list' }, session)).text(),
  }
}

/** Reads a stream in the background. */
function watch(response: Response) {
  const seen = { text: '', ended: false }
  const read = async () => {
    for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) seen.text += chunk
  }
  void read()
    .catch(() => {})
    .finally(() => {
      seen.ended = true
    })
  return seen
}

onOpenssl(
  'every door serves https, and the commands of svc trust its certificate',
  async () => {
    use(makePair(folder, 'first'))
    await using service = await startService({ args })
    const out = service.stdout()
    const [panel, metrics] = ['admin', 'metrics'].map(door => new RegExp(`${door} on (\\S+)`).exec(out)![1]!)
    for (const url of [service.url, panel, metrics])
      expect([url!.split(':')[0], await nameAt(url!)]).toEqual(['https', 'first.test'])
    expect((await fetch(panel!, { tls })).headers.get('content-type')).toContain('text/html')
    expect(await (await fetch(metrics!, { tls })).text()).toMatch(/\nsvc_tls_remaining_seconds 2\d{6}/)

    expect((await run(service, ['health'])).code).toBe(0)
    expect((await run(service, ['health', '--port', new URL(service.url).port])).code).toBe(0)
    const { findings } = JSON.parse((await run(service, ['doctor', '--json'])).stdout)
    expect(
      findings.filter((one: Json) => one.subject === 'exposure').map((one: Json) => one.severity),
    ).toEqual(['ok', 'ok', 'ok', 'ok'])
    const asked = [
      initialize,
      { jsonrpc: '2.0', method: 'notifications/initialized' },
      { jsonrpc: '2.0', id: 2, method: 'tools/list' },
    ]
    const input = asked.map(one => `${JSON.stringify(one)}\n`).join('')
    const bridged = await run(service, ['mcp', '--url', `${service.url}/mcp`], input)
    expect(bridged.stdout).toContain('"id":2')
    // Plain http gets no answer, and harms nothing.
    expect(
      await fetch(service.url.replace('https', 'http')).then(
        () => 'answered',
        () => 'closed',
      ),
    ).toBe('closed')
    expect((await run(service, ['health'])).code).toBe(0)
  },
  60_000,
)

onOpenssl(
  'a certificate is replaced while calls wait and streams are open',
  async () => {
    use(makePair(folder, 'old'))
    await using service = await startService({ args })
    await logIn(service)
    const { url } = service
    const panel = /admin on (\S+)/.exec(service.stdout())![1]!
    const polls = Array.from({ length: 50 }, (_, nth) =>
      service.call('recv', { consumer: `reader-${nth}`, timeout: 40 }),
    )
    const open = (address: string) => fetch(address, { headers: { accept: 'text/event-stream' }, tls })
    const streams = await Promise.all([
      open(`${url}/events`),
      open(`${url}/events`),
      open(`${panel}/api/events`),
    ])
    const seen = streams.map(watch)
    const mcp = await Promise.all(Array.from({ length: 5 }, () => openMcp(url)))

    let calls = 0
    const ending = new AbortController()
    const caller = async () => {
      while (!ending.signal.aborted) {
        // On a machine that stands still, a call may meet the very moment. Clients then make it again.
        const answer = await until('a call is answered', 10_000, () =>
          service.call('sessions').catch(({ code }) => {
            expect(code).toMatch(/^ECONN(REFUSED|RESET)$/)
            return undefined
          }),
        )
        expect(answer.status).toBe(200)
        calls++
      }
    }
    const callers = [caller(), caller()]
    use(makePair(folder, 'new'))
    await until(
      'new connections get the new certificate',
      20_000,
      async () => (await nameAt(url).catch(() => '')) === 'new.test',
      service.log,
    )
    await until('the panel too', 20_000, async () => (await nameAt(panel).catch(() => '')) === 'new.test')
    await until('the service wrote it down', 20_000, async () => (await run(service, ['health'])).code === 0)
    const before = calls
    await until('calls go on', 20_000, () => calls > before + 10)
    ending.abort()
    await Promise.all(callers)

    for (const one of mcp) expect(await one.list()).toContain('"tools"')
    expect([...seen, ...mcp.map(one => one.stream)].map(one => one.ended)).toEqual(Array(8).fill(false))
    await service.phone('say', { text: 'after the replacement' })
    for (const { status, body } of await Promise.all(polls))
      expect([status, body[0]?.text]).toEqual([200, 'after the replacement'])
    await until('the streams tell it', 20_000, () =>
      seen.slice(0, 2).every(one => one.text.includes('after the replacement')),
    )
    expect(service.log()).not.toContain('ERROR')
  },
  60_000,
)
