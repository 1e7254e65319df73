/** The page of keys, and the panel of people who signed in with a key. */
import { describe, expect, test } from 'bun:test'
import type { Locator, Page } from 'playwright-core'
import { violationsInBothThemes } from '../support/axe.ts'
import { hasBrowser } from '../support/browser.ts'
import { type TestPanel, type TestPanelOptions, withPanel, write } from '../support/panel.ts'
import { keyboard, wordsOf } from '../support/panel-hand.ts'

const t = wordsOf('en')
const token = 'correct-horse-battery-staple'
const phone = { width: 390, height: 844 }

const dialogOf = (page: Page) => page.getByRole('dialog').or(page.getByRole('alertdialog'))
const buttonOf = (page: Page, name: string) => page.getByRole('button', { name, exact: true })
const rowOf = (page: Page, name: string) =>
  page.getByRole('row').filter({ has: page.getByRole('link', { name, exact: true }) })

/** Returns the answer to a call that the signed-in page makes. */
const callOf = (page: Page, name: string, input: object) =>
  page.evaluate(
    async ([name, body]) => {
      const secret = localStorage.getItem('svc.secret') ?? ''
      const headers = { 'content-type': 'application/json', 'svc-panel': secret }
      return (await fetch(`/api/call/${name}`, { method: 'POST', headers, body })).json()
    },
    [name, JSON.stringify(input)] as const,
  )

/** Opens a page and signs in with a token or a key. */
async function signedIn(panel: TestPanel, secret: string, path = '/', more = {}) {
  const page = await panel.open({ path, permissions: ['clipboard-read', 'clipboard-write'], ...more })
  await page.getByLabel(t('signin.token'), { exact: true }).fill(secret)
  await page.keyboard.press('Enter')
  await page.getByRole('navigation').waitFor()
  return page
}

async function expectAccessible(page: Page, what: string): Promise<void> {
  const [all, seen] = await page.evaluate(() => {
    const { scrollWidth, clientWidth } = document.getElementById('main')!
    return [scrollWidth, clientWidth]
  })
  expect([what, all, await violationsInBothThemes(page)]).toEqual([what, seen, []])
}

/** The browser logs a call without a sign-in. */
const unexpected = ({ complaints }: TestPanel) => complaints.filter(line => !line.includes('401'))

const openPanel = (options: TestPanelOptions = {}) => withPanel({ token, ...options })

