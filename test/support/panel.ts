/**
 * The admin panel as a person has it: a gateway, the simulated WeChat, the panel on a socket of its own, and a browser.
 * The tests of a file share the browser, its contexts one after the other, and one build of the panel.
 */
import { afterAll } from 'bun:test'
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { buildPanel } from '../../scripts/panel.ts'
import { silentLog } from '../../src/platform/log.ts'
import { serve } from '../../src/platform/serve.ts'
import { createAdminApp } from '../../src/server/admin.ts'
import { type Contexts, contextsOf, launchBrowser, watch } from './browser.ts'
import { type TestGateway, type TestGatewayOptions, withGateway } from './gateway.ts'
import { freePort } from './port.ts'

export interface PageOptions extends BrowserContextOptions {
  /** Opened at once; '/' by default. */
  path?: string
  /** What its pages would begin after 1 s, or longer, up to so many ms, they begin at once. */
  hastens?: number
}

export interface TestPanel extends TestGateway {
  /** `http://127.0.0.1:…` of the panel. */
  readonly url: string
  /**
   * A page in a context that no other open page is in: cookies, storage and language are apart from the others'.
   * English, light, 1280 × 800 by default.
   */
  open(options?: PageOptions): Promise<Page>
  /** The panel's socket closes and all that hangs on it. @returns how to open it again, on the same port */
  silence(): Promise<() => Promise<void>>
  /** What no page may do: errors, console errors, requests to anybody else. */
  readonly complaints: string[]
}

export interface TestPanelOptions extends TestGatewayOptions {
  /** Where people must sign in. */
  token?: string
  /** More files of the panel, by path: another language, say. */
  files?: Readonly<Record<string, string>>
}

/** The panel of a gateway with one connected session, unless `sessions` says otherwise. */
export async function withPanel(options: TestPanelOptions = {}): Promise<TestPanel> {
  await using building = new AsyncDisposableStack()
  let folder = await panelOfFile()
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
    links: { sandbox_phone: `${sandbox.url}/phone` },
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
  // It is to have the same port after a silence.
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
    async silence() {
      await server.stop(0)
      return async () => {
        server = await listen(port)
      }
    },
    async open({ path = '/', hastens, ...options } = {}) {
      await browserOfFile()
      const { page, giveBack } = await contexts!.open(options)
      backs.push(() => giveBack(`${url}/icon.svg`))
      watch(page, url, complaints)
      if (hastens !== undefined) await page.addInitScript(hasten, hastens)
      await page.goto(`${url}${path}`)
      return page
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  }
}

/** In a page. */
function hasten(longestMs: number): void {
  const begin = window.setTimeout
  const soon = (work: TimerHandler, ms = 0) => begin(work, ms >= 1000 && ms <= longestMs ? 0 : ms)
  window.setTimeout = soon as typeof setTimeout
}

/** A user writes to a session, and it is stored. */
export async function write(panel: TestPanel, text: string, session = 'default'): Promise<void> {
  const bot = panel.bots.get(session)!
  await panel.sandbox.say(text, { to: bot.bot_id, from: bot.user_id })
  await panel.until(`${text} is stored`, async () =>
    (await panel.gateway.history.page({ limit: 1, offset: 0, text_contains: text })).messages.at(0),
  )
}

let shared = new AsyncDisposableStack()
let browser: Promise<Browser> | undefined
let contexts: Contexts | undefined
let panel: Promise<string> | undefined
// Of several files in one process the first alone says this; the browser of the last one goes with the process.
afterAll(async () => {
  const before = shared
  shared = new AsyncDisposableStack()
  browser = undefined
  contexts = undefined
  panel = undefined
  await before.disposeAsync()
})

/** Closed after the last test of the file. */
export function browserOfFile(): Promise<Browser> {
  browser ??= launchBrowser().then(launched => {
    contexts = contextsOf(launched)
    return shared.use(launched)
  })
  return browser
}

/** Where the panel lies, built from the sources; `./scripts/test` has it built, and names it in SVC_TEST_PANEL. */
function panelOfFile(): Promise<string> {
  panel ??= process.env.SVC_TEST_PANEL ? Promise.resolve(process.env.SVC_TEST_PANEL) : build()
  return panel
}
async function build(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-panel-'))
  shared.defer(() => rm(folder, { recursive: true, force: true }))
  await buildPanel(join(folder, 'panel'))
  return join(folder, 'panel')
}
