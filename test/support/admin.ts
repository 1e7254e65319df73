/**
 * The panel's server on a real port, over a real gateway and the simulated WeChat. Its pages are a few
 * files of the test.
 */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Gateway } from '../../src/gateway/gateway-api.ts'
import type { Clock } from '../../src/platform/clock.ts'
import { createLog } from '../../src/platform/log.ts'
import { type RunningServer, serve } from '../../src/platform/serve.ts'
import { type AdminApp, createAdminApp } from '../../src/server/admin.ts'
import { withoutPrefix } from '../../src/server/behind-proxy.ts'
import { type TestGateway, type TestGatewayOptions, withGateway } from './gateway.ts'
import type { Json } from './rest.ts'

export interface AdminOptions extends TestGatewayOptions {
  host?: string
  token?: string
  allowHosts?: string[]
  trustedProxies?: string[]
  /** Clock of the panel's server; default: the gateway's clock. */
  doorClock?: Clock
  /** Wraps the gateway that the panel's server uses. */
  between?(gateway: Gateway): Gateway
}

export interface Admin extends AsyncDisposable {
  readonly test: TestGateway
  readonly app: AdminApp
  readonly server: RunningServer
  readonly url: string
  /** Folder of the page's files. `secret.txt` is beside it and must not be served. */
  readonly folder: string
  /** Sends a request with a JSON body to 127.0.0.1, whatever address the server is bound to. */
  call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>
  /** Creates another app over the same gateway, as after a restart. */
  again(options?: { token?: string; doorClock?: Clock }): AdminApp
}

interface Answer {
  status: number
  headers: Headers
  body: Json
}

/** Secrets of the pages that signed in, by the name of the sign-in. */
const secrets = new Map<string, string>()

/** Returns the cookie of a sign-in. */
export function cookieOf(headers: Headers): string {
  const cookie = headers.get('set-cookie')!.split(';')[0]!
  const secret = headers.get('svc-panel') ?? headers.get('location')?.split('#svc-panel=')[1]
  if (secret) secrets.set(cookie.split('.')[1]!, secret)
  return cookie
}

/** Returns the headers that a page sends: the cookie, and the secret of its sign-in. */
export const pageHeaders = (cookie: string): { cookie: string; 'svc-panel'?: string } => {
  const secret = cookie.split('.').flatMap(part => secrets.get(part) ?? [])[0]
  return { cookie, ...(secret !== undefined && { 'svc-panel': secret }) }
}

export async function startAdmin(options: AdminOptions = {}): Promise<Admin> {
  const {
    host = '127.0.0.1',
    token,
    allowHosts = [],
    trustedProxies = [],
    doorClock,
    between,
    ...rest
  } = options
  const parent = await mkdtemp(join(tmpdir(), 'svc-admin-'))
  const folder = join(parent, 'panel')
  await mkdir(join(folder, 'assets'), { recursive: true })
  await mkdir(join(folder, 'locales'))
  for (const [name, text] of Object.entries({
    'panel/index.html':
      '<!doctype html><title>the page</title><script type="application/json" id="start"></script>',
    'panel/icon.svg': '<svg xmlns="http://www.w3.org/2000/svg"/>',
    'panel/assets/index-abc.js': 'export {}',
    'panel/locales/en.json': '{"language.name":"English"}',
    'panel/locales/zh.json': '{"language.name":"中文"}',
    'secret.txt': 'out of reach',
    'secret.json': '{"out of":"reach"}',
  }))
    await writeFile(join(parent, name), text)
  const test = await withGateway(rest)
  const open = (own: { token?: string; doorClock?: Clock }) =>
    createAdminApp({
      gateway: between?.(test.gateway) ?? test.gateway,
      config: {
        host,
        token: own.token,
        allowHosts,
        maxUploadBytes: 64_000_000,
        basePath: test.dir,
        mediaRoot: test.mediaRoot,
        storeMaxAgeDays: 30,
        storeMaxCount: 100_000,
      },
      log: createLog('DEBUG', line => void test.lines.push(line)),
      version: '1.2.3',
      folders: [folder],
      links: { sandbox_phone: `${test.sandbox.url}/phone` },
      clock: own.doorClock ?? test.clock,
    })
  const app = open({ token, doorClock })
  const server = await serve({
    hostname: host,
    port: 0,
    fetch: withoutPrefix({ host, allowHosts, trustedProxies }, (request, peer) => app.fetch(request, peer)),
  })
  const url = `http://127.0.0.1:${server.port}`
  return {
    test,
    app,
    server,
    url,
    folder,
    async call(method, path, body, headers = {}) {
      const response = await fetch(url + path, {
        method,
        redirect: 'manual',
        headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      })
      const text = await response.text()
      const isJson = response.headers.get('content-type')?.includes('json')
      return {
        status: response.status,
        headers: response.headers,
        body: isJson && text ? JSON.parse(text) : text,
      }
    },
    again: (own = {}) => open({ token, doorClock, ...own }),
    async [Symbol.asyncDispose]() {
      app.beginShutdown()
      await server.stop(0)
      await test[Symbol.asyncDispose]()
      await rm(parent, { recursive: true, force: true })
    },
  }
}
