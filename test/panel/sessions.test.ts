import { describe, expect, test } from 'bun:test'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Locator, Page } from 'playwright-core'
import en from '../../locales/en.json'
import { violationsInBothThemes } from '../support/axe.ts'
import { hasBrowser } from '../support/browser.ts'
import { loginIn } from '../support/gateway.ts'
import { withPanel, write } from '../support/panel.ts'
import { keyboard, wordsOf } from '../support/panel-hand.ts'

const words = wordsOf('en')

const dialog = (page: Page) => page.locator('.dialog')
const sheet = (page: Page) => page.locator('.side-sheet')
const heading = (page: Page) => dialog(page).getByRole('heading', { level: 2 })
const code = (page: Page) => page.getByRole('img', { name: 'QR code for WeChat' })
const names = (page: Page) => page.locator('.account-list .row-link').allTextContents()
/** Waits until an element has the focus: it gets it a moment after it appears. */
const keysGoTo = (page: Page, target: Locator) => target.and(page.locator(':focus')).waitFor()
/** Stops the clocks of toasts, so that none disappears by itself: frames, and the time of day. */
const keepToasts = () => {
  const frame = window.requestAnimationFrame
  window.requestAnimationFrame = then => frame.call(window, () => then(0))
  performance.now = () => 0
  // A toast under the pointer pauses; by this clock it counts what is left.
  const at = Date.now()
  Date.now = () => at
}

/** Holds frames back until `release` is called, as on a busy machine. */
const holdFrames = () => {
  const { requestAnimationFrame, cancelAnimationFrame } = window
  const held = new Map<number, FrameRequestCallback>()
  let last = 0
  window.requestAnimationFrame = then => {
    held.set(--last, then)
    return last
  }
  window.cancelAnimationFrame = id => void (held.delete(id) || cancelAnimationFrame(id))
  const release = () => {
    window.requestAnimationFrame = requestAnimationFrame
    for (const then of held.values()) requestAnimationFrame(then)
  }
  Object.assign(window, { release })
}

