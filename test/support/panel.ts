/**
 * The admin panel as a person has it: a gateway, the pretend WeChat, the panel on a socket of its own, and a browser.
 * The panel is built from the sources once per test process.
 */
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { buildPanel } from '../../scripts/panel.ts'
import { silentLog } from '../../src/platform/log.ts'
import { serve } from '../../src/platform/serve.ts'
import { createAdminApp } from '../../src/server/admin.ts'
import { type TestGateway, type TestGatewayOptions, withGateway } from './gateway.ts'
import { freePort } from './port.ts'

const chromiumPath = '/usr/bin/chromium'

/** Whether there is a browser to try the panel in. */
export const hasBrowser: boolean = existsSync(chromiumPath)
if (!hasBrowser) console.warn(`skipped: the panel's pages, since ${chromiumPath} is missing`)

export interface PageOptions extends BrowserContextOptions {
  /** Opened at once; '/' by default. */
  path?: string
}

export interface TestPanel extends TestGateway {
  /** `http://127.0.0.1:…` of the panel. */
  readonly url: string
  /**
   * A page in a browser of its own kind: cookies, storage and language apart from the others'. English, light,
   * 1280 × 800 by default.
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
  const folder = await mkdtemp(join(tmpdir(), 'svc-panel-'))
  building.defer(() => rm(folder, { recursive: true, force: true }))
  await lay(await builtPanel(), folder)
  for (const [name, text] of Object.entries(options.files ?? {})) await writeFile(join(folder, name), text)
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
  let browser: Promise<Browser> | undefined
  building.defer(async () => void (await (await browser)?.close()))
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
    async open({ path = '/', ...context } = {}) {
      browser ??= launchBrowser()
      const page = await (await browser).newPage({
        viewport: { width: 1280, height: 800 },
        locale: 'en',
        ...context,
      })
      watch(page, url, complaints)
      await page.goto(`${url}${path}`)
      return page
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  }
}

/** Notes what no page may do: errors, what its policy forbids (the console says so), requests to anybody else. */
export function watch(page: Page, url: string, complaints: string[]): void {
  page.setDefaultTimeout(30_000)
  page.on('pageerror', error => complaints.push(String(error.stack ?? error)))
  page.on('console', line => void (line.type() === 'error' && complaints.push(line.text())))
  page.on('request', request => {
    const to = request.url()
    if (!/^(data|blob):/.test(to) && !to.startsWith(`${url}/`)) complaints.push(to)
  })
}

/** Chromium without anything that would call home. */
export const launchBrowser = (): Promise<Browser> =>
  chromium.launch({
    executablePath: chromiumPath,
    args: [
      ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
      ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
    ],
  })

type Files = ReadonlyMap<string, Uint8Array>
let built: Promise<Files> | undefined
/** The panel built from the sources, once. Kept in memory: nothing tells when the last test is over. */
function builtPanel(): Promise<Files> {
  built ??= (async () => {
    const folder = await mkdtemp(join(tmpdir(), 'svc-panel-'))
    try {
      await buildPanel(join(folder, 'panel'))
      const names = await readdir(join(folder, 'panel'), { recursive: true, withFileTypes: true })
      const paths = names.filter(name => name.isFile()).map(({ name, parentPath }) => join(parentPath, name))
      const files = paths.map(
        async path => [relative(join(folder, 'panel'), path), await readFile(path)] as const,
      )
      return new Map(await Promise.all(files))
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  })()
  // One that failed is tried again.
  built.catch(() => {
    built = undefined
  })
  return built
}

async function lay(files: Files, folder: string): Promise<void> {
  for (const [name, bytes] of files) {
    await mkdir(dirname(join(folder, name)), { recursive: true })
    await writeFile(join(folder, name), bytes)
  }
}
