import { describe, expect, test } from 'bun:test'
import type { BrowserContext, Page, Request } from 'playwright-core'
import { hasBrowser, sharedBrowser, watch } from '../support/browser.ts'
import { type TestPanel, type TestPanelOptions, withPanel, write } from '../support/panel.ts'
import { wordsOf } from '../support/panel-hand.ts'

const log = (page: Page) => page.getByRole('log', { name: 'Messages' })
const field = (page: Page) => page.getByRole('textbox', { name: 'Message' })
const bubble = (page: Page, text: string) => log(page).locator('article', { hasText: text })
const pdf = (name: string, size = 2000) => ({
  name,
  mimeType: 'application/pdf',
  buffer: Buffer.alloc(size),
})
const attach = (page: Page, ...files: ReturnType<typeof pdf>[]) =>
  page.locator('input[type=file]').setInputFiles(files)
const sentOf = async ({ sandbox }: TestPanel, user?: string) =>
  (await sandbox.messages({ from: 'bot', limit: 1000, ...(user && { user }) })).map(
    ({ items }) => items[0]?.text ?? items[0]?.kind,
  )

const chatOf = (panel: TestPanel, user = panel.bots.get('default')!.user_id) =>
  `${panel.url}/conversations/default/${encodeURIComponent(user)}`

/** Opens the chat with the first user in a new tab of a browser context. */
async function openChat(panel: TestPanel, context: BrowserContext, isWatched = true): Promise<Page> {
  const page = await context.newPage()
  if (isWatched) watch(page, panel.url, panel.complaints)
  await page.goto(chatOf(panel))
  await bubble(page, 'hi').waitFor()
  return page
}

/** Another user writes, and their chat is opened. @returns the user */
async function goToAnother(panel: TestPanel, page: Page, text: string): Promise<string> {
  const from = await panel.sandbox.addUser()
  await panel.sandbox.say(text, { from, to: panel.bots.get('default')!.bot_id })
  await page.locator('a.conversation', { hasText: text }).click()
  await bubble(page, text).waitFor()
  return from
}

/** Waits until the browser has written what the page saves. Before that it asks when the page is left. */
const written = (page: Page) =>
  page.evaluate(
    () =>
      new Promise<void>((done, failed) => {
        const opening = indexedDB.open('svc')
        opening.onerror = failed
        opening.onsuccess = () => {
          const db = opening.result
          // This transaction runs after the ones that write.
          const count = db.transaction('unsent').objectStore('unsent').count()
          count.onerror = failed
          count.onsuccess = () => {
            db.close()
            done()
          }
        }
      }),
  )

async function withHi(options?: TestPanelOptions): Promise<TestPanel> {
  const panel = await withPanel(options)
  await panel.sandbox.say('hi')
  await panel.receive(1)
  return panel
}

