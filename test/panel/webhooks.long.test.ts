/** The webhooks page, by keyboard on a phone. */

import { describe, expect, test } from 'bun:test'
import { owner } from '../../src/model/principal.ts'
import { type Delivered, receiver, verify } from '../push/receiver.ts'
import { violationsInBothThemes } from '../support/axe.ts'
import { hasBrowser } from '../support/browser.ts'
import { type TestPanel, withPanel } from '../support/panel.ts'
import { keyboard, wordsOf } from '../support/panel-hand.ts'

const t = wordsOf('en')

async function openPage(panel: TestPanel, path: string) {
  const page = await panel.open({
    path,
    viewport: { width: 390, height: 844 },
    permissions: ['clipboard-read', 'clipboard-write'],
  })
  const hand = keyboard(page)
  const dialog = page.getByRole('dialog').or(page.getByRole('alertdialog'))
  const button = (name: string, inside = dialog) => inside.getByRole('button', { name, exact: true })
  const row = page.getByRole('table').getByRole('row').last()
  return {
    page,
    hand,
    dialog,
    button,
    row,
    menu: row.locator('[aria-haspopup=menu]'),
    /** Opens the side sheet of the webhook. */
    async open() {
      await hand.press(row.getByRole('link'))
      await dialog.waitFor()
    },
    async close() {
      await hand.escape()
      await dialog.waitFor({ state: 'detached' })
      await row.getByRole('link').and(page.locator(':focus')).waitFor()
    },
    async isForAll(what: string) {
      const [all, seen] = await page.evaluate(() => {
        const { scrollWidth, clientWidth } = document.getElementById('main')!
        return [scrollWidth, clientWidth]
      })
      expect([what, all, await violationsInBothThemes(page)]).toEqual([what, seen, []])
    },
    /** Copies the secret by its button and closes the dialog. Afterwards the page must not contain it. */
    async copiedSecret() {
      // The focus is on the copy button, so that the key that opened the dialog cannot close it.
      const copies = button(t('action.copy_what', { what: t('webhooks.secret') }))
      await copies.and(page.locator(':focus')).waitFor()
      await hand.press(copies)
      const secret = await dialog.locator('code').innerText()
      const read = () => page.evaluate(() => navigator.clipboard.readText())
      await panel.until('it is copied', async () => (await read()) === secret)
      expect(secret).toMatch(/^whsec_[\w+/]{43}=$/)
      await hand.press(button(t('access.secret_kept')))
      await dialog.waitFor({ state: 'detached' })
      expect(await page.content()).not.toContain(secret)
      return secret
    },
  }
}

