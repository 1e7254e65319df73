/** Starts Chromium for tests of the panel's pages. */
import { existsSync } from 'node:fs'
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
} from 'playwright-core'

import { sharedPrograms } from './shared-programs.ts'

const chromiumPath = '/usr/bin/chromium'
/** Chromium's engine alone, which takes a quarter less processor time. The long tests have what people use. */
const shellPath = '/usr/lib/chromium/chromium-headless-shell'
const hasShell = existsSync(shellPath) && !Bun.main.endsWith('.long.test.ts')

/** True if Chromium is installed. */
export const hasBrowser: boolean = existsSync(chromiumPath)
if (!hasBrowser) console.warn(`skipped: the panel's pages, since ${chromiumPath} is missing`)

/**
 * Records in `complaints` what no page may cause: errors, policy violations (as console errors), requests
 * to other hosts.
 */
export function watch(page: Page, url: string, complaints: string[]): void {
  page.setDefaultTimeout(30_000)
  page.on('pageerror', error => complaints.push(String(error.stack ?? error)))
  page.on(
    'console',
    line => void (line.type() === 'error' && complaints.push(`${line.text()} ${line.location().url}`.trim())),
  )
  page.on('request', request => {
    const to = request.url()
    if (!/^(data|blob):/.test(to) && !to.startsWith(`${url}/`)) complaints.push(to)
  })
}

/** Starts Chromium without its own requests to the network. */
export const launchBrowser = (...args: string[]): Promise<Browser> => launch(chromiumPath, args)

const launch = (executablePath: string, args: readonly string[]): Promise<Browser> =>
  chromium.launch({
    executablePath,
    // It ends with this process, when the pipe between them closes.
    handleSIGHUP: false,
    handleSIGINT: false,
    handleSIGTERM: false,
    args: [
      ...args,
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      // Fewer processes: starting one takes longer than displaying a page in it.
      '--process-per-site',
      '--in-process-gpu',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  })

let shared: Promise<{ browser: Browser; contexts: Contexts }> | undefined

/** Debian's Chromium now and then crashes as it starts. A new one takes its place, also of one that crashes later. */
async function launchShared() {
  const start = () => launch(hasShell ? shellPath : chromiumPath, [])
  const browser = await start().catch(error => {
    console.warn('Chromium is started again:', error)
    return start()
  })
  browser.once('disconnected', () => {
    shared = undefined
  })
  return { browser, contexts: contextsOf(browser) }
}

/**
 * Returns the browser that all test files of this process share, and a pool of its contexts. It ends with
 * the process.
 */
export function sharedBrowser(): Promise<{ browser: Browser; contexts: Contexts }> {
  sharedPrograms.add('/chromium')
  shared ??= launchShared()
  return shared
}

export interface Contexts {
  /**
   * Opens a page in a context without other open pages.
   *
   * @returns the page, and a function that returns its context for reuse; `stays` is the URL of a small
   * page of the same host
   */
  open(options: BrowserContextOptions): Promise<{ page: Page; giveBack(stays: string): Promise<void> }>
}

interface Kept {
  context: BrowserContext
  /** Page that keeps the renderer process of its host alive. */
  stays?: Page
}

/**
 * Creates a pool of browser contexts, each for one page at a time. A new context starts a process, which
 * takes longer than the rest of opening a page. Storage is per origin, and origins differ by their port.
 * Cookies and permissions are cleared. A context is not reused after a page set its clock.
 */
function contextsOf(browser: Browser): Contexts {
  const idle = new Map<string, Kept[]>()
  return {
    async open({ viewport, colorScheme = 'light', ...options }) {
      const contextOptions: BrowserContextOptions = { locale: 'en', ...options }
      const key = JSON.stringify(contextOptions)
      const alike = idle.get(key) ?? []
      idle.set(key, alike)
      const kept: Kept = alike.pop() ?? { context: await browser.newContext(contextOptions) }
      const { context } = kept
      await context.grantPermissions([...(contextOptions.permissions ?? [])])
      const page = await context.newPage()
      await page.setViewportSize(viewport ?? { width: 1280, height: 800 })
      await page.emulateMedia({ colorScheme })
      let isAsNew = true
      // Setting the clock of a page sets it for all pages of the context.
      const { clock } = page
      Object.defineProperty(page, 'clock', {
        get() {
          isAsNew = false
          return clock
        },
      })
      return {
        page,
        async giveBack(stays) {
          try {
            // One context per kind is usually enough: tests run one after the other.
            if (!isAsNew || alike.length > 0) return await context.close()
            if (!kept.stays) {
              kept.stays = await context.newPage()
              await kept.stays.goto(stays)
            }
            await Promise.all(context.pages().map(open => open !== kept.stays && open.close()))
            await Promise.all([context.clearCookies(), context.clearPermissions()])
            alike.push(kept)
          } catch {
            // For example the panel does not answer.
            await context.close()
          }
        },
      }
    },
  }
}