describe.skipIf(!hasBrowser)('keys', () => {
  test('a viewer signs in with a key that was added, and sees only what it allows', async () => {
    await using panel = await openPanel()
    await write(panel, 'Where is my parcel?')
    const { user_id } = panel.bots.get('default')!
    const page = await signedIn(panel, token, '/keys', { viewport: phone })
    const hand = keyboard(page)
    await page.getByText(t('access.none'), { exact: true }).waitFor()
    await expectAccessible(page, 'no key')
    await hand.press(page.getByRole('main').getByRole('button', { name: t('access.add') }))
    const dialog = dialogOf(page)
    await hand.write(dialog.getByRole('textbox', { name: t('access.name') }), 'Mona')
    await expectAccessible(page, 'a new key')
    await hand.press(dialog.getByRole('button', { name: t('access.add') }))
    const copies = buttonOf(page, t('action.copy_what', { what: t('access.key') }))
    // The focus is on the copy button, so that the key that opened the dialog cannot close it.
    await copies.and(page.locator(':focus')).waitFor()
    await hand.press(copies)
    const key = await panel.until('it is copied', async () => {
      const copied = await page.evaluate(() => navigator.clipboard.readText())
      return copied.startsWith('svc_') ? copied : undefined
    })
    expect(key).toMatch(/^svc_[0-9a-z]{8}_[0-9a-f]{64}$/)
    await expectAccessible(page, 'a secret')
    await hand.press(buttonOf(page, t('access.secret_kept')))
    await dialog.waitFor({ state: 'detached' })
    expect(await page.content()).not.toContain(key)
    await rowOf(page, 'Mona').getByText(t('access.role_read'), { exact: true }).first().waitFor()
    await expectAccessible(page, 'a key')
    await hand.press(page.getByRole('link', { name: 'Mona', exact: true }))
    await dialog.getByText(t('access.role_read_about'), { exact: true }).waitFor()
    await expectAccessible(page, 'the detail of a key')
    const url = page.url()
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
    await page.getByRole('link', { name: 'Mona', exact: true }).and(page.locator(':focus')).waitFor()
    // Its URL opens it again.
    await page.goto(url)
    await dialog.getByText(t('access.role_read_about'), { exact: true }).waitFor()
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
    const [made] = await panel.gateway.keys.list({ kind: 'owner' })
    expect(made).toMatchObject({ name: 'Mona', can: ['read'], status: 'active', made_by: 'panel' })

    const own = await signedIn(panel, key)
    await own.getByText('Mona', { exact: true }).waitFor()
    const menu = own.getByRole('navigation').getByRole('link')
    expect(await menu.allTextContents()).toEqual([
      t('nav.overview'),
      `${t('nav.conversations')}1 ${t('nav.unread')}`,
      t('nav.sessions'),
      t('nav.settings'),
    ])
    await own.getByRole('link', { name: t('nav.sessions'), exact: true }).click()
    await rowOf(own, 'default').waitFor()
    expect(await own.getByRole('main').locator('[aria-haspopup=menu]').count()).toBe(0)
    expect(
      await own
        .getByRole('main')
        .getByRole('link', { name: t('sessions.add') })
        .count(),
    ).toBe(0)
    await expectAccessible(own, 'accounts of a viewer')
    await own.getByRole('link', { name: t('nav.settings'), exact: true }).click()
    await buttonOf(own, t('settings.sign_out')).waitFor()
    const shown = await own.getByRole('main').innerText()
    for (const hidden of [panel.dir, panel.mediaRoot, t('webhooks.title'), t('settings.retention')])
      expect([hidden, shown.includes(hidden)]).toEqual([hidden, false])
    for (const path of ['/keys', '/audit', '/webhooks', '/agents']) {
      await own.goto(`${panel.url}${path}`)
      await own.getByText(t('denied.title'), { exact: true }).waitFor()
    }
    await own.goto(`${panel.url}/conversations/default/${encodeURIComponent(user_id)}`)
    await own.getByRole('article').getByText('Where is my parcel?').waitFor()
    expect(await own.getByRole('textbox', { name: t('composer.write') }).count()).toBe(0)
    expect(await own.getByRole('button', { name: t('name.give') }).count()).toBe(0)
    await expectAccessible(own, 'a conversation of a viewer')
    const { base_path, media_root, sandbox_phone } = await callOf(own, 'status', {})
    const { code } = await callOf(own, 'logout', { session_name: 'default' })
    const phonePage = await own.evaluate(async () => (await fetch('/phone')).status)
    expect([base_path, media_root, sandbox_phone, code, phonePage]).toEqual([
      '',
      '',
      undefined,
      'forbidden',
      404,
    ])

    // What the viewer has read is still unread for the others.
    await panel.until('it is read', async () =>
      (await own.getByRole('navigation').locator('.count').count()) === 0 ? true : undefined,
    )
    await page.getByRole('navigation').locator('.count').waitFor()

    await hand.choose(rowOf(page, 'Mona').locator('[aria-haspopup=menu]'), t('access.revoke'))
    await expectAccessible(page, 'to be revoked')
    await hand.press(buttonOf(page, t('access.revoke')))
    await page.getByRole('tab', { selected: true }).press('ArrowRight')
    await rowOf(page, 'Mona').waitFor()
    await expectAccessible(page, 'a key that ended')
    await own.getByLabel(t('signin.token'), { exact: true }).waitFor()
    await own.getByLabel(t('signin.token'), { exact: true }).fill(key)
    await own.keyboard.press('Enter')
    await own.getByText(t('error.unauthorized'), { exact: true }).waitFor()
    expect(unexpected(panel).filter(line => !/40[34]/.test(line))).toEqual([])
  })

  test('a key says which right a page needs, and who has it to give', async () => {
    await using panel = await openPanel()
    const { key } = await panel.gateway.keys.add({ name: 'Wanda', can: ['webhooks'] }, { kind: 'owner' })
    const page = await signedIn(panel, key, '/webhooks')
    await page.getByText(t('webhooks.none'), { exact: true }).waitFor()
    for (const [path, right] of [
      ['/', t('access.right_sessions')],
      ['/conversations', t('access.right_history')],
      ['/keys', t('access.right_keys')],
    ] as const) {
      await page.goto(`${panel.url}${path}`)
      await page.getByRole('heading', { name: t('denied.title') }).waitFor()
      await page.getByText(t('error.no_right', { right }), { exact: true }).waitFor()
    }
    await expectAccessible(page, 'a denied page')
  })

  test('the first key closes an open panel, but not for the person who made it', async () => {
    await using panel = await withPanel({ rest: 'http://127.0.0.1:8000' })
    const page = await panel.open({ path: '/keys' })
    const bystander = await panel.open()
    await bystander.getByRole('heading', { name: t('nav.overview') }).waitFor()
    await page
      .getByRole('main')
      .getByRole('button', { name: t('access.add') })
      .click()
    const dialog = dialogOf(page)
    await dialog.getByText(t('access.first_about'), { exact: true }).waitFor()
    // A name is required.
    await dialog.getByRole('button', { name: t('access.add') }).click()
    await dialog.getByText(t('access.name_missing'), { exact: true }).waitFor()
    await dialog.getByRole('textbox', { name: t('access.name') }).fill('support-bot')
    await dialog.getByRole('radio', { name: t('access.role_reply') }).check()
    await dialog.getByText(t('access.scope'), { exact: true }).click()
    await dialog.getByRole('checkbox', { name: 'default', exact: true }).check()
    await dialog.getByText(t('access.limits'), { exact: true }).click()
    await dialog.getByRole('spinbutton', { name: t('access.limit_calls') }).fill('10')
    await dialog.getByLabel(t('access.expires')).selectOption('30')
    await dialog.getByRole('button', { name: t('access.add') }).click()
    await buttonOf(page, t('access.secret_kept')).waitFor()
    const key = await dialog.locator('code').first().innerText()
    const snippets = await dialog.locator('code').allInnerTexts()
    expect(snippets).toContain(`curl -H 'Authorization: Bearer ${key}' http://127.0.0.1:8000/me`)
    const client = snippets.find(text => text.startsWith('{'))!
    expect(JSON.parse(client).mcpServers.svc).toEqual({
      url: 'http://127.0.0.1:8000/mcp',
      headers: { Authorization: `Bearer ${key}` },
    })
    expect(snippets.some(text => /^svc mcp -t stdio .*--key-file /.test(text))).toBe(true)
    await bystander.getByLabel(t('signin.token'), { exact: true }).waitFor()
    await buttonOf(page, t('access.secret_kept')).click()
    await dialog.waitFor({ state: 'detached' })
    const row = rowOf(page, 'support-bot')
    await row.getByText(t('access.role_reply'), { exact: true }).last().waitFor()
    await row
      .getByText(t('access.only', { names: '⁨default⁩' }), { exact: true })
      .last()
      .waitFor()
    const [made] = await panel.gateway.keys.list({ kind: 'owner' })
    expect(made).toMatchObject({
      can: ['reply'],
      sessions: [{ session: 'default' }],
      limits: { calls_per_second: 10 },
    })
    expect(made!.expires_at! - panel.clock.now()).toBeWithin(29 * 86_400_000, 30 * 86_400_000 + 1)

    // The new secret replaces the old one at once.
    await rowOf(page, 'support-bot').locator('[aria-haspopup=menu]').click()
    await page.getByRole('menuitem', { name: t('access.rotate') }).click()
    await dialog.getByRole('checkbox', { name: t('access.rotate_keep') }).uncheck()
    await buttonOf(page, t('access.rotate')).click()
    await buttonOf(page, t('access.secret_kept')).waitFor()
    const renewed = await dialog.locator('code').first().innerText()
    const { keys } = panel.gateway
    expect([await keys.authenticate(key), (await keys.authenticate(renewed))?.name]).toEqual([
      undefined,
      'support-bot',
    ])
    expect(unexpected(panel)).toEqual([])
  })

  test('a person edits and approves what keys want to send, and who answered is shown', async () => {
    await using panel = await openPanel()
    const { user_id } = panel.bots.get('default')!
    await write(panel, 'Where is my parcel?')
    const { keys } = panel.gateway
    const owner = { kind: 'owner' } as const
    const drafts = await keys.add({ name: 'Dora', can: ['draft'] }, owner)
    const approver = await keys.add({ name: 'Adam', can: ['read', 'approve'] }, owner)

    const writes = await signedIn(panel, drafts.key, `/conversations/default/${encodeURIComponent(user_id)}`)
    await writes.getByText(t('composer.draft'), { exact: true }).waitFor()
    const field = writes.getByRole('textbox', { name: t('composer.write') })
    for (const text of ['It was shipped yesterday', 'Anything else?', 'Bye']) {
      await field.fill(text)
      await field.press('Enter')
      await writes.getByRole('article').getByText(text).waitFor()
    }
    const waiting = () => panel.gateway.outbox.list(owner)
    await panel.until('they wait', async () => (await waiting()).length === 3)
    expect(await writes.getByRole('button', { name: t('overview.approve') }).count()).toBe(0)
    await expectAccessible(writes, 'a conversation with drafts')

    // Who may only draft sees what waits for others, and takes it back.
    const drafter = await signedIn(panel, drafts.key, '/approvals')
    const shelf = drafter.getByRole('tab', { name: t('approvals.others') })
    await shelf.and(drafter.locator('[aria-selected=true]')).waitFor()
    await drafter.getByText(t('approvals.not_yours')).waitFor()
    expect(await drafter.getByRole('button', { name: t('overview.approve') }).count()).toBe(0)
    await expectAccessible(drafter, 'what waits for others')

    const page = await signedIn(panel, approver.key, '/', { viewport: phone })
    await page.locator('.concern').getByRole('link').click()
    await page.getByRole('listitem').filter({ hasText: 'It was shipped yesterday' }).getByRole('link').click()
    const draft = page.getByRole('article')
    await draft.getByText('Where is my parcel?').waitFor()
    await draft.getByText(t('approvals.by', { maker: '\u2068Dora\u2069' })).waitFor()
    await draft.getByText(t('overview.edit'), { exact: true }).click()
    const edited = page.getByRole('main').getByRole('textbox')
    await edited.fill('It was shipped this morning')
    await expectAccessible(page, 'approvals')
    await page.getByText(t('overview.approve_edited'), { exact: true }).click()
    await panel.sandbox.seen(messages =>
      messages.some(({ items }) => items[0]?.text === 'It was shipped this morning'),
    )
    await page.getByRole('link', { name: t('approvals.back') }).click()
    await page.getByLabel(t('approvals.choose_all')).check()
    await page.getByRole('button', { name: t('approvals.send_these') }).click()
    for (const text of ['Anything else?', 'Bye'])
      await dialogOf(page).getByRole('listitem').filter({ hasText: text }).waitFor()
    await expectAccessible(page, 'several')
    await dialogOf(page)
      .getByRole('button', { name: t('approvals.send_go_other', { count: 2 }) })
      .click()
    await panel.until('nothing waits', async () => (await waiting()).length === 0)
    await page.getByText(t('approvals.none_mine')).waitFor()
    await page.getByText(t('nav.approvals')).waitFor({ state: 'detached' })

    // The name of the key is below what it wrote.
    const last = writes.getByRole('article').filter({ hasText: 'Bye' })
    await last.getByText('Dora', { exact: true }).waitFor()
    await expectAccessible(writes, 'a conversation with names')
    expect(panel.complaints.filter(line => !line.includes('401'))).toEqual([])
  })

  test('the audit log shows who did what, by key and by time', async () => {
    await using panel = await openPanel()
    await write(panel, 'Hello?')
    const { keys } = panel.gateway
    const owner = { kind: 'owner' } as const
    const agent = await keys.add({ name: 'Ann', can: ['reply'] }, owner)
    const auditor = await keys.add({ name: 'Otto', can: ['read', 'audit'] }, owner)
    const { user_id } = panel.bots.get('default')!
    const ann = await signedIn(panel, agent.key, `/conversations/default/${encodeURIComponent(user_id)}`)
    const field = ann.getByRole('textbox', { name: t('composer.write') })
    await field.fill('A secret answer')
    await field.press('Enter')
    expect(await callOf(ann, 'list_keys', {})).toMatchObject({ status: 403 })
    await panel.sandbox.seen(messages => messages.some(({ items }) => items[0]?.text === 'A secret answer'))

    const page = await signedIn(panel, auditor.key, '/audit', { viewport: phone })
    const rows = page.getByRole('list', { name: t('nav.audit') }).getByRole('listitem')
    const row = (name: string, more: Locator) =>
      rows.filter({ has: page.getByRole('link', { name, exact: true }) }).filter({ has: more })
    const chat = page.locator(`a[href$="/conversations/default/${encodeURIComponent(user_id)}"]`)
    await row('Ann', chat).getByText(t('audit.done'), { exact: true }).waitFor()
    await row('Ann', page.getByText(/list_keys/))
      .getByText(t('audit.denied'), { exact: true })
      .waitFor()
    expect(await page.content()).not.toContain('A secret answer')
    expect(
      await page
        .getByRole('navigation')
        .getByRole('link', { name: t('nav.keys') })
        .count(),
    ).toBe(0)
    await page
      .getByRole('navigation')
      .getByRole('link', { name: t('nav.audit') })
      .waitFor()
    await expectAccessible(page, 'the audit log')

    const chip = (label: Parameters<typeof t>[0]) => page.getByLabel(t(label), { exact: true })
    await chip('audit.who').selectOption(`key:${agent.id}`)
    await panel.until(
      'only her lines',
      async () => (await rows.count()) === (await row('Ann', page.locator('*')).count()),
    )
    await chip('audit.outcome').selectOption('denied')
    await panel.until('only the denied one', async () => (await rows.count()) === 1)
    // The filters stay when the page is loaded again.
    await page.reload()
    await row('Ann', page.getByText(/list_keys/)).waitFor()
    expect(await rows.count()).toBe(1)
    await buttonOf(page, t('audit.what')).click()
    await page.getByRole('combobox', { name: t('audit.what') }).fill(t('audit.to_send'))
    await page.keyboard.press('Enter')
    await page.getByText(t('filter.none'), { exact: true }).waitFor()
    await buttonOf(page, t('filter.clear', { label: t('audit.outcome') })).click()
    await row('Ann', chat).getByRole('link', { name: 'Ann' }).click()
    const dialog = dialogOf(page)
    await dialog.getByText(`panel:${agent.id}`).waitFor()
    await expectAccessible(page, 'a line of the audit log')
    await dialog.getByRole('link', { name: t('audit.open_chat') }).click()
    await page.getByRole('article').getByText('A secret answer').waitFor()
    expect(panel.complaints.filter(line => !/40[13]/.test(line))).toEqual([])
  })
})
