import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { toString as drawn } from 'qrcode'
import { contentSha512, fetchFromNpm, readProgram, sha512 } from '../../scripts/scalar.ts'
import type { Message } from '../../src/model/message.ts'
import { exampleReceived, exampleUser } from '../../src/operations/example-values.ts'
import { tools, verbs } from '../../src/operations/tools.ts'
import { mark } from '../../src/server/docs.ts'
import { violations } from '../support/axe.ts'
import { hasBrowser, launchBrowser, watch } from '../support/browser.ts'
import { hasOpenssl, makePair } from '../support/certificate.ts'
import { serveHere } from '../support/command.ts'
import { folderOfTest } from '../support/folder.ts'
import { type Rest, startRest } from '../support/rest.ts'
import { until } from '../support/until.ts'
import { closeTool, openTool, pressSend, typeToken } from './docs-tools.ts'

const title = 'Log a session in by QR code'
const token = 'a-token-that-nobody-guesses-4711'
const from_user = 'oWhoWroteLast@im.wechat'
const wroteLast: Message[] = [
  { ...exampleReceived, id: 43, message_id: '777', items: [{ kind: 'FILE', has_media: true }] },
  { ...exampleReceived, id: 44, message_id: '778', from_user },
]

describe.skipIf(!hasBrowser)('the docs page in a browser', () => {
  const complaints: string[] = []
  let rest: Rest
  let browser: Browser
  let page: Page
  beforeAll(async () => {
    rest = await startRest({ token })
    const qr_text = await drawn('https://example.org/?a=1', { type: 'utf8' })
    const status = { status: 'waiting' as const, session: 'default', message: 'Scan it.', qr_text }
    Object.assign(rest.gateway.logins, { login: async () => status })
    browser = await launchBrowser()
    page = await browser.newPage({ viewport: { width: 1440, height: 900 }, reducedMotion: 'reduce' })
    watch(page, rest.url, complaints)
    await page.goto(`${rest.url}/docs#tag/tools/POST/tools/default/login`)
    await page.getByRole('heading', { name: title }).waitFor()
  })
  afterAll(async () => {
    await browser?.close()
    await rest?.[Symbol.asyncDispose]()
    expect(complaints).toEqual([])
  })

  const operation = (name: string, on = page) =>
    on.locator('section', { has: on.getByRole('heading', { name, exact: true }) }).last()

  const openerOf = (path: string, on = page) =>
    on.getByRole('button', { name: new RegExp(`Test Request.*${path}`) })
  /**
   * Opens the window of a request on a page that has just come. By a key: until all of it is built, it scrolls back to the
   * heading that its address names, and the press and the release of a click may meet two different things.
   */
  const tryOut = (path: string, on = page) => openerOf(path, on).press('Enter')

  /** In both themes of the system, which the page follows. */
  async function checked(): Promise<void> {
    for (const [colorScheme, rules] of [
      ['dark'],
      ['light', ['color-contrast', 'link-in-text-block']],
    ] as const) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
      await page.locator(`body.${colorScheme}-mode`).waitFor()
      let found: string[] = []
      // Colours that are on their way are not those of the theme.
      const isClean = async () => {
        found = await violations(page, rules)
        return found.length === 0
      }
      await until(`nothing found, ${colorScheme}`, 60_000, isClean, () => found.join('\n'))
    }
  }

  test('examples in three languages, of the errors one at a time, nothing that keeps anybody out', async () => {
    await operation(title).getByRole('button', { name: /curl/i }).first().click()
    const offered = await page.getByRole('option').allTextContents()
    expect(offered.map(text => text.trim()).sort()).toEqual(['Curl', 'Fetch', 'Requests'])
    await page.keyboard.press('Escape')
    await checked()
  })

  test('what it cannot know, as who wrote last behind a token, is plainly to be replaced', async () => {
    const open = await browser.newPage()
    watch(open, rest.url, complaints)
    for (const [{ name, title }, shown] of [
      [verbs.send, 'USER_ID'],
      [verbs.download, 'MESSAGE_ID'],
      [verbs.logout, 'SESSION_NAME'],
      [verbs.setDefault, 'SESSION_NAME'],
      [verbs.renameSession, 'SESSION_NAME'],
    ] as const) {
      await open.goto(`${rest.url}/docs#tag/tools/POST/tools/default/${name}`)
      await operation(title, open).getByText(`"${shown}"`).first().waitFor()
      expect(await open.getByText(exampleUser).count()).toBe(0)
    }
    // A press cancels nothing that waits.
    await open.goto(`${rest.url}/docs#tag/messages/DELETE/outbox/{id}`)
    await tryOut('delete /outbox', open)
    await open.getByRole('dialog').getByText('OUTBOX_ID').first().waitFor()
    await open.close()
  })

  test('a call can be tried with the token, and the QR code of a login is a picture', async () => {
    await tryOut('/login')
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('textbox', { name: /Bearer Token/ }).fill(token)
    await page.getByRole('button', { name: /^Send/ }).first().click()
    const code = page.getByRole('img', { name: 'QR code of the login' })
    await code.waitFor()
    await checked()
    await page.getByRole('button', { name: 'Close', exact: true }).click()
    await code.waitFor({ state: 'hidden' })
    await page.getByRole('button', { name: 'Close Client' }).click()
    // In reach again.
    await openerOf('/login').click()
    await dialog.waitFor()
  })

  test('its examples are filled once the token is typed, an upload without a file is none', async () => {
    rest.gateway.log.push(...wroteLast)
    const closed = await browser.newPage()
    closed.setDefaultTimeout(30_000)
    await closed.goto(`${rest.url}/docs#tag/tools/POST/tools/default/send`)
    await closed.getByText('"USER_ID"').first().waitFor()
    await tryOut('/send', closed)
    const dialog = closed.getByRole('dialog')
    await dialog.getByText('"USER_ID"').waitFor()
    const typed = dialog.getByRole('textbox', { name: /Bearer Token/ })
    await typed.fill(token)
    await typed.press('Tab')
    await dialog.getByText(from_user).waitFor()
    expect(await typed.inputValue()).toBe(token)
    await closed.getByRole('button', { name: 'Close Client' }).click()
    await closed.goto(`${rest.url}/docs#tag/media/POST/media`)
    await openerOf('post /media', closed).click()
    const answer = closed.waitForResponse(response => new URL(response.url()).pathname === '/media')
    await closed.getByRole('button', { name: /^Send/ }).first().click()
    expect((await (await answer).json()).code).toBe('invalid_arguments')
    expect(rest.gateway.uploads).toEqual([])
    await closed.close()
  })

  test('it has the mark and the colours of svc, in the theme of its reader', async () => {
    const href = await page.locator('link[rel=icon]').getAttribute('href')
    expect(decodeURIComponent(href!)).toBe(`data:image/svg+xml,${mark}`)
    const tokens = await Bun.file(join(import.meta.dirname, '../../admin/styles/tokens.css')).text()
    const [light = '', dark = ''] = tokens.split(':root[data-theme="dark"]')
    for (const [colorScheme, own] of [
      ['light', light],
      ['dark', dark],
    ] as const) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
      await page.locator(`body.${colorScheme}-mode`).waitFor()
      const shown = await page.locator('aside.t-doc__sidebar').evaluate(bar => {
        const { content, backgroundImage } = getComputedStyle(bar, '::before')
        const colours = ['color-1', 'color-2', 'color-accent', 'border-color', 'button-1', 'button-1-color']
        const style = getComputedStyle(bar)
        return [
          content,
          backgroundImage.startsWith('url("data:image/svg+xml,'),
          ...colours.map(name => style.getPropertyValue(`--scalar-${name}`)),
        ]
      })
      const token = (name: string) => new RegExp(`--${name}: (#\\w+);`).exec(own)![1]!
      const named = ['ink', 'ink-soft', 'accent', 'line', 'accent', 'on-accent']
      expect(shown).toEqual(['"svc"', true, ...named.map(token)])
    }
  })

  test('with keys only, nothing is asked without one', async () => {
    await using keyed = await startRest()
    Object.assign(keyed.gateway.keys, { hasAny: () => true })
    const asked = await browser.newPage()
    watch(asked, keyed.url, complaints)
    await asked.goto(`${keyed.url}/docs#tag/tools/POST/tools/default/send`)
    await asked.getByText('"USER_ID"').first().waitFor()
    // As when the reader returns from another tab.
    await asked.evaluate(() => dispatchEvent(new Event('focus')))
    await asked.evaluate(() => new Promise(done => requestAnimationFrame(done)))
    await asked.close()
  })

  test('each of the nine buttons is answered, without a token and with one', async () => {
    for (const given of [undefined, token]) {
      await using own = await startRest({ token: given })
      own.gateway.log.push(exampleReceived)
      const page = await browser.newPage({ reducedMotion: 'reduce' })
      page.setDefaultTimeout(100_000)
      await page.goto(`${own.url}/docs`)
      if (given) await typeToken(page, given)
      for (const tool of tools) {
        await openTool(page, tool)
        const { status, authorization } = await pressSend(page)
        await closeTool(page)
        expect(authorization).toBe(given && `Bearer ${given}`)
        expect([tool.name, status]).toEqual([tool.name, tool.name === 'logout' ? 404 : 200])
      }
      await page.close()
    }
  }, 600_000)

  test.skipIf(!hasOpenssl)(
    'each of the nine buttons works with a key, below a path of https',
    async () => {
      const home = folderOfTest()
      const pair = makePair(home, 'proxy')
      let target = ''
      const proxy = Bun.serve({
        port: 0,
        hostname: '127.0.0.1',
        tls: { cert: Bun.file(pair.cert), key: Bun.file(pair.key) },
        fetch: request => {
          const { pathname, search, host } = new URL(request.url)
          const { method, body } = request
          const headers = new Headers(request.headers)
          headers.set('host', host)
          const url = `${target}${pathname.replace('/svc/', '/')}${search}`
          return fetch(url, { method, headers, body, decompress: false })
        },
      })
      const at = `localhost:${proxy.port}`
      const context = await browser.newContext({ ignoreHTTPSErrors: true, reducedMotion: 'reduce' })
      try {
        const args = ['--token', token, '--allow-host', at, '--public-url', `https://${at}/svc/`]
        await using service = await serveHere(join(home, 'data'), { home }, ...args)
        target = service.url
        const made = await fetch(`${target}/keys`, {
          method: 'POST',
          headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
          body: JSON.stringify({ name: 'docs', can: ['all'] }),
        })
        const { key } = await made.json()
        const page = await context.newPage()
        page.setDefaultTimeout(100_000)
        await page.goto(`https://${at}/svc/docs`)
        await typeToken(page, key)
        for (const tool of tools) {
          await openTool(page, tool)
          const { status, authorization } = await pressSend(page)
          await closeTool(page)
          expect(authorization).toBe(`Bearer ${key}`)
          // Nobody is logged in, and nobody has written.
          expect([tool.name, [200, 404, 409, 422].includes(status)]).toEqual([tool.name, true])
        }
      } finally {
        await context.close()
        await proxy.stop(true)
      }
    },
    600_000,
  )

  test('on a phone a call can be sent', async () => {
    await using open = await startRest()
    const narrow = await browser.newPage({ viewport: { width: 390, height: 844 } })
    watch(narrow, open.url, complaints)
    // As long as WeChat's are.
    const from_user = 'o9cq80Q_EfkAC9pSThbbQj8hnQU5@im.wechat'
    open.gateway.log.push({ ...exampleReceived, from_user })
    await narrow.goto(`${open.url}/docs#tag/tools/POST/tools/default/send`)
    await tryOut('/send', narrow)
    await narrow.getByRole('dialog').getByText(from_user).waitFor()
    const box = await narrow.getByRole('button', { name: /^Send/ }).first().boundingBox()
    expect(box!.x + box!.width).toBeLessThanOrEqual(390)
    await narrow.close()
  })

  test('a reader of Chinese gets it in Chinese, and the page says so', async () => {
    const page = await browser.newPage({ locale: 'zh-CN' })
    watch(page, rest.url, complaints)
    await page.goto(`${rest.url}/docs`)
    await page.getByRole('link', { name: /^发送消息/ }).waitFor()
    expect(await page.getAttribute('html', 'lang')).toBe('zh')
    expect(await page.title()).toMatch(/\p{Script=Han}/u)
    await page.close()
  })

  test('what is edited in a window of a request stays, also when it was opened while the page looked for news', async () => {
    await using open = await startRest()
    const page = await browser.newPage()
    watch(page, open.url, complaints)
    await page.goto(`${open.url}/docs#tag/tools/POST/tools/default/send`)
    await page.getByText('"USER_ID"').first().waitFor()
    open.gateway.log.push(...wroteLast)
    const held = Promise.withResolvers<void>()
    const looked = page.waitForRequest('**/history')
    await page.route('**/history', async route => {
      await held.promise
      await route.continue()
    })
    await page.evaluate(() => dispatchEvent(new Event('focus')))
    await looked
    await tryOut('/send', page)
    const dialog = page.getByRole('dialog')
    const text = dialog.getByText('Hello!')
    await text.waitFor()
    await text.dblclick()
    await page.keyboard.type('Edited')
    await dialog.getByText('Edited').waitFor()
    const asked: string[] = []
    page.on('request', request => asked.push(new URL(request.url()).pathname))
    const answered = page.waitForResponse('**/history')
    held.resolve()
    await (await answered).finished()
    // With news it would ask for the document at once, and what is edited would go with the old one.
    const frame = () => page.evaluate(() => new Promise(done => requestAnimationFrame(done)))
    for (let nth = 0; nth < 5; nth++) await frame()
    expect(asked).toEqual([])
    expect(await dialog.getByText('Edited').count()).toBe(1)
    // The news come once it is closed.
    await page.getByRole('button', { name: 'Close Client' }).click()
    await page.getByText(from_user).first().waitFor()
    await page.close()
  })

  test('its examples name who wrote last, and the newest file, also of what came while nobody looked', async () => {
    await using open = await startRest()
    const page = await browser.newPage()
    watch(page, open.url, complaints)
    await page.goto(`${open.url}/docs#tag/tools/POST/tools/default/send`)
    await page.getByText('"USER_ID"').first().waitFor()
    // Somebody writes on the phone, in another tab.
    const phone = await browser.newPage()
    await phone.bringToFront()
    open.gateway.log.push(...wroteLast)
    await page.bringToFront()
    await page.evaluate(() => dispatchEvent(new Event('focus')))
    await page.getByText(from_user).first().waitFor()
    await page.goto(`${open.url}/docs#tag/tools/POST/tools/default/download`)
    await page.getByText('"777"').first().waitFor()
    await phone.close()
    await page.close()
  })
})

// One that answers may still break off.
const scalar = await fetchFromNpm().catch(() => undefined)
test.skipIf(!scalar)(
  "npm's package holds the docs page's program (skipped where npm does not give it)",
  async () => {
    expect(sha512(await readProgram(scalar!))).toBe(contentSha512)
  },
)
