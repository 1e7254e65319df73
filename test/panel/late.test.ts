/**
 * Slow answers and fast users: late or repeated events undo nothing on a page. `state.test.ts` tests answers
 * that overtake each other.
 */
import { describe, expect, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import type { Page } from 'playwright-core'
import en from '../../locales/en.json'
import { owner } from '../../src/model/principal.ts'
import { hasBrowser } from '../support/browser.ts'
import { type TestPanel, withPanel, write } from '../support/panel.ts'

const chatOf = (panel: TestPanel, session = 'default') =>
  `/conversations/${session}/${encodeURIComponent(panel.bots.get(session)!.user_id)}`
const dialog = (page: Page) => page.locator('[role=dialog], [role=alertdialog]')
const bubble = (page: Page, text: string) => page.getByRole('log').locator('article', { hasText: text })
/** A picture of one pixel, in base64. */
const dot = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const pathOf = (page: Page) => decodeURIComponent(new URL(page.url()).pathname)
const composer = (page: Page) => page.getByRole('textbox', { name: 'Message' })

/** Waits for the next two drawings. */
const drawn = (page: Page) =>
  page.evaluate(() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))))

/** Holds the first answer to a matching request back. `asked` resolves when the service has answered. */
async function hold(page: Page, path: RegExp, body = /./) {
  const asked = Promise.withResolvers<void>()
  const free = Promise.withResolvers<void>()
  let isFirst = true
  await page.route(path, async route => {
    if (!isFirst || !body.test(route.request().postData() ?? '-')) return route.fallback()
    isFirst = false
    const response = await route.fetch()
    asked.resolve()
    await free.promise
    await route.fulfill({ response }).catch(() => {})
  })
  return {
    asked: asked.promise,
    /** Releases the answer and waits until the page has handled it. */
    async release() {
      const answered = page.waitForResponse(
        one => path.test(one.url()) && body.test(one.request().postData() ?? '-'),
      )
      free.resolve()
      await (await answered).finished()
      await drawn(page)
    },
  }
}

describe.skipIf(!hasBrowser)('a picture that waits for approval', () => {
  test('can be saved from a view that was opened before the send, and is shown if the send happens during its request', async () => {
    await using panel = await withPanel()
    await write(panel, 'hello')
    const waits = () => panel.send({ media: [{ kind: 'image', data: dot }], approval: 'nobody' })
    const { outbox_id } = await waits()
    const page = await panel.open({ path: chatOf(panel) })
    const pictures = page.getByRole('log').locator('.picture img')
    await pictures.click()
    const save = dialog(page).getByRole('link', { name: en['chat.download'] })
    await save.waitFor()
    await panel.gateway.outbox.approve(owner, outbox_id!)
    await page.locator('.message .delivery.accepted').waitFor()
    const saved = page.waitForEvent('download')
    await save.click()
    expect((await readFile(await (await saved).path())).toString('base64')).toBe(dot)
    await page.keyboard.press('Escape')
    await dialog(page).waitFor({ state: 'detached' })

    const asked = Promise.withResolvers<void>()
    const second = Promise.withResolvers<string>()
    await page.route('**/api/waiting-files/*', async route => {
      await panel.gateway.outbox.approve(owner, await second.promise)
      asked.resolve()
      await route.continue()
    })
    second.resolve((await waits()).outbox_id!)
    await asked.promise
    await pictures.nth(1).waitFor()
    const widthOf = (it: HTMLImageElement) => it.decode().then(() => it.naturalWidth)
    expect(await pictures.nth(1).evaluate(widthOf)).toBe(1)
    expect(panel.complaints).toEqual([])
  })
})

