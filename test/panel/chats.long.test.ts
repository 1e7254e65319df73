/** What one does in a chat besides reading and writing: actions on messages, the tabs of the list, the person. */
import { expect, test } from 'bun:test'
import type { Locator, Page } from 'playwright-core'
import { owner } from '../../src/model/principal.ts'
import { violationsInBothThemes } from '../support/axe.ts'
import { hasBrowser } from '../support/browser.ts'
import { type TestPanel, withPanel, write } from '../support/panel.ts'
import { wordsOf } from '../support/panel-hand.ts'

const t = wordsOf('en')
const wide = { width: 1440, height: 900 }
const phone = { width: 390, height: 844 }
const log = (page: Page) => page.getByRole('log')
const bubble = (page: Page, text: string) => log(page).locator('article', { hasText: text })
const field = (page: Page) => page.getByRole('textbox', { name: t('composer.write'), exact: true })
const button = (within: Page | Locator, name: string) => within.getByRole('button', { name, exact: true })
const line = (page: Page, text: string) => page.locator('a.conversation', { hasText: text })
const isFocused = (of: Locator) => of.and(of.page().locator(':focus')).waitFor()
const chatOf = ({ bots }: TestPanel, session: string) =>
  `/conversations/${session}/${encodeURIComponent(bots.get(session)!.user_id)}`
const picture = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4nGP4z8DwHwyBNAAe8AP9lD5ZpgAAAABJRU5ErkJggg==',
  'base64',
)
const attached = (page: Page) =>
  page.getByRole('list', { name: t('composer.attached') }).getByRole('listitem')
const sent = async ({ sandbox }: TestPanel) => (await sandbox.messages({ from: 'bot', limit: 100 })).length

test.skipIf(!hasBrowser)(
  'by pointer and by keyboard: copy, forward, see the raw message; nothing moves or is sent',
  async () => {
    await using panel = await withPanel({ sessions: ['first', 'second'] })
    const { bots, sandbox } = panel
    await write(panel, 'to the second', 'second')
    for (const text of ['one', 'two', 'three']) await write(panel, `line ${text}`, 'first')
    const { bot_id: to, user_id: from } = bots.get('first')!
    await sandbox.media('image', picture, { from, to })
    await panel.receive(5)
    const page = await panel.open({ path: chatOf(panel, 'second'), viewport: wide })
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    const clipboard = () => page.evaluate(() => navigator.clipboard.readText())

    // The other chat has a draft and a file, from an earlier visit.
    await bubble(page, 'to the second').waitFor()
    await field(page).fill('already written')
    await page
      .locator('input[type=file]')
      .setInputFiles({ name: 'a.pdf', mimeType: 'application/pdf', buffer: picture })
    await attached(page).first().waitFor()
    await page.goto(panel.url + chatOf(panel, 'first'))
    await log(page).locator('.picture:not(.loading)').waitFor()

    // By pointer.
    const boxes = () =>
      log(page)
        .locator('.bubble')
        .evaluateAll(all => all.map(one => JSON.stringify(one.getBoundingClientRect())))
    const before = await boxes()
    await bubble(page, 'line two').locator('.bubble').hover()
    await button(bubble(page, 'line two'), t('message.copy')).click()
    await page.getByText(t('action.copied')).waitFor()
    expect(await clipboard()).toBe('line two')
    expect(await boxes()).toEqual(before)
    const menu = button(bubble(page, 'line two'), t('message.more'))
    await menu.click()
    expect(await page.getByRole('menuitem').allInnerTexts()).toEqual(
      (['message.copy', 'message.forward', 'message.copy_id', 'message.raw'] as const).map(key => t(key)),
    )
    await page.getByRole('menuitem', { name: t('message.raw') }).click()
    const raw = JSON.parse(await page.getByRole('dialog').locator('code').innerText())
    const { messages } = await panel.gateway.history.page({ limit: 1, offset: 0, text_contains: 'line two' })
    expect(raw).toEqual(JSON.parse(JSON.stringify(messages[0])))
    // It is what every reader of the history gets: no token or key of WeChat.
    expect(JSON.stringify(raw)).not.toMatch(/token|aes|key|encrypt/i)
    expect(await violationsInBothThemes(page)).toEqual([])
    await page.keyboard.press('Escape')
    await isFocused(menu)

    // By keyboard: one stop of Tab, the arrow keys go from message to message.
    await page.keyboard.press('ArrowDown')
    await isFocused(button(bubble(page, 'line three'), t('message.copy')))
    await page.keyboard.press('ArrowUp')
    await page.keyboard.press('ArrowUp')
    await isFocused(button(bubble(page, 'line one'), t('message.copy')))
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').getByRole('searchbox').fill('second')
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await isFocused(field(page))
    expect(await field(page).inputValue()).toBe('already written\nline one')
    await attached(page).first().waitFor()

    // A picture goes beside the file that was there.
    await page.goBack()
    const shown = log(page).locator('article', { has: page.locator('.picture') })
    await shown.locator('.bubble').hover()
    await button(shown, t('message.forward')).click()
    await page.getByRole('dialog').getByRole('button', { name: 'second' }).click()
    await panel.until('both files are there', async () => (await attached(page).count()) === 2)
    expect(await field(page).inputValue()).toBe('already written\nline one')
    expect(await sent(panel)).toBe(0)
    await page.reload()
    await panel.until('both were saved', async () => (await attached(page).count()) === 2)
    await field(page).press('Enter')
    await panel.until('all is sent on Enter', async () => (await sent(panel)) === 3)
    expect(panel.complaints).toEqual([])
  },
)

