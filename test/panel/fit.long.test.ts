/**
 * Accessibility of all pages, and of dialogs that no other test opens, in both languages and themes, on a
 * small phone.
 */

import { describe, expect, test } from 'bun:test'
import { rename } from 'node:fs/promises'
import { join } from 'node:path'
import type { Locator } from 'playwright-core'
import { owner } from '../../src/model/principal.ts'
import { receiver } from '../push/receiver.ts'
import { violationsInBothThemes } from '../support/axe.ts'
import { hasBrowser } from '../support/browser.ts'
import { misfits } from '../support/fit.ts'
import { folderOfTest } from '../support/folder.ts'
import { type FullPanel, withFullPanel } from '../support/full-panel.ts'
import { withPanel, write } from '../support/panel.ts'
import { wordsOf } from '../support/panel-hand.ts'
import { freePort } from '../support/port.ts'

const languages = ['en', 'zh'] as const

/** All pages of a full panel, each with what it shows when it is drawn. */
const pagesOf = ({ chat }: FullPanel) =>
  [
    ['/', '.concern'],
    ['/approvals', '.drafts li'],
    ['/approvals?show=others', '.tabs, .empty'],
    ['/approvals/1', 'article'],
    ['/sessions', '.account-list'],
    ['/sessions/default', '[role=dialog]'],
    ['/conversations', '.conversation'],
    ['/conversations?q=Hello', '.hit'],
    [chat, 'article'],
    [`${chat}?media=FILE`, '.gallery'],
    ['/settings', '.settings nav a'],
    ['/settings/browser', '.segments'],
    ['/settings/programs', '.setting'],
    ['/settings/messages', '.copyable'],
    ['/settings/service', '.copyable'],
    ['/settings/nodes', '.empty'],
    ['/agents', '.ask'],
    ['/keys', 'table.rows'],
    ['/audit', '.row'],
    ['/webhooks', 'table.rows'],
    ['/topics', 'table.rows'],
  ] as const

/** A panel with two webhooks and a conversation, in a small window. */
async function smallPanel(language: (typeof languages)[number]) {
  await using stack = new AsyncDisposableStack()
  const panel = stack.use(await withPanel({ sessions: ['default', 'shop'] }))
  const { url } = stack.use(receiver())
  const { webhooks } = panel.gateway
  await webhooks.add(owner, { url, allow_private: true, headers: { 'X-Key': 'hush' }, replies: true })
  await webhooks.add(owner, { url: 'https://1.1.1.1/hook', types: ['endpoint.disabled'], session: 'shop' })
  await write(panel, 'hello')
  const locale = language === 'zh' ? 'zh-CN' : 'en'
  const page = await panel.open({ locale, viewport: { width: 320, height: 640 } })
  const isFit = async (what: string) => {
    const wide = await page.evaluate(() =>
      [...document.querySelectorAll('#main, [role$=dialog], .field')]
        .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)
        .map(({ className }) => className),
    )
    expect([what, wide, await violationsInBothThemes(page)]).toEqual([what, [], []])
  }
  const chat = `/conversations/default/${encodeURIComponent(panel.bots.get('default')!.user_id)}`
  const all = stack.move()
  return { panel, page, chat, isFit, [Symbol.asyncDispose]: () => all.disposeAsync() }
}

