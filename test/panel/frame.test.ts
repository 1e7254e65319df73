import { describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import en from '../../locales/en.json'
import zh from '../../locales/zh.json'
import { violationsInBothThemes } from '../support/axe.ts'
import { hasBrowser, watch } from '../support/browser.ts'
import { pagesWith, withPanel, write } from '../support/panel.ts'
import { wordsOf } from '../support/panel-hand.ts'

const words = wordsOf('en')

const french = { 'language.name': 'Français', 'nav.overview': 'Vue d’ensemble', 'nav.settings': 'Réglages' }

/** Navigates like a link of the panel, without a page load. */
const visit = (page: Page, path: string) => page.evaluate(to => history.pushState(null, '', to), path)

describe.skipIf(!hasBrowser)('the frame and the settings', () => {
  test('a file adds a language: it is offered, chosen and saved', async () => {
    await using panel = await withPanel({ files: { 'locales/fr.json': JSON.stringify(french) } })
    const page = await panel.open({ path: '/settings', locale: 'zh-CN' })
    const choice = page.getByRole('combobox')
    await page.getByRole('heading', { level: 1, name: '设置' }).waitFor()
    expect(await choice.locator('option').allInnerTexts()).toEqual(['English', 'Français', '中文'])
    await choice.selectOption('fr')
    await page.getByRole('heading', { level: 1, name: 'Réglages' }).waitFor()
    expect(await page.evaluate(() => document.documentElement.lang)).toBe('fr')
    await page.reload()
    await page.getByRole('link', { name: 'Vue d’ensemble' }).waitFor()
    const visitor = await panel.open({ locale: 'fr-CA' })
    await visitor.getByRole('heading', { level: 1, name: 'Vue d’ensemble' }).waitFor()
    expect(panel.complaints).toEqual([])
  })

  test('each page has its texts from the start, and asks again for those of another language', async () => {
    await using panel = await withPanel()
    await write(panel, 'hello')
    await panel.send({ text: 'shall I?', approval: 'nobody' })
    const page = await panel.open({ path: '/icon.svg', hastens: 2000 })
    let isDown = true
    await page.route('**/locales/*', route => (isDown ? route.abort() : route.continue()))
    const chat = `/conversations/default/${encodeURIComponent(panel.bots.get('default')!.user_id)}`
    const pages = pagesWith(chat)
    for (const path of pages) {
      await page.goto(panel.url + path)
      await page
        .locator(path === chat ? '.message .answers' : 'h1')
        .first()
        .waitFor()
      await page.waitForFunction(() => !document.querySelector('.skeleton, [aria-busy=true]'))
      const raw = await page.evaluate(
        keys => {
          const { outerHTML: all } = document.getElementById('app')!
          return keys.filter(key => all.includes(`>${key}<`) || all.includes(`"${key}"`))
        },
        Object.keys(en).map(key => key.replace(/_(one|other)$/, '')),
      )
      expect([path, raw]).toEqual([path, []])
    }
    await page.evaluate(() => localStorage.setItem('svc.language', 'zh'))
    await page.reload()
    await page.getByRole('heading', { level: 1, name: en['nav.settings'] }).waitFor()
    isDown = false
    await page.getByRole('heading', { level: 1, name: zh['nav.settings'] }).waitFor()
    await page.evaluate(() => localStorage.clear())
    expect(panel.complaints.filter(line => !/ERR_FAILED/.test(line))).toEqual([])
  })

  test('theme and language reach the other tabs at once', async () => {
    await using panel = await withPanel()
    const page = await panel.open({ path: '/settings' })
    const other = await page.context().newPage()
    watch(other, panel.url, panel.complaints)
    try {
      await other.goto(`${panel.url}/sessions`)
      await other.getByRole('heading', { level: 1, name: en['nav.sessions'] }).waitFor()
      await page.getByRole('radio', { name: en['settings.theme_dark'] }).check()
      await other.locator('html[data-theme=dark]').waitFor()
      await page.getByRole('combobox').selectOption('zh')
      await other.getByRole('heading', { level: 1, name: zh['nav.sessions'] }).waitFor()
      expect(await other.evaluate(() => document.documentElement.lang)).toBe('zh')
      // Clearing the storage resets the theme; the language of an open page stays.
      await page.evaluate(() => localStorage.clear())
      await other.locator('html[data-theme=light]').waitFor()
      await other.getByRole('heading', { level: 1, name: zh['nav.sessions'] }).waitFor()
      expect(panel.complaints).toEqual([])
    } finally {
      await page.evaluate(() => localStorage.clear())
      await other.close()
    }
  })

  test('times and numbers follow the browser’s locale in every language of the panel', async () => {
    await using panel = await withPanel()
    await write(panel, 'hello')
    const [{ timestamp } = { timestamp: 0 }] = (await panel.gateway.history.page({ limit: 1, offset: 0 }))
      .messages
    const clock = { hour: 'numeric', minute: '2-digit' } as const
    const page = await panel.open({ path: '/icon.svg' })
    await page.addInitScript(() => {
      const [own = 'en', language = 'en'] = sessionStorage.getItem('wanted')?.split(' ') ?? []
      Object.defineProperty(navigator, 'languages', { get: () => [own] })
      localStorage.setItem('svc.language', language)
    })
    const chat = `/conversations/default/${encodeURIComponent(panel.bots.get('default')!.user_id)}`
    for (const { locale, language, at = locale, options = clock, date, number } of [
      { locale: 'en-US', language: 'en', date: 'en-US' },
      { locale: 'en-GB', language: 'en', date: 'en-GB' },
      { locale: 'de-DE', language: 'en', date: 'en-DE', number: '100.000' },
      // Browsers do not know English of Brazil, nor Chinese of the United States.
      { locale: 'pt-BR', language: 'en', date: 'en-001' },
      {
        locale: 'en-US',
        language: 'zh',
        at: 'zh-CN',
        date: 'zh-CN',
        number: '100,000',
        options: { ...clock, hourCycle: 'h12' } as const,
      },
      // The texts stay in simplified characters.
      { locale: 'zh-TW', language: 'zh', at: 'zh-Hans-TW', date: 'zh-Hans-TW' },
    ]) {
      await page.evaluate(wanted => sessionStorage.setItem('wanted', wanted), `${locale} ${language}`)
      if (number !== undefined) {
        await page.goto(`${panel.url}/settings/messages`)
        await page.getByText(number).waitFor()
      }
      await page.goto(panel.url + chat)
      const time = page.locator('article time')
      await time.waitFor()
      // Ask the browser: locale data differs between browsers.
      const formatted = (locale: string, options: Intl.DateTimeFormatOptions) =>
        page.evaluate(
          ({ timestamp, locale, options }) => new Intl.DateTimeFormat(locale, options).format(timestamp),
          { timestamp, locale, options },
        )
      const wanted = { locale, language, text: await formatted(at, options) }
      expect({ locale, language, text: await time.innerText() }).toEqual(wanted)
      // The tooltip has the full date.
      const title = (await time.getAttribute('title')) ?? ''
      expect([locale, title]).toEqual([
        locale,
        expect.stringContaining(await formatted(date, { dateStyle: 'full' })),
      ])
    }
    await page.evaluate(() => {
      localStorage.clear()
    })
    expect(panel.complaints).toEqual([])
  })

  test('before the sign-in the page asks for the token and sends no requests', async () => {
    const token = 'a token of the test, long enough'
    await using panel = await withPanel({ token })
    const page = await panel.open({ path: '/icon.svg' })
    const asked: string[] = []
    page.on('request', request => void (request.url().includes('/api/') && asked.push(request.url())))
    const field = page.getByRole('textbox', { name: /Token/i })
    await page.goto(`${panel.url}/settings`)
    // The requests of the live state would begin before the page is drawn.
    await field.waitFor()
    expect([asked, panel.complaints]).toEqual([[], []])
    await field.fill(token)
    await page.keyboard.press('Enter')
    const settings = page.getByRole('heading', { level: 1, name: 'Settings' })
    await settings.waitFor()
    // The page is live.
    await panel.sandbox.say('hello')
    await page.getByRole('navigation').locator('.count').waitFor()
    // The browser must not restore the page from before the sign-in, and a link from another site must not
    // look signed out.
    await page.goto('data:text/html,<p>elsewhere')
    await page.goBack()
    await settings.waitFor()
    await page.goto(`data:text/html,<a href="${panel.url}/settings">there</a>`)
    await page.getByRole('link').click()
    await settings.waitFor()
    expect(panel.complaints).toEqual([])
  })

  test('settings: the theme is saved, facts can be copied, and the page is accessible', async () => {
    await using panel = await withPanel()
    const page = await panel.open({
      path: '/settings/messages',
      colorScheme: 'light',
      permissions: ['clipboard-read', 'clipboard-write'],
    })
    await page.getByText(words('settings.kept_days_other', { count: 30 }), { exact: true }).waitFor()
    await page.getByText(words('settings.kept_count_other', { count: '100,000' })).waitFor()
    const group = (key: 'settings.browser' | 'settings.service') =>
      page.getByRole('navigation', { name: en['nav.settings'] }).getByRole('link', { name: en[key] })
    await group('settings.service').click()
    await page
      .getByRole('button', { name: words('action.copy_what', { what: en['settings.directory'] }) })
      .click()
    await panel.until(
      'it is copied',
      async () => (await page.evaluate(() => navigator.clipboard.readText())) === panel.dir,
    )
    await page.waitForFunction(() => location.pathname === '/settings/service')
    expect(await violationsInBothThemes(page)).toEqual([])
    await group('settings.browser').click()
    await page.getByRole('combobox').waitFor()
    expect(await page.getByRole('button', { name: 'Sign out' }).count()).toBe(0)
    expect(await violationsInBothThemes(page)).toEqual([])
    // On a phone the groups are a page, and each group is one.
    await page.setViewportSize({ width: 390, height: 844 })
    await page.getByRole('main').getByRole('link', { name: en['nav.settings'] }).press('Enter')
    await page.getByRole('combobox').waitFor({ state: 'hidden' })
    await group('settings.browser').and(page.locator(':focus')).press('Enter')
    await page.getByRole('heading', { level: 2 }).and(page.locator(':focus')).waitFor()
    await page.getByRole('combobox').waitFor()
    await page.emulateMedia({ colorScheme: 'light' })
    await page.getByRole('radio', { name: 'Dark' }).check()
    await page.locator('html[data-theme=dark]').waitFor()
    // The theme is saved. An unknown URL shows it too, and leads back.
    await page.goto(`${panel.url}/nowhere`)
    await page.locator('html[data-theme=dark]').waitFor()
    await page.getByText(en['missing.title']).waitFor()
    await page.waitForFunction(title => document.title === title, `${en['missing.title']} · svc`)
    expect(await page.locator('nav [aria-current]').count()).toBe(0)
    await page.getByRole('link', { name: en['missing.go'] }).click()
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    expect(panel.complaints).toEqual([])
  })

  test('a page that throws shows an error, and the rest works', async () => {
    await using panel = await withPanel()
    const page = await panel.open({ path: '/settings/service' })
    await page.getByRole('heading', { level: 1, name: 'Settings' }).waitFor()
    // An answer that no version of the service gives.
    await page.route('**/api/call/status', async route => {
      const answer = await route.fetch()
      await route.fulfill({
        response: answer,
        json: { ...(await answer.json()), started_at: 'never' },
      })
    })
    await page.reload()
    await page.getByRole('alert').getByText('Something went wrong in this page').waitFor()
    await page.unroute('**/api/call/status')
    await page.getByRole('link', { name: 'Overview' }).click()
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    // Checks that `watch` sees errors, violations of the policy and requests to other hosts.
    await page.evaluate(to => fetch(to).catch(() => {}), `${panel.sandbox.url}/elsewhere`)
    await page.evaluate(() => {
      const script = document.createElement('script')
      script.textContent = 'document.title = "run"'
      document.body.append(script)
      setTimeout(() => {
        throw new Error('thrown')
      })
    })
    for (const what of ['connect-src', 'script-src', 'thrown'])
      await panel.until(`${what} is seen`, () => panel.complaints.some(line => line.includes(what)))
    expect(await page.title()).toContain('svc')
  })

  test('a page whose code cannot be loaded can be tried again', async () => {
    await using panel = await withPanel()
    const page = await panel.open({ path: '/icon.svg' })
    // Block it before it is loaded ahead of time.
    await page.route('**/assets/settings-*.js', route => route.abort())
    await page.goto(panel.url)
    await page.getByRole('link', { name: 'Settings' }).click()
    await page.getByText('This page could not be loaded').waitFor()
    await page.unroute('**/assets/settings-*.js')
    await page.getByRole('button', { name: 'Try again' }).click()
    await page.getByRole('heading', { level: 1, name: 'Settings' }).waitFor()
  })

  test('unvisited pages open while the service is down', async () => {
    await using panel = await withPanel()
    const page = await panel.open({ hastens: 2000 })
    const wanted = ['sessions', 'conversations', 'settings']
    await panel.until('the others have come', () =>
      page.evaluate(async names => {
        const loaded = performance.getEntriesByType('resource').map(({ name }) => name)
        const codes = names.map(one =>
          loaded.find(url => url.includes(`/assets/${one}`) && url.endsWith('.js')),
        )
        // The entry may be there before the imports of the module are loaded.
        await Promise.all(codes.map(code => code && import(code)))
        return codes.every(Boolean)
      }, wanted),
    )
    await panel.silence()
    for (const name of ['Accounts', 'Conversations', 'Settings']) {
      await page.getByRole('navigation').getByRole('link', { name }).click()
      await page.getByRole('heading', { level: 1, name }).waitFor()
    }
  })

  test('Ctrl+K goes to the search from every page, also from a text field', async () => {
    await using panel = await withPanel()
    await panel.sandbox.say('hi')
    await panel.receive(1)
    const chat = `/conversations/default/${encodeURIComponent(panel.bots.get('default')!.user_id)}`
    const page = await panel.open({ path: '/settings', viewport: { width: 390, height: 844 } })
    for (const path of ['/settings', chat, '/']) {
      await visit(page, path)
      await page.getByRole('heading', { level: 1 }).waitFor()
      await page.keyboard.press('Control+k')
      await page.getByRole('searchbox').and(page.locator(':focus')).waitFor()
      expect(new URL(page.url()).pathname).toBe('/conversations')
    }
    // Outside of text fields a slash does the same.
    await visit(page, '/settings')
    await page.getByRole('heading', { level: 1 }).waitFor()
    await page.keyboard.press('/')
    const search = page.getByRole('searchbox').and(page.locator(':focus'))
    await search.waitFor()
    expect([new URL(page.url()).pathname, await search.inputValue()]).toEqual(['/conversations', ''])
    await page.setViewportSize({ width: 1280, height: 800 })
    await visit(page, chat)
    await page.getByRole('textbox', { name: 'Message' }).and(page.locator(':focus')).waitFor()
    await page.keyboard.press('Control+k')
    await page.getByRole('searchbox').and(page.locator(':focus')).waitFor()
    expect(new URL(page.url()).pathname).toBe(chat)
    expect(panel.complaints).toEqual([])
  })

  test('on a small phone the frame does not scroll, and dialogs and notes can be read', async () => {
    const name = '客服中心-上海-第一组-夜班'
    await using panel = await withPanel({ sessions: ['default', name] })
    const { user_id, bot_id } = panel.bots.get(name)!
    for (let nth = 0; nth < 20; nth++)
      await panel.sandbox.media('file', 'x', { name: `${nth}.txt`, from: user_id, to: bot_id })
    await panel.receive(20)
    panel.clock.advance(25 * 3_600_000)
    const page = await panel.open({ viewport: { width: 320, height: 640 }, locale: 'zh-CN' })
    const at = encodeURIComponent(name)
    const chat = `/conversations/${at}/${encodeURIComponent(user_id)}`
    const seen: Record<string, string> = {
      '/': '.activity .chart svg',
      '/sessions': '.account-list',
      '/settings': '.settings nav a',
      '/settings/service': '.copyable',
      '/conversations': '.conversation',
      [`${chat}?media=FILE`]: '.gallery li:nth-child(20)',
      [chat]: '.composer .notice',
    }
    for (const [path, last] of Object.entries(seen)) {
      await visit(page, path)
      await page.locator(last).last().waitFor()
      const tooMuch = await page.evaluate(() =>
        [document.documentElement, document.getElementById('main')!].map(
          ({ scrollWidth, clientWidth }) => scrollWidth > clientWidth,
        ),
      )
      const height = await page.evaluate(() => document.documentElement.scrollHeight)
      expect([path, height, tooMuch]).toEqual([path, 640, [false, false]])
    }
    expect((await page.locator('.composer .notice .grow').boundingBox())!.width).toBeGreaterThan(180)
    await visit(page, `/sessions/${at}/login`)
    const dialog = page.getByRole('dialog')
    await dialog.locator('.button.primary').click()
    await dialog.getByRole('img').waitFor()
    expect((await dialog.getByRole('heading').boundingBox())!.y).toBeGreaterThan(0)
    expect(panel.complaints).toEqual([])
  })

  test('an interruption is reported above the page, which stays usable', async () => {
    await using panel = await withPanel()
    const page = await panel.open({ hastens: 1500 })
    await page.locator('.sentence', { hasText: en['overview.says_well_one'] }).waitFor()
    const resume = await panel.silence()
    // The page also retries by itself. Hold that back, so that the button is what reconnects.
    const asked = Promise.withResolvers<void>()
    let isPressed = false
    await page.route('**/api/events', route => (isPressed ? route.continue() : asked.resolve()))
    await page.getByText('The service does not answer.').waitFor()
    await page.getByText(words('overview.as_of', { when: '' }).trim()).waitFor()
    const banner = (await page.locator('.offline').boundingBox())!
    const main = (await page.getByRole('main').boundingBox())!
    expect(main.y).toBeGreaterThanOrEqual(banner.y + banner.height)
    await asked.promise
    await resume()
    isPressed = true
    await page.getByRole('button', { name: 'Try again' }).click()
    await page.getByText('The service does not answer.').waitFor({ state: 'detached' })
  })

  test('a page that is opened while the store fails says so, until it works', async () => {
    await using panel = await withPanel()
    const page = await panel.open({ path: '/icon.svg', hastens: 1500 })
    let fails = true
    const problem = { status: 503, json: { code: 'store_unavailable', detail: 'the database is away' } }
    await page.route('**/api/**', route => (fails ? route.fulfill(problem) : route.continue()))
    await page.goto(panel.url)
    await page.getByText(en['status.store_fails']).waitFor()
    fails = false
    await page.locator('.sentence', { hasText: en['overview.says_well_one'] }).waitFor()
    await page.locator('.offline').waitFor({ state: 'detached' })
  })

  test('an answer that is lost while the stream works is requested again', async () => {
    await using panel = await withPanel()
    await write(panel, 'hello')
    const page = await panel.open({ path: '/icon.svg', hastens: 1000 })
    await page.route('**/api/call/list_conversations', route => route.abort(), { times: 1 })
    await page.goto(panel.url)
    await page.getByRole('link', { name: /hello/ }).waitFor()
    await page.locator('.offline').waitFor({ state: 'detached' })
    // The browser logs the failed request.
    expect(panel.complaints.filter(line => !line.includes('ERR_FAILED'))).toEqual([])
  })
})