test.skipIf(!hasBrowser)(
  'a long press opens the actions of a message, and nothing below the finger; a short one does not',
  async () => {
    await using panel = await withPanel()
    await write(panel, 'see https://example.com/long')
    // The note that something was copied covers the end of the chat.
    for (const nth of [1, 2, 3]) await write(panel, `the next ${nth}`)
    await write(panel, 'the last')
    const page = await panel.open({
      path: chatOf(panel, 'default'),
      viewport: phone,
      hasTouch: true,
      isMobile: true,
    })
    const finger = await page.context().newCDPSession(page)
    const touch = async (what: Locator, forMs: number) => {
      const { x, y, width, height } = (await what.boundingBox())!
      const touchPoints = [{ x: x + width / 2, y: y + height / 2 }]
      await finger.send('Input.dispatchTouchEvent', { type: 'touchStart', touchPoints })
      if (forMs > 0) await page.getByRole('menu').waitFor()
      await finger.send('Input.dispatchTouchEvent', { type: 'touchEnd', touchPoints: [] })
    }
    const last = bubble(page, 'the last').locator('.text')
    await last.waitFor()
    await touch(last, 0)
    expect(await page.getByRole('menu').count()).toBe(0)
    for (const what of [last, bubble(page, 'see').getByRole('link')]) {
      await touch(what, 1)
      const { x, width } = (await page.getByRole('menu').boundingBox())!
      expect([x >= 0, x + width <= phone.width]).toEqual([true, true])
      expect(await violationsInBothThemes(page)).toEqual([])
      await page.getByRole('menuitem', { name: t('message.copy_id') }).tap()
      await page.getByText(t('action.copied')).first().waitFor()
      await page.getByRole('menu').waitFor({ state: 'detached' })
    }
    // The link was not followed.
    expect(page.context().pages()).toHaveLength(1)
    expect(panel.complaints).toEqual([])
  },
)

test.skipIf(!hasBrowser)(
  'tabs by keyboard and by URL, the colours of accounts; an open chat stays when it is read',
  async () => {
    await using panel = await withPanel({ sessions: ['blue', 'red'] })
    for (const session of ['blue', 'red']) await write(panel, `from ${session}`, session)
    await write(panel, 'again from blue', 'blue')
    const page = await panel.open({ path: '/conversations', viewport: wide })
    const texts = () => page.locator('a.conversation .lower .grow').allInnerTexts()
    const tab = (key: 'all' | 'unread' | 'waiting' | 'open') =>
      page.getByRole('tab', { name: t(`conversations.${key}`), exact: true })
    const isShown = (...wanted: string[]) =>
      panel.until(wanted.join(), async () => (await texts()).join() === wanted.join())
    await isShown('again from blue', 'from red')
    // Each account has its colour, and is named by it.
    const dots = page.locator('a.conversation .account-dot')
    expect(await dots.evaluateAll(all => all.map(one => one.getAttribute('title')))).toEqual(
      ['blue', 'red'].map(session => t('chat.session', { session })),
    )
    expect(
      new Set(await dots.evaluateAll(all => all.map(one => getComputedStyle(one).backgroundColor))).size,
    ).toBe(2)
    expect(await violationsInBothThemes(page)).toEqual([])
    await tab('all').focus()
    await page.keyboard.press('ArrowRight')
    await isFocused(tab('unread'))
    expect(new URL(page.url()).search).toBe('?show=unread')
    await line(page, 'from red').click()
    await panel.until(
      'it is read',
      async () => (await page.locator('a.conversation[aria-current] .count').count()) === 0,
    )
    await isShown('again from blue', 'from red')
    await page.reload()
    await isShown('again from blue', 'from red')
    await line(page, 'from blue').click()
    await isShown('again from blue')
    await field(page).fill('an answer')
    await field(page).press('Enter')
    await bubble(page, 'an answer').locator('.delivery.accepted').waitFor()
    await tab('waiting').click()
    // The one that waits longest, and the open one.
    await isShown('from red', 'an answer')
    await line(page, 'from red').click()
    await isShown('from red')
    await tab('open').click()
    await isShown('an answer', 'from red')
    // One account.
    await page.locator('.list-chips').getByRole('link', { name: 'blue' }).click()
    await isShown('an answer')
    expect(await dots.count()).toBe(0)
    await tab('unread').click()
    await page.getByText(t('conversations.none_unread')).waitFor()
    await page.getByRole('link', { name: t('conversations.show_all') }).click()
    await tab('all').click()
    await isShown('an answer', 'from red')
    expect(panel.complaints).toEqual([])
  },
)