describe.skipIf(!hasBrowser)('a person who moves on before an answer comes', () => {
  test('is not taken back to the old conversation, and loses no typed letter while a name is saved', async () => {
    await using panel = await withPanel({ sessions: ['one', 'two'] })
    await write(panel, 'said to one', 'one')
    await write(panel, 'said to two', 'two')
    const page = await panel.open({ path: chatOf(panel, 'one') })
    await bubble(page, 'said to one').waitFor()
    await page.getByRole('button', { name: 'More about this conversation' }).click()
    await page.getByRole('menuitem', { name: 'Go to a day' }).click()
    const slow = await hold(page, /list_messages$/, /"until"/)
    await dialog(page).getByLabel('Day', { exact: true }).press('Enter')
    await slow.asked
    await page.keyboard.press('Escape')
    await dialog(page).waitFor({ state: 'detached' })
    await page.getByRole('link', { name: /said to two/ }).click()
    await composer(page).and(page.locator(':focus')).waitFor()
    await page.keyboard.type('for two')
    await slow.release()
    await page.keyboard.type(' alone')
    expect(pathOf(page)).toBe(decodeURIComponent(chatOf(panel, 'two')))
    expect(await composer(page).inputValue()).toBe('for two alone')
    // Saving a name takes no typed letter either.
    // The second name is rejected.
    for (const name of ['Mum', 'a@b']) {
      const slow = await hold(page, /name_user$/)
      await page.locator('.chat-head .name-edit button').click()
      await page.locator('.chat-head').getByRole('textbox').fill(name)
      await page.keyboard.press('Enter')
      await slow.asked
      await composer(page).click()
      await page.keyboard.type('one')
      await slow.release()
      await page.keyboard.type(' two ')
      expect(await composer(page).inputValue()).toEndWith('one two ')
      await page.locator('.chat-head').getByRole('heading', { name: 'Mum' }).waitFor({ state: 'attached' })
    }
    expect(panel.complaints.filter(one => !/422/.test(one))).toEqual([])
  })

  test('stays there after a rename or a logout; and a dialog opened since then stays open', async () => {
    await using panel = await withPanel({ sessions: ['a', 'b', 'c', 'd', 'e'] })
    const page = await panel.open({ path: '/sessions' })
    for (const [what, first, last] of [
      ['Rename', 'b', 'a'],
      ['Log out', 'e', 'd'],
    ] as const) {
      const ask = async (entry: string, of: string) => {
        await page.getByRole('button', { name: `Actions for \u2068${of}\u2069` }).click()
        await page.getByRole('menuitem', { name: entry }).click()
        await dialog(page).waitFor()
      }
      const begin = async (of: string) => {
        await ask(what, of)
        if (what === 'Rename') await dialog(page).getByLabel('Name').fill(`new-${of}`)
        await dialog(page).getByRole('button', { name: what }).click()
      }
      const path = what === 'Rename' ? /rename_session$/ : /logout$/
      const slow = await hold(page, path)
      await begin(first)
      await slow.asked
      await page.keyboard.press('Escape')
      await dialog(page).waitFor({ state: 'detached' })
      await page.getByRole('navigation').getByRole('link', { name: 'Overview' }).click()
      await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
      await slow.release()
      expect(pathOf(page)).toBe('/')

      await page.getByRole('navigation').getByRole('link', { name: 'Accounts' }).click()
      const second = await hold(page, path)
      await begin(last)
      await second.asked
      await page.keyboard.press('Escape')
      await dialog(page).waitFor({ state: 'detached' })
      // The service has done it, and the other accounts move up.
      if (what === 'Log out')
        await page.getByRole('link', { name: last, exact: true }).waitFor({ state: 'detached' })
      await ask('Rename', 'c')
      await dialog(page).getByLabel('Name').fill('half a na')
      await second.release()
      expect(await dialog(page).getByLabel('Name').inputValue()).toBe('half a na')
      await page.keyboard.press('Escape')
      await dialog(page).getByRole('button', { name: en['ask.leave'] }).click()
      await dialog(page).waitFor({ state: 'detached' })
    }
    expect(panel.complaints).toEqual([])
  })

  test('a login dialog that is closed and opened again keeps its login; another name is another account', async () => {
    await using panel = await withPanel()
    const page = await panel.open({ path: '/sessions' })
    const begun = () => page.locator('.login-how').or(dialog(page).getByRole('alert')).first()
    const add = async (name: string) => {
      await page.getByRole('link', { name: 'Add account' }).click()
      await dialog(page).getByLabel('Name').fill(name)
      await page.keyboard.press('Enter')
    }
    const leave = async () => {
      await page.keyboard.press('Escape')
      await dialog(page).waitFor({ state: 'detached' })
    }
    const calls: string[] = []
    page.on('request', request => {
      const [call] = /(start|cancel)_login$/.exec(request.url()) ?? []
      if (call) calls.push(call)
    })
    const slow = await hold(page, /start_login$/)
    await add('shop')
    await slow.asked
    await leave()
    await add('shop')
    await slow.release()
    await page.getByRole('img', { name: 'QR code for WeChat' }).waitFor()
    await begun().waitFor()
    await drawn(page)
    // The first login is cancelled before the second begins, not after.
    expect(calls.slice(0, 3)).toEqual(['start_login', 'cancel_login', 'start_login'])
    expect(calls.slice(3)).not.toContain('cancel_login')
    expect(await page.getByRole('img', { name: 'QR code for WeChat' }).count()).toBe(1)
    await leave()

    const mistyped = await hold(page, /start_login$/)
    await add('culb')
    await mistyped.asked
    await leave()
    await page.getByRole('link', { name: 'Add account' }).click()
    await dialog(page).getByLabel('Name').fill('club')
    await mistyped.release()
    expect(pathOf(page)).toBe('/sessions/add')
    await panel.until('nothing is left of it', async () =>
      (await panel.gateway.accounts.list()).every(one => one.status !== 'logging_in'),
    )
    expect(panel.complaints).toEqual([])
  })

  test('after a sign-out nothing is kept, and the next person sees nothing of the page before', async () => {
    const token = 'a token of the test, long enough'
    await using panel = await withPanel({ token })
    await write(panel, 'hello')
    const page = await panel.open({ path: chatOf(panel) })
    const signIn = async () => {
      await page.getByRole('textbox', { name: /Token/i }).fill(token)
      await page.keyboard.press('Enter')
    }
    await signIn()
    await composer(page).fill('under way')
    const slow = await hold(page, /call\/send$/)
    await composer(page).press('Enter')
    await slow.asked
    await composer(page).fill('a draft')
    await page.getByRole('link', { name: 'Settings' }).click()
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByRole('textbox', { name: /Token/i }).waitFor()
    await signIn()
    await page.getByRole('link', { name: 'Conversations' }).click()
    await page.locator('.conversation').click()
    await bubble(page, 'under way').waitFor()
    expect(await composer(page).inputValue()).toBe('')
  })
})

