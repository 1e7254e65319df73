/** The data of people in the panel: export, erase; and backups. */
import { describe, expect, test } from 'bun:test'
import { mkdir, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { createDirectCall } from '../../src/model/call.ts'
import { invoke } from '../../src/operations/gate.ts'
import { nameUser } from '../../src/operations/users.ts'
import { silentLog } from '../../src/platform/log.ts'
import { violationsInBothThemes } from '../support/axe.ts'
import { hasBrowser } from '../support/browser.ts'
import { folderOfTest } from '../support/folder.ts'
import { type TestPanel, withPanel } from '../support/panel.ts'
import { keyboard, pointer, wordsOf } from '../support/panel-hand.ts'
import { svcProgram } from '../support/svc-program.ts'

const dayMs = 86_400_000
const words = wordsOf('en')
const dialogOf = (page: Page) => page.getByRole('dialog').or(page.getByRole('alertdialog'))
const chatOf = (user: string, session = 'default') => `/conversations/${session}/${encodeURIComponent(user)}`
/** The button of the menu, once its code is loaded: a menu that opens before has no selected entry. */
const menuOf = (page: Page, t = words) =>
  page.getByRole('button', { name: t('chat.menu') }).and(page.locator('[data-part=trigger]'))
const rows = (page: Page, text: string) => page.locator('a.conversation', { hasText: text })

/** Takes a screenshot if SVC_SHOTS names a folder. */
const shot = async (page: Page, name: string) => {
  if (process.env.SVC_SHOTS) await page.screenshot({ path: `${process.env.SVC_SHOTS}/${name}.png` })
}

async function expectFit(page: Page, what: string): Promise<void> {
  await expectNarrow(page, what)
  // The dialog is above this text. To axe it looks like a text on the colour of the dialog.
  const found = (await violationsInBothThemes(page)).filter(line => !line.includes('log-wait'))
  expect([what, found]).toEqual([what, []])
}

async function expectNarrow(page: Page, what: string): Promise<void> {
  await shot(page, what)
  const isWide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)
  expect([what, isWide]).toEqual([what, false])
}

/** Opens the link of the dialog. @returns the name and the content of the file */
async function download(page: Page, press: () => Promise<void>): Promise<[name: string, text: string]> {
  const saved = page.waitForEvent('download')
  await press()
  const file = await saved
  return [file.suggestedFilename(), await readFile(await file.path(), 'utf8')]
}

/** Two people write to the first account. @returns their ids */
async function withPeople(panel: TestPanel): Promise<[mum: string, other: string]> {
  const { bot_id, user_id } = panel.bots.get('default')!
  const other = await panel.sandbox.addUser('other')
  await panel.sandbox.say('<b>dinner</b> at six?', { to: bot_id, from: user_id })
  await panel.sandbox.say('hello from another', { to: bot_id, from: other })
  await panel.receive(2)
  await panel.until('both are known', async () => (await panel.gateway.users.list()).length === 2)
  await panel.gateway.users.name({ user_id, name: 'Mum' })
  return [user_id, other]
}

