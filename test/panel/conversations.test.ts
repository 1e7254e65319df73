import { describe, expect, test } from 'bun:test'
import type { Locator, Page } from 'playwright-core'
import en from '../../locales/en.json'
import { owner } from '../../src/model/principal.ts'
import { violationsInBothThemes } from '../support/axe.ts'
import { hasBrowser } from '../support/browser.ts'
import { type TestPanel, withPanel } from '../support/panel.ts'
import { wordsOf } from '../support/panel-hand.ts'

const words = wordsOf('en')

const hour = 3_600_000
/** A time zone where it is about noon. All pages use it, so that they share a browser context. */
const ahead = 12 - new Date().getUTCHours()
const timezoneId = `Etc/GMT${ahead > 0 ? '-' : '+'}${Math.abs(ahead)}`
const chatOf = (user: string, session = 'default') =>
  `/conversations/${encodeURIComponent(session)}/${encodeURIComponent(user)}`
const log = (page: Page) => page.getByRole('log', { name: 'Messages' })
const field = (page: Page) => page.getByRole('textbox', { name: 'Message' })
const bubble = (page: Page, text: string) => log(page).locator('article', { hasText: text })
/** What a user received: texts, and the kinds of other items. */
const sentTexts = async ({ sandbox }: TestPanel, user: string) =>
  (await sandbox.messages({ user, from: 'bot', limit: 1000 })).map(
    ({ items }) => items[0]?.text ?? items[0]?.kind,
  )
const userOf = (panel: TestPanel, session = 'default') => panel.bots.get(session)!.user_id
const stored = (panel: TestPanel, count: number) =>
  panel.until(
    `${count} messages are stored`,
    async () => (await panel.gateway.history.page({ limit: 1, offset: 0 })).total >= count || undefined,
  )

/** How far the end is out of view in px, once nothing moves any more. */
const away = (page: Page): Promise<number> =>
  log(page).evaluate(async it => {
    const rest = () => it.scrollHeight - it.clientHeight - it.scrollTop
    const shape = () => `${it.scrollHeight} ${it.clientHeight} ${it.scrollTop}`
    for (let before = '', still = 0; still < 5; before = shape()) {
      await new Promise(done => requestAnimationFrame(done))
      still = before === shape() ? still + 1 : 0
    }
    return Math.round(rest())
  })

const pictureOf = (page: Page, width: number, height: number): Promise<number[]> =>
  page.evaluate(
    async size => {
      const canvas = Object.assign(document.createElement('canvas'), size)
      canvas.getContext('2d')!.fillRect(0, 0, size.width, size.height)
      const blob = await new Promise<Blob | null>(done => canvas.toBlob(done))
      return [...new Uint8Array(await blob!.arrayBuffer())]
    },
    { width, height },
  )

/** Records the text of each message that is drawn, even if it is removed at once. */
function noteDrawn(): void {
  const drawn: string[] = []
  Object.assign(window, { drawn })
  const look = (node: Node) => {
    if (node instanceof Element)
      drawn.push(...Array.from(node.querySelectorAll('article'), one => one.textContent))
  }
  const observer = new MutationObserver(all => all.forEach(({ addedNodes }) => void addedNodes.forEach(look)))
  observer.observe(document, { childList: true, subtree: true })
}