describe.skipIf(!hasBrowser)('webhooks', () => {
  test('a webhook is added and removed; one of this machine must be added by command', async () => {
    await using panel = await withPanel()
    const { webhooks } = panel.gateway
    const own = await openPage(panel, '/settings')
    const { page, hand, dialog, button, row } = own
    await hand.press(page.getByRole('button', { name: t('nav.more') }))
    await hand.press(page.getByRole('link', { name: t('webhooks.title') }))
    await page.getByText(t('webhooks.none'), { exact: true }).waitFor()

    const add = page.getByRole('main').getByRole('button', { name: t('webhooks.add') })
    await hand.press(add)
    const url = dialog.getByRole('textbox', { name: t('webhooks.url') })
    await hand.write(url, 'http://127.0.0.1:9/hook')
    await hand.enter()
    await dialog
      .getByText(/^svc webhook add http:\/\/127\.0\.0\.1:9\/hook --allow-private -d \S+ --sandbox$/)
      .waitFor()
    expect(await webhooks.list(owner)).toEqual([])
    await own.isForAll('rejected')

    // A public URL, with an event type that does not occur here: nothing is sent there.
    await hand.write(url, 'https://1.1.1.1/hook')
    await dialog.getByRole('checkbox', { name: t('webhooks.type_disabled') }).check()
    await hand.write(dialog.getByRole('textbox', { name: t('webhooks.headers_optional') }), 'X-Key: hush')
    await hand.press(button(t('webhooks.add')))
    await button(t('access.secret_kept')).waitFor()
    await own.isForAll('a secret')
    await own.copiedSecret()
    await add.and(page.locator(':focus')).waitFor()
    expect((await webhooks.list(owner)).map(one => [one.url, one.types, one.headers])).toEqual([
      ['https://1.1.1.1/hook', ['endpoint.disabled'], { 'X-Key': '***' }],
    ])
    await own.open()
    await dialog.getByText('X-Key: ***').waitFor()
    expect(await page.content()).not.toContain('hush')
    await own.close()

    await hand.choose(own.menu, t('webhooks.remove'))
    await hand.press(button(t('webhooks.remove')))
    // While a dialog is open, rows have no role.
    await dialog.waitFor({ state: 'detached' })
    await row.waitFor({ state: 'detached' })
    expect(await webhooks.list(owner)).toEqual([])
    // The browser logs the rejected call.
    expect(panel.complaints.filter(line => !line.includes('403'))).toEqual([])
  })

  test('a webhook is tested, followed in the log, replayed, paused, and given a new secret', async () => {
    await using panel = await withPanel()
    using r = receiver()
    const { webhooks } = panel.gateway
    // The command line can add it.
    const { id, secret } = await webhooks.add(owner, {
      url: r.url,
      types: ['message.received'],
      allow_private: true,
    })
    const own = await openPage(panel, '/webhooks')
    const { page, hand, dialog, button, row, isForAll } = own
    await row.getByRole('link').waitFor()
    await isForAll('a row')
    await own.open()
    await hand.press(button(t('webhooks.test')))
    await dialog.getByRole('status').locator('.may').waitFor()
    expect(r.got[0]!.body.type).toBe('webhook.test')
    verify(r.got[0]!, secret)

    const came = (text: string, times = 1) =>
      panel.until(`${text}, ${times} times`, (): Delivered | undefined => {
        const found = r.got.filter(({ body }) => body.data.text === text)
        return found.length >= times ? found.at(-1) : undefined
      })
    await panel.sandbox.say('hello')
    const first = await came('hello')
    await panel.until('it is in the log', async () => (await webhooks.listAttempts(owner, id)).length > 1)
    // The deliveries come by themselves.
    const items = dialog.getByRole('listitem')
    await items.nth(1).waitFor()
    await isForAll('the deliveries')
    // The test delivery is there too, and cannot be sent again.
    for (const nth of [1, 0]) await hand.press(items.nth(nth).locator('summary'))
    await dialog.getByRole('button', { name: t('webhooks.send_again') }).waitFor()
    await isForAll('the attempts')
    expect(await items.locator('pre').count()).toBe(1)
    await panel.sandbox.say('one more')
    await panel.until(
      'it is done',
      async () => (await webhooks.replay(owner, id, { event: first.id, dry_run: true })).replay.events === 2,
    )
    await hand.press(button(t('webhooks.replay_menu')))
    const would = (count: number) =>
      page
        .getByRole('alertdialog')
        .getByRole('status')
        .filter({ hasText: new RegExp(`^\\D*${count}\\D*$`) })
    await would(2).waitFor()
    await isForAll('how much comes again')
    await hand.press(button(t('webhooks.replay'), page.getByRole('alertdialog')))
    await came('one more', 2)
    expect((await came('hello', 2)).id).toBe(first.id)
    await page.getByRole('alertdialog').waitFor({ state: 'detached' })
    await page.getByRole('dialog').waitFor()
    await own.close()
    await hand.choose(own.menu, t('webhooks.replay_menu'))
    const from = dialog.getByLabel(t('webhooks.replay_from'), { exact: true })
    await would(2).waitFor()
    await from.fill('2999-01-01T00:00')
    await would(0).waitFor()
    await from.fill('2001-01-01T00:00')
    await would(2).waitFor()
    await hand.press(button(t('webhooks.replay')))
    expect((await came('hello', 3)).id).toBe(first.id)
    await dialog.waitFor({ state: 'detached' })

    await hand.choose(own.menu, t('webhooks.pause'))
    await row.getByText(t('webhooks.status_paused'), { exact: true }).waitFor()
    expect((await webhooks.get(owner, id)).status).toBe('paused')
    await own.open()
    await own.isForAll('paused')
    await hand.press(button(t('webhooks.resume')))
    await dialog.getByText(t('webhooks.status_active'), { exact: true }).waitFor()
    await own.close()

    await hand.choose(own.menu, t('webhooks.rotate'))
    await hand.press(button(t('webhooks.rotate')))
    const renewed = await own.copiedSecret()
    expect(renewed).not.toBe(secret)
    // A test delivery reads the secrets. The others read them every half a second: the first ones may have the old one alone.
    await webhooks.sendTest(owner, id, AbortSignal.timeout(60_000))
    const tried = r.got.findLast(({ body }) => body.type === 'webhook.test')!
    expect(tried).not.toBe(r.got[0]!)
    for (const one of [secret, renewed]) verify(tried, one)
    let nth = 0
    await panel.until('a message is signed with both', async () => {
      await panel.sandbox.say(`again ${++nth}`)
      const message = await came(`again ${nth}`)
      verify(message, secret)
      return message.headers.get('webhook-signature')?.split(' ').length === 2 && verify(message, renewed)
    })
    expect(panel.complaints).toEqual([])
  })

  test('an attempt opens in place: what was sent, what was answered, and a button that sends it again', async () => {
    await using panel = await withPanel()
    using r = receiver(() => new Response('database is locked <b>\u202e', { status: 500 }))
    const { id } = await panel.gateway.webhooks.add(owner, { url: r.url, allow_private: true })
    await panel.sandbox.say('an order')
    await panel.until(
      'it fails',
      async () => (await panel.gateway.webhooks.get(owner, id)).status === 'failing',
    )
    const { hand, dialog, isForAll, open } = await openPage(panel, '/webhooks')
    await open()
    const item = dialog.getByRole('listitem').first()
    await hand.press(item.locator('summary'))
    await item.getByText('database is locked <b>', { exact: false }).waitFor()
    await item.getByText('"text": "an order"', { exact: false }).waitFor()
    await item.getByText(t('webhooks.said_5', { status: 500 })).waitFor()
    await isForAll('an attempt')
    r.answer = () => new Response('thanks')
    const came = r.got.length
    await hand.press(item.getByRole('button', { name: t('webhooks.send_again') }))
    // The new attempt may stand above it already.
    await dialog.getByRole('listitem').getByRole('status').locator('.may').waitFor()
    expect(r.got.slice(came).map(one => one.body.data.text)).toEqual(['an order'])
    // The row stays open, and the new attempt is above it.
    await panel.until('a new row', async () => (await dialog.getByRole('listitem').count()) > 1)
    await item.getByText(t('webhooks.outcome_done'), { exact: true }).waitFor()
    await dialog.getByRole('button', { name: t('webhooks.send_again') }).waitFor()
    expect(panel.complaints).toEqual([])
  })

  test('a failing webhook is tried again at once', async () => {
    await using panel = await withPanel()
    using r = receiver(() => new Response(null, { status: 429, headers: { 'retry-after': '36000' } }))
    const { id } = await panel.gateway.webhooks.add(owner, { url: r.url, allow_private: true })
    await panel.sandbox.say('while it fails')
    await panel.until(
      'it fails',
      async () => (await panel.gateway.webhooks.get(owner, id)).status === 'failing',
    )
    const { hand, dialog, isForAll, open } = await openPage(panel, '/webhooks')
    await open()
    const again = dialog.getByRole('button', { name: t('webhooks.try_again') })
    await again.waitFor()
    await isForAll('failing')
    r.answer = () => 200
    const tried = r.got.length
    await hand.press(again)
    await panel.until('it came', () => r.got.length > tried)
    await dialog.getByText(t('webhooks.status_active'), { exact: true }).waitFor()
    expect(panel.complaints).toEqual([])
  })
})
