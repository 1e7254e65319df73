/** Invitations in the panel: many guests, what a key may see, and a link that others can open. */
import { describe, expect, test } from 'bun:test'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { dataFiles } from '../../src/model/data-files.ts'
import { owner } from '../../src/model/principal.ts'
import { violationsInBothThemes } from '../support/axe.ts'
import { hasBrowser } from '../support/browser.ts'
import { type TestPanel, withPanel } from '../support/panel.ts'
import { keyboard, wordsOf } from '../support/panel-hand.ts'

const t = wordsOf('en')
const phone = { width: 390, height: 844 }
const dialogOf = (page: Page) => page.getByRole('dialog').or(page.getByRole('alertdialog'))
const groupsOf = (page: Page) => page.getByRole('rowheader').and(page.locator('[scope=rowgroup]'))

/** People join by an invitation. */
async function invited({ gateway, sandbox, other, clock }: TestPanel, name: string, count: number) {
  const { id } = await gateway.invitations.add(owner, { name, max_uses: count })
  for (let nth = 1; nth <= count; nth++) {
    const bot = sandbox.bot(await sandbox.addUser(name))
    const created_at = clock.now() + nth
    await other.sessions.save(`${name}-${nth}`, { ...bot, invitation: id, cursor: '', created_at })
  }
  return id
}

async function expectFit(page: Page, what: string): Promise<void> {
  const over = await page.evaluate(() => {
    const { scrollWidth, clientWidth } = document.getElementById('main')!
    return scrollWidth - clientWidth
  })
  expect([what, over, await violationsInBothThemes(page)]).toEqual([what, 0, []])
}

describe.skipIf(!hasBrowser)('invitations', () => {
  test('two hundred guests are a group with their count, which a chip shows alone', async () => {
    await using panel = await withPanel()
    const id = await invited(panel, 'shop', 200)
    await invited(panel, 'mum', 1)
    const page = await panel.open({ path: '/sessions' })
    await groupsOf(page).getByText('shop', { exact: true }).waitFor()
    expect(await groupsOf(page).allInnerTexts()).toEqual([
      `${t('invite.own')} 1`,
      expect.stringMatching(/^(mum 1|shop 200)$/),
      expect.stringMatching(/^(mum 1|shop 200)$/),
    ])
    await page.getByRole('combobox', { name: t('invite.one') }).selectOption('mum')
    await panel.until('one is left', async () => (await page.locator('.row-link').count()) === 1)
    await page.goto(`${panel.url}/sessions?invitation=${id}`)
    await page.getByRole('link', { name: 'shop-200' }).waitFor()
    expect(await page.locator('.row-link').count()).toBe(200)
    // The sheet of an account, and the way back, keep the filter.
    await page.getByRole('link', { name: 'shop-2', exact: true }).press('Enter')
    await dialogOf(page).getByText(t('session.guest'), { exact: true }).waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('link', { name: 'shop-2', exact: true }).and(page.locator(':focus')).waitFor()
    expect(new URL(page.url()).search).toBe(`?invitation=${id}`)
    expect(panel.complaints).toEqual([])
  }, 120_000)

  test('fit a phone and are accessible; a link that others can open has a QR code', async () => {
    await using panel = await withPanel({ sessions: [] })
    const page = await panel.open({ path: '/sessions', viewport: phone })
    const hand = keyboard(page)
    await page.getByRole('tab', { name: t('invite.tab') }).click()
    await page.getByText(t('invite.none'), { exact: true }).waitFor()
    await expectFit(page, 'none')
    const address = { url: 'http://127.0.0.1:1', pid: process.pid, public_url: 'https://svc.example.com' }
    await writeFile(join(panel.dir, dataFiles.address), JSON.stringify(address))
    await hand.press(page.getByRole('button', { name: t('invite.invite'), exact: true }))
    await dialogOf(page).locator('summary').click()
    await expectFit(page, 'a new one')
    const dialog = dialogOf(page)
    await hand.write(dialog.getByLabel(t('invite.name')), 'a b')
    await hand.enter()
    await dialog.getByText(t('sessions.name_bad')).waitFor()
    for (const [label, text] of [
      ['invite.name', 'shop'],
      ['invite.agent_optional', 'home'],
      ['invite.uses', '30'],
      ['invite.inviter', 'Anna'],
      ['invite.turns', '5'],
    ] as const)
      await hand.write(dialog.getByLabel(t(label)), text)
    await dialog.getByLabel(t('invite.trusted')).check()
    await hand.press(dialog.getByRole('button', { name: t('invite.make') }))
    await dialog.getByRole('img', { name: t('invite.qr_alt') }).waitFor()
    await dialog.getByText('https://svc.example.com/invite#').waitFor()
    await expectFit(page, 'a link')
    await hand.press(dialog.getByRole('button', { name: t('access.secret_kept') }))
    await page.getByRole('link', { name: 'shop', exact: true }).waitFor()
    await expectFit(page, 'the list')
    const [made] = await panel.gateway.invitations.list(owner)
    expect(made).toMatchObject({
      ...{ name: 'shop', agent: 'home', max_uses: 30, inviter: 'Anna' },
      ...{ turns_per_day: 5, trusted: true },
    })
    // The browser logs the rejected name.
    expect(panel.complaints.filter(line => !line.includes('422'))).toEqual([])
  }, 120_000)

  test('who lacks the right sees guests, but neither invitations nor the button', async () => {
    await using panel = await withPanel({ token: 'correct-horse-battery-staple' })
    await invited(panel, 'shop', 2)
    const { key } = await panel.gateway.keys.add({ name: 'Mona', can: ['operate'] }, owner)
    const page = await panel.open({ path: '/sessions' })
    await page.getByLabel(t('signin.token'), { exact: true }).fill(key)
    await page.keyboard.press('Enter')
    await page.getByRole('link', { name: 'shop-1', exact: true }).waitFor()
    expect(await groupsOf(page).allInnerTexts()).toEqual([`${t('invite.own')} 1`, `${t('invite.guests')} 2`])
    expect(await page.getByRole('button', { name: t('invite.invite'), exact: true }).count()).toBe(0)
    expect(await page.getByRole('tab').count()).toBe(0)
    expect(panel.complaints.filter(line => !line.includes('401'))).toEqual([])
  })
})
