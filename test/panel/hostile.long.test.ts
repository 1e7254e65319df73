/** Hostile texts are only shown: they run no code, and no page becomes wider than its window. */
import { expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { hasBrowser } from '../support/browser.ts'
import { withPanel } from '../support/panel.ts'
import { wordsOf } from '../support/panel-hand.ts'

const evil = `"><img src=x onerror="globalThis.ran=1"><script>globalThis.ran=1</script><style>*{display:none}</style>'`
const override = '\u202egpj.exe\u2066\u200f'
const family = '👩‍👩‍👧‍👦'.repeat(40)
const long = 'W'.repeat(10_000)
const marks = `Z${'\u0301'.repeat(300)}algo`
const texts = [
  evil,
  `shown ${override} after`,
  family,
  long,
  marks,
  `javascript:globalThis.ran=1 https://a.b/${'x'.repeat(500)}`,
]
const names = [
  `${evil.replaceAll('/', '∕')}.png`,
  `${override}.pdf`,
  `${'名'.repeat(80)}.docx`,
  `${family.slice(0, 60)}.zip`,
]
const sessions = ['default', 'اسم-الحساب'.repeat(4), 'W'.repeat(64), '账'.repeat(64)]
const users = [`${evil.slice(0, 60)}@im.wechat`, `${override}@im.wechat`, `${'u'.repeat(200)}@im.wechat`]

/** The elements that are wider than their box, and whether any code ran. */
const harm = (page: Page) =>
  page.evaluate(() => {
    const wide = [document.documentElement, ...document.querySelectorAll('main, .list, .log, .dialog')]
      .filter(element => element.scrollWidth > element.clientWidth + 1)
      .map(element => `${element.tagName}.${element.className} ${element.scrollWidth}`)
    return {
      wide,
      ran: (globalThis as { ran?: unknown }).ran,
      styled: document.querySelectorAll('body style, main script').length,
    }
  })

for (const viewport of [
  { width: 360, height: 740 },
  { width: 1280, height: 800 },
]) {
  test.skipIf(!hasBrowser)(`hostile names, texts and file names, ${viewport.width} pixels wide`, async () => {
    await using panel = await withPanel({ sessions, switches: { window: 'refuse' } })
    const { sandbox } = panel
    let count = 0
    for (const text of texts) {
      await sandbox.say(text)
      count++
    }
    for (const name of names) {
      await sandbox.media('file', new Uint8Array(10), { name })
      count++
    }
    const bot = panel.bots.get('default')!.bot_id
    for (const id of users) {
      await sandbox.phone('POST', 'users', { id, name: evil })
      await sandbox.say(evil, { from: id, to: bot })
      count++
    }
    const first = panel.bots.get('default')!.user_id
    await panel.receive(count)
    await panel.send({ to: first, session: 'default', text: `${evil}\n${long}` })
    const page = await panel.open({ viewport })
    const look = async () => expect(await harm(page)).toEqual({ wide: [], ran: undefined, styled: 0 })

    await page.getByRole('heading', { name: sessions[2]! }).or(page.getByText(sessions[2]!)).first().waitFor()
    await look()
    await page.goto(`${panel.url}/sessions/default`)
    await page.getByRole('heading', { name: 'default' }).waitFor()
    await look()
    for (const name of sessions) {
      await page.goto(`${panel.url}/sessions/${encodeURIComponent(name)}`)
      await page.locator('.side-sheet [aria-haspopup=menu]').click()
      await page.getByRole('menuitem', { name: wordsOf('en')('sessions.logout') }).click()
      await page.getByRole('alertdialog').waitFor()
      await look()
      await page.keyboard.press('Escape')
      await page.getByRole('alertdialog').waitFor({ state: 'detached' })
    }
    await page.goto(`${panel.url}/conversations`)
    await page.getByRole('link').filter({ hasText: 'onerror' }).first().waitFor()
    await look()
    for (const id of [first, ...users]) {
      await page.goto(`${panel.url}/conversations/default/${encodeURIComponent(id)}`)
      await page.getByRole('log').getByText('onerror').first().waitFor()
      await look()
      await page.getByRole('log').hover()
      for (let step = 0; step < 12; step++) {
        await page.mouse.wheel(0, -500)
        await look()
      }
    }
    await page.goto(`${panel.url}/conversations?q=${encodeURIComponent('<script>')}`)
    await page.locator('mark', { hasText: '<script>' }).first().waitFor()
    await look()
    expect(await page.title()).not.toContain('onerror')
    expect(panel.complaints).toEqual([])
  })
}
