/** The second secret of a signed-in browser: what the cookie reaches, the secret does not. */
import { describe, expect, onTestFinished, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import type { BrowserContext, Page } from 'playwright-core'
import en from '../../locales/en.json' with { type: 'json' }
import { serve } from '../../src/platform/serve.ts'
import { hasBrowser } from '../support/browser.ts'
import { type TestPanel, withPanel, write } from '../support/panel.ts'

const token = 'a token of the test, long enough'
const field = (page: Page) => page.getByRole('textbox', { name: /Token/i })
const isIn = (page: Page) => page.getByRole('link', { name: 'Conversations' }).first().waitFor()
const secretsOf = (page: Page) =>
  page.evaluate(() => Object.keys(localStorage).filter(key => key.startsWith('svc.secret')))

async function signIn(page: Page): Promise<void> {
  await field(page).fill(token)
  await page.keyboard.press('Enter')
  await isIn(page)
}

/** Opens one more tab of the same browser. */
async function tabOf(context: BrowserContext, url: string): Promise<Page> {
  const page = await context.newPage()
  await page.goto(url)
  return page
}

const chatOf = (panel: TestPanel) => {
  const { user_id } = panel.bots.get('default')!
  return `/conversations/default/${encodeURIComponent(user_id)}`
}

describe.skipIf(!hasBrowser)('a signed-in panel', () => {
  test('lives through a reload and more tabs; files, exports, live changes and the documents work', async () => {
    await using panel = await withPanel({ token })
    await write(panel, 'hello')
    const page = await panel.open()
    await signIn(page)
    await page.reload()
    await isIn(page)
    const tab = await tabOf(page.context(), `${panel.url}${chatOf(panel)}`)
    await tab.getByText('hello').first().waitFor()
    await write(panel, 'and live')
    await tab.getByText('and live').first().waitFor()
    const { user_id } = panel.bots.get('default')!
    await panel.send({ to: user_id, media: [{ kind: 'file', data: btoa('x'), file_name: 'plan.txt' }] })
    const saved = tab.waitForEvent('download')
    await tab.getByRole('link', { name: new RegExp(en['chat.download']) }).click()
    expect(await readFile(await (await saved).path(), 'utf8')).toBe('x')
    // A middle click opens the file in a tab, or saves it, as the answer says.
    const opened = tab.waitForEvent('download')
    await tab.getByRole('link', { name: new RegExp(en['chat.download']) }).click({ button: 'middle' })
    expect(await readFile(await (await opened).path(), 'utf8')).toBe('x')
    const answer = await tab.evaluate(async () => {
      const [, secret = ''] = Object.entries(localStorage).find(([key]) => key.startsWith('svc.secret')) ?? []
      const headers = { 'svc-panel': secret, 'content-type': 'application/json' }
      const given = await fetch('/api/pass', { method: 'POST', headers, body: '{}' })
      const statuses = []
      for (const pass of [given.headers.get('svc-pass'), 'x'])
        statuses.push((await fetch(`/api/export?format=jsonl&pass=${pass}`)).status)
      return statuses
    })
    expect(answer).toEqual([200, 401])
    // Signing out in one tab ends the other.
    await page.goto(`${panel.url}/settings`)
    await page.getByRole('button', { name: 'Sign out' }).click()
    await field(page).waitFor()
    expect(await secretsOf(page)).toEqual([])
    await tab.reload()
    await field(tab).waitFor()
  })

  test('by a link: the address is clean at once, and the secret is of this origin alone', async () => {
    await using panel = await withPanel({ token })
    const heard: string[] = []
    const other = await serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: request => {
        heard.push(JSON.stringify([...request.headers]), request.url)
        return new Response('<!doctype html>', { headers: { 'content-type': 'text/html' } })
      },
    })
    onTestFinished(() => other.stop(0))
    const page = await panel.open({ path: await panel.signInLink() })
    await isIn(page)
    expect(page.url()).toBe(`${panel.url}/`)
    expect(await secretsOf(page)).toEqual(['svc.secret'])
    const tab = await tabOf(page.context(), other.url)
    expect(await secretsOf(tab)).toEqual([])
    // The other server got the cookie, and cannot use it.
    const cookie = /svc_panel_\d+=[\w.-]+/.exec(heard.join())![0]
    const replayed = await fetch(`${panel.url}/api/call/list_accounts`, {
      method: 'POST',
      headers: { cookie },
    })
    expect(replayed.status).toBe(401)
    expect(heard.join()).not.toContain('svc-panel')
  })

  test('beside another service on the same host neither ends the sign-in of the other', async () => {
    await using one = await withPanel({ token })
    await using two = await withPanel({ token })
    const page = await one.open()
    await signIn(page)
    const tab = await tabOf(page.context(), two.url)
    await signIn(tab)
    for (const shown of [page, tab]) {
      await shown.reload()
      await isIn(shown)
    }
  })

  test('a browser that lost the secret asks for the token again', async () => {
    await using panel = await withPanel({ token })
    const page = await panel.open()
    await signIn(page)
    await page.evaluate(() => localStorage.clear())
    await page.reload()
    await signIn(page)
  })

  test('the tab that makes the first key stays in, and so do others of its browser', async () => {
    await using panel = await withPanel()
    const page = await panel.open({ path: '/keys' })
    const tab = await tabOf(page.context(), panel.url)
    await isIn(tab)
    await page.getByRole('main').getByRole('button', { name: en['access.add'] }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('textbox', { name: en['access.name'] }).fill('first')
    // What the page asks while the answer is on its way is refused, and asked again with the sign-in that it brings.
    await page.route('**/api/call/add_key', async route => {
      const response = await route.fetch()
      const refused = page.waitForResponse(one => one.status() === 401 && one.url().includes('/api/call/'))
      await refused
      await route.fulfill({ response })
    })
    await dialog.getByRole('button', { name: en['access.add'] }).click()
    await page.getByRole('button', { name: en['access.secret_kept'] }).click()
    for (const shown of [page, tab]) {
      await shown.reload()
      await isIn(shown)
    }
    expect(await secretsOf(tab)).toEqual(['svc.secret'])
  })
})
