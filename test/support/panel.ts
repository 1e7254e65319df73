/**
 * The admin panel as users have it: a gateway, the simulated WeChat, the panel on its own socket, and a
 * browser. The panel is that of `dist/panel`, which `./scripts/test` builds if a source is newer.
 */
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { BrowserContextOptions, Page } from 'playwright-core'
import { panelFolder } from '../../scripts/panel.ts'
import { silentLog } from '../../src/platform/log.ts'
import { serve } from '../../src/platform/serve.ts'
import { createAdminApp } from '../../src/server/admin.ts'
import { sharedBrowser, watch } from './browser.ts'
import { type TestGateway, type TestGatewayOptions, withGateway } from './gateway.ts'
import { freePort } from './port.ts'

interface PageOptions extends BrowserContextOptions {
  /** Path to open; default '/'. */
  path?: string
  /** Timers of its pages between 1 s and this many ms fire immediately. */
  hastens?: number
}

export interface TestPanel extends TestGateway {
  /** URL of the panel, `http://127.0.0.1:…`. */
  readonly url: string
  /**
   * Opens a page in a context without other open pages: cookies, storage and language are separate.
   * Default: English, light theme, 1280 × 800.
   */
  open(options?: PageOptions): Promise<Page>
  /**
   * Closes the panel's socket and all its connections.
   *
   * @returns opens it again on the same port
   */
  silence(): Promise<() => Promise<void>>
  /** Returns the path of a link that signs in once. */
  signInLink(): Promise<string>
  /** What no page may cause: errors, console errors, requests to other hosts. */
  readonly complaints: string[]
}

export interface TestPanelOptions extends TestGatewayOptions {
  /** Token for signing in; default: no sign-in. */
  token?: string
  /** The address of the REST service beside it. */
  rest?: string
  /** Additional files of the panel by path, such as another language. */
  files?: Readonly<Record<string, string>>
}

/** Starts the panel of a gateway; default: with one connected session. */
export async function withPanel(options: TestPanelOptions = {}): Promise<TestPanel> {
  await using building = new AsyncDisposableStack()
  let folder = panelFolder
  if (options.files) {
    const own = await mkdtemp(join(tmpdir(), 'svc-panel-'))
    building.defer(() => rm(own, { recursive: true, force: true }))
    await cp(folder, own, { recursive: true })
    for (const [name, text] of Object.entries(options.files)) await writeFile(join(own, name), text)
    folder = own
  }
  const test = building.use(await withGateway(options))
  const { gateway, sandbox, clock, dir } = test
  const app = createAdminApp({
    gateway,
    clock,
    log: silentLog,
    version: '0.0.0',
    folders: [folder],
    links: {
      sandbox_phone: `${sandbox.url}/phone`,
      ...(options.rest !== undefined && { rest_url: options.rest }),
    },
    config: {
      host: '127.0.0.1',
      token: options.token,
      allowHosts: [],
      maxUploadBytes: 64_000_000,
      basePath: dir,
      mediaRoot: test.mediaRoot,
      storeMaxAgeDays: 30,
      storeMaxCount: 100_000,
    },
  })
  const listen = (port: number) =>
    serve({ hostname: '127.0.0.1', port, fetch: (request, peer) => app.fetch(request, peer) })
  // A fixed port, to open it again after `silence`.
  let server = await listen(freePort())
  building.defer(async () => {
    app.beginShutdown()
    await server.stop(500)
  })
  const { url, port } = server
  const complaints: string[] = []
  const backs: (() => Promise<void>)[] = []
  building.defer(async () => {
    for (const giveBack of backs) await giveBack()
  })
  const stack = building.move()

  return {
    ...test,
    url,
    complaints,
    signInLink: async () => (await app.createSignInLink())!,
    async silence() {
      await server.stop(0)
      return async () => {
        server = await listen(port)
      }
    },
    async open({ path = '/', hastens, ...options } = {}) {
      const { contexts } = await sharedBrowser()
      const { page, giveBack } = await contexts.open(options)
      backs.push(() => giveBack(`${url}/icon.svg`))
      watch(page, url, complaints)
      if (hastens !== undefined) await page.addInitScript(hasten, hastens)
      await page.goto(`${url}${path}`)
      return page
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  }
}

/** Runs in a page: makes its long timers fire immediately. */
function hasten(longestMs: number): void {
  const begin = window.setTimeout
  const soon = (work: TimerHandler, ms = 0) => begin(work, ms >= 1000 && ms <= longestMs ? 0 : ms)
  window.setTimeout = soon as typeof setTimeout
}

/** Sends a message from a session's user, and waits until it is stored. */
export async function write(panel: TestPanel, text: string, session = 'default'): Promise<void> {
  const bot = panel.bots.get(session)!
  await panel.sandbox.say(text, { to: bot.bot_id, from: bot.user_id })
  await panel.until(`${text} is stored`, async () =>
    (await panel.gateway.history.page({ limit: 1, offset: 0, text_contains: text })).messages.at(0),
  )
}

/** Returns the paths of all pages, with one conversation. */
export const pagesWith = (chat: string): string[] => [
  '/',
  '/conversations',
  chat,
  '/approvals',
  '/sessions',
  '/agents',
  '/keys',
  '/audit',
  '/webhooks',
  '/settings',
]