describe.skipIf(!hasBrowser)('the data of people', () => {
  test('by keyboard: a conversation is exported as a page, and since a day as JSON lines', async () => {
    await using panel = await withPanel()
    const [mum] = await withPeople(panel)
    const page = await panel.open({ path: chatOf(mum), hastens: 2000 })
    const hand = keyboard(page)
    await hand.choose(menuOf(page), words('chat.export'))
    const dialog = dialogOf(page)
    const link = dialog.getByRole('link', { name: words('people.export_go') })
    await link.waitFor()
    await expectFit(page, 'export')
    const [name, html] = await download(page, () => hand.press(link))
    expect(name).toEndWith('.html')
    expect(html).toMatch(/&\S+;b&\S+;dinner/)
    expect(html).not.toContain('from another')
    await dialog.waitFor({ state: 'detached' })
    // The focus is back at the menu.
    await menuOf(page).and(page.locator(':focus')).waitFor()

    await hand.choose(menuOf(page), words('chat.export'))
    await dialog.getByRole('radio', { name: words('people.export_lines') }).check()
    await dialog.getByRole('radio', { name: words('people.export_since') }).check()
    const day = dialog.getByLabel(words('people.export_day'))
    await day.fill('')
    await link.click()
    await day.and(page.locator(':focus')).waitFor()
    const tomorrow = new Date(panel.clock.now() + dayMs)
    await day.fill(tomorrow.toISOString().slice(0, 10))
    expect(new URL((await link.getAttribute('href'))!, panel.url).searchParams.get('since')).toMatch(
      /^\d{13}$/,
    )
    const [none, nothing] = await download(page, () => hand.press(link))
    expect([none.endsWith('.jsonl'), nothing]).toEqual([true, ''])
    await hand.choose(menuOf(page), words('chat.export'))
    await dialog.getByRole('radio', { name: words('people.export_lines') }).check()
    await dialog.getByRole('radio', { name: words('people.export_since') }).check()
    const [, lines] = await download(page, () => link.click())
    expect(
      lines
        .trim()
        .split('\n')
        .map(line => JSON.parse(line).from_user),
    ).toEqual([mum])
    expect(panel.complaints).toEqual([])
  })

  test('a person is forgotten: the lists of all tabs, drafts, and the store have nothing of them', async () => {
    await using panel = await withPanel({ sessions: ['default', 'second'] })
    const [mum, other] = await withPeople(panel)
    await panel.send({ to: mum, session: 'default', text: 'shall I?', approval: 'nobody' })
    const page = await panel.open({ path: chatOf(mum), hastens: 2000 })
    const tab = await panel.open({ path: chatOf(mum), hastens: 2000 })
    for (const one of [page, tab]) await one.getByRole('article').getByText('dinner').waitFor()
    await page.getByRole('textbox', { name: words('composer.write') }).fill('a draft')
    const hand = pointer(page)
    await hand.choose(menuOf(page), words('chat.forget'))
    const dialog = dialogOf(page)
    const field = dialog.getByRole('textbox')
    await field.and(page.locator(':focus')).waitFor()
    await expectFit(page, 'forget')
    await field.fill('Dad')
    await hand.enter()
    await dialog.getByRole('alert').and(page.locator(':not(:empty)')).waitFor()
    await expectNarrow(page, 'forget-wrong')
    expect((await panel.gateway.conversations.list()).length).toBe(2)
    await field.fill(' Mum ')
    await hand.enter()
    await dialog.getByText(words('people.done_messages_other', { count: 2 })).waitFor()
    await dialog.getByText(/user:[0-9a-f]{16}/).waitFor()
    await expectFit(page, 'forgotten')
    for (const one of [page, tab]) {
      await rows(one, 'from another').waitFor()
      await rows(one, 'Mum').waitFor({ state: 'detached' })
      await one.getByRole('article').getByText('dinner').waitFor({ state: 'detached' })
    }
    await hand.press(dialog.getByRole('button', { name: words('login.done') }))
    await page.waitForURL(`${panel.url}/conversations`)
    await dialog.waitFor({ state: 'detached' })
    expect(
      await page.evaluate(() => Object.keys(localStorage).filter(key => key.startsWith('svc.draft'))),
    ).toEqual([])
    const left = await panel.gateway.conversations.list()
    expect(left.map(({ user_id }) => user_id)).toEqual([other])
    for (const known of [mum, 'Mum', 'dinner']) expect(await page.content()).not.toContain(known)
    expect(panel.complaints).toEqual([])
  })

  test.each(['en', 'zh'])(
    'the audit log leads from a line to all of its contact and of its request, by keyboard: %s',
    async language => {
      await using panel = await withPanel()
      const [mum, other] = await withPeople(panel)
      const name = (user_id: string, name: string, requestId: string) =>
        invoke(nameUser, panel.gateway, { user_id, name }, { ...createDirectCall(), requestId }, silentLog)
      await name(mum, 'Mum', 'r-1')
      await name(mum, 'Ma', 'r-2')
      await name(other, 'Bob', 'r-2')
      const t = wordsOf(language)
      const page = await panel.open({ path: '/audit', locale: language })
      const lines = page.getByRole('list', { name: t('nav.audit') }).getByRole('listitem')
      const shown = async (count: number) =>
        await panel.until(`${count} lines`, async () => (await lines.count()) === count)
      await shown(3)
      const clear = (label: Parameters<typeof t>[0]) =>
        page.getByRole('button', { name: t('filter.clear', { label: t(label) }) })
      for (const [link, param, label] of [
        [t('audit.all_of_person'), 'user', 'search.person'],
        ['r-2', 'request', 'audit.request'],
      ] as const) {
        await lines.nth(1).getByRole('link').first().press('Enter')
        await dialogOf(page).getByRole('link', { name: link }).press('Enter')
        await page.waitForURL(url => url.searchParams.has(param))
        await shown(2)
        await clear(label).waitFor()
        await expectFit(page, `the audit log by ${param}`)
        await clear(label).press('Enter')
        await shown(3)
      }
      expect(panel.complaints).toEqual([])
    },
  )

  test('a viewer sees neither export nor erasing nor backups', async () => {
    await using panel = await withPanel({ token: 'correct-horse-battery-staple' })
    const [mum] = await withPeople(panel)
    const { key } = await panel.gateway.keys.add({ name: 'Mona', can: ['read'] }, { kind: 'owner' })
    const page = await panel.open({ path: chatOf(mum), hastens: 2000 })
    await page.getByRole('textbox').fill(key)
    await page.keyboard.press('Enter')
    await menuOf(page).click()
    await page.getByRole('menuitem', { name: words('chat.copy_id') }).waitFor()
    const entries = await page.getByRole('menuitem').allInnerTexts()
    for (const hidden of ['chat.export', 'chat.forget'] as const) expect(entries).not.toContain(words(hidden))
  })

  test('on a phone, in Chinese: a person without a name is forgotten by id', async () => {
    await using panel = await withPanel()
    const [, other] = await withPeople(panel)
    const page = await panel.open({
      path: chatOf(other),
      hastens: 2000,
      locale: 'zh',
      colorScheme: 'dark',
      viewport: { width: 360, height: 740 },
    })
    const t = wordsOf('zh')
    await menuOf(page, t).click()
    await page.getByRole('menuitem', { name: t('chat.export') }).waitFor()
    await expectNarrow(page, 'phone-menu')
    await page.getByRole('menuitem', { name: t('chat.export') }).click()
    const dialog = dialogOf(page)
    await dialog.getByRole('radio', { name: t('people.export_since') }).check()
    await expectNarrow(page, 'phone-export')
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
    await menuOf(page, t).click()
    await page.getByRole('menuitem', { name: t('chat.forget') }).click()
    await dialog.getByRole('textbox').fill(other)
    await expectFit(page, 'phone-forget')
    await page.keyboard.press('Enter')
    await dialog.getByText(t('people.done_messages_other', { count: 1 })).waitFor()
    await expectNarrow(page, 'phone-forgotten')
    await dialog.getByRole('button', { name: t('login.done') }).click()
    await rows(page, 'Mum').waitFor()
    await rows(page, 'from another').waitFor({ state: 'detached' })
    expect(panel.complaints).toEqual([])
  })

  test('a backup that failed is a problem, and one made now ends it', async () => {
    const folder = join(folderOfTest(), 'backups')
    await using panel = await withPanel({
      ownCommand: svcProgram,
      config: { backupTo: folder, backupEvery: dayMs, backupKeep: 7 },
    })
    const page = await panel.open()
    const problem = page.getByRole('heading', { name: words('backups.failed') })
    await problem.waitFor()
    await expectFit(page, 'backup-failed')
    await mkdir(folder)
    await page
      .locator('.concern')
      .getByRole('button', { name: words('backups.now') })
      .click()
    await problem.waitFor({ state: 'detached' })
    const card = page.getByRole('region', { name: words('backups.heading') })
    await card.getByText(folder).waitFor()
    const files = await readdir(folder)
    expect(files).toEqual([expect.stringMatching(/^svc-\d{8}T\d{6}Z\.tar$/)])
    await card.getByText(files[0]!).waitFor()
    await expectFit(page, 'backup')
    await page.setViewportSize({ width: 360, height: 740 })
    await card.scrollIntoViewIfNeeded()
    await expectNarrow(page, 'phone-backup')
    expect(panel.complaints).toEqual([])
  })
})