describe.skipIf(!hasBrowser)('the accounts page', () => {
  test('rename, default and logout by the menu and the keys; a logged-out account offers a new login', async () => {
    await using panel = await withPanel({ sessions: ['a', 'b'] })
    await write(panel, 'Is it blue?', 'b')
    const page = await panel.open({ path: '/sessions/b' })
    await sheet(page).waitFor()
    // The sheet has one, and until it has covered the page, so has the list behind it.
    const menu = (of: string) => page.getByRole('button', { name: `Actions for \u2068${of}\u2069` }).last()
    const choose = async (of: string, entry: string) => {
      await menu(of).focus()
      await page.keyboard.press('Enter')
      const item = page.getByRole('menuitem', { name: entry })
      await item.waitFor()
      // The first entry is highlighted a frame after the menu opened. Arrow keys before that have no effect.
      await page.locator('[role=menuitem][data-highlighted]').waitFor()
      for (let tries = 0; tries < 6 && (await item.getAttribute('data-highlighted')) === null; tries++) {
        await page.keyboard.press('ArrowDown')
      }
      await page.keyboard.press('Enter')
    }
    await choose('b', 'Rename')
    const field = dialog(page).getByLabel('Name')
    await field.fill('a')
    await field.press('Enter')
    await page.getByRole('alert').getByText('already').waitFor()
    await page.keyboard.press('Escape')
    await dialog(page).getByRole('button', { name: en['ask.leave'] }).click()
    await dialog(page).waitFor({ state: 'detached' })
    await keysGoTo(page, menu('b'))

    // The conversations keep their account.
    await choose('b', 'Rename')
    await field.fill('客服')
    await field.press('Enter')
    await dialog(page).waitFor({ state: 'detached' })
    await page.waitForURL(({ pathname }) => decodeURIComponent(pathname) === '/sessions/客服')
    await keysGoTo(page, menu('客服'))
    await page.keyboard.press('Escape')
    await sheet(page).waitFor({ state: 'detached' })
    await keysGoTo(page, page.getByRole('link', { name: '客服', exact: true }))
    const place = (name: string) => page.getByRole('navigation').getByRole('link', { name })
    await place('Conversations').click()
    await page.locator(`a.conversation[href*="/${encodeURIComponent('客服')}/"]`).click()
    await page.getByRole('log').getByText('Is it blue?').waitFor()
    await place('Accounts').click()

    await choose('客服', 'Make default')
    await page.locator('tr', { hasText: '客服' }).locator('.badge').first().waitFor()
    expect(await names(page)).toEqual(['客服', 'a'])
    // The logout dialog names the waiting sends.
    const to = panel.bots.get('b')!.user_id
    await panel.send({ session: '客服', to, text: 'It is.', approval: 'nobody' })
    await choose('客服', 'Log out')
    expect(await dialog(page).getAttribute('role')).toBe('alertdialog')
    expect(await dialog(page).textContent()).toContain(en['sessions.logout_loses'])
    await dialog(page).locator('.waits', { hasText: '1' }).waitFor()
    await dialog(page).getByRole('button', { name: 'Cancel' }).click()
    expect((await panel.gateway.accounts.list()).length).toBe(2)
    await choose('客服', 'Log out')
    await dialog(page).getByRole('button', { name: 'Log out' }).click()
    await dialog(page).waitFor({ state: 'detached' })
    expect(await names(page)).toEqual(['a'])

    await choose('a', 'Log out')
    await dialog(page).getByRole('button', { name: 'Log out' }).click()
    await dialog(page).waitFor({ state: 'detached' })
    const login = (inside: string) =>
      page.locator(`${inside} a[href="/sessions/${encodeURIComponent('客服')}/login"]`)
    await login('.logged-out').waitFor()
    await place('Overview').click()
    await login('.logged-out').waitFor()
    expect(await page.locator('.welcome').count()).toBe(0)
    await page.locator('.concern').getByRole('link', { name: en['approvals.review'] }).click()
    await login('.draft').waitFor()
    expect(await page.locator('.draft').getByRole('button').count()).toBe(1)
    await page.setViewportSize({ width: 390, height: 800 })
    await page.locator('.draft').getByRole('link', { name: en['approvals.open_talk'] }).click()
    const asked = page.locator('.message', { hasText: 'It is.' })
    await login('.message').waitFor()
    expect(await asked.getByRole('button', { name: en['overview.approve'] }).count()).toBe(0)
    // The browser logs the rejected name.
    expect(panel.complaints.filter(line => !line.includes('409'))).toEqual([])
  })

  test('problems say what to do, users with any id are shown, and toasts block nothing', async () => {
    await using panel = await withPanel({ sessions: ['a', 'b', 'broken'] })
    const evil = '<b onclick=alert(1)>&amp;"\u202eevil@im.wechat'
    const to = panel.bots.get('a')!.bot_id
    await panel.sandbox.raw(
      {
        message_id: 7,
        from_user_id: evil,
        to_user_id: to,
        message_type: 1,
        message_state: 2,
        create_time_ms: Date.now(),
        context_token: 'c',
        item_list: [{ type: 1, text_item: { text: 'hi' } }],
      },
      to,
    )
    await panel.receive(1)
    await writeFile(join(panel.dir, 'broken', 'token.json'), '{')
    const page = await panel.open({ path: '/sessions' })
    await page.getByRole('link', { name: 'broken', exact: true }).click()
    await sheet(page).getByText(en['sessions.is_damaged']).waitFor()
    await page.keyboard.press('Escape')
    await sheet(page).waitFor({ state: 'detached' })
    await page.getByRole('link', { name: 'a', exact: true }).click()
    const user = sheet(page).locator('.users a')
    expect(await user.textContent()).toBe(evil.replace('@im.wechat', ''))
    expect(await sheet(page).locator('.users li').textContent()).toContain('10 answers left within 24h')
    expect(await violationsInBothThemes(page)).toEqual([])
    await user.click()
    await page.waitForURL(({ pathname }) => decodeURIComponent(pathname) === `/conversations/a/${evil}`)
    await page.goBack()
    await page.keyboard.press('Escape')
    await sheet(page).waitFor({ state: 'detached' })

    // A person who types before the first frame of a dialog gets the focus back at the menu afterwards.
    const menu = page.getByRole('button', { name: 'Actions for \u2068b\u2069' })
    const entry = (name: string) => page.getByRole('menuitem', { name })
    await menu.focus()
    await page.keyboard.press('Enter')
    // The menu is complete.
    await page.locator('[role=menuitem][data-highlighted]').waitFor()
    await page.evaluate(holdFrames)
    await entry('Rename').dispatchEvent('click')
    await dialog(page).getByLabel('Name').fill('c')
    await page.evaluate(() => Reflect.get(window, 'release')())
    await page
      .locator('main[aria-hidden], [aria-hidden] main, [inert]')
      .first()
      .waitFor({ state: 'attached' })
    await page.keyboard.press('Escape')
    await dialog(page).getByRole('button', { name: en['ask.leave'] }).click()
    await dialog(page).waitFor({ state: 'detached' })
    await keysGoTo(page, menu)

    // A check shows that it is running; the result replaces that.
    await page.evaluate(keepToasts)
    const begun = Promise.withResolvers<void>()
    const held = Promise.withResolvers<void>()
    await page.route('**/check_sessions', async route => {
      begun.resolve()
      await held.promise
      await route.continue()
    })
    const news = page.locator('.toast')
    await menu.click()
    await entry('Check with WeChat').click()
    await begun.promise
    await news.locator('.spinner').waitFor()
    // A check mark would mean that it is done.
    expect(await news.locator('> svg').count()).toBe(0)
    held.resolve()
    await news.locator('> svg').waitFor()
    expect(await news.count()).toBe(1)
    expect(await news.getAttribute('data-type')).toBe('success')

    // Menus and dialogs are above toasts, so that they can be pressed at once.
    await page.setViewportSize({ width: 390, height: 518 })
    const underNews = async (target: Locator) => {
      const box = (await target.boundingBox())!
      const boxes = await Promise.all((await news.all()).map(one => one.boundingBox()))
      return boxes.some(it => it && it.y < box.y + box.height && it.y + it.height > box.y)
    }
    await menu.click()
    await entry('Make default').click()
    await news.getByText('default').waitFor()
    await menu.click()
    await entry('Log out').click({ trial: true })
    expect(await underNews(entry('Log out'))).toBe(true)
    await entry('Log out').click()
    await page.setViewportSize({ width: 390, height: 480 })
    const cancel = dialog(page).getByRole('button', { name: 'Cancel' })
    await cancel.click({ trial: true })
    expect(await underNews(cancel)).toBe(true)
    await cancel.click()
    await dialog(page).waitFor({ state: 'detached' })
    // A toast beside a dialog can be closed, and the dialog stays open.
    await page.setViewportSize({ width: 1280, height: 800 })
    await menu.click()
    await entry('Rename').click()
    await news.getByRole('button', { name: 'Close' }).first().click()
    await news.and(page.locator('[data-state=closed]')).waitFor()
    expect(await dialog(page).count()).toBe(1)
    expect(panel.complaints).toEqual([])
  })

  test('many accounts: a filter by name, problems first, several logged in again one after the other', async () => {
    const all = Array.from({ length: 12 }, (_none, index) => `bot-${index + 1}`)
    await using panel = await withPanel({ sessions: all })
    const lost = ['bot-2', 'bot-4', 'bot-7', 'bot-12']
    for (const name of lost) panel.sandbox.world.people.expire(panel.bots.get(name)!.bot_id)
    const page = await panel.open({ viewport: { width: 1440, height: 900 } })
    const problem = page.locator('.concern', { hasText: '4 accounts need a new scan' })
    await problem.waitFor()
    expect(await page.locator('.concern').count()).toBe(1)
    const comes = (name: string) => heading(page).getByText(name, { exact: false }).waitFor()
    await problem.getByRole('button').last().click()
    await comes('bot-2')
    await code(page).waitFor()
    await panel.sandbox.scan({ user: panel.bots.get('bot-2')!.user_id, confirm: true })
    await page.getByRole('button', { name: /^Next: .*bot-4.* \(3 to go\)/ }).click()
    await comes('bot-4')
    await code(page).waitFor()
    await page.getByRole('button', { name: /^Skip to .*bot-7/ }).click()
    await comes('bot-7')
    await page.keyboard.press('Escape')
    await dialog(page).waitFor({ state: 'detached' })

    const rows = page.locator('.account-list tbody tr')
    await panel.until('three are left', async () => (await page.locator('td .state.bad').count()) === 3)
    expect(await rows.locator('th a').first().innerText()).toBe('bot-4')
    expect(await rows.count()).toBe(12)
    await page.getByRole('searchbox').fill('BOT-1')
    await panel.until('found', async () => (await rows.count()) === 4)
    await page.getByRole('button', { name: words('sessions.choose_troubled_one', { count: 1 }) }).click()
    await page.getByRole('checkbox', { name: /Select .*bot-11/ }).check()
    expect(await violationsInBothThemes(page)).toEqual([])
    for (const width of [320, 390, 1440]) {
      await page.setViewportSize({ width, height: 800 })
      const over = await page.evaluate(() => document.querySelector('main')!.scrollWidth - innerWidth)
      expect([width, Math.max(0, over)]).toEqual([width, 0])
    }
    const oneByOne = page.getByRole('button', { name: /^Log in again one by one \(2\)/ })
    const skip = page.getByRole('button', { name: /^Skip to .*bot-11.*last/ })
    await oneByOne.click()
    await comes('bot-12')
    await skip.waitFor()
    // Going back leaves the series: the next login is a single one.
    await page.goBack()
    await dialog(page).waitFor({ state: 'detached' })
    await page.goForward()
    await comes('bot-12')
    expect(await skip.count()).toBe(0)
    await page.goBack()
    await oneByOne.click()
    await skip.click()
    await comes('bot-11')
    await page.goto(`${panel.url}/accounts`)
    await page.waitForURL(`${panel.url}/sessions`)
    expect(panel.complaints).toEqual([])
  })
})