describe.skipIf(!hasBrowser)('a fast person', () => {
  test('the second click of a double click approves nothing that has moved under the pointer', async () => {
    await using panel = await withPanel()
    await write(panel, 'hello')
    await panel.send({ text: 'one', approval: 'nobody' })
    await panel.send({ text: 'two', approval: 'nobody' })
    const page = await panel.open({ path: '/approvals', hastens: 5000 })
    const yes = (text: string) => page.getByRole('button', { name: `Send it: ${text}` })
    await page.locator('.yes:not([aria-disabled=true])').waitFor()
    const { x, y, width, height } = (await yes('one').boundingBox())!
    let approvals = 0
    page.on('request', request => {
      if (request.url().endsWith('/approve_outbox')) approvals++
    })
    // The button of the next one is pressed as soon as it is there.
    const pressed = page.evaluate(
      () =>
        new Promise(done => {
          new MutationObserver((_changes, observer) => {
            const next = document.querySelector<HTMLElement>('.yes[aria-label$=two]')
            if (!next) return
            observer.disconnect()
            next.click()
            done(true)
          }).observe(document.body, { childList: true, subtree: true, attributes: true })
        }),
    )
    await page.mouse.click(x + width / 2, y + height / 2)
    await pressed
    await yes('one').waitFor({ state: 'detached' })
    // The next button is now in the same place, and the pointer presses it again.
    const next = (await yes('two').boundingBox())!
    expect(Math.abs(next.y - y)).toBeLessThan(height / 2)
    await page.mouse.down({ clickCount: 2 })
    await page.mouse.up({ clickCount: 2 })
    // A request would be sent before the page is drawn again.
    await drawn(page)
    expect(approvals).toBe(1)
    expect((await panel.gateway.outbox.list(owner)).length).toBe(1)
    // A separate click works.
    await yes('two').click()
    await yes('two').waitFor({ state: 'detached' })
    expect(panel.complaints).toEqual([])
  })

  test('loses no letter when an opened part takes the focus', async () => {
    await using panel = await withPanel()
    await write(panel, 'hello')
    const page = await panel.open({ path: '/conversations' })
    await page.locator('.conversation').waitFor()
    // The element that would get a key pressed before the next drawing.
    const after = (selector: string) =>
      page.evaluate(async which => {
        document.querySelector<HTMLElement>(which)!.click()
        await new Promise(done => queueMicrotask(() => queueMicrotask(() => queueMicrotask(() => done(0)))))
        await null
        return document.activeElement?.localName
      }, selector)
    await page.getByRole('navigation').getByRole('link', { name: 'Settings' }).click()
    await page.getByRole('navigation').getByRole('link', { name: 'Conversations' }).click()
    await page.locator('.conversation').waitFor()
    // Load the code of the chat.
    await page.locator('.conversation').click()
    await composer(page).waitFor()
    await page.goBack()
    await page.locator('.choose').waitFor()
    expect(await after('.conversation')).toBe('textarea')
    expect(await after('.chat-head .name-edit button')).toBe('input')
    expect(panel.complaints).toEqual([])
  })

  test('a menu whose code comes late opens only if the person still waits for it', async () => {
    await using panel = await withPanel()
    await write(panel, 'hello')
    for (const waits of [true, false]) {
      const page = await panel.open({ path: '/icon.svg' })
      const views = await hold(page, /layer-views-.*\.js/)
      await page.goto(panel.url + chatOf(panel))
      await bubble(page, 'hello').waitFor()
      await page.locator('.chat-head').getByRole('button').last().click()
      await views.asked
      if (!waits) await composer(page).click()
      await views.release()
      await page.locator('.chat-head [data-scope=menu]').waitFor()
      expect(await page.getByRole('menuitem').count()).toBe(waits ? 7 : 0)
      await page.keyboard.type('on')
      expect(await composer(page).inputValue()).toBe(waits ? '' : 'on')
    }
    expect(panel.complaints).toEqual([])
  })

  test('a menu opens even if its code comes in the middle of the click', async () => {
    await using panel = await withPanel()
    await write(panel, 'hello')
    const page = await panel.open({ path: '/icon.svg', hastens: 2000 })
    const views = await hold(page, /layer-views-.*\.js/)
    await page.goto(panel.url + chatOf(panel))
    await bubble(page, 'hello').waitFor()
    // The code is loaded by itself some time after the first view.
    await views.asked
    await page.locator('.chat-head').getByRole('button').last().hover()
    await page.mouse.down()
    await views.release()
    await page.locator('.chat-head [data-scope=menu]').waitFor()
    await page.mouse.up()
    await page.getByRole('menuitem').first().waitFor()
    expect(await page.getByRole('menuitem').count()).toBe(7)
    expect(panel.complaints).toEqual([])
  })

  test('a window that gets the focus just as a conversation opens marks it as read', async () => {
    await using panel = await withPanel({ sessions: ['one', 'two'] })
    await write(panel, 'said to one', 'one')
    await write(panel, 'said to two', 'two')
    const page = await panel.open({ path: chatOf(panel, 'one') })
    await bubble(page, 'said to one').waitFor()
    // The list has its own request and may come later.
    await page.locator('.conversation', { hasText: 'said to two' }).waitFor()
    await page.evaluate(async () => {
      document.hasFocus = () => false
      for (const one of document.querySelectorAll<HTMLElement>('.conversation'))
        if (one.textContent.includes('said to two')) one.click()
      for (let n = 0; n < 20; n++) await null
      document.hasFocus = () => true
      dispatchEvent(new Event('focus'))
    })
    await bubble(page, 'said to two').waitFor()
    await panel.until('read', async () =>
      (await panel.gateway.conversations.list()).every(({ unread }) => unread === 0),
    )
    expect(panel.complaints).toEqual([])
  })
})
