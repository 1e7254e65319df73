/** The page of an invitation in a real browser. */
import { afterAll, describe, expect, test } from 'bun:test'
import type { BrowserContextOptions, Page } from 'playwright-core'
import type { NewInvitationInput } from '../../src/model/invitation.ts'
import { owner } from '../../src/model/principal.ts'
import { hasBrowser, launchBrowser, watch } from '../support/browser.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'
import { restOf } from '../support/rest.ts'

const browser = hasBrowser ? await launchBrowser() : undefined
afterAll(() => browser?.close())

async function open(input: Partial<NewInvitationInput> = {}, switches = {}) {
  const t = await withGateway({ sessions: [], switches })
  const rest = await restOf(t.gateway)
  const { id, link } = await t.gateway.invitations.add(owner, { name: 'mum', ...input })
  const complaints: string[] = []
  const passing = setInterval(() => t.clock.advance(250), 50)
  return {
    ...{ t, rest, id, complaints, url: `${rest.url}/invite${link.slice(link.indexOf('#'))}` },
    async visit(options: BrowserContextOptions = {}): Promise<Page> {
      const page = await (await browser!.newContext({ locale: 'en-GB', ...options })).newPage()
      watch(page, rest.url, complaints)
      await page.goto(this.url)
      await page.waitForSelector('#start:not([hidden])')
      return page
    },
    async [Symbol.asyncDispose]() {
      clearInterval(passing)
      await rest[Symbol.asyncDispose]()
      await t[Symbol.asyncDispose]()
    },
  }
}

/** A new person scans the code of the page. @returns the digits that the phone shows */
async function scan(t: TestGateway, page: Page): Promise<{ verify_code?: string | undefined }> {
  await page.waitForSelector('#code:not([hidden])')
  const user = await t.sandbox.addUser('Guest')
  return t.sandbox.scan({ user, confirm: true })
}

const textOf = (page: Page, id: string) => page.textContent(`#${id}`)
const ends = (page: Page) =>
  page.waitForFunction(
    () => document.querySelector('#code[hidden]') && document.querySelector('#terms[hidden]'),
  )

describe.if(hasBrowser)('the page of an invitation', () => {
  test('leads a person to the end, in both languages; a hostile name is text', async () => {
    const inviter = '<img src=x onerror=alert(1)>'
    await using w = await open({ max_uses: 2, inviter })
    for (const locale of ['en-GB', 'zh-CN']) {
      const page = await w.visit({ locale })
      expect(await page.getAttribute('html', 'lang')).toBe(locale.slice(0, 2))
      expect(await textOf(page, 'what')).toContain(inviter)
      await page.click('#start')
      await scan(w.t, page)
      await ends(page)
      // Another person may join in the same browser, as often as the link says.
      expect(await page.isVisible('#start')).toBe(locale === 'en-GB')
      await page.context().close()
    }
    expect((await w.t.gateway.accounts.list()).map(({ name }) => name).sort()).toEqual(['mum-1', 'mum-2'])
    expect(w.complaints).toEqual([])
  })

  test('asks for the digits until they are right', async () => {
    await using w = await open({}, { verify_code: 'on' })
    const page = await w.visit()
    await page.click('#start')
    const { verify_code = '' } = await scan(w.t, page)
    await page.waitForSelector('#digits:not([hidden])')
    for (const digits of [verify_code === '00' ? '11' : '00', verify_code]) {
      const before = await textOf(page, 'status')
      await page.fill('#number', digits)
      await page.press('#number', 'Enter')
      await page.waitForFunction(said => document.getElementById('status')!.textContent !== said, before)
    }
    await page.waitForSelector('#digits', { state: 'hidden' })
    await ends(page)
    expect((await w.t.gateway.accounts.list()).map(({ name }) => name)).toEqual(['mum'])
  })

  test('a second browser waits; after the end of the invitation the code is gone, and a late scan is not stored', async () => {
    await using w = await open()
    const [page, other] = [await w.visit(), await w.visit()]
    await page.click('#start')
    await page.waitForSelector('#code:not([hidden])')
    await other.click('#start')
    await other.waitForFunction(() => document.getElementById('status')!.textContent !== '')
    expect(await other.isVisible('#code')).toBe(false)
    await w.t.gateway.invitations.revoke(owner, w.id)
    await ends(page)
    const over = await textOf(page, 'status')
    await w.t.sandbox.scan({ user: await w.t.sandbox.addUser('Guest'), confirm: true })
    await page.waitForFunction(said => document.getElementById('status')!.textContent !== said, over)
    expect(await w.t.gateway.accounts.list()).toEqual([])
  })

  test('is shown in no frame, and no other page can call it', async () => {
    await using w = await open()
    using evil = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: () =>
        new Response(`<iframe src="${w.url}"></iframe>`, { headers: { 'content-type': 'text/html' } }),
    })
    const page = await (await browser!.newContext()).newPage()
    await page.goto(evil.url.href)
    await page.waitForLoadState('networkidle')
    expect(page.frames().map(frame => frame.url())).not.toContain(w.url)
    const secret = w.url.split('#')[1]
    const tried = await page.evaluate(
      ([url, body]) =>
        fetch(url!, { method: 'POST', mode: 'no-cors', credentials: 'include', body: body! }).then(
          answer => answer.type,
          String,
        ),
      [`${w.rest.url}/invite/join`, JSON.stringify({ secret })],
    )
    expect(tried).toBe('opaque')
    expect(w.t.requests('get_bot_qrcode')).toBe(0)
  })
})