test.skipIf(!hasBrowser)(
  'an invitation is made and revoked by keyboard; its link is shown once',
  async () => {
    await using panel = await withPanel()
    const page = await panel.open({ path: '/sessions' })
    const hand = keyboard(page)
    await hand.press(page.getByRole('button', { name: en['invite.invite'], exact: true }))
    await hand.write(dialog(page).getByLabel(en['invite.name']), 'mum')
    await hand.enter()
    const link = dialog(page).getByText('/invite#')
    await keysGoTo(page, dialog(page).getByRole('button', { name: /^Copy/ }))
    await dialog(page).getByText('--public-url').waitFor()
    const secret = (await link.innerText()).split('#')[1]!
    expect(secret).toMatch(/^[\w-]{43}$/)
    await hand.press(dialog(page).getByRole('button', { name: en['access.secret_kept'] }))
    await page.getByRole('row', { name: /mum.*0 of 1.*Active/ }).waitFor()
    expect(await page.content()).not.toContain(secret)
    await hand.choose(page.getByRole('button', { name: /Actions for .*mum/ }), en['invite.revoke'])
    await hand.press(page.getByRole('alertdialog').getByRole('button', { name: en['invite.revoke'] }))
    await page.getByRole('row', { name: /mum.*Revoked/ }).waitFor()
    expect(panel.complaints).toEqual([])
  },
)

