/**
 * The service behind nginx, Caddy and HAProxy, each set up by what src/server/README.md shows: below a path that the proxy takes
 * off or leaves on (that of --public-url; it has to take off the panel's), and at the root of a host. `apt-get install nginx caddy haproxy` brings them.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { get } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { hasBrowser, launchBrowser, watch } from '../support/browser.ts'
import { svcProcess } from '../support/command.ts'
import { connectHttp } from '../support/mcp.ts'
import { overhear } from '../support/overheard.ts'
import { wordsOf } from '../support/panel-hand.ts'
import { freePort } from '../support/port.ts'
import { type Json, panelLinkOf, startService } from '../support/service.ts'
import { until } from '../support/until.ts'

const root = join(import.meta.dirname, '../..')
const page = await readFile(join(root, 'src/server/README.md'), 'utf8')
const token = 'a-token-that-nobody-guesses-4711'
const t = wordsOf('en')

/** The setup of a proxy as the page shows it. */
const shown = (language: string): string => {
  const found = new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'm').exec(page)?.[1]
  if (found === undefined) throw new Error(`the page shows no ${language}`)
  return found
}

/** @returns the text with a part replaced that has to be there */
const replaced = (text: string, part: string | RegExp, by: string): string => {
  const changed = text.replaceAll(part, by)
  if (changed === text) throw new Error(`there is no ${part}`)
  return changed
}

interface Proxy {
  readonly name: string
  readonly program: string | null
  /** Its setup for a port of this machine. */
  setup(text: string, port: number, folder: string): string
  /** The same with the path of --public-url left on. */
  leaving(text: string): string
  command(program: string, file: string, folder: string): string[]
}

const proxies: readonly Proxy[] = [
  {
    name: 'nginx',
    program: Bun.which('nginx', { PATH: `${process.env.PATH}:/usr/sbin` }),
    setup: (text, port, folder) => `daemon off;
pid ${folder}/pid;
error_log stderr;
events {}
http {
  access_log off;
  ${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(one => `${one}_temp_path ${folder}/${one};`).join('\n  ')}
  ${replaced(text, 'listen 80;', `listen 127.0.0.1:${port};`)}
}`,
    leaving: text => replaced(text, /(location \/svc\/ \{[^}]*proxy_pass \S+)\/;/g, '$1;'),
    command: (program, file, folder) => [program, '-p', folder, '-c', file],
  },
  {
    name: 'caddy',
    program: Bun.which('caddy'),
    setup: (text, port) =>
      `{\n\tadmin off\n\tauto_https off\n}\n${replaced(text, /^(\S+\.example\.org) \{$/gm, `http://$1:${port} {\n\tbind 127.0.0.1`)}`,
    leaving: text => replaced(text, 'handle_path /svc/', 'handle /svc/'),
    command: (program, file) => [program, 'run', '--adapter', 'caddyfile', '--config', file],
  },
  {
    name: 'haproxy',
    program: Bun.which('haproxy', { PATH: `${process.env.PATH}:/usr/sbin` }),
    setup: (text, port) => replaced(text, 'bind :80', `bind 127.0.0.1:${port}`),
    leaving: text => replaced(text, /^.*replace-path \/svc.*\n/gm, ''),
    command: (program, file) => [program, '-db', '-f', file],
  },
]

let browser: Browser
beforeAll(async () => {
  if (hasBrowser) browser = await launchBrowser('--host-resolver-rules=MAP *.example.org 127.0.0.1')
})
afterAll(() => browser?.close())