test.skipIf(!hasBrowser)('the end of the chat stays in view, on a wide page and on a phone', async () => {
  await using panel = await withPanel({ sessions: ['wide', 'phone'] })
  const { sandbox, bots } = panel
  const page = await panel.open({ timezoneId, path: '/icon.svg' })
  await page.addInitScript(noteDrawn)
  for (const [session, viewport] of [
    ['wide', { width: 1280, height: 800 }],
    ['phone', { width: 390, height: 844 }],
  ] as const) {
    const { user_id: user, bot_id: to } = bots.get(session)!
    const from = { from: user, to }
    const text = 'message {n} with some words, so that it takes more than one line on a phone'
    await sandbox.phone('POST', 'bulk', { count: 60, text, ...from })
    await panel.receive(60)
    await page.setViewportSize(viewport)
    await page.goto(`${panel.url}/conversations/${session}/${encodeURIComponent(user)}`)
    await log(page).getByText('message 60 ').waitFor()
    const found: Record<string, number> = { 'when it opens': await away(page) }
    const drawn = await page.evaluate(() => (window as unknown as { drawn: string[] }).drawn)
    // Rows at the other end are never drawn.
    expect(drawn.filter(text => /message 1 /.test(text))).toEqual([])
    expect(drawn.filter(text => /message 60 /.test(text))).not.toEqual([])
    const tall = Buffer.from(await pictureOf(page, 300, 900))
    const file = (name: string) => ({ name, mimeType: 'image/png', buffer: tall })

    await page
      .locator('input[type=file]')
      .setInputFiles([file('a.png'), file('b.png'), { ...file('c.pdf'), mimeType: 'application/pdf' }])
    await page.getByRole('button', { name: 'Remove c.pdf' }).waitFor()
    found['with files attached'] = await away(page)
    await field(page).fill('several\nlines\nof\ntext')
    found['while more is written'] = await away(page)
    await field(page).press('Enter')
    await log(page).getByText('Sent', { exact: true }).nth(3).waitFor()
    await log(page).locator('.picture:not(.loading)').nth(1).waitFor()
    found['after text and files were sent'] = await away(page)

    await sandbox.media('image', tall, from)
    await log(page).locator('article.in .picture:not(.loading) img').waitFor()
    found['after a picture has grown'] = await away(page)
    await page.setViewportSize({ width: viewport.width, height: 500 })
    found['with a keyboard on the screen'] = await away(page)
    await page.setViewportSize(viewport)
    found['without it'] = await away(page)
    await sandbox.say('line\n'.repeat(12), from)
    // Other messages have the word "line" too.
    await log(page)
      .locator('article.in', { hasText: /(line\s+){11}line/ })
      .waitFor()
    found['after a long message came'] = await away(page)
    expect(Object.entries(found).filter(([, px]) => px > 1)).toEqual([])

    // A reader above the end stays there.
    await log(page).hover()
    await page.mouse.wheel(0, -700)
    await panel.until('it has moved', async () => (await away(page)) > 500)
    const first = () => log(page).evaluate(it => it.scrollTop)
    const before = await first()
    await sandbox.say('not to be followed', from)
    await page.getByRole('button', { name: '1 new message' }).waitFor()
    await sandbox.media('image', tall, from)
    await page.getByRole('button', { name: '2 new messages' }).waitFor()
    await away(page)
    expect(Math.abs((await first()) - before)).toBeLessThan(2)
  }
  expect(panel.complaints).toEqual([])
})

test.skipIf(!hasBrowser)(
  'no picture is enlarged in the chat, and each fills its tile in the gallery',
  async () => {
    await using panel = await withPanel()
    const { user_id } = panel.bots.get('default')!
    const chat = `${panel.url}/conversations/default/${encodeURIComponent(user_id)}`
    const page = await panel.open({ timezoneId })
    const sizes = [
      [16, 16],
      [12, 600],
      [600, 40],
      [900, 600],
    ] as const
    for (const [width, height] of sizes)
      await panel.sandbox.media('image', Buffer.from(await pictureOf(page, width, height)))
    await panel.receive(sizes.length)
    for (const path of ['', '?media=IMAGE']) {
      await page.goto(chat + path)
      const pictures = page.locator('.picture:not(.loading) img')
      await panel.until(`all are there${path}`, async () => (await pictures.count()) === sizes.length)
      const blownUp = () =>
        pictures.evaluateAll(all =>
          (all as HTMLImageElement[])
            .map(({ naturalWidth, naturalHeight, offsetWidth, offsetHeight }) => ({
              natural: `${naturalWidth} × ${naturalHeight}`,
              // The scale of `object-fit: cover`.
              scale: Math.max(offsetWidth / (naturalWidth || 1), offsetHeight / (naturalHeight || 1)),
            }))
            .filter(({ scale }) => scale > 1),
        )
      if (path === '') await panel.until('none is blown up', async () => (await blownUp()).length === 0)
      const unfilled = () =>
        pictures.evaluateAll(
          all =>
            (all as HTMLImageElement[]).filter(
              ({ offsetWidth, offsetHeight, parentElement }) =>
                offsetWidth < parentElement!.clientWidth || offsetHeight < parentElement!.clientHeight,
            ).length,
        )
      if (path !== '') await panel.until('each fills its tile', async () => (await unfilled()) === 0)
      const boxes = await page
        .locator('.picture')
        .evaluateAll(all => all.map(one => [one.clientWidth, one.clientHeight]))
      // In the chat no box is larger than its picture, except for the minimum for a finger; the last is
      // scaled down.
      if (path === '')
        expect(boxes).toEqual([
          [24, 24],
          [24, 320],
          [264, 24],
          [264, 176],
        ])
      else expect(Math.min(...boxes.map(([width = 0]) => width))).toBeGreaterThanOrEqual(72)
      // If the time has no room on a picture, it is below.
      const covers = await page.locator('.bubble').evaluateAll(all =>
        all.map(one => {
          const [time, picture] = ['.meta', '.picture'].map(what =>
            one.querySelector(what)!.getBoundingClientRect(),
          )
          return time!.top < picture!.bottom
        }),
      )
      expect(covers).toEqual(path === '' ? [false, false, false, true] : [])
    }
    expect(panel.complaints).toEqual([])
  },
)

