import { describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import en from '../../locales/en.json'
import { violationsInBothThemes } from '../support/axe.ts'
import { hasBrowser } from '../support/browser.ts'
import { type TestPanel, withPanel } from '../support/panel.ts'

const dayMs = 86_400_000
const hits = (page: Page) => page.locator('.hit').allInnerTexts()
const chatOf = (panel: TestPanel) =>
  `/conversations/default/${encodeURIComponent(panel.bots.get('default')!.user_id)}`

describe.skipIf(!hasBrowser)('the search', () => {
  test('files by name, voices by transcript, people by name; filtered by account, person, kind and day', async () => {
    await using panel = await withPanel({ sessions: ['shop', 'club'] })
    const { sandbox, bots } = panel
    const [shop, club] = [bots.get('shop')!, bots.get('club')!]
    const ends = ({ user_id, bot_id }: typeof shop) => ({ from: user_id, to: bot_id })
    const other = await sandbox.addUser('other')
    await sandbox.say('the harbour, said by another', { from: other, to: shop.bot_id })
    await sandbox.media('file', 'x', { name: 'harbour plan.pdf', ...ends(shop) })
    await sandbox.media('voice', 'x', { transcript: 'see you at the harbour', ...ends(shop) })
    await sandbox.say('the harbour club', ends(club))
    await panel.receive(4)
    await panel.gateway.users.name({ session: 'shop', user_id: shop.user_id, name: 'Harbour Master' })
    const page = await panel.open({ path: '/conversations?q=harbour' })
    await panel.until('all four are found', async () => (await hits(page)).length === 4)
    // Users of that name come first.
    await page.getByRole('heading', { name: '1 conversation' }).waitFor()
    const all = await hits(page)
    // Each hit names its account.
    const accounts = await page.locator('.hit .account-dot').allInnerTexts()
    expect(accounts.map(text => text.trim().replace('Account ', '')).toSorted()).toEqual([
      'club',
      'shop',
      'shop',
      'shop',
    ])
    expect(all.filter(text => text.includes('harbour plan.pdf'))).toHaveLength(1)
    expect(all.filter(text => /Voice.*\bsee you at the harbour/s.test(text))).toHaveLength(1)
    const found = (what: string, texts: string[]) =>
      panel.until(what, async () => {
        const all = await hits(page)
        return all.length === texts.length && texts.every(text => all.some(one => one.includes(text)))
      })
    await page.getByLabel('Account').selectOption('shop')
    await found('those of the account', ['see you', 'plan.pdf', 'said by another'])
    const person = page.getByRole('combobox', { name: 'Contact' })
    const options = page.getByRole('listbox', { name: 'Contact' }).getByRole('option')
    const personChip = page.getByRole('button', { name: /^Contact/ })
    await personChip.click()
    await options.first().waitFor()
    expect(await violationsInBothThemes(page)).toEqual([])
    await person.fill('nobody of that name')
    await options.first().waitFor({ state: 'detached' })
    // Escape chooses nothing, nor does a click beside it.
    await person.press('Escape')
    await person.waitFor({ state: 'detached' })
    await personChip.and(page.locator(':focus')).waitFor()
    await personChip.press('Enter')
    await person.pressSequentially('bour MAS')
    await options.filter({ hasText: 'Harbour Master' }).waitFor()
    expect(await options.count()).toBe(1)
    expect(await person.getAttribute('aria-activedescendant')).toBe(await options.getAttribute('id'))
    await person.press('Enter')
    await person.waitFor({ state: 'detached' })
    expect(await personChip.innerText()).toBe('Harbour Master')
    await found('those of the person', ['see you', 'plan.pdf'])
    await personChip.press('Enter')
    await options.first().waitFor()
    await person.press('Enter')
    expect(await personChip.innerText()).toBe('Contact')
    await found('those of everybody', ['see you', 'plan.pdf', 'said by another'])
    await personChip.click()
    await options.filter({ hasText: 'Harbour Master' }).click()
    await found('those of the person again', ['see you', 'plan.pdf'])
    await page.getByLabel('Kind').selectOption('Voice')
    await found('the voice', ['see you'])
    // The URL has all filters, also while a conversation is open.
    await page.locator('.hit').click()
    await page.locator('article.looked', { hasText: 'see you' }).waitFor()
    await page.reload()
    await found('the same after a reload', ['see you'])
    for (const name of ['Account', 'Contact', 'Kind'])
      await page.getByRole('button', { name: `Clear the filter ${name}` }).click()
    await found('all again', ['harbour club', 'see you', 'plan.pdf', 'said by another'])
    // The arrow keys go through the hits: each opens in its conversation, and the focus stays in the list.
    await page.getByRole('searchbox').press('ArrowDown')
    const current = page.locator('.conversation[aria-current]')
    const shown: string[] = []
    for (const _hit of await hits(page)) {
      await page.keyboard.press('ArrowDown')
      const hit = page.locator('.hit:focus[aria-current]')
      await hit.waitFor()
      shown.push(await hit.innerText())
      await page.locator('article.looked', { hasText: 'harbour' }).waitFor()
    }
    expect(shown).toEqual(await hits(page))
    expect(await current.count()).toBe(1)
    // A new day may begin during the test.
    const daysAgo = new Date(Date.now() - 2 * dayMs).toLocaleDateString('sv')
    await page.getByRole('button', { name: 'Time', exact: true }).click()
    await page.getByLabel('To', { exact: true }).fill(daysAgo)
    await found('nothing of the days before', [])
    expect(await violationsInBothThemes(page)).toEqual([])
    await page.getByLabel('To', { exact: true }).fill('')
    await page.getByLabel('From', { exact: true }).fill(daysAgo)
    await found('of these days', ['harbour club', 'see you', 'plan.pdf', 'said by another'])
    await page.getByRole('button', { name: en['search.week'] }).click()
    await page.getByRole('button', { name: `Time: ${en['search.week']}` }).waitFor()
    await found('of the last days', ['harbour club', 'see you', 'plan.pdf', 'said by another'])

    // A search does not leave a conversation that was opened from it.
    for (const width of [390, 1280]) {
      await page.setViewportSize({ width, height: 800 })
      await page.goto(`${panel.url}/conversations`)
      await page.locator('.conversation').first().waitFor()
      // The URL changes a moment after the last letter. Here a person opens a conversation in that moment, and
      // the timer fires before the next drawing, as on a busy machine.
      await page.evaluate(async () => {
        const { setTimeout, clearTimeout } = window
        const addressMs = 200
        const due = new Map<number, () => void>()
        Object.assign(window, {
          requestAnimationFrame: () => 0,
          setTimeout: (then: () => void, ms: number) => {
            const id = setTimeout(then, ms)
            if (ms === addressMs) due.set(id, then)
            return id
          },
          clearTimeout: (id: number) => {
            due.delete(id)
            clearTimeout(id)
          },
        })
        const nextTask = () => new Promise(resolve => setTimeout(resolve, 0))
        const field = document.querySelector<HTMLInputElement>('search input')!
        field.value = 'shop'
        field.dispatchEvent(new InputEvent('input', { bubbles: true }))
        while (due.size === 0) await nextTask()
        document.querySelector<HTMLElement>('.conversation')!.click()
        await nextTask()
        for (const then of due.values()) then()
      })
      await page.getByRole('log').waitFor()
      expect(new URL(page.url()).pathname).toStartWith('/conversations/')
    }
    // It does not remove a letter that is typed while the URL changes.
    await page.goto(`${panel.url}/conversations`)
    await page.locator('.conversation').first().waitFor()
    await page.evaluate(async () => {
      const field = document.querySelector<HTMLInputElement>('search input')!
      const type = (text: string) => {
        field.value = text
        field.dispatchEvent(new InputEvent('input', { bubbles: true }))
      }
      const follows = new Promise(resolve =>
        addEventListener('replaceState', () => setTimeout(resolve, 0), { once: true }),
      )
      type('sho')
      await follows
      type('shop')
    })
    await page.waitForURL(/[?&]q=shop$/)
    expect(await page.getByRole('searchbox').inputValue()).toBe('shop')
    expect(panel.complaints).toEqual([])
  })

  test('notifications on request; from a chat: go to a day, look through its media, return to a message, search in it', async () => {
    await using panel = await withPanel()
    const { sandbox } = panel
    const { bot_id: to, user_id: from } = panel.bots.get('default')!
    const writer = await sandbox.addUser('writer')
    await sandbox.say('before', { from: writer, to })
    await panel.receive(1)
    const page = await panel.open({ path: '/icon.svg' })
    // Permits and records notifications, and sets whether the page is hidden: a headless browser does none of it.
    await page.addInitScript(() => {
      const notes: string[] = []
      const Real = Notification
      const state = { notes, hidden: false, asked: 0 }
      Object.assign(globalThis, { state })
      Object.defineProperty(document, 'hidden', { get: () => state.hidden })
      globalThis.Notification = class extends Real {
        static override readonly permission = 'granted'
        static override async requestPermission() {
          state.asked++
          return 'granted' as const
        }
        constructor(title: string, options?: NotificationOptions) {
          super(title, options)
          notes.push(`${title}: ${options?.body}`)
        }
      }
    })
    await page.goto(`${panel.url}/settings`)
    const state = () =>
      page.evaluate(() => (globalThis as unknown as { state: { notes: string[]; asked: number } }).state)
    const hide = (hidden: boolean) =>
      page.evaluate(isIt => {
        ;(globalThis as unknown as { state: { hidden: boolean } }).state.hidden = isIt
      }, hidden)
    // The title has the unread count once the page has received the message.
    const say = async (text: string, unread: number) => {
      await sandbox.say(text, { from: writer, to })
      await panel.until('the page has heard of it', async () =>
        (await page.title()).startsWith(`(${unread})`),
      )
    }
    await panel.until('it is there', async () => (await page.title()).startsWith('(1)'))
    await hide(true)
    await say('nobody asked for this', 2)
    expect(await state()).toMatchObject({ notes: [], asked: 0 })
    await page.getByRole('button', { name: 'Notify me of new messages' }).click()
    await page.getByRole('button', { name: 'Stop notifications' }).waitFor()
    await say('while it is hidden', 3)
    await hide(false)
    await say('while it is seen', 4)
    expect((await state()).notes.map(one => one.replace(/^.*: /, ''))).toEqual(['while it is hidden'])
    // The choice is saved for all pages, and can be turned off.
    await page.goto(`${panel.url}/`)
    await panel.until('it is there', async () => (await page.title()).startsWith('(4)'))
    // The code of notifications is in the settings page.
    await panel.until('its code is there', () =>
      page.evaluate(async () => {
        const loaded = performance.getEntriesByType('resource').map(({ name }) => name)
        const code = loaded.find(name => /\/assets\/settings[^/]*\.js$/.test(name))
        // The entry may be there before the imports of the module are loaded.
        if (code) await import(code)
        return code !== undefined
      }),
    )
    await hide(true)
    await say('after a reload', 5)
    expect((await state()).notes).toHaveLength(1)
    await page.getByRole('link', { name: 'Settings' }).click()
    await page.getByRole('button', { name: 'Stop notifications' }).click()
    await hide(true)
    await say('given up', 6)
    expect((await state()).notes).toHaveLength(1)

    await sandbox.bulk(70, 'early {n}')
    await panel.receive(70)
    const png = await page.screenshot({ clip: { x: 0, y: 0, width: 60, height: 40 } })
    await sandbox.media('image', new Uint8Array(png))
    await sandbox.media('file', 'x', { name: 'minutes.txt' })
    await sandbox.raw(
      {
        message_id: 7,
        from_user_id: from,
        to_user_id: to,
        message_type: 1,
        message_state: 2,
        create_time_ms: Date.now(),
        context_token: 'c',
        item_list: [
          { type: 1, text_item: { text: 'a note before' } },
          { type: 4, file_item: { file_name: 'annex.txt', len: '1' } },
        ],
      },
      to,
    )
    await panel.receive(3)
    await panel.clock.advance(3 * dayMs)
    await sandbox.advance(3 * dayMs)
    await sandbox.bulk(150, 'late {n}')
    await panel.receive(150)
    const later = Date.now() + 3 * dayMs
    await page.clock.setFixedTime(later)
    await page.goto(`${panel.url}${chatOf(panel)}`)
    const choose = async (entry: string) => {
      await page.getByRole('button', { name: 'More about this conversation' }).click()
      await page.getByRole('menuitem', { name: entry }).click()
    }
    const looked = page.locator('article.looked')
    await choose('Go to a day')
    await page.getByLabel('Day', { exact: true }).and(page.locator(':focus')).waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    const go = async (day: number) => {
      await choose('Go to a day')
      await page.getByLabel('Day', { exact: true }).fill(new Date(day).toLocaleDateString('sv'))
      await page.getByRole('button', { name: 'Go', exact: true }).click()
    }
    await go(later - 10 * dayMs)
    await looked.getByText('early 1', { exact: true }).waitFor()
    // That day has no messages, so it goes to the first one after it.
    await go(later - dayMs)
    await looked.getByText('late 1', { exact: true }).waitFor()

    await choose('Pictures and files')
    const picture = page.getByRole('button', { name: en['chat.open_picture'] })
    await picture.click()
    await page.getByRole('dialog', { name: 'Picture' }).waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    // The same before the browser has drawn the picture: Escape does not also close the page behind it.
    await picture.focus()
    await picture.evaluate(async button => {
      const { requestAnimationFrame: draw } = window
      const held: FrameRequestCallback[] = []
      window.requestAnimationFrame = callback => held.push(callback)
      ;(button as HTMLElement).click()
      while (!document.querySelector('[role=dialog]')) await new Promise(done => setTimeout(done))
      const key = { key: 'Escape', bubbles: true, cancelable: true }
      document.activeElement?.dispatchEvent(new KeyboardEvent('keydown', key))
      window.requestAnimationFrame = draw
      for (const callback of held) draw(callback)
    })
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await page.getByRole('link', { name: 'Voices' }).click()
    await page.getByText(en['gallery.none']).waitFor()
    await page.getByRole('link', { name: 'Files' }).click()
    await page.getByText('minutes.txt').waitFor()
    // The second item of its message.
    await page.getByText('annex.txt').waitFor()
    expect(await violationsInBothThemes(page)).toEqual([])
    await page
      .getByRole('listitem')
      .filter({ hasText: 'minutes.txt' })
      .getByRole('link', { name: /^Show in the conversation/ })
      .click()
    await looked.getByText('minutes.txt').waitFor()

    await choose('Search here')
    await page.getByRole('searchbox').and(page.locator(':focus')).waitFor()
    await page.keyboard.type('late 77')
    await page.locator('.hit', { hasText: 'late 77' }).waitFor()
    expect(new URL(page.url()).searchParams.get('person')).toBe(from)

    // ? shows the keys, except in a text field.
    const field = page.getByRole('textbox', { name: 'Message' })
    await field.press('?')
    expect(await field.inputValue()).toBe('?')
    expect(await page.getByRole('dialog').count()).toBe(0)
    await page.locator('h2[tabindex="-1"]').focus()
    await page.keyboard.press('?')
    const dialog = page.getByRole('dialog', { name: en['keys.title'] })
    await dialog.getByText('Search contacts and messages').waitFor()
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
    expect(panel.complaints).toEqual([])
  })
})
