import { describe, expect, test } from 'bun:test'
import type { Locator, Page } from 'playwright-core'
import { violationsInBothThemes } from '../support/axe.ts'
import { hasBrowser } from '../support/browser.ts'
import { withPanel } from '../support/panel.ts'

const dialog = (page: Page) => page.locator('[role=dialog], [role=alertdialog]')
const heading = (page: Page) => dialog(page).getByRole('heading', { level: 2 })
const code = (page: Page) => page.getByRole('img', { name: 'QR code for WeChat' })
const names = (page: Page) => page.locator('.account h2').allTextContents()
/** Keys are for what has the focus, which comes a moment after what is to have it. */
const keysGoTo = (page: Page, target: Locator) => target.and(page.locator(':focus')).waitFor()

describe.skipIf(!hasBrowser)('an account logged in', () => {
  test('the first account: from an empty page to a bot that is awake, by keyboard, through wrong digits', async () => {
    await using panel = await withPanel({ sessions: [], switches: { verify_code: 'on' } })
    const page = await panel.open({ path: '/sessions' })
    await page.getByRole('button', { name: 'Wake it up' }).waitFor()
    expect(await violationsInBothThemes(page)).toEqual([])
    await page.getByRole('button', { name: 'Wake it up' }).focus()
    await page.keyboard.press('Enter')
    await code(page).waitFor()
    expect(await code(page).getAttribute('src')).toStartWith('data:image/svg+xml,')
    expect(await violationsInBothThemes(page)).toEqual([])
    const { verify_code } = await panel.sandbox.scan({ confirm: true })
    const digits = page.getByLabel('Number on the phone')
    await keysGoTo(page, digits)
    await page.keyboard.type('1')
    await page.keyboard.press('Enter')
    await page.getByRole('alert').getByText('That was not the number').waitFor()
    expect(await digits.getAttribute('aria-invalid')).toBe('true')
    expect(await violationsInBothThemes(page)).toEqual([])
    await keysGoTo(page, digits)
    await page.keyboard.type(verify_code!)
    await page.keyboard.press('Enter')
    await keysGoTo(page, page.getByRole('button', { name: 'Done' }))
    expect(await heading(page).textContent()).toContain('default')
    expect(await violationsInBothThemes(page)).toEqual([])
    await page.keyboard.press('Enter')
    await page.locator('.account .badge.good').waitFor()
    expect(await names(page)).toEqual(['default'])
    expect(panel.complaints).toEqual([])
  })

  test('a code that ran out is another one with a notice; closing calls the login off; a link begins none', async () => {
    await using panel = await withPanel()
    const logins = async () =>
      (await panel.gateway.accounts.list()).filter(one => one.status === 'logging_in').length
    // A link from elsewhere to the same address.
    const page = await panel.open({ path: '/sessions/new/login' })
    await dialog(page).getByText('when you are ready').waitFor()
    expect(await logins()).toBe(0)
    await dialog(page).getByRole('button', { name: 'Show the QR code' }).click()
    await code(page).waitFor()
    const first = await code(page).getAttribute('src')
    await panel.sandbox.phone('POST', 'expire')
    await dialog(page).getByText('This is a new one').waitFor()
    expect(await code(page).getAttribute('src')).not.toBe(first)
    expect(await violationsInBothThemes(page)).toEqual([])
    const second = await code(page).getAttribute('src')
    await page.reload()
    await code(page).waitFor()
    expect(await code(page).getAttribute('src')).toBe(second)
    await panel.sandbox.scan({})
    await dialog(page).getByText('Confirm on the phone').waitFor()
    await page.keyboard.press('Escape')
    await panel.until('the login is called off', async () => (await logins()) === 0)
    expect(new URL(page.url()).pathname).toBe('/sessions')
    expect(panel.complaints).toEqual([])
  })

  test('a login whose page was left ends within a minute, one that was scanned goes on', async () => {
    await using panel = await withPanel()
    const logins = async () =>
      (await panel.gateway.accounts.list()).filter(one => one.status === 'logging_in').map(({ name }) => name)
    const begin = async (name: string) => {
      const page = await panel.open({ path: `/sessions/${name}/login` })
      await dialog(page).getByRole('button', { name: 'Show the QR code' }).click()
      await code(page).waitFor()
      return page
    }
    const scanned = await begin('scanned')
    await panel.sandbox.scan({})
    await dialog(scanned).getByText('Confirm on the phone').waitFor()
    const left = await begin('left')
    const stays = await begin('stays')
    await left.goto('about:blank')
    await scanned.close({ runBeforeUnload: true })
    expect((await logins()).sort()).toEqual(['left', 'scanned', 'stays'])
    // A page says so as it goes, and the time counts from then.
    await panel.until('it is known to be left', async () => {
      const login = await panel.other.logins.of('left', panel.clock.now())
      return login?.left_at !== undefined
    })
    await panel.until('it has ended', async () => {
      panel.clock.advance(1000)
      return !(await logins()).includes('left')
    })
    expect((await logins()).sort()).toEqual(['scanned', 'stays'])
    expect(await code(stays).count()).toBe(1)
  })

  test('adding: a free name is proposed, a bad or taken one is refused in place', async () => {
    await using panel = await withPanel()
    const page = await panel.open({ path: '/sessions' })
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
    expect(await violationsInBothThemes(page)).toEqual([])
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
  })
})
