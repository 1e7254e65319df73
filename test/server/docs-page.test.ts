/** The buttons of the docs page, as a newcomer presses them. More of the page is in docs-page.long.test.ts. */
import { describe, expect, test } from 'bun:test'
import type { BrowserContext, Page } from 'playwright-core'
import { exampleReceived } from '../../src/operations/example-values.ts'
import { tools, verbs } from '../../src/operations/tools.ts'
import { hasBrowser, sharedBrowser } from '../support/browser.ts'
import { serveHere } from '../support/command.ts'
import { folderOfTest } from '../support/folder.ts'
import { startRest } from '../support/rest.ts'
import { closeTool, linkOf, listOf, openTool, type Pressed, pressSend, typeToken } from './docs-tools.ts'

const token = 'a-token-that-nobody-guesses-4711'
/** The tools of the first test. Each window that is opened makes the page slower, so the second presses the others. */
const first: string[] = [verbs.login.name, verbs.recv.name, verbs.send.name]

describe.skipIf(!hasBrowser)('the docs page', () => {
  /** Opens a window of the browser, which ends with the test. */
  async function openWindow(): Promise<BrowserContext & AsyncDisposable> {
    const { browser } = await sharedBrowser()
    const context = await browser.newContext({
      locale: 'en',
      viewport: { width: 1440, height: 900 },
      reducedMotion: 'reduce',
    })
    // The page is 4 MB of program, and the machine may have other work.
    context.setDefaultTimeout(100_000)
    return Object.assign(context, { [Symbol.asyncDispose]: () => context.close() })
  }

  async function open(context: BrowserContext, url: string): Promise<Page> {
    const page = await context.newPage()
    await page.goto(url)
    return page
  }

  test('log in, read and answer by clicks alone', async () => {
    const home = folderOfTest()
    await using service = await serveHere(`${home}/data`, { home }, '--pace', 'off')
    await using context = await openWindow()
    const page = await open(context, `${service.url}/docs`)
    const phone = await open(context, `${service.phoneUrl}/phone`)

    // The nine tools are there to press, and what belongs to other subjects is folded.
    for (const tool of tools) await linkOf(page, tool).waitFor()
    const links = await listOf(page).getByRole('link', { name: 'HTTP Method' }).all()
    expect(links.length).toBe(tools.length)

    await openTool(page, verbs.login)
    expect(await pressSend(page)).toMatchObject({ status: 200, body: { status: 'waiting' } })
    await page.getByRole('img', { name: 'QR code of the login' }).waitFor()
    await phone.getByRole('button', { name: 'Scan and agree' }).click()
    let login: Pressed
    do login = await pressSend(page)
    while (['waiting', 'scaned'].includes(login.body.status))
    expect(login.body).toMatchObject({ status: 'confirmed', session: 'default' })
    await closeTool(page)

    await phone.getByRole('textbox', { name: 'Message to the bot' }).fill('Hello bot')
    await phone.getByRole('button', { name: 'Send', exact: true }).click()
    await openTool(page, verbs.recv)
    const read = await pressSend(page)
    expect(read).toMatchObject({ status: 200, body: [{ text: 'Hello bot' }] })
    await closeTool(page)

    // The example names who wrote.
    await page.getByText(read.body[0].from_user).first().waitFor()
    await openTool(page, verbs.send)
    expect(await pressSend(page)).toMatchObject({ status: 200, body: { status: 'accepted' } })
    await closeTool(page)
    await phone.locator('.bubble').getByText('Hello!').waitFor()
  }, 600_000)

  test('with a token: without it no header is sent, and with it the other buttons are answered', async () => {
    await using rest = await startRest({ token })
    rest.gateway.log.push(exampleReceived)
    await using context = await openWindow()
    const page = await open(context, `${rest.url}/docs`)
    await openTool(page, tools[0]!)
    expect(await pressSend(page)).toMatchObject({ status: 401, authorization: undefined })
    await closeTool(page)
    await typeToken(page, token)
    for (const tool of tools.filter(tool => !first.includes(tool.name))) {
      await openTool(page, tool)
      const { status, authorization } = await pressSend(page)
      await closeTool(page)
      expect(authorization).toBe(`Bearer ${token}`)
      expect([tool.name, status]).toEqual([tool.name, tool.name === 'logout' ? 404 : 200])
    }
  }, 600_000)
})
