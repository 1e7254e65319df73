/** The page of what waits for a person: one draft after the other, and nothing is sent by accident. */
import { describe, expect, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import type { Page } from 'playwright-core'
import { owner } from '../../src/model/principal.ts'
import { violationsInBothThemes } from '../support/axe.ts'
import { hasBrowser } from '../support/browser.ts'
import { type TestPanel, withPanel, write } from '../support/panel.ts'
import { wordsOf } from '../support/panel-hand.ts'

const t = wordsOf('en')
const draft = (page: Page) => page.getByRole('article')
/** Waits until a draft is open, and may be decided about. */
const opened = (page: Page, text: string) =>
  draft(page).filter({ hasText: text }).locator('.yes:not([aria-disabled=true])').waitFor()
const focused = (page: Page, selector: string) => page.locator(selector).and(page.locator(':focus')).waitFor()
const row = (page: Page, text: string) => page.locator('.drafts li', { hasText: text })
const texts = async (panel: TestPanel) =>
  (await panel.gateway.outbox.list(owner)).map(({ parts }) => parts[0]!.text)
/** Counts what the page asks the service to send. */
function countSends(page: Page) {
  const sends = { count: 0 }
  page.on('request', request => {
    if (request.url().endsWith('/approve_outbox')) sends.count++
  })
  return sends
}

describe.skipIf(!hasBrowser)('approvals', () => {
  test('what the contact wrote, the draft with its media, and the decision, on a wide screen and a phone', async () => {
    await using panel = await withPanel()
    await write(panel, 'are you there?')
    const file = { kind: 'file' as const, data: btoa('x'), file_name: 'plan.txt' }
    const picture = {
      kind: 'image' as const,
      file_name: 'plan.png',
      data: 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
    }
    const page = await panel.open({ path: '/approvals' })
    await page.getByText(t('approvals.none_mine')).waitFor()
    // Sends that wait for approval appear at once, and the oldest one is opened.
    await panel.send({ text: 'shall I?', approval: 'nobody' })
    await opened(page, 'shall I?')
    await panel.send({ text: 'or this?', approval: 'nobody' })
    await panel.send({ text: 'with a plan?', media: [file, picture], approval: 'nobody' })
    await row(page, 'with a plan?').getByRole('link').click()
    await opened(page, 'with a plan?')
    await draft(page).getByText('are you there?').waitFor()
    await draft(page)
      .getByText(/10 answers$/)
      .waitFor()
    const image = page.locator('.draft-content img')
    expect(await image.evaluate((one: HTMLImageElement) => one.decode().then(() => one.naturalWidth))).toBe(1)
    const saved = page.waitForEvent('download')
    await draft(page).getByRole('link', { name: 'plan.txt' }).click()
    expect(await readFile(await (await saved).path(), 'utf8')).toBe('x')
    // What is written meanwhile comes, above the draft.
    await write(panel, 'hello?')
    await page.locator('.said').getByText('hello?').waitFor()
    expect(await violationsInBothThemes(page)).toEqual([])

    await row(page, 'or this?').getByRole('link').click()
    await page.getByRole('button', { name: 'Decline: or this?' }).click()
    await opened(page, 'with a plan?')
    expect(await texts(panel)).toEqual(['shall I?', 'with a plan?'])
    await page.setViewportSize({ width: 390, height: 800 })
    const edges = () => page.evaluate(() => [document.documentElement.scrollWidth, innerWidth])
    const [no, yes] = await Promise.all(
      ['Decline', 'Send it'].map(name => page.getByRole('button', { name }).boundingBox()),
    )
    expect(yes!.y).toBe(no!.y)
    expect(Math.min(yes!.height, no!.height, yes!.width, no!.width)).toBeGreaterThanOrEqual(44)
    expect(await edges()).toEqual([390, 390])
    await page.getByRole('link', { name: t('approvals.back') }).click()
    await row(page, 'shall I?').waitFor()
    expect(await draft(page).count()).toBe(0)
    expect(await edges()).toEqual([390, 390])
    await row(page, 'shall I?').getByRole('link').click()
    await page.getByRole('button', { name: 'Send it: shall I?' }).click()
    await opened(page, 'with a plan?')
    await panel.sandbox.seen(messages => messages.some(({ items }) => items[0]?.text === 'shall I?'))
    // The bubble says who let it go, and leads to the record.
    await page.getByRole('button', { name: 'Edit: with a plan?' }).click()
    await draft(page).getByRole('textbox').fill('with the plan')
    await page.getByRole('button', { name: t('overview.approve_edited') }).click()
    await draft(page).waitFor({ state: 'detached' })
    await page.goto(`${panel.url}/conversations/default/${panel.bots.get('default')!.user_id}`)
    const by = (text: string) => page.getByRole('log').locator('article', { hasText: text }).locator('.by a')
    for (const [text, key] of [
      ['shall I?', 'chat.approved_by'],
      ['with the plan', 'chat.changed_by'],
    ] as const)
      await by(text)
        .filter({ hasText: t(key, { who: '\u2068Owner\u2069' }) })
        .waitFor()
    expect(await violationsInBothThemes(page)).toEqual([])
    await by('shall I?').click()
    await page.waitForURL(url => url.searchParams.has('message'))
    // The audit log leads from the decision to the life of the message.
    await page.goto(`${panel.url}/audit?what=approve_outbox`)
    await page.getByRole('main').getByRole('listitem').getByRole('link').first().click()
    await page.getByRole('link', { name: t('audit.life') }).click()
    await page.waitForURL(url => url.searchParams.has('message'))
    const lines = page
      .getByRole('main')
      .getByRole('list', { name: t('nav.audit') })
      .getByRole('listitem')
    await panel.until('the whole record', async () => (await lines.count()) === 2)
    expect(panel.complaints).toEqual([])
  })

  test('an approval can be taken back for five seconds, and goes at once if the page is left', async () => {
    await using panel = await withPanel()
    await write(panel, 'hello')
    for (const text of ['one', 'two']) await panel.send({ text, approval: 'nobody' })
    const page = await panel.open({ path: '/approvals' })
    const sends = countSends(page)
    await opened(page, 'one')
    await page.getByRole('button', { name: 'Send it: one' }).click()
    await opened(page, 'two')
    const leaving = page.locator('.leaving')
    await leaving.getByText(/in five seconds/).waitFor()
    expect(await row(page, 'one').count()).toBe(0)
    await leaving.getByRole('button', { name: t('approvals.take_back') }).click()
    await opened(page, 'one')
    await leaving.waitFor({ state: 'detached' })
    expect([sends.count, await texts(panel)]).toEqual([0, ['one', 'two']])

    await page.getByRole('button', { name: 'Send it: one' }).click()
    await leaving.waitFor()
    expect(await texts(panel)).toEqual(['one', 'two'])
    await page.goto(`${panel.url}/settings`)
    await panel.until('it is sent', async () => (await texts(panel)).length === 1)
    // N leads to what needs a person: the other draft, then the contact who waits, if there is one.
    const waiting = page.getByRole('navigation').locator('a[href$="/approvals"] .count', { hasText: '1' })
    await waiting.waitFor({ state: 'attached' })
    await page.keyboard.press('n')
    await opened(page, 'two')
    expect(panel.complaints).toEqual([])
  })

  test('a window that is turned and has room beside the list opens the oldest one', async () => {
    await using panel = await withPanel()
    for (const text of ['one', 'two']) await panel.send({ text, approval: 'nobody' })
    const page = await panel.open({ path: '/approvals', viewport: { width: 800, height: 1280 } })
    await row(page, 'one').waitFor()
    expect(await draft(page).count()).toBe(0)
    await page.setViewportSize({ width: 1280, height: 800 })
    await opened(page, 'one')
    expect(panel.complaints).toEqual([])
  })

  test('by keyboard: no key sends or declines, and a second Enter sends no other one', async () => {
    await using panel = await withPanel()
    await write(panel, 'hello')
    for (const text of ['one', 'two', 'three']) await panel.send({ text, approval: 'nobody' })
    const page = await panel.open({ path: '/approvals', hastens: 5000 })
    const sends = countSends(page)
    await opened(page, 'one')
    await page.keyboard.press('j')
    await opened(page, 'two')
    await focused(page, '.draft')
    await page.keyboard.press('x')
    await page.getByText(t('approvals.chosen_one', { count: 1 })).waitFor()
    await page.keyboard.press('k')
    await opened(page, 'one')
    await page.keyboard.press('Enter')
    await focused(page, '.yes')
    expect(sends.count).toBe(0)
    // A key that is held down presses nothing.
    await page.keyboard.down('Enter')
    await page.keyboard.down('Enter')
    await page.keyboard.down('Enter')
    await page.keyboard.up('Enter')
    await opened(page, 'two')
    await focused(page, '.draft')
    expect([sends.count, await texts(panel)]).toEqual([1, ['two', 'three']])
    // An edit: Escape gives up only what was not changed, Enter sends only what was.
    await page.keyboard.press('e')
    await focused(page, '.draft textarea')
    await page.keyboard.press('Enter')
    await page.keyboard.press('Escape')
    await focused(page, '.draft .edit')
    await page.keyboard.press('Enter')
    await focused(page, '.draft textarea')
    await page.keyboard.press('End')
    await page.keyboard.type(' more')
    await page.keyboard.press('Escape')
    await focused(page, '.draft .undo')
    expect(sends.count).toBe(1)
    // The text survives a visit to another page.
    await page.getByRole('link', { name: 'Settings' }).click()
    await page.goBack()
    await opened(page, '')
    const field = draft(page).getByRole('textbox')
    expect(await field.inputValue()).toBe('two more')
    await field.focus()
    await page.keyboard.press('Shift+Enter')
    await page.keyboard.type('line')
    await page.keyboard.press('Enter')
    await panel.until('it is sent', async () => (await texts(panel)).length === 1)
    const [sent] = (await panel.gateway.history.page({ limit: 1, offset: 0, text_contains: 'line' })).messages
    expect(sent?.text).toContain('\nline')
    await opened(page, 'three')
    await focused(page, '.draft')
    expect(panel.complaints).toEqual([])
  })

  test('what somebody else decides puts no other draft under the finger, and several are shown before they go', async () => {
    await using panel = await withPanel()
    await write(panel, 'hello')
    const ids: string[] = []
    for (const text of ['one', 'two', 'three', 'four'])
      ids.push((await panel.send({ text, approval: 'nobody' })).outbox_id!)
    const page = await panel.open({ path: '/approvals', hastens: 2000 })
    const sends = countSends(page)
    await opened(page, 'one')
    await panel.gateway.outbox.cancel(owner, ids[0]!)
    await page.getByRole('heading', { name: t('approvals.gone') }).waitFor()
    expect(await page.locator('.yes').count()).toBe(0)
    await page.getByRole('button', { name: t('approvals.next') }).click()
    await opened(page, 'two')
    await page.getByLabel(t('approvals.choose_all')).check()
    await page.getByRole('button', { name: t('approvals.send_these') }).click()
    const question = page.getByRole('alertdialog')
    for (const text of ['two', 'three', 'four'])
      await question.getByRole('listitem').filter({ hasText: text }).waitFor()
    // The list stays as it was read. The focus is on the way back.
    const cancel = question.getByRole('button', { name: t('action.cancel') })
    await cancel.and(page.locator(':focus')).waitFor()
    await page.keyboard.press('Enter')
    await question.waitFor({ state: 'detached' })
    await row(page, 'three').getByRole('checkbox').uncheck()
    await page.getByRole('button', { name: t('approvals.send_these') }).click()
    expect(await question.getByRole('listitem').count()).toBe(2)
    expect(sends.count).toBe(0)
    await question.getByRole('button', { name: t('approvals.send_go_other', { count: 2 }) }).click()
    await question.waitFor({ state: 'detached' })
    expect([sends.count, await texts(panel)]).toEqual([2, ['three']])
    expect(panel.complaints).toEqual([])
  })
})