describe.skipIf(!hasBrowser)('unsent messages', () => {
  test('a draft, its files and failed messages survive a closed tab, say why they failed, and are sent once', async () => {
    await using panel = await withHi()
    await using context = await (await sharedBrowser()).browser.newContext({ locale: 'en' })
    let page = await openChat(panel, context, false)
    await context.route('**/api/call/send', route => route.abort())
    await attach(page, pdf('failed.pdf'))
    await field(page).fill('failed')
    await field(page).press('Enter')
    await log(page).getByRole('alert').waitFor()
    await attach(page, pdf('draft.pdf'))
    await field(page).fill('a draft')
    await page.getByRole('button', { name: 'Remove draft.pdf' }).waitFor()
    await written(page)
    await page.close({ runBeforeUnload: true })

    page = await openChat(panel, context)
    await page.getByRole('button', { name: 'Remove draft.pdf' }).waitFor()
    expect(await field(page).inputValue()).toBe('a draft')
    await bubble(page, 'failed.pdf').waitFor()
    await page.goto(`${panel.url}/conversations`)
    // The list shows the unsent message instead of the last one.
    await page.getByRole('link', { name: /May have arrived\s*failed/ }).waitFor()
    // A newer message is not hidden by it.
    await panel.sandbox.say('newer words')
    await page.getByRole('link', { name: /May have arrived\s*newer words/ }).click()
    await log(page).getByRole('alert').waitFor()
    await context.unroute('**/api/call/send')
    await log(page).getByRole('alert').getByRole('button', { name: 'Try again' }).click()
    await panel.sandbox.seen(messages => messages.length === 2)
    await field(page).press('Enter')
    await panel.sandbox.seen(messages => messages.length === 4)
    expect(await sentOf(panel)).toEqual(['failed', 'file', 'a draft', 'file'])
    await page.reload()
    // If the reload came before the answer, it is sent again with the same key, and is shown twice until the
    // answer.
    await panel.until('each once', async () => {
      const drafts = await bubble(page, 'a draft').count()
      return drafts === 1 && (await log(page).locator('article').count()) === 6
    })
    expect(await page.getByRole('button', { name: /^Remove / }).count()).toBe(0)

    // Each failed message says why and can be discarded, also before another one.
    await goToAnother(panel, page, 'too much')
    await page.route('**/api/call/send', route =>
      route.fulfill({
        status: 429,
        contentType: 'application/problem+json',
        body: JSON.stringify({ code: 'rate_limited', title: 'Too many requests', retry_after: 1799 }),
      }),
    )
    const failures = log(page).getByRole('alert')
    for (const [nth, text] of ['one', 'two'].entries()) {
      await field(page).fill(text)
      await field(page).press('Enter')
      await failures.nth(nth).waitFor()
    }
    // 30 minutes, not 1799 seconds.
    expect(await failures.first().textContent()).toMatch(/\b30\D/)
    await failures.first().getByRole('button', { name: 'Discard' }).click()
    await bubble(page, 'one').waitFor({ state: 'detached' })
    await bubble(page, 'two').waitFor()
    expect(await failures.count()).toBe(1)
    await page.unroute('**/api/call/send')

    // A file that WeChat refused can be sent again after a reload.
    const user = await goToAnother(panel, page, 'a file, please')
    await panel.sandbox.fail('sendmessage', 'ret', { code: -1 })
    await attach(page, pdf('refused.pdf'))
    await field(page).press('Enter')
    const again = bubble(page, 'refused.pdf').getByRole('button', { name: 'Send again' })
    await again.waitFor()
    await written(page)
    await page.reload()
    await again.click()
    await again.waitFor({ state: 'detached' })
    await bubble(page, 'refused.pdf').getByText('Sent', { exact: true }).waitFor()
    expect(await sentOf(panel, user)).toEqual(['file'])
    // If the browser saves nothing, it asks before the page is left.
    await page.addInitScript(() => Object.defineProperty(globalThis, 'indexedDB', { value: undefined }))
    await page.reload()
    await field(page).click()
    await attach(page, pdf('draft.pdf'))
    await page.getByRole('button', { name: 'Remove draft.pdf' }).waitFor()
    const asks = page.waitForEvent('dialog')
    await page.close({ runBeforeUnload: true })
    const dialog = await asks
    expect(dialog.type()).toBe('beforeunload')
    await dialog.accept()
    // The browser logs the failed calls.
    expect(panel.complaints.filter(line => !/429|502|ERR_FAILED/.test(line))).toEqual([])
  })

  test('a message is saved with its key before it is sent; a closed page goes on later; a sign-out deletes everything', async () => {
    const token = 'a token of the test, long enough'
    await using panel = await withHi({ token })
    await using context = await (await sharedBrowser()).browser.newContext({ locale: 'en' })
    const page = await context.newPage()
    await page.goto(chatOf(panel))
    await page.getByRole('textbox', { name: /Token/i }).fill(token)
    await page.keyboard.press('Enter')
    await bubble(page, 'hi').waitFor()
    await field(page).fill('once')
    // A busy disk: an open transaction blocks the ones behind it.
    await page.evaluate(async () => {
      const db = await new Promise<IDBDatabase>(resolve => {
        const opening = indexedDB.open('svc')
        opening.onsuccess = () => resolve(opening.result)
      })
      const state = { held: true, busy: true, sent: [] as boolean[] }
      const busy = db.transaction('unsent', 'readwrite')
      const goOn = () => {
        if (state.held) busy.objectStore('unsent').count().onsuccess = goOn
      }
      goOn()
      busy.oncomplete = () => {
        state.busy = false
      }
      const { fetch, setTimeout } = window
      // After this time the page would send it anyway. A slow machine may need that long for this test.
      const patienceMs = 1000
      const patient = (look: () => void, ms: number) => (ms === patienceMs ? 0 : setTimeout(look, ms))
      Object.assign(window, { setTimeout: patient })
      window.fetch = Object.assign(
        (input: RequestInfo | URL, init?: RequestInit) => {
          if (String(input).endsWith('/call/send')) state.sent.push(state.busy)
          return fetch(input, init)
        },
        { preconnect: () => {} },
      )
      Object.assign(window, { state })
    })
    await field(page).press('Enter')
    // A send without waiting would happen before this is drawn.
    await bubble(page, 'once').waitFor()
    await page.evaluate(() => {
      Reflect.get(window, 'state').held = false
    })
    await panel.sandbox.seen(messages => messages.length === 1)
    expect(await page.evaluate(() => Reflect.get(window, 'state').sent)).toEqual([false])

    // The page is left in the middle of a send.
    const user = await goToAnother(panel, page, 'and now?')
    // The service has the message and its key. The answers to both messages come only after the page is gone.
    let posted = 0
    const repeated = Promise.withResolvers<number>()
    const counted = Promise.withResolvers<void>()
    await page.route('**/api/call/send', async route => {
      const response = await route.fetch()
      posted++
      if (posted === 4) {
        repeated.resolve(response.status())
        await counted.promise
      }
      if (![1, 3].includes(posted)) await route.fulfill({ response })
    })
    await field(page).fill('stored')
    await field(page).press('Enter')
    await panel.sandbox.seen(messages => messages.length === 2)
    await attach(page, pdf('waits.pdf'))
    await field(page).fill('not stored')
    await field(page).press('Enter')
    await bubble(page, 'not stored').waitFor()
    await written(page)
    await page.goto(`${panel.url}/settings`)
    await panel.sandbox.seen(messages => messages.length === 4)
    expect(await sentOf(panel, user)).toEqual(['stored', 'not stored', 'file'])
    // The messages come before the answer about stored ones; the order of the two requests may vary.
    const looked = Promise.withResolvers<void>()
    const isLook = (one: Request) => one.postData()?.includes('"direction":"sent"') === true
    const asked = page.waitForRequest(isLook)
    await page.route('**/api/call/list_messages', async route => {
      if (isLook(route.request())) await looked.promise
      await route.continue()
    })
    await page.goBack()
    await bubble(page, 'not stored').getByText('Sent', { exact: true }).waitFor()
    await asked
    expect(await log(page).locator('article.out').count()).toBe(3)
    looked.resolve()
    expect(await repeated.promise).toBe(200)
    expect(await sentOf(panel, user)).toEqual(['stored', 'not stored', 'file'])
    // Nothing is shown twice before the answer comes.
    expect(await log(page).locator('article.out').count()).toBe(3)
    counted.resolve()

    // After a sign-out nothing is left for the next person.
    await field(page).fill('private')
    await attach(page, pdf('private.pdf'))
    await page.getByRole('button', { name: 'Remove private.pdf' }).waitFor()
    await page.getByRole('link', { name: 'Settings' }).click()
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByRole('textbox', { name: /Token/i }).waitFor()
    const left = await page.evaluate(async () => {
      const open = indexedDB.open('svc')
      await new Promise(done => open.addEventListener('success', done))
      const all = open.result.transaction('unsent').objectStore('unsent').count()
      await new Promise(done => all.addEventListener('success', done))
      return [all.result, Object.keys(localStorage).filter(key => key.startsWith('svc.draft'))]
    })
    expect(left).toEqual([0, []])
  })

  test('a text that the pace holds back says so, and one that it rejects says what helps in a sandbox', async () => {
    const pace = { perSecond: 0.04, perWindow: 2, windowMs: 300_000 }
    await using panel = await withPanel({ config: { pace } })
    await write(panel, 'hi')
    await using context = await (await sharedBrowser()).browser.newContext({ locale: 'en' })
    await context.clock.install()
    const page = await openChat(panel, context)
    const t = wordsOf('en')
    const send = async (text: string) => {
      await field(page).fill(text)
      await field(page).press('Enter')
    }
    await send('one')
    await bubble(page, 'one').locator('.delivery.accepted').waitFor()
    await send('two')
    await bubble(page, 'two').waitFor()
    await page.clock.fastForward(2000)
    const note = log(page).getByText(t('delivery.pace_note'))
    await note.waitFor()
    // The note is below its message, not beside it.
    const ends = await note.evaluate(element => {
      const words = document.createRange()
      words.selectNodeContents(element)
      const bubble = element.parentElement!.querySelector('.bubble')!
      return bubble.getBoundingClientRect().right - words.getBoundingClientRect().right
    })
    expect(Math.abs(ends)).toBeLessThan(10)
    panel.clock.advance(25_000)
    await bubble(page, 'two').locator('.delivery.accepted').waitFor()
    await note.waitFor({ state: 'detached' })
    await send('three')
    await log(page).getByRole('alert').getByText(t('error.pace_sandbox')).waitFor()
    // The browser logs the failed calls.
    expect(panel.complaints.filter(line => !line.includes('429'))).toEqual([])
  })
})
