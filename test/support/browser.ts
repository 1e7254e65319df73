/** Chromium, and what it shall see of the panel's pages. */
import { existsSync } from 'node:fs'
import { type Browser, chromium, type Page } from 'playwright-core'

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
      ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
    ],
  })
