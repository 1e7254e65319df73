/** The whole life of an account at the panel of the compiled binary. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { violationsInBothThemes } from '../support/axe.ts'
import { hasBrowser, launchBrowser, watch } from '../support/browser.ts'
import { type Hand, wordsOf } from '../support/panel-hand.ts'
import { type Json, startService } from '../support/service.ts'
import { svcProgram } from '../support/svc-program.ts'

const root = join(import.meta.dirname, '../..')
export const wide = { width: 1280, height: 800 }
export const phone = { width: 390, height: 844 }
/** The shared binary of the test run. A single run builds its own. */
let command = svcProgram
let browser: Browser
const stack = new AsyncDisposableStack()
beforeAll(async () => {
  if (!hasBrowser) return
  browser = stack.use(await launchBrowser())
  if (process.env.SVC_TEST_PROGRAM) return
  const folder = await mkdtemp(join(tmpdir(), 'svc-panel-life-'))
  stack.defer(() => rm(folder, { recursive: true, force: true }))
  command = [join(folder, 'svc')]
  const build = [process.execPath, join(root, 'scripts/build.ts'), `--outfile=${command[0]}`]
  expect(await Bun.spawn(build, { stdout: 'ignore', stderr: 'inherit' }).exited).toBe(0)
})
afterAll(() => stack.disposeAsync())

/** A service of its own, with a page of its panel. */
async function openLife(options: BrowserContextOptions) {
  const life = new AsyncDisposableStack()
  const service = life.use(await startService({ command, args: ['--admin-port', '0'] }))
  const url = /^admin on (\S+)$/m.exec(service.stdout())![1]!
  const page = await life.use(await browser.newContext(options)).newPage()
  const complaints: string[] = []
  watch(page, url, complaints)
  return { service, url, page, complaints, [Symbol.asyncDispose]: () => life.disposeAsync() }
}