describe.skipIf(!hasBrowser)('an account logged in', () => {
  test('the first by keyboard, with wrong digits; another with rejected names and a renewed code; an abandoned login ends', async () => {
    await using panel = await withPanel({ sessions: [], switches: { verify_code: 'on' } })
    const page = await panel.open({ path: '/sessions' })
    await page.getByRole('button', { name: en['welcome.go'] }).focus()
    await page.keyboard.press('Enter')
    await code(page).waitFor()
    expect(await code(page).getAttribute('src')).toStartWith('data:image/svg+xml,')
    const { verify_code } = await panel.sandbox.scan({ confirm: true })
    const digits = page.getByLabel('Number on the phone')
    await keysGoTo(page, digits)
    await page.keyboard.type('1')
    await page.keyboard.press('Enter')
    await page.getByRole('alert').getByText(en['login.wrong_code']).waitFor()
    expect(await digits.getAttribute('aria-invalid')).toBe('true')
    expect(await violationsInBothThemes(page)).toEqual([])
    await keysGoTo(page, digits)
    await page.keyboard.type(verify_code!)
    await page.keyboard.press('Enter')
    await keysGoTo(page, page.getByRole('button', { name: 'Done' }))
    expect(await heading(page).textContent()).toContain('default')
    await page.keyboard.press('Enter')
    await page.locator('td .state.good').waitFor()
    expect(await names(page)).toEqual(['default'])

    // A second account.
    await panel.sandbox.switches({ verify_code: 'off' })
    await page.getByRole('link', { name: 'Add account' }).click()
    const name = page.getByLabel('Name (optional)')
    expect(await name.getAttribute('placeholder')).toBe('account-2')
    for (const [bad, why] of [
      ['DEFAULT', 'already'],
      ['<img src=x onerror=alert(1)>', 'cannot be used'],
      ['长'.repeat(65), 'longer than 64'],
      ['a\u200fb', 'not a letter'],
    ] as const) {
      await name.fill(bad)
      await page.keyboard.press('Enter')
      await page.getByRole('alert').getByText(why).waitFor()
    }
    const longest = '长'.repeat(64)
    await name.fill(longest)
    await page.keyboard.press('Enter')
    await code(page).waitFor()
    await panel.sandbox.scan({ user: await panel.sandbox.addUser('another'), confirm: true })
    await page.getByRole('button', { name: 'Done' }).click()
    expect(await names(page)).toEqual(['default', longest])
    for (const width of [360, 2560]) {
      await page.setViewportSize({ width, height: 800 })
      const over = await page.evaluate(
        () => document.documentElement.scrollWidth > document.documentElement.clientWidth,
      )
      expect([width, over]).toEqual([width, false])
    }

    // A link from elsewhere to the same URL starts no login.
    const logins = async () =>
      (await panel.gateway.accounts.list()).filter(one => one.status === 'logging_in').map(({ name }) => name)
    const begin = async (account: string) => {
      await page.goto(`${panel.url}/sessions/${account}/login`)
      await dialog(page).getByText(en['login.ready']).waitFor()
      expect(await logins()).not.toContain(account)
      await dialog(page).getByRole('button', { name: 'Show the QR code' }).click()
      await code(page).waitFor()
    }
    await begin('new')
    const first = await code(page).getAttribute('src')
    await panel.sandbox.phone('POST', 'expire')
    await dialog(page).getByText(en['login.renewed']).waitFor()
    const second = await code(page).getAttribute('src')
    expect(second).not.toBe(first)
    await page.reload()
    await code(page).waitFor()
    expect(await code(page).getAttribute('src')).toBe(second)
    await panel.sandbox.scan({})
    await dialog(page).getByText('Confirm on the phone').waitFor()
    // Closing the dialog cancels the login.
    await page.keyboard.press('Escape')
    await panel.until('the login is called off', async () => (await logins()).length === 0)
    expect(new URL(page.url()).pathname).toBe('/sessions')

    // A login whose page was left ends within a minute; a scanned one goes on.
    await begin('scanned')
    await panel.sandbox.scan({})
    await dialog(page).getByText('Confirm on the phone').waitFor()
    await begin('left')
    await begin('stays')
    expect((await logins()).sort()).toEqual(['left', 'scanned', 'stays'])
    // The page reports that it is being left, and the minute begins then.
    await panel.until('it is known to be left', async () => {
      return (await loginIn(panel.dir, 'left')).left_at !== undefined
    })
    await panel.until('it has ended', async () => {
      panel.clock.advance(1000)
      return !(await logins()).includes('left')
    })
    expect((await logins()).sort()).toEqual(['scanned', 'stays'])
    expect(await code(page).count()).toBe(1)
    // The browser logs the rejected names.
    expect(panel.complaints.filter(line => !line.includes('422'))).toEqual([])
  })
})