test.skipIf(!hasBrowser)(
  'the person: beside the chat, in a sheet on a phone; who may write, media, erase',
  async () => {
    const token = 'a token that is long enough'
    await using panel = await withPanel({ sessions: ['first', 'second'], token })
    const { bots, gateway, sandbox } = panel
    const { bot_id: to, user_id: from } = bots.get('first')!
    await write(panel, 'hello', 'first')
    await write(panel, 'hello', 'second')
    await sandbox.media('image', picture, { from, to })
    await panel.receive(3)
    await gateway.users.name({ session: 'first', user_id: from, name: 'Ann' })
    const keys = [
      { name: 'answers', can: ['reply'] },
      { name: 'drafts', can: ['draft'], users: [from] },
      { name: 'reads', can: ['read'] },
      { name: 'elsewhere', can: ['reply'], sessions: ['second'] },
      { name: 'for others', can: ['operate'], users: [bots.get('second')!.user_id] },
    ]
    for (const key of keys) await gateway.keys.add(key, owner)
    const page = await panel.open({ path: chatOf(panel, 'first'), viewport: wide })
    await page.getByLabel(t('signin.token'), { exact: true }).fill(token)
    await page.keyboard.press('Enter')
    const aside = page.getByRole('complementary', { name: t('person.title') })
    const open = button(page, t('person.title'))
    const facts = async (person: Locator) => {
      await person.locator('.picture:not(.loading)').waitFor()
      await person.getByRole('link', { name: 'drafts' }).waitFor()
      expect(await person.locator('.person-list a').allInnerTexts()).toEqual(['answers', 'drafts'])
      expect(await person.locator('.person-list li').nth(1).innerText()).toContain(t('person.drafts'))
      expect(await person.locator('dt').allInnerTexts()).toEqual(
        (
          [
            'search.account',
            'person.first_seen',
            'person.last_seen',
            'person.window',
            'person.answers',
          ] as const
        ).map(key => t(key)),
      )
      expect(await violationsInBothThemes(page)).toEqual([])
    }
    await facts(aside)
    // Closed, it stays closed in this browser.
    const width = async () => (await log(page).boundingBox())!.width
    const narrower = await width()
    await open.click()
    await aside.waitFor({ state: 'detached' })
    expect(await width()).toBeGreaterThan(narrower)
    await page.reload()
    await bubble(page, 'hello').waitFor()
    expect(await aside.count()).toBe(0)

    await page.setViewportSize(phone)
    const sheet = page.getByRole('dialog', { name: t('person.title') })
    await open.click()
    await facts(sheet)
    expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(
      0,
    )
    await page.keyboard.press('Escape')
    await sheet.waitFor({ state: 'detached' })
    await isFocused(open)
    await open.click()
    await button(sheet, t('name.change')).click()
    await sheet.getByRole('textbox').fill('Anna')
    await page.keyboard.press('Enter')
    await sheet.getByText('Anna').first().waitFor()
    await button(sheet, t('chat.forget')).click()
    await page
      .getByRole('alertdialog', { name: t('people.forget_heading', { name: '\u2068Anna\u2069' }) })
      .waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('alertdialog').waitFor({ state: 'detached' })
    await sheet.getByRole('link', { name: t('person.all_media') }).click()
    await page.locator('.gallery .picture').waitFor()
    await sheet.waitFor({ state: 'detached' })
    expect(panel.complaints).toEqual([])
  },
)