describe.skipIf(!hasBrowser)('conversations', () => {
  test('by keyboard: search, choose, answer, read new messages; hostile texts do no harm', async () => {
    await using panel = await withPanel({ sessions: ['default', '客服'] })
    const { sandbox } = panel
    const user = userOf(panel)
    const other = await sandbox.addUser('other')
    await sandbox.say('first of another', { from: other, to: panel.bots.get('default')!.bot_id })
    await sandbox.say('hello\nsecond line')
    await stored(panel, 2)
    const page = await panel.open({ timezoneId, path: '/conversations' })
    await page.getByText('hello second line').waitFor()
    await page.keyboard.press('/')
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('End')
    await page.keyboard.press('Home')
    await page.keyboard.press('Enter')
    await bubble(page, 'second line').waitFor()
    expect(page.url()).toBe(`${panel.url}${chatOf(user)}`)
    await panel.until('read by the service too', async () => {
      const listed = await panel.gateway.conversations.list()
      return listed.find(({ user_id }) => user_id === user)?.unread === 0
    })
    await field(page).and(page.locator(':focus')).waitFor()
    await page.keyboard.type('an answer')
    await page.keyboard.press('Shift+Enter')
    await page.keyboard.type('of two lines')
    await page.keyboard.press('Enter')
    await bubble(page, 'an answer').getByText('Sent', { exact: true }).waitFor()
    expect(await sentTexts(panel, user)).toEqual(['an answer\nof two lines'])
    await sandbox.say('and back')
    await bubble(page, 'and back').waitFor()
    await page.getByText('New message: and back').waitFor({ state: 'attached' })
    expect(await field(page).evaluate(it => it === document.activeElement)).toBe(true)

    // Texts, ids and file names with HTML, direction marks and great length.
    const bot = panel.bots.get('default')!
    const from = '<img src=x onerror=alert(1)>"\u202e/%2F@im.wechat'
    await sandbox.phone('POST', 'users', { id: from, name: 'odd' })
    const say = (text: string) => sandbox.say(text, { from, to: bot.bot_id })
    await say('<script>alert(1)</script> & "quotes" \u202eright to left')
    await say('see javascript:alert(1) and https://example.com/a?b=<c>.')
    await say(`${'long '.repeat(2500)}END`)
    await sandbox.media('file', 'x', { name: 'photo\u202egpj.exe', from, to: bot.bot_id })
    await stored(panel, 8)
    await page.goto(panel.url + chatOf(from))
    await bubble(page, '<script>alert(1)</script> & "quotes"').waitFor()
    expect(
      await log(page)
        .getByRole('link', { name: /example/ })
        .evaluateAll(links =>
          links.map(link => [
            link.getAttribute('href'),
            link.getAttribute('rel'),
            link.getAttribute('target'),
          ]),
        ),
    ).toEqual([['https://example.com/a?b=', 'noopener noreferrer', '_blank']])
    await bubble(page, 'photogpj.exe').waitFor()
    expect(await log(page).getByText('END').count()).toBe(0)
    await log(page)
      .getByRole('button', { name: /^Show all/ })
      .click()
    await log(page).getByText('END').waitFor({ state: 'attached' })
    const wide = () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
    for (const width of [360, 768, 1280]) {
      await page.setViewportSize({ width, height: 800 })
      expect(await wide()).toBeLessThanOrEqual(0)
    }

    // On a phone the list and the chat are separate pages.
    await page.setViewportSize({ width: 360, height: 740 })
    await page.getByRole('link', { name: 'Back to the list' }).click()
    await page.getByRole('link', { name: /and back/ }).click()
    await bubble(page, 'and back').waitFor()
    expect(await page.getByRole('searchbox').count()).toBe(0)
    await page.getByRole('link', { name: 'Back to the list' }).click()
    await page.getByRole('searchbox').waitFor()
    expect(panel.complaints).toEqual([])
  })

  test('a long conversation: only visible rows are in the page, none is missing, a search leads to any of them', async () => {
    await using panel = await withPanel()
    const { sandbox } = panel
    await sandbox.bulk(600, 'number {n} of many')
    await stored(panel, 600)
    const page = await panel.open({ timezoneId, path: chatOf(userOf(panel)) })
    await bubble(page, 'number 600 of').waitFor()
    const rows = () =>
      log(page)
        .locator('article')
        .evaluateAll(all => all.map(one => Number(one.getAttribute('data-row'))).sort((a, b) => a - b))
    expect((await rows()).length).toBeLessThan(60)

    const seen = new Set<number>()
    await panel.until('more than 250 are seen', async () => {
      await log(page).evaluate(it => {
        it.scrollTop -= it.clientHeight * 0.8
      })
      await page.evaluate(() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))))
      for (const row of await rows()) seen.add(row)
      return seen.size > 250
    })
    const newest = Math.max(...seen)
    expect([...seen].sort((a, b) => b - a)).toEqual(Array.from(seen, (_row, nth) => newest - nth))

    await sandbox.say('came meanwhile')
    await page.getByRole('button', { name: '1 new message' }).waitFor()
    await page.getByRole('searchbox').fill('number 100 of')
    await page.locator('.hit', { hasText: 'number 100 of' }).click()
    await log(page).locator('article.looked', { hasText: 'number 100 of' }).waitFor()
    await page.reload()
    await log(page).locator('article.looked mark', { hasText: 'number 100 of' }).waitFor()
    await bubble(page, 'number 103 of').waitFor()
    await page.getByRole('button', { name: en['chat.to_end'] }).click()
    await bubble(page, 'came meanwhile').waitFor()
    expect((await rows()).length).toBeLessThan(60)
    expect(panel.complaints).toEqual([])
  })

  test('the URL of an account shows only its conversations; the URL of a missing account says so', async () => {
    await using panel = await withPanel({ sessions: ['one', '客服', 'left'] })
    const { sandbox, bots } = panel
    for (const [name, bot] of bots) {
      await sandbox.say(`to ${name}`, { from: bot.user_id, to: bot.bot_id })
    }
    await stored(panel, 3)
    await panel.gateway.accounts.logout('left')
    const page = await panel.open({ timezoneId, path: `/conversations/${encodeURIComponent('客服')}` })
    await page.getByText('to 客服').waitFor()
    expect(await page.getByText('to one').count()).toBe(0)
    await page.getByRole('link', { name: 'Show the conversations of all accounts' }).click()
    await page.getByText('to one').waitFor()
    expect(page.url()).toBe(`${panel.url}/conversations`)

    // Messages of a logged-out account can still be read.
    await page.getByRole('link', { name: /to left/ }).click()
    await log(page).getByText('to left').waitFor()
    await page.getByText(en['composer.gone']).waitFor()

    await page.goto(`${panel.url}/conversations/nope`)
    const missing = page.getByText(new RegExp(words('sessions.missing', { name: '\\W*nope\\W*' })))
    await missing.waitFor()
    expect(await page.getByText('No contact has written yet').count()).toBe(0)
    await page.getByRole('link', { name: 'Show all accounts' }).click()
    await page.waitForURL(`${panel.url}/sessions`)
    // A conversation of a missing account says so too.
    await page.goto(`${panel.url}/conversations/nope/someone`)
    for (const width of [1280, 390]) {
      await page.setViewportSize({ width, height: 800 })
      await missing.waitFor()
      expect(await page.getByRole('textbox').count()).toBe(0)
    }
    // The browser reports that the messages of a missing account answer 404.
    expect(panel.complaints).toEqual([expect.stringContaining('404')])
  })

  test('a message is sent once, and says why if it has to wait or is refused', async () => {
    await using panel = await withPanel()
    const { sandbox } = panel
    const { bot_id: to, user_id: from } = panel.bots.get('default')!
    const says = (message_id: number, text: string, hoursAgo: number) =>
      sandbox.raw(
        {
          message_id,
          from_user_id: from,
          to_user_id: to,
          message_type: 1,
          message_state: 2,
          create_time_ms: Date.now() - hoursAgo * hour,
          context_token: 'c',
          item_list: [{ type: 1, text_item: { text } }],
        },
        to,
      )

    // A message that was sent a day after it was written stands where it was sent, under its own day.
    await says(7, 'yesterday', 20)
    await stored(panel, 1)
    const { outbox_id } = await panel.send({ text: 'approved today', approval: 'nobody' })
    await says(8, 'second', 19)
    await stored(panel, 3)
    await panel.gateway.outbox.approve(owner, outbox_id!)
    const page = await panel.open({ timezoneId, path: chatOf(from) })
    await bubble(page, 'second').waitFor()
    expect(await log(page).locator('.day:not(.unread-line)').count()).toBe(2)
    expect(await log(page).locator('article .text').allTextContents()).toEqual([
      'yesterday',
      'second',
      'approved today',
    ])
    const times = await log(page).locator('article time').allTextContents()
    expect(times.map(text => text.length > '14:05 PM'.length)).toEqual([false, false, false])

    /** Another user writes, and their chat is opened. @returns the user */
    const goToAnother = async (text: string) => {
      const user = await sandbox.addUser()
      await sandbox.say(text, { from: user, to })
      await page.locator('a.conversation', { hasText: text }).click()
      await bubble(page, text).waitFor()
      return user
    }

    // A draft is saved, a word being composed is not sent, and a picture and a file are sent with a text.
    const painter = await goToAnother('draw me something')
    await field(page).fill('half a thought')
    await page.reload()
    await panel.until('the draft is back', async () => (await field(page).inputValue()) === 'half a thought')
    await field(page).evaluate(it =>
      it.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', keyCode: 229, bubbles: true })),
    )
    expect(await field(page).inputValue()).toBe('half a thought')
    const png = await page.screenshot({ clip: { x: 0, y: 0, width: 60, height: 40 } })
    await page.locator('input[type=file]').setInputFiles([
      { name: 'sky.png', mimeType: 'image/png', buffer: png },
      { name: 'too much.pdf', mimeType: 'application/pdf', buffer: Buffer.alloc(100) },
      { name: 'paper.pdf', mimeType: 'application/pdf', buffer: Buffer.alloc(3000) },
    ])
    await page.getByRole('button', { name: 'Remove too much.pdf' }).click()
    await page.getByText(words('composer.cost', { cost: 3, count: 10 })).waitFor()
    // 16,384 bytes fit into a message, and each of these characters has three bytes.
    await field(page).fill('长'.repeat(16_384))
    await page.getByText(words('composer.cost', { cost: 6, count: 10 })).waitFor()
    await field(page).fill('half a thought')
    await page.getByText(words('composer.cost', { cost: 3, count: 10 })).waitFor()
    await field(page).press('Enter')
    const sent = log(page).locator('article.out').getByText('Sent', { exact: true })
    await panel.until('all three are marked as sent', async () => (await sent.count()) === 3)
    expect(await sentTexts(panel, painter)).toEqual(['half a thought', 'image', 'file'])
    expect(await log(page).locator('article').count()).toBe(4)
    await log(page).getByRole('button', { name: en['chat.open_picture'] }).click()
    await page.getByRole('dialog', { name: 'Picture' }).getByRole('img', { name: 'Picture' }).waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    // A damaged picture is shown as a file, and its delivery mark has the usual colour.
    await page.locator('input[type=file]').setInputFiles({
      name: 'broken.png',
      mimeType: 'image/png',
      buffer: Buffer.concat([png.subarray(0, 16), Buffer.alloc(100)]),
    })
    await page.getByText('broken.png').waitFor()
    await field(page).press('Enter')
    const broken = bubble(page, en['chat.not_shown'])
    const colour = (of: Locator) => of.locator('.delivery').evaluate(it => getComputedStyle(it).color)
    await broken.getByText('Sent', { exact: true }).waitFor()
    expect(await colour(broken)).toBe(await colour(bubble(page, 'half a thought')))

    // A message to an unknown user says so in the viewer's language, and has no button to send it again.
    await panel.send({ to: 'nobody@im.wechat', text: 'who are you?' }).catch(() => {})
    await page.goto(panel.url + chatOf('nobody@im.wechat'))
    const note = bubble(page, 'who are you?').locator('.note')
    await note.waitFor()
    expect(await note.innerText()).toMatch(/^Not sent: WeChat knows no contact with this ID/)
    expect(await note.getByRole('button').count()).toBe(0)
    expect(panel.complaints).toEqual([])

    // A message whose answer is lost is tried again and arrives once.
    const loser = await goToAnother('say it once')
    // The call fails before it reaches the service: nothing is stored.
    await page.route('**/api/call/send', route => route.abort(), { times: 1 })
    await field(page).fill('once')
    await field(page).press('Enter')
    await log(page).getByRole('alert').getByText('May have arrived').waitFor()
    // The call reaches the service and the answer is lost: the service has the message and its key.
    await page.route(
      '**/api/call/send',
      async route => {
        await route.fetch()
        await route.abort()
      },
      { times: 1 },
    )
    await log(page).getByRole('button', { name: 'Try again' }).click()
    await bubble(page, 'once').getByText('Sent', { exact: true }).waitFor()
    expect(await log(page).locator('article.out').count()).toBe(1)
    expect(await sentTexts(panel, loser)).toEqual(['once'])

    // A message that WeChat refused says why. A message without an answer says that it may have arrived.
    const refuser = await goToAnother('say more')
    await sandbox.fail('sendmessage', 'ret', { code: -1, errmsg: 'not on a Sunday' })
    await field(page).fill('refused')
    await field(page).press('Enter')
    const refused = bubble(page, 'refused')
    await refused.getByText(/^Not sent: /).waitFor()
    await refused.getByText('not on a Sunday').waitFor()
    expect(await refused.getByRole('button', { name: 'Send again' }).count()).toBe(1)
    await sandbox.say('go on', { from: refuser, to })
    await bubble(page, 'go on').waitFor()
    // This refusal holds the lane until the user writes: sending again now would be refused again.
    await sandbox.fail('sendmessage', 'ret', { code: -2, errmsg: 'prepare failed' })
    await field(page).fill('held')
    await field(page).press('Enter')
    const held = bubble(page, 'held').first()
    await held.getByText('prepare failed').waitFor()
    expect(await held.locator('.note button').allInnerTexts()).toEqual([en['delivery.when_possible']])
    await held.locator('.note button').click()
    await bubble(page, 'held').nth(1).getByText(en['delivery.queued_note']).waitFor()
    await sandbox.say('now', { from: refuser, to })
    await bubble(page, 'held').nth(1).getByText('Sent', { exact: true }).waitFor()
    await held.getByRole('button', { name: 'Send again' }).waitFor()
    await sandbox.fail('sendmessage', 'reset', { after: true })
    await field(page).fill('doubtful')
    await field(page).press('Enter')
    await bubble(page, 'doubtful').getByText(en['delivery.unknown_note']).waitFor()
    expect(await bubble(page, 'doubtful').locator('.note button').count()).toBe(0)
    expect(await log(page).locator('article.out').count()).toBe(4)
    expect(await violationsInBothThemes(page)).toEqual([])

    // While the window is closed, a message waits until the user writes, or it is cancelled.
    panel.complaints.length = 0
    const late = await goToAnother('long ago')
    panel.clock.advance(25 * hour)
    await sandbox.advance(25 * hour)
    await page.clock.setFixedTime(Date.now() + 25 * hour)
    await page.reload()
    await page.getByText(en['composer.closed']).first().waitFor()
    expect(await field(page).isDisabled()).toBe(true)
    await page.getByRole('button', { name: 'Write a message for later' }).click()
    await page.getByRole('textbox').last().fill('for later')
    await page.keyboard.press('Enter')
    await bubble(page, 'for later').getByText(en['delivery.queued_note']).waitFor()
    await page.keyboard.type('not at all')
    await page.keyboard.press('Enter')
    await bubble(page, 'not at all').getByRole('button', { name: 'Do not send' }).click()
    await bubble(page, 'not at all').getByText(en['delivery.cancelled_note']).waitFor()
    await sandbox.say('here again', { from: late, to })
    await bubble(page, 'for later').getByText('Sent', { exact: true }).waitFor()
    expect(await sentTexts(panel, late)).toEqual(['for later'])
    expect(panel.complaints).toEqual([])
  })
})