describe.skipIf(!hasBrowser)('accessibility', () => {
  test.each(languages)('pages: %s', async language => {
    await using small = await smallPanel(language)
    const { panel, page, chat, isFit } = small
    for (const [path, seen] of [
      ['/', '.chart svg'],
      ['/approvals', '.empty'],
      ['/approvals/1', '.empty'],
      ['/sessions', '.account-list'],
      ['/conversations', '.conversation'],
      [chat, 'article'],
      [`${chat}?media=FILE`, '.gallery'],
      ['/settings', '.settings nav a'],
      ['/settings/browser', '.segments'],
      ['/settings/programs', '.setting'],
      ['/settings/messages', '.copyable'],
      ['/settings/service', '.copyable'],
      ['/settings/nodes', '.empty'],
      ['/agents', '.empty'],
      ['/keys', '.empty'],
      ['/audit', '.empty'],
      ['/webhooks', 'table.rows'],
      ['/topics', '.empty'],
    ] as const) {
      await page.goto(`${panel.url}${path}`)
      await page.locator(seen).first().waitFor()
      await isFit(path)
    }
    expect(panel.complaints).toEqual([])
  })

  test.each(languages)('dialogs: %s', async language => {
    const t = wordsOf(language)
    await using small = await smallPanel(language)
    const { panel, page, chat, isFit } = small
    const dialog = page.getByRole('dialog').or(page.getByRole('alertdialog'))
    const menuitem = (name: string) => page.getByRole('menuitem', { name, exact: true })
    /** Opens a dialog, checks it, and closes it. */
    const asks = async (what: string, open: () => Promise<void>) => {
      await open()
      await dialog.waitFor()
      await isFit(what)
      await page.keyboard.press('Escape')
      await dialog.waitFor({ state: 'detached' })
    }
    const byMenu = (menu: Locator, entry: string) =>
      asks(entry, async () => {
        await menu.click()
        await menuitem(entry).click()
      })

    await page.goto(`${panel.url}/webhooks`)
    const hook = page.locator('table.rows tbody tr').first()
    const menuOfHook = hook.locator('[aria-haspopup=menu]')
    await asks('a webhook', () =>
      page
        .getByRole('main')
        .getByRole('button', { name: t('webhooks.add') })
        .click(),
    )
    await asks('the detail of a webhook', () => hook.getByRole('link').click())
    for (const entry of ['webhooks.replay_menu', 'webhooks.rotate', 'webhooks.remove'] as const)
      await byMenu(menuOfHook, t(entry))
    await asks('the keys', () => page.keyboard.press('?'))

    await page.goto(`${panel.url}/sessions`)
    const menuOfAccount = page.locator('.account-list [aria-haspopup=menu]').first()
    for (const entry of ['sessions.rename', 'sessions.logout'] as const) await byMenu(menuOfAccount, t(entry))
    await asks('an account', () => page.getByRole('link', { name: t('sessions.add') }).click())
    await page.goto(`${panel.url}${chat}`)
    await byMenu(page.getByRole('button', { name: t('chat.menu') }), t('chat.jump'))
    expect(panel.complaints).toEqual([])
  })

  test.each(languages)(
    'full pages fit narrow windows: %s',
    async language => {
      const t = wordsOf(language)
      await using panel = await withFullPanel()
      const page = await panel.open({ locale: language === 'zh' ? 'zh-CN' : 'en' })
      await page.emulateMedia({ reducedMotion: 'reduce' })
      const found: Record<string, string[]> = {}
      const look = async (what: string) => {
        for (const width of [320, 360, 390]) {
          await page.setViewportSize({ width, height: 740 })
          await page.evaluate(() => new Promise(requestAnimationFrame))
          const some = await misfits(page)
          if (some.length > 0) found[`${what} at ${width}`] = some
        }
      }
      for (const [path, seen] of pagesOf(panel)) {
        await page.setViewportSize({ width: 390, height: 740 })
        await page.goto(`${panel.url}${path}`)
        await page.locator(seen).first().waitFor()
        await page.evaluate(() => document.fonts.ready)
        await look(path)
        // All that opens in place.
        const folded = page.locator('#main [aria-expanded=false]:not([aria-haspopup]), #main summary')
        for (const one of await folded.all()) if (await one.isVisible()) await one.click()
        await look(`${path} unfolded`)
      }
      await page.goto(panel.url)
      await page.getByRole('button', { name: t('nav.more') }).click()
      await look('the menu')
      expect(found).toEqual({})
    },
    300_000,
  )

  test('what a person looks for first is in the first screen of the overview, one line a matter', async () => {
    await using panel = await withPanel({
      sessions: ['default', 'sales', 'ops', 'shop'],
      config: { backupTo: folderOfTest(), backupEvery: 24 * 60 * 60_000, backupKeep: 7 },
    })
    for (const name of ['sales', 'ops']) panel.sandbox.world.people.expire(panel.bots.get(name)!.bot_id)
    const url = `http://127.0.0.1:${freePort()}/${'a-long-path/'.repeat(9)}the-end`
    const { id } = await panel.gateway.webhooks.add(owner, { url, allow_private: true })
    for (const session of ['default', 'shop']) await write(panel, `hello ${session}`, session)
    await panel.send({ text: 'shall I?', approval: 'nobody' })
    await panel.until('failing', async () => {
      panel.clock.advance(1000)
      return (await panel.gateway.webhooks.get(owner, id)).status === 'failing'
    })
    const page = await panel.open({ viewport: { width: 1440, height: 900 } })
    const matter = (text: string) => page.locator('.concern', { hasText: text })
    const t = wordsOf('en')
    await matter(t('overview.logins_other', { count: 2 })).waitFor()
    await matter(t('overview.approvals_one', { count: 1 })).waitFor()
    await matter('the-end').getByText('…').waitFor()
    const ends = (part: string) =>
      page
        .locator(part)
        .last()
        .evaluate(one => one.getBoundingClientRect().bottom)
    for (const part of ['.concern', '.fleet', '.chart svg', '.recent li', '.backups'])
      expect([part, (await ends(part)) < 900]).toEqual([part, true])
    const heights = await page
      .locator('.concern')
      .evaluateAll(all => all.map(one => one.getBoundingClientRect().height))
    expect(new Set(heights.map(Math.round)).size).toBe(1)
    expect(await violationsInBothThemes(page)).toEqual([])
  })

  test('passing states', async () => {
    await using panel = await withPanel({ sessions: ['default', 'shop'] })
    await write(panel, 'hello')
    await panel.sandbox.fail('sendmessage', 'ret', { times: 1, code: -3, delay_ms: 0 })
    await panel.send({ text: 'refused' }).catch(() => {})
    const page = await panel.open({ viewport: { width: 390, height: 500 } })
    const isFit = async (what: string) =>
      expect([what, await violationsInBothThemes(page)]).toEqual([what, []])
    await page.getByRole('link', { name: /Not sent/ }).waitFor()
    await isFit('a message that was refused')
    await page.route('**/api/call/list_conversations', () => {})
    await page.goto(`${panel.url}/conversations`)
    await page.locator('.list > .skeleton').waitFor()
    await isFit('a list that is being loaded')
    await page.unroute('**/api/call/list_conversations')
    await page.route('**/api/call/status', async route => {
      const answer = await route.fetch()
      await route.fulfill({ response: answer, json: { ...(await answer.json()), started_at: 'never' } })
    })
    await page.goto(`${panel.url}/settings/service`)
    await page.getByRole('alert').getByText('Something went wrong in this page').waitFor()
    await isFit('a page that fails')
    await page.unroute('**/api/call/status')
    const path = join(panel.dir, 'messages.db')
    await page.goto(panel.url)
    await page.locator('.sentence.good').waitFor()
    await rename(path, `${path}.away`)
    await panel.until('it is told', async () => {
      panel.clock.advance(1000)
      return (await page.locator('.sentence.bad').count()) > 0
    })
    await isFit('a store that fails')
    await rename(`${path}.away`, path)
    await panel.silence()
    await page.locator('.offline').waitFor()
    await isFit('a service that is silent')
  })
})
