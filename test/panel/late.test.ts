/** What comes late, or twice, undoes nothing: slow answers, answers that overtake each other, fast hands. */
import { describe, expect, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import type { Page } from 'playwright-core'
import { hasBrowser } from '../support/browser.ts'
import { type TestPanel, withPanel, write } from '../support/panel.ts'

const chatOf = (panel: TestPanel, session = 'default') =>
  `/conversations/${session}/${encodeURIComponent(panel.bots.get(session)!.user_id)}`
const dialog = (page: Page) => page.locator('[role=dialog], [role=alertdialog]')
const bubble = (page: Page, text: string) => page.getByRole('log').locator('article', { hasText: text })
/** A picture of one pixel, as base64. */
const dot = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const pathOf = (page: Page) => decodeURIComponent(new URL(page.url()).pathname)
const composer = (page: Page) => page.getByRole('textbox', { name: 'Message' })

/** Keeps back the first answer to such a request, as it was when it was asked for; `asked` when it is there. */
async function hold(page: Page, path: RegExp) {
  const asked = Promise.withResolvers<void>()
  const free = Promise.withResolvers<void>()
  let isFirst = true
  await page.route(path, async route => {
    if (!isFirst) return route.fallback()
    isFirst = false
    const response = await route.fetch()
    asked.resolve()
    await free.promise
    await route.fulfill({ response }).catch(() => {})
  })
  return {
    asked: asked.promise,
    /** Lets it go, and waits until the page has taken it in. */
    async release() {
      const answered = page.waitForResponse(path)
      free.resolve()
      await (await answered).finished()
      await page.evaluate(() => new Promise(done => setTimeout(done, 50)))
    },
  }
}

describe.skipIf(!hasBrowser)('an answer that is older than what was told meanwhile', () => {
  test('takes nothing out of a conversation, and nothing out of the list', async () => {
    await using panel = await withPanel({ sessions: ['default', 'other'] })
    await write(panel, 'first')
    const page = await panel.open({ path: '/conversations' })
    const opened = await hold(page, /\/api\/messages\?/)
    await page.getByRole('link', { name: /first/ }).click()
    await opened.asked
    await write(panel, 'second')
    await page.locator('.list').getByText('second').waitFor()
    await opened.release()
    await bubble(page, 'first').waitFor()
    await bubble(page, 'second').waitFor()

    // An account that has another name: everything is asked for anew.
    const listed = await hold(page, /\/api\/conversations$/)
    await panel.gateway.accounts.rename('other', 'another')
    await listed.asked
    await write(panel, 'third')
    await page.locator('.list').getByText('third').waitFor()
    await listed.release()
    expect(await page.locator('.list').innerText()).toContain('third')
    expect(panel.complaints).toEqual([])
  })

  test('is asked for once more at most, however much was read elsewhere meanwhile', async () => {
    await using panel = await withPanel()
    await write(panel, 'first')
    await write(panel, 'second')
    const page = await panel.open()
    const waiting = page.getByRole('navigation').locator('.count')
    await waiting.getByText('2').waitFor()
    const { messages } = await panel.gateway.history.page({ limit: 2, offset: 0 })
    const [, first] = messages
    let questions = 0
    page.on('request', request => void (request.url().endsWith('/api/conversations') && questions++))
    const slow = await hold(page, /\/api\/conversations$/)
    const read = () =>
      page.evaluate(
        body =>
          fetch('/api/conversations/read', {
            method: 'POST',
            headers: { 'content-type': 'application/json' },
            body: JSON.stringify(body),
          }),
        { session: 'default', user_id: panel.bots.get('default')!.user_id, up_to: first!.id },
      )
    await read()
    await slow.asked
    for (let times = 0; times < 20; times++) await read()
    // The marks were told before it.
    await write(panel, 'third')
    await page.getByRole('link', { name: /third/ }).waitFor()
    await slow.release()
    await panel.until('it was asked once more', () => questions === 2)
    await page.evaluate(() => new Promise(done => setTimeout(done, 500)))
    expect(questions).toBe(2)
    await waiting.getByText('2').waitFor()
    expect(panel.complaints).toEqual([])
  })

  test('of the webhooks it shows none that was removed', async () => {
    await using panel = await withPanel()
    await panel.gateway.webhooks.add({ url: 'https://example.com/hook' })
    const page = await panel.open({ path: '/settings' })
    const slow = await hold(page, /\/api\/webhooks$/)
    await page.getByRole('link', { name: 'Webhooks' }).click()
    await slow.asked
    // Half a minute has passed.
    await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')))
    await page.getByRole('button', { name: 'Actions for' }).click()
    await page.getByRole('menuitem', { name: 'Remove' }).click()
    await dialog(page).getByRole('button', { name: 'Remove' }).click()
    await page.locator('.webhooks').waitFor({ state: 'detached' })
    await slow.release()
    expect(await page.locator('.webhooks li').count()).toBe(0)
    expect(panel.complaints).toEqual([])
  })

  test('takes nothing away that waits for a yes', async () => {
    await using panel = await withPanel()
    await write(panel, 'hello')
    const page = await panel.open({ path: '/settings' })
    const slow = await hold(page, /\/api\/outbox$/)
    await page.getByRole('link', { name: 'Overview' }).click()
    await slow.asked
    await panel.send({ text: 'May it go out?', approval: 'nobody' })
    await write(panel, 'again')
    await page.locator('.asks').waitFor()
    await slow.release()
    expect(await page.locator('.asks').count()).toBe(1)
    expect(panel.complaints).toEqual([])
  })

  test('shows a picture that was sent while it was asked for', async () => {
    await using panel = await withPanel()
    await write(panel, 'hello')
    const { outbox_id } = await panel.send({ media: [{ kind: 'image', data: dot }], approval: 'nobody' })
    const page = await panel.open({ path: '/icon.svg' })
    await page.route('**/api/waiting-files/*', async route => {
      await panel.gateway.outbox.approve(outbox_id!)
      await route.continue()
    })
    await page.goto(`${panel.url}${chatOf(panel)}`)
    const picture = page.getByRole('log').locator('.picture img')
    await picture.waitFor()
    expect(await picture.evaluate((it: HTMLImageElement) => it.decode().then(() => it.naturalWidth))).toBe(1)
    expect(panel.complaints).toEqual([])
  })

  test('is no reason why a picture that is looked at cannot be saved, once it was sent', async () => {
    await using panel = await withPanel()
    await write(panel, 'hello')
    const { outbox_id } = await panel.send({ media: [{ kind: 'image', data: dot }], approval: 'nobody' })
    const page = await panel.open({ path: chatOf(panel) })
    await page.getByRole('log').locator('.picture img').click()
    const save = dialog(page).getByRole('link')
    await save.waitFor()
    await panel.gateway.outbox.approve(outbox_id!)
    await page.locator('.message .delivery.accepted').waitFor()
    const saved = page.waitForEvent('download')
    await save.click()
    expect((await readFile(await (await saved).path())).toString('base64')).toBe(dot)
    expect(panel.complaints).toEqual([])
  })

  test('of two languages the one that was chosen last is shown', async () => {
    await using panel = await withPanel()
    const page = await panel.open({ path: '/settings' })
    const slow = await hold(page, /\/locales\/zh\.json$/)
    const choice = page.locator('select').first()
    await choice.selectOption('zh')
    await slow.asked
    await choice.evaluate((it: HTMLSelectElement) => {
      it.value = 'en'
      it.dispatchEvent(new Event('change', { bubbles: true }))
    })
    await slow.release()
    expect(await page.locator('html').getAttribute('lang')).toBe('en')
    expect(panel.complaints).toEqual([])
  })

  test('is no end of a silence: what was said until the stream was there is in the conversation', async () => {
    await using panel = await withPanel()
    await write(panel, 'first')
    const page = await panel.open({ path: chatOf(panel) })
    await bubble(page, 'first').waitFor()
    const again = await panel.silence()
    // Something on the way refuses the stream once.
    const [back, said] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    let tries = 0
    await page.route('**/api/events', async route => {
      if (++tries === 1) {
        await back.promise
        return route.fulfill({ status: 503 })
      }
      await said.promise
      await route.continue()
    })
    const listed = page.waitForResponse(
      response => response.ok() && /\/api\/conversations$/.test(response.url()),
    )
    const caughtUp = page.waitForResponse(/\/api\/messages\?/)
    await again()
    back.resolve()
    await listed
    await (await caughtUp).finished()
    await write(panel, 'said in between')
    said.resolve()
    await page.locator('.list').getByText('said in between').waitFor()
    await bubble(page, 'said in between').waitFor()
  })

  test('a search that is taken back to what was found is not busy for ever', async () => {
    await using panel = await withPanel()
    await write(panel, 'a blue one')
    const page = await panel.open({ path: '/conversations?q=blue' })
    await page.locator('.hit').waitFor()
    const slow = await hold(page, /text_contains=blue\+one/)
    await page.getByRole('searchbox').fill('blue one')
    await slow.asked
    await page.getByRole('searchbox').fill('blue')
    await page.waitForURL(/[?&]q=blue$/)
    await page.locator('.list[aria-busy=false]').waitFor()
    expect(panel.complaints).toEqual([])
  })
})

describe.skipIf(!hasBrowser)('whoever has gone on before an answer came', () => {
  test('is not taken back to a conversation that was left, by a day or by a quote', async () => {
    await using panel = await withPanel({ sessions: ['one', 'two'] })
    await write(panel, 'said to one', 'one')
    await write(panel, 'said to two', 'two')
    const page = await panel.open({ path: chatOf(panel, 'one') })
    await bubble(page, 'said to one').waitFor()
    await page.getByRole('button', { name: 'More about this conversation' }).click()
    await page.getByRole('menuitem', { name: 'Go to a day' }).click()
    const slow = await hold(page, /\/api\/messages\?.*until=/)
    await dialog(page).getByLabel('Day', { exact: true }).press('Enter')
    await slow.asked
    await page.keyboard.press('Escape')
    await dialog(page).waitFor({ state: 'detached' })
    await page.getByRole('link', { name: /said to two/ }).click()
    await composer(page).and(page.locator(':focus')).waitFor()
    await page.keyboard.type('for two')
    await slow.release()
    await page.waitForTimeout(100)
    await page.keyboard.type(' alone')
    expect(pathOf(page)).toBe(decodeURIComponent(chatOf(panel, 'two')))
    expect(await composer(page).inputValue()).toBe('for two alone')
    expect(panel.complaints).toEqual([])
  })

  for (const what of ['Rename', 'Log out'] as const)
    test(`stays there: ${what}; and a question asked meanwhile stays open`, async () => {
      await using panel = await withPanel({ sessions: ['a', 'b', 'c'] })
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
      const page = await panel.open({ path: '/sessions/b' })
      const path = what === 'Rename' ? /\/b\/rename$/ : /\/b\/logout$/
      const slow = await hold(page, path)
      await begin('b')
      await slow.asked
      await page.keyboard.press('Escape')
      await dialog(page).waitFor({ state: 'detached' })
      await page.getByRole('navigation').getByRole('link', { name: 'Overview' }).click()
      await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
      await slow.release()
      expect(pathOf(page)).toBe('/')

      await page.goto(`${panel.url}/sessions/a`)
      const second = await hold(page, what === 'Rename' ? /\/a\/rename$/ : /\/a\/logout$/)
      await begin('a')
      await second.asked
      await page.keyboard.press('Escape')
      await dialog(page).waitFor({ state: 'detached' })
      // The service has done it by now, and the others move up.
      if (what === 'Log out') {
        const gone = page.getByRole('heading', { name: 'a', exact: true })
        await gone.waitFor({ state: 'detached' })
      }
      await ask('Rename', 'c')
      await dialog(page).getByLabel('Name').fill('half a na')
      await second.release()
      expect(await dialog(page).getByLabel('Name').inputValue()).toBe('half a na')
      expect(panel.complaints).toEqual([])
    })

  test('writes on: a name that is kept meanwhile takes no letter', async () => {
    await using panel = await withPanel()
    await write(panel, 'hello')
    const page = await panel.open({ path: chatOf(panel) })
    // The second one is refused.
    for (const name of ['Mum', 'a@b']) {
      const slow = await hold(page, /\/name$/)
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

  test('an account: closed and added again, its login is not called off; another name is another account', async () => {
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
    const slow = await hold(page, /\/login$/)
    await add('shop')
    await slow.asked
    await leave()
    await add('shop')
    await slow.release()
    await page.getByRole('img', { name: 'QR code for WeChat' }).waitFor()
    await page.waitForTimeout(300)
    await begun().waitFor()
    expect(await page.getByRole('img', { name: 'QR code for WeChat' }).count()).toBe(1)
    await leave()

    const mistyped = await hold(page, /\/login$/)
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

  test('signed out: nothing that was under way is kept, and nothing of the page is there for who signs in next', async () => {
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
    const slow = await hold(page, /\/api\/messages$/)
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

describe.skipIf(!hasBrowser)('a fast hand', () => {
  test('of two clicks the second says yes to nothing that came under the pointer between them', async () => {
    await using panel = await withPanel()
    await write(panel, 'hello')
    await panel.send({ text: 'one', approval: 'nobody' })
    await panel.send({ text: 'two', approval: 'nobody' })
    const page = await panel.open()
    const yes = page.locator('.asks').getByRole('button', { name: 'Send it' })
    await yes.nth(1).waitFor()
    const { x, y, width, height } = (await yes.first().boundingBox())!
    await page.mouse.click(x + width / 2, y + height / 2)
    await yes.nth(1).waitFor({ state: 'detached' })
    const next = (await yes.first().boundingBox())!
    // It has come to the same place.
    expect(next.y).toBeLessThan(y + height / 2)
    expect(next.y + next.height).toBeGreaterThan(y + height / 2)
    await page.mouse.down({ clickCount: 2 })
    await page.mouse.up({ clickCount: 2 })
    await page.waitForTimeout(300)
    expect(await page.locator('.asks').count()).toBe(1)
    expect((await panel.gateway.outbox.list()).length).toBe(1)
    // A click of its own is one.
    await yes.click()
    await page.locator('.asks').waitFor({ state: 'detached' })
    expect(panel.complaints).toEqual([])
  })

  test('loses no letter where the focus comes with what was opened', async () => {
    await using panel = await withPanel()
    await write(panel, 'hello')
    const page = await panel.open({ path: '/conversations' })
    await page.locator('.conversation').waitFor()
    // Where a letter would go that was pressed before the next drawing.
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
    // Its code is there.
    await page.locator('.conversation').click()
    await composer(page).waitFor()
    await page.goBack()
    await page.locator('.choose').waitFor()
    expect(await after('.conversation')).toBe('textarea')
    expect(await after('.chat-head .name-edit button')).toBe('input')
    expect(panel.complaints).toEqual([])
  })

  test('a menu whose code comes late opens for who waits for it alone', async () => {
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
      expect(await page.getByRole('menuitem').count()).toBe(waits ? 4 : 0)
      await page.keyboard.type('on')
      expect(await composer(page).inputValue()).toBe(waits ? '' : 'on')
    }
    expect(panel.complaints).toEqual([])
  })

  test('a menu opens also where its code comes in the middle of the click', async () => {
    await using panel = await withPanel()
    await write(panel, 'hello')
    const page = await panel.open({ path: '/icon.svg' })
    const views = await hold(page, /layer-views-.*\.js/)
    await page.goto(panel.url + chatOf(panel))
    await bubble(page, 'hello').waitFor()
    // Nobody has asked for it: it comes after the first view.
    await views.asked
    await page.locator('.chat-head').getByRole('button').last().hover()
    await page.mouse.down()
    await views.release()
    await page.locator('.chat-head [data-scope=menu]').waitFor()
    await page.mouse.up()
    await page.getByRole('menuitem').first().waitFor()
    expect(await page.getByRole('menuitem').count()).toBe(4)
    expect(panel.complaints).toEqual([])
  })

  test('who comes to the window just as a conversation opens has read it', async () => {
    await using panel = await withPanel({ sessions: ['one', 'two'] })
    await write(panel, 'said to one', 'one')
    await write(panel, 'said to two', 'two')
    const page = await panel.open({ path: chatOf(panel, 'one') })
    await bubble(page, 'said to one').waitFor()
    // The list is asked for by itself, and may be there later.
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