export function liveThrough(language: 'en' | 'zh', viewport: typeof wide, by: (page: Page) => Hand): void {
  const size = `${viewport.width} × ${viewport.height}`
  test.skipIf(!hasBrowser)(`from the QR code to the logout: ${language}, ${size}, ${by.name}`, async () => {
    const locale = language === 'zh' ? 'zh-CN' : 'en'
    await using life = await openLife({ locale, viewport })
    const { service, url, page, complaints } = life
    const hand: Hand = by(page)
    const t = wordsOf(language)
    const main = page.getByRole('main')
    const dialog = page.getByRole('dialog')
    const link = (name: string) => page.getByRole('link', { name, exact: true })
    const button = (name: string) => page.getByRole('button', { name, exact: true })
    const navigate = (name: string) =>
      hand.press(page.getByRole('navigation').getByRole('link', { name: new RegExp(`^${name}`) }))
    const account = (name: string) =>
      page.getByRole('row').filter({ has: page.getByRole('link', { name, exact: true }) })
    const seen = (name: string, text: string) =>
      account(name).getByText(text, { exact: true }).filter({ visible: true }).waitFor()
    const inTitle = (name: string) => `\u2068${name}\u2069`
    /** Checks accessibility, except in English: other tests check that page by page. */
    const isForAll = async (what: string) => {
      // Wait until the page has loaded.
      await page.waitForFunction(() => document.querySelector('.skeleton, [aria-busy=true]') === null)
      if (language !== 'en') expect([what, await violationsInBothThemes(page)]).toEqual([what, []])
    }
    const menuOf = (name: string) => button(t('session.menu', { name: inTitle(name) }))

    // Add an account by QR code. The phone asks for digits, and the first ones are wrong.
    await page.goto(url)
    await main.getByText(t('overview.says_none')).waitFor()
    await isForAll('no account yet')
    await navigate(t('nav.sessions'))
    await hand.press(button(t('welcome.go')))
    await dialog.getByRole('img', { name: t('login.qr_alt') }).waitFor()
    await isForAll('a QR code')
    await service.phone('scan', { verify_code: '4711', confirm: true })
    const digits = dialog.getByRole('textbox', { name: t('login.digits_label') })
    await hand.write(digits, '1234')
    await hand.enter()
    await dialog.getByText(t('login.wrong_code')).waitFor()
    await isForAll('wrong digits')
    await hand.write(digits, '4711')
    await hand.enter()
    await dialog.getByText(t('login.confirmed_about')).waitFor()
    await hand.press(dialog.getByRole('button', { name: t('login.done'), exact: true }))
    await seen('default', t('session.connected'))

    // A user writes. The message is seen on another page and answered with a text and a picture.
    await service.phone('say', { text: 'Is the blue one in stock? 蓝色的有货吗？' })
    await page.getByRole('navigation').getByText(t('nav.unread')).waitFor()
    await navigate(t('nav.conversations'))
    await hand.press(page.getByRole('link').filter({ hasText: 'Is the blue one' }))
    const log = page.getByRole('log')
    await log.getByText('蓝色的有货吗？').waitFor()
    // The field gets the focus, except on a phone, where that would open the keyboard.
    const writing = page.getByRole('textbox', { name: t('composer.write'), exact: true })
    if (viewport !== phone) await writing.and(page.locator(':focus')).waitFor()
    await hand.pick(button(t('composer.attach')), {
      name: 'blue.png',
      mimeType: 'image/png',
      buffer: await page.screenshot({ clip: { x: 0, y: 0, width: 64, height: 48 } }),
    })
    await page
      .getByRole('list', { name: t('composer.attached') })
      .getByText('blue.png')
      .waitFor()
    await hand.write(writing, 'Yes: 有货')
    await hand.enter()
    await log.getByText('Yes: 有货').waitFor()
    await log.getByText(t('delivery.accepted'), { exact: true }).nth(1).waitFor()
    await log
      .getByRole('img')
      .or(log.getByRole('button', { name: t('chat.open_picture') }))
      .first()
      .waitFor()
    const { messages }: Json = await (await fetch(`${service.phoneUrl}/phone/messages?from=bot`)).json()
    expect(messages).toHaveLength(2)
    expect(JSON.stringify(messages)).toContain('Yes: 有货')
    await isForAll('a chat')
    if (language !== 'en') {
      await page.goto(`${page.url()}?media=IMAGE`)
      await page.getByRole('link', { name: t('gallery.back') }).waitFor()
      await isForAll('its pictures')
      await page.getByRole('link', { name: t('gallery.back') }).click()
    }

    // A search finds the message and marks the match.
    if (viewport === phone) await hand.press(link(t('chat.back')))
    await hand.write(page.getByRole('searchbox'), 'BLUE one')
    const hit = page.getByRole('link').filter({ has: page.locator('mark', { hasText: 'blue one' }) })
    await hit.waitFor()
    await isForAll('found')
    await hand.press(hit)
    await log.locator('mark', { hasText: 'blue one' }).waitFor()
    expect(new URL(page.url()).searchParams.get('q')).toBe('BLUE one')

    if (viewport === phone) await hand.press(link(t('chat.back')))

    // Rename the account, and add another one that becomes the default.
    await navigate(t('nav.sessions'))
    await hand.choose(menuOf('default'), t('sessions.rename'))
    await hand.write(dialog.getByRole('textbox', { name: t('access.name') }), '客服-shop')
    await hand.enter()
    await account('客服-shop').waitFor()
    await dialog.waitFor({ state: 'detached' })
    await hand.press(link(t('sessions.add')))
    await hand.write(dialog.getByRole('textbox', { name: t('sessions.name_optional') }), 'second')
    await hand.enter()
    await dialog.getByRole('img', { name: t('login.qr_alt') }).waitFor()
    const { id }: Json = await service.phone('users', { name: 'Mei' })
    await service.phone('scan', { user: id, confirm: true })
    await hand.press(dialog.getByRole('button', { name: t('login.done'), exact: true }))
    await seen('second', t('session.connected'))
    await hand.choose(menuOf('second'), t('sessions.make_default'))
    await seen('second', t('session.default'))
    await isForAll('accounts')

    // A logout must be confirmed. The messages stay.
    await hand.choose(menuOf('客服-shop'), t('sessions.logout'))
    const question = page.getByRole('alertdialog')
    await question.waitFor()
    await isForAll('the question')
    await hand.escape()
    await question.waitFor({ state: 'detached' })
    await seen('客服-shop', t('session.connected'))
    await hand.choose(menuOf('客服-shop'), t('sessions.logout'))
    await hand.press(question.getByRole('button', { name: t('sessions.logout'), exact: true }))
    // While a dialog is open, rows have no role.
    await question.waitFor({ state: 'detached' })
    await account('客服-shop').waitFor({ state: 'detached' })
    await navigate(t('nav.conversations'))
    await page
      .getByRole('link')
      .filter({ hasText: t('chat.picture') })
      .waitFor()
    await page.reload()
    await page
      .getByRole('link')
      .filter({ hasText: t('chat.picture') })
      .waitFor()

    await isForAll('conversations')
    for (const path of [
      '',
      'sessions/second',
      'settings',
      `${new URL(page.url()).pathname.slice(1)}?kind=IMAGE`,
    ]) {
      if (language === 'en') break
      await page.goto(`${url}/${path}`)
      await page.getByRole('heading').first().waitFor()
      await isForAll(path)
    }
    expect(await page.locator('html').getAttribute('lang')).toBe(language)
    expect(complaints).toEqual([])
  })
}
