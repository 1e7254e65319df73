/** Chromium, and what it shall see of the panel's pages. */
import { existsSync } from 'node:fs'
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
} from 'playwright-core'

const chromiumPath = '/usr/bin/chromium'

/** Whether there is a browser to try the panel in. */
export const hasBrowser: boolean = existsSync(chromiumPath)
if (!hasBrowser) console.warn(`skipped: the panel's pages, since ${chromiumPath} is missing`)

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
export const launchBrowser = (...args: string[]): Promise<Browser> =>
  chromium.launch({
    executablePath: chromiumPath,
    args: [
      ...args,
      ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
      // Fewer processes: to start one takes longer than to show a page in it.
      ...['--process-per-site', '--in-process-gpu'],
      ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
    ],
  })

export interface Contexts {
  /**
   * A page in a context that no other page is in.
   *
   * @returns the page, and how to give its context back: `stays` is a small page of the same host
   */
  open(options: BrowserContextOptions): Promise<{ page: Page; giveBack(stays: string): Promise<void> }>
}

interface Kept {
  context: BrowserContext
  /** While it is open, so is the process that shows the pages of its host. */
  stays?: Page
}

/**
 * The contexts of a browser, which are used again, each by one page at a time: a new one starts a process, which takes
 * longer than all else that opens a page. What they keep by origin is apart where the origins are, also by the port alone;
 * cookies and permissions are taken away. One whose page had its clock set is not used again.
 */
export function contextsOf(browser: Browser): Contexts {
  const idle = new Map<string, Kept[]>()
  return {
    async open({ viewport, colorScheme = 'light', ...options }) {
      const wanted: BrowserContextOptions = { locale: 'en', ...options }
      const key = JSON.stringify(wanted)
      const alike = idle.get(key) ?? []
      idle.set(key, alike)
      const kept: Kept = alike.pop() ?? { context: await browser.newContext(wanted) }
      const { context } = kept
      await context.grantPermissions([...(wanted.permissions ?? [])])
      const page = await context.newPage()
      await page.setViewportSize(viewport ?? { width: 1280, height: 800 })
      await page.emulateMedia({ colorScheme })
      let isAsNew = true
      // What sets it sets it for all pages of the context.
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
            // One of a kind is enough for most: tests run one after the other.
            if (!isAsNew || alike.length > 0) return await context.close()
            if (!kept.stays) {
              kept.stays = await context.newPage()
              await kept.stays.goto(stays)
            }
            await Promise.all(context.pages().map(one => one !== kept.stays && one.close()))
            await Promise.all([context.clearCookies(), context.clearPermissions()])
            alike.push(kept)
          } catch {
            // The panel is silent, say.
            await context.close()
          }
        },
      }
    },
  }
}