/** A service, and a proxy in front of it. */
async function start(proxy: Proxy, leaves: boolean) {
  const stack = new AsyncDisposableStack()
  try {
    const folder = await mkdtemp(join(tmpdir(), 'svc-proxies-'))
    stack.defer(() => rm(folder, { recursive: true, force: true }))
    const port = freePort()
    const base = `http://svc.example.org:${port}`
    const hosts = ['svc', 'panel'].flatMap(name => ['--allow-host', `${name}.example.org`])
    const args = ['--admin-port', '0', '--token', token, '--public-url', `${base}/svc/`, ...hosts]
    args.push('--trust-proxy', '127.0.0.1')
    const service = stack.use(await startService({ args }))
    const admin = /^admin on (\S+)$/m.exec(service.stdout())![1]!
    let text = replaced(
      shown(`${proxy.name}${proxy.name === 'caddy' ? 'file' : ''}`),
      '127.0.0.1:8000',
      new URL(service.url).host,
    )
    text = replaced(text, '127.0.0.1:8080', new URL(admin).host)
    const file = join(folder, 'setup')
    await writeFile(file, proxy.setup(leaves ? proxy.leaving(text) : text, port, folder))
    const env = { PATH: process.env.PATH ?? '', HOME: folder }
    const child = Bun.spawn(proxy.command(proxy.program!, file, folder), {
      ...{ env, cwd: folder, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' },
    })
    const said = overhear(child)
    stack.defer(async () => {
      child.kill('SIGTERM')
      await child.exited
    })
    const ask = (path: string, init: RequestInit & { headers?: Record<string, string> } = {}) =>
      fetch(`http://127.0.0.1:${port}${path}`, {
        redirect: 'manual',
        ...init,
        headers: { host: `svc.example.org:${port}`, authorization: `Bearer ${token}`, ...init.headers },
      })
    await until(
      'the proxy answers',
      30_000,
      async () => {
        if (child.exitCode !== null) throw new Error(`it ended: ${said.stdout}${said.stderr}`)
        return await ask('/svc/healthz').then(
          answer => answer.ok,
          () => false,
        )
      },
      () => said.stderr,
    )
    const call = async (tool: string, input: object): Promise<Json> => {
      const answer = await ask(`/svc/tools/default/${tool}`, {
        ...{ method: 'POST', body: JSON.stringify(input) },
        headers: { 'content-type': 'application/json' },
      })
      return { status: answer.status, body: await answer.json() }
    }
    return { folder, port, base, service, ask, call, [Symbol.asyncDispose]: () => stack.disposeAsync() }
  } catch (error) {
    await stack.disposeAsync()
    throw error
  }
}
type Started = Awaited<ReturnType<typeof start>>

async function logIn({ service, call }: Started): Promise<void> {
  const { body } = await call('login', {})
  await service.phone('scan', { confirm: true, qrcode: body.qr_url })
  await until(
    'it is logged in',
    30_000,
    async () => (await call('login', { timeout: 5 })).body.status === 'confirmed',
  )
}

/** Waits beside all else: for 45 of the 60 seconds that were asked for. */
async function longWaits({ call, base, port }: Started): Promise<void> {
  const startedAt = performance.now()
  const none = { after: 1_000_000, timeout: 60 }
  await using client = await connectHttp(`http://127.0.0.1:${port}/svc/mcp`, {
    kind: 'sdk1',
    headers: { host: new URL(base).host, authorization: `Bearer ${token}` },
  })
  const [rest, mcp] = await Promise.all([call('recv', none), client.value('recv', none)])
  expect([rest.status, rest.body, mcp]).toEqual([200, [], []])
  expect(performance.now() - startedAt).toBeGreaterThan(40_000)
}

/** The log names the address from which the proxy was called, whatever the caller sends. */
async function callerAddress({ service, base, port }: Started): Promise<void> {
  const headers = { host: new URL(base).host, 'x-forwarded-for': '6.6.6.6', forwarded: 'for=6.6.6.6' }
  const asked = get({ host: '127.0.0.1', localAddress: '127.0.0.2', port, path: '/svc/tools', headers })
  const [answer] = await once(asked, 'response')
  answer.resume()
  expect(answer.statusCode).toBe(401)
  await until('it is logged', 10_000, () => service.log().includes('address=127.0.0.2'))
  expect(service.log()).not.toContain('6.6.6.6')
}

/** A picture that a user sends, by the link in the delivery of a webhook. */
async function webhookLink({ service, ask, base, folder }: Started): Promise<void> {
  const delivered: Json[] = []
  using receiver = Bun.serve({
    ...{ hostname: '127.0.0.1', port: 0 },
    async fetch(request) {
      delivered.push(await request.json())
      return new Response()
    },
  })
  const added = await svcProcess(
    ['webhook', 'add', `${receiver.url}`, '--allow-private', '-d', service.dir, '--sandbox'],
    { home: folder },
  )
  expect(added.status).toBe(0)
  const bytes = await readFile(join(root, 'admin/screenshots/qr-code.webp'))
  const sent = await fetch(`${service.phoneUrl}/phone/media?kind=file&name=a.webp`, {
    method: 'POST',
    body: bytes,
  })
  expect(sent.status).toBe(200)
  const url = await until(
    'it is delivered',
    30_000,
    () => delivered.flatMap(({ data }) => data?.items?.[0]?.url ?? [])[0] as string | undefined,
  )
  expect(url).toStartWith(`${base}/svc/shared/`)
  const got = await ask(url.slice(base.length), { headers: { authorization: '' } })
  expect([got.status, Buffer.compare(await got.bytes(), bytes)]).toEqual([200, 0])
}

/** In a browser: the docs, the panel from its sign-in link on, and the phone. */
async function browse({ service, base, port }: Started): Promise<void> {
  const context = await browser.newContext({ locale: 'en' })
  try {
    const complaints: string[] = []
    const opened = async (): Promise<Page> => {
      const tab = await context.newPage()
      watch(tab, base, complaints)
      return tab
    }
    const docs = await opened()
    await docs.goto(`${base}/svc/docs`)
    await docs.getByRole('heading', { name: 'Receive messages' }).first().waitFor()
    const panel = await opened()
    const link = await panelLinkOf(service.dir)
    await panel.goto(`${base}/panel${link}`)
    expect(new URL(panel.url()).pathname).toBe('/panel/')
    await panel.getByRole('heading', { name: 'default' }).waitFor()
    const [cookie] = await context.cookies(`${base}/panel/`)
    expect(cookie).toMatchObject({ path: '/panel', name: expect.stringMatching(/^svc_panel_/) })
    await panel
      .getByRole('navigation')
      .getByRole('link', { name: t('nav.conversations') })
      .click()
    await service.phone('say', { text: 'Is the blue one in stock?' })
    await panel.getByRole('link').filter({ hasText: 'Is the blue one' }).click()
    const log = panel.getByRole('log')
    await log.getByText('Is the blue one').waitFor()
    await panel.getByRole('textbox', { name: t('composer.write'), exact: true }).fill('Yes, it is.')
    await panel.keyboard.press('Enter')
    await log.getByText(t('delivery.accepted'), { exact: true }).waitFor()
    // A deep link by itself, and what happens then comes by itself.
    expect(new URL(panel.url()).pathname).toStartWith('/panel/conversations/default/')
    await panel.reload()
    await log.getByText('Yes, it is.').waitFor()
    await service.phone('say', { text: 'Then I take two.' })
    await log.getByText('Then I take two.').waitFor()
    await panel.goto(`${base}/panel/settings`)
    // The texts of another language are asked for when it is chosen.
    await panel.getByRole('combobox', { name: t('settings.language') }).selectOption('zh')
    await panel.getByRole('heading', { name: wordsOf('zh')('nav.settings'), level: 1 }).waitFor()
    const phone = await opened()
    await phone.goto(`${base}/panel/phone`)
    await phone.getByText('Then I take two.').first().waitFor()
    // The same panel at the root of a host: that sign-in is not one there.
    const own = await context.newPage()
    await own.goto(`http://panel.example.org:${port}/sessions`)
    await own.locator('#token').fill(token)
    await own.keyboard.press('Enter')
    await own.getByRole('heading', { name: t('nav.sessions'), level: 1 }).waitFor()
    expect((await context.cookies(`http://panel.example.org:${port}/`))[0]).toMatchObject({
      name: expect.stringMatching(/^svc_panel(_\d+)?$/),
      path: '/',
    })
    // Of plain HTTP, which this test speaks.
    expect(complaints.filter(one => !one.includes('untrustworthy'))).toEqual([])
  } finally {
    await context.close()
  }
}

for (const proxy of proxies)
  describe.skipIf(!proxy.program)(`${proxy.name} (skipped where it is not installed)`, () => {
    for (const leaves of [false, true])
      test(`a path that it ${leaves ? 'leaves on' : 'takes off'}`, async () => {
        await using started = await start(proxy, leaves)
        await logIn(started)
        const waits = longWaits(started)
        waits.catch(() => {})
        await callerAddress(started)
        await webhookLink(started)
        if (hasBrowser) await browse(started)
        await waits
      }, 180_000)
  })

test.skipIf(!proxies[0]!.program || !hasBrowser)(
  'a Host without its port: the panel says what is wrong (skipped without nginx or a browser)',
  async () => {
    const [nginx] = proxies
    const dropping: Proxy = { ...nginx!, leaving: text => replaced(text, '$http_host', '$host') }
    await using started = await start(dropping, true)
    const tab = await (await browser.newContext({ locale: 'en' })).newPage()
    await tab.goto(`${started.base}/panel/`)
    await tab.getByText(`--allow-host svc.example.org:${started.port}`).waitFor()
    await tab.context().close()
  },
  60_000,
)
