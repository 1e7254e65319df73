import { expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { hasBrowser } from '../support/browser.ts'
import { withPanel } from '../support/panel.ts'

const log = (page: Page) => page.getByRole('log', { name: 'Messages' })
const field = (page: Page) => page.getByRole('textbox', { name: 'Message' })

/** How far the end is out of view, once nothing moves any more. */
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

/** Notes the text of each message that is drawn, also of one that goes at once. */
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
  const page = await panel.open({ path: '/icon.svg' })
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
    // The rows at the other end are not drawn first, to be taken away again.
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
    // Other messages have the word too.
    await log(page)
      .locator('article.in', { hasText: /(line\s+){11}line/ })
      .waitFor()
    found['after a long message came'] = await away(page)
    expect(Object.entries(found).filter(([, px]) => px > 1)).toEqual([])

    // Whoever reads above is left alone.
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
  'no picture is shown larger than it is, in the chat and among its pictures',
  async () => {
    await using panel = await withPanel()
    const { user_id } = panel.bots.get('default')!
    const chat = `${panel.url}/conversations/default/${encodeURIComponent(user_id)}`
    const page = await panel.open()
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
              // As `object-fit: cover` makes them.
              scale: Math.max(offsetWidth / (naturalWidth || 1), offsetHeight / (naturalHeight || 1)),
            }))
            .filter(({ scale }) => scale > 1),
        )
      await panel.until(`none is blown up${path}`, async () => (await blownUp()).length === 0)
      const boxes = await page
        .locator('.picture')
        .evaluateAll(all => all.map(one => [one.clientWidth, one.clientHeight]))
      // In the chat no box is larger than its picture, but for what a finger needs; the last is scaled.
      if (path === '')
        expect(boxes).toEqual([
          [24, 24],
          [24, 320],
          [264, 24],
          [264, 176],
        ])
      else expect(Math.min(...boxes.map(([width = 0]) => width))).toBeGreaterThanOrEqual(72)
      // Where the time has no room on a picture, it stands below.
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
