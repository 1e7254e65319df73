/** The full-size view: all kinds of pictures, zooming, stepping; and the gallery of a conversation. */
import { describe, expect, test } from 'bun:test'

import type { Locator, Page } from 'playwright-core'
import en from '../../locales/en.json'
import { violationsInBothThemes } from '../support/axe.ts'
import { hasBrowser } from '../support/browser.ts'
import { type TestPanel, withPanel } from '../support/panel.ts'

/** Draws a picture in the page. */
const draw = async (
  page: Page,
  width: number,
  height: number,
  type = 'image/png',
): Promise<Uint8Array<ArrayBuffer>> =>
  Uint8Array.from(
    await page.evaluate(
      async ({ type, ...size }) => {
        const canvas = Object.assign(document.createElement('canvas'), size)
        canvas.getContext('2d')!.fillRect(0, 0, size.width / 2, size.height / 2)
        const blob = await new Promise<Blob | null>(done => canvas.toBlob(done, type))
        return [...new Uint8Array(await blob!.arrayBuffer())]
      },
      { width, height, type },
    ),
  )

/** Adds the EXIF note of a phone that the picture is rotated by 90 degrees. */
function rotated(jpeg: Uint8Array): Uint8Array<ArrayBuffer> {
  const tiff = [0x4d, 0x4d, 0, 42, 0, 0, 0, 8, 0, 1, 0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0]
  const exif = [0xff, 0xe1, 0, 8 + tiff.length, ...new TextEncoder().encode('Exif\0\0'), ...tiff]
  return Uint8Array.from([...jpeg.slice(0, 2), ...exif, ...jpeg.slice(2)])
}

/** An endless GIF of two frames of one pixel, white and black, 100 ms each. */
const moving: Uint8Array<ArrayBuffer> = Uint8Array.fromBase64(
  'R0lGODlhAQABAIAAAP///wAAACH/C05FVFNDQVBFMi4wAwEAAAAh+QQACgAAACwAAAAAAQABAAACAkQBACH5BAAKAAAALAAAAAABAAEAAAICTAEAOw==',
)

const galleryOf = (panel: TestPanel, kind = 'IMAGE') => `${chatOf(panel)}?media=${kind}`
const chatOf = (panel: TestPanel) =>
  `/conversations/default/${encodeURIComponent(panel.bots.get('default')!.user_id)}`
const dialog = (page: Page) => page.getByRole('dialog')
const picture = (page: Page) => dialog(page).locator('.stage img:not(.coming)')
const button = (page: Page, key: keyof typeof en) =>
  dialog(page).getByRole('button', { name: en[key], exact: key !== 'lightbox.fit' })
const boxOf = async (what: Locator) => (await what.boundingBox())!
/** Receives pictures, the oldest first, and opens the gallery. */
async function withPictures(
  panel: TestPanel,
  page: Page,
  all: readonly Uint8Array<ArrayBuffer>[],
  at = galleryOf(panel),
) {
  for (const one of all) await panel.sandbox.media('image', one)
  await panel.receive(all.length)
  await page.goto(panel.url + at)
}
/** Opens the oldest picture of the gallery. */
const openOldest = async (page: Page, count: number) => {
  await page
    .locator('.gallery li')
    .nth(count - 1)
    .waitFor()
  await page.locator('.gallery li').last().getByRole('button').click()
}

/** Sends both clicks in one task, so that they are a double click even on a slow machine. */
const doubleClick = (page: Page) =>
  page.evaluate(() => {
    const at = { bubbles: true, button: 0, pointerId: 1, clientX: 640, clientY: 400 }
    const target = document.elementFromPoint(at.clientX, at.clientY)!
    for (const type of ['pointerdown', 'pointerup', 'pointerdown', 'pointerup'])
      target.dispatchEvent(new PointerEvent(type, at))
  })

describe.skipIf(!hasBrowser)('the full-size view', () => {
  test('shows a picture of any shape as a whole; a broken one can still be saved', async () => {
    await using panel = await withPanel()
    const page = await panel.open({ path: '/settings' })
    const all: [name: string, bytes: Uint8Array<ArrayBuffer>, size?: [number, number]][] = [
      ['a long screenshot', await draw(page, 600, 10_000), [600, 10_000]],
      ['a panorama', await draw(page, 9000, 500), [9000, 500]],
      ['one of a single pixel', await draw(page, 1, 1), [1, 1]],
      ['broken', Uint8Array.from([...moving.slice(0, 12), 1, 2, 3])],
      ['rotated by the camera', rotated(await draw(page, 800, 400, 'image/jpeg')), [400, 800]],
      ['one that moves', moving, [1, 1]],
      ['a usual one', await draw(page, 1200, 900), [1200, 900]],
    ]
    await withPictures(
      panel,
      page,
      all.map(([, bytes]) => bytes),
    )
    for (const viewport of [
      { width: 1440, height: 900 },
      { width: 320, height: 568 },
    ]) {
      await page.setViewportSize(viewport)
      // The broken picture has no button; the others open.
      await openOldest(page, all.length)
      for (const [name, , size] of all) {
        const save = dialog(page).getByRole('link', { name: en['chat.download'] })
        expect(await save.first().getAttribute('href')).toStartWith('/api/media/')
        if (!size) {
          await dialog(page).getByText(en['chat.not_shown']).waitFor()
          await page.keyboard.press('ArrowRight')
          continue
        }
        await picture(page).waitFor()
        await panel.until(`${name} fits`, async () => {
          const box = await picture(page).boundingBox()
          const frame = await dialog(page).locator('.stage').boundingBox()
          if (!box || !frame) return
          const isInside =
            box.x >= frame.x - 1 &&
            box.y >= frame.y - 1 &&
            box.x + box.width <= frame.x + frame.width + 1 &&
            box.y + box.height <= frame.y + frame.height + 1
          const isWhole = Math.abs(box.width / box.height - size[0] / size[1]) < 0.05 * (size[0] / size[1])
          // As large as the stage allows, but not larger than the picture itself; a tiny one is enlarged.
          const fills =
            box.width > frame.width - 2 || box.height > frame.height - 2 || box.width >= size[0] - 1
          return isInside && isWhole && fills && Math.max(box.width, box.height) >= 24
        })
        await page.keyboard.press('ArrowRight')
      }
      // A step at the last picture has no effect.
      await picture(page).waitFor()
      await page.keyboard.press('Escape')
      await dialog(page).waitFor({ state: 'detached' })
    }
    expect(panel.complaints).toEqual([])
  })

  test('zooms by wheel, double click, keys, buttons and two fingers, moves, and resets', async () => {
    await using panel = await withPanel()
    const page = await panel.open({ path: '/settings', hasTouch: true })
    await withPictures(panel, page, [await draw(page, 1200, 900), await draw(page, 900, 1200)])
    await openOldest(page, 2)
    await picture(page).waitFor()
    const width = async () => Math.round((await boxOf(picture(page))).width)
    const fits = await width()
    const becomes = (what: string, is: (width: number) => boolean) =>
      panel.until(what, async () => is(await width()))
    const back = async () => {
      await page.keyboard.press('0')
      await becomes('it fits again', now => now === fits)
    }
    await page.keyboard.press('+')
    await becomes('closer by key', now => now > fits * 1.4)
    await page.keyboard.press('-')
    await becomes('farther by key', now => now === fits)
    await page.keyboard.press('-')
    expect(await width()).toBe(fits)
    await button(page, 'lightbox.larger').click()
    await becomes('closer by button', now => now > fits * 1.4)
    await button(page, 'lightbox.fit').click()
    await becomes('it fits again', now => now === fits)
    // The point under the pointer stays in place.
    const { x, y } = await boxOf(picture(page))
    await page.mouse.move(x + 0.4 * fits, y + 300)
    await page.mouse.wheel(0, -600)
    await becomes('closer by wheel', now => now > fits * 2)
    const close = await boxOf(picture(page))
    expect(Math.abs(x + 0.4 * fits - close.x - 0.4 * close.width)).toBeLessThan(4)
    // The picture cannot be moved out of the stage.
    const drag = async (by: number) => {
      await page.mouse.move(640, 400)
      await page.mouse.down()
      await page.mouse.move(640 + by, 400, { steps: 4 })
      await page.mouse.up()
    }
    await drag(-50)
    await panel.until('it was moved', async () => (await boxOf(picture(page))).x < close.x - 40)
    await drag(600)
    await drag(600)
    await panel.until('its edge stays', async () => Math.abs((await boxOf(picture(page))).x) < 2)
    // A drag of a zoomed picture makes no step and closes nothing.
    await dialog(page)
      .getByRole('heading', { name: /^Picture/ })
      .waitFor()
    await page.keyboard.press('Shift+ArrowRight')
    await panel.until('moved by key', async () => (await boxOf(picture(page))).x < -60)
    await back()
    await doubleClick(page)
    await becomes('closer by double click', now => now > fits * 1.2)
    await doubleClick(page)
    await becomes('back by double click', now => now === fits)
    const cdp = await page.context().newCDPSession(page)
    const touch = (type: 'touchStart' | 'touchMove' | 'touchEnd', ...points: [number, number][]) =>
      cdp.send('Input.dispatchTouchEvent', {
        type,
        touchPoints: points.map(([x, y], id) => ({ x, y, id })),
      })
    await touch('touchStart', [600, 400], [700, 400])
    await touch('touchMove', [500, 400], [800, 400])
    await touch('touchEnd')
    await becomes('closer by two fingers', now => now > fits * 2)
    await back()
    // A swipe goes to the next picture, a button back.
    const title = await dialog(page).locator('.stage img').getAttribute('src')
    const source = async () => dialog(page).locator('.stage img').getAttribute('src')
    await touch('touchStart', [700, 400])
    await touch('touchMove', [560, 404])
    await touch('touchEnd')
    await panel.until('the next one', async () => (await source()) !== title)
    await button(page, 'lightbox.previous').click()
    await panel.until('the one before', async () => (await source()) === title)
    expect(panel.complaints).toEqual([])
  })

  test('takes steps before the next picture is known, once it is loaded', async () => {
    await using panel = await withPanel()
    const page = await panel.open({ path: '/settings' })
    const shapes = [40, 30, 20].map(width => ({ width, height: 10 }))
    const pictures = await Promise.all(shapes.map(({ width, height }) => draw(page, width, height)))
    await withPictures(panel, page, pictures)
    await page.locator('.gallery li').nth(2).waitFor()
    const { promise: held, resolve: release } = Promise.withResolvers<void>()
    await page.route('**/api/call/list_messages', async route => {
      await held
      await route.continue()
    })
    await openOldest(page, 3)
    await picture(page).waitFor()
    const address = () => dialog(page).getByRole('link').first().getAttribute('href')
    const oldest = await address()
    await page.keyboard.press('ArrowRight')
    await page.keyboard.press('ArrowRight')
    expect(await address()).toBe(oldest)
    release()
    await panel.until('the last one', async () => {
      const isEnd = (await button(page, 'lightbox.next').getAttribute('aria-disabled')) === 'true'
      return isEnd && (await address()) !== oldest
    })
    expect(panel.complaints).toEqual([])
  })

  test('opens while the picture is loading, is accessible, and restores the focus', async () => {
    await using panel = await withPanel()
    const page = await panel.open({ path: '/settings' })
    const { promise: held, resolve: release } = Promise.withResolvers<void>()
    await page.route('**/api/media/**', async route => {
      await held
      await route.continue().catch(() => {})
    })
    await withPictures(panel, page, [await draw(page, 400, 300)])
    const opener = page.locator('.gallery li').getByRole('button')
    await opener.focus()
    await page.keyboard.press('Enter')
    const { user_id } = panel.bots.get('default')!
    await page.getByRole('dialog', { name: en['lightbox.picture_from'].replace('{user}', user_id) }).waitFor()
    await dialog(page).getByRole('status').waitFor()
    release()
    await picture(page).waitFor()
    expect(await violationsInBothThemes(page)).toEqual([])
    for (const one of await dialog(page).getByRole('button').or(dialog(page).getByRole('link')).all()) {
      const { width, height } = await boxOf(one)
      expect(Math.min(width, height)).toBeGreaterThanOrEqual(24)
    }
    // With a single picture, both ends are reached.
    for (const key of ['lightbox.previous', 'lightbox.next'] as const)
      expect(await button(page, key).getAttribute('aria-disabled')).toBe('true')
    await page.keyboard.press('ArrowRight')
    await picture(page).waitFor()
    await page.keyboard.press('Escape')
    await dialog(page).waitFor({ state: 'detached' })
    await opener.and(page.locator(':focus')).waitFor()
    // A click beside the picture closes the view; a click on it does not.
    await opener.click()
    await picture(page).click()
    await picture(page).waitFor()
    await page.mouse.click(20, 400)
    await dialog(page).waitFor({ state: 'detached' })
    expect(panel.complaints).toEqual([])
  })

  test('reaches all pictures and videos of a conversation from one in the chat, also those that are not loaded', async () => {
    await using panel = await withPanel()
    const page = await panel.open({ path: '/settings' })
    const png = await draw(page, 300, 200)
    const { sandbox } = panel
    await sandbox.media('image', png)
    await sandbox.media('video', png, { name: 'film.mp4' })
    await sandbox.bulk(150, 'words {n}')
    await sandbox.media('image', png)
    await panel.receive(153)
    await page.goto(panel.url + chatOf(panel))
    await page.locator('.log .picture').last().click()
    await picture(page).waitFor()
    await panel.until('there is one before', async () => {
      return (await button(page, 'lightbox.previous').getAttribute('aria-disabled')) === 'false'
    })
    await page.keyboard.press('ArrowLeft')
    await dialog(page).getByRole('button', { name: en['chat.play'] }).waitFor()
    await page.keyboard.press('ArrowLeft')
    await picture(page).waitFor()
    expect(await button(page, 'lightbox.previous').getAttribute('aria-disabled')).toBe('true')
    // A new picture becomes the last one.
    await page.keyboard.press('ArrowRight')
    await page.keyboard.press('ArrowRight')
    await picture(page).waitFor()
    await sandbox.media('image', png)
    await panel.until('there is a next one', async () => {
      return (await button(page, 'lightbox.next').getAttribute('aria-disabled')) === 'false'
    })
    // From an old picture to the new ones, which are not loaded.
    const { messages } = await panel.gateway.history.page({ limit: 200, offset: 0, msg_type: 'IMAGE' })
    await page.keyboard.press('Escape')
    await page.goto(`${panel.url}${chatOf(panel)}?m=${messages.at(-1)!.id}`)
    await page.locator('.log .picture').first().click()
    for (let step = 0; step < 3; step++) {
      await panel.until(`step ${step}`, async () => {
        return (await button(page, 'lightbox.next').getAttribute('aria-disabled')) === 'false'
      })
      await page.keyboard.press('ArrowRight')
    }
    await picture(page).waitFor()
    expect(await button(page, 'lightbox.next').getAttribute('aria-disabled')).toBe('true')
    expect(panel.complaints).toEqual([])
  })
})

test.skipIf(!hasBrowser)(
  'the gallery: by month in the browser’s locale, by keyboard, and only visible pictures are fetched',
  async () => {
    await using panel = await withPanel()
    const locale = 'en-GB'
    const page = await panel.open({ path: '/settings', viewport: { width: 390, height: 500 }, locale })
    const count = 24
    const asked = new Set<string>()
    page.on('request', one => void (one.url().includes('/api/media/') && asked.add(one.url())))
    // The older half is from another month.
    const months = [Date.UTC(2025, 10, 20), Date.UTC(2025, 2, 10)] as const
    await page.route('**/api/call/list_messages', async route => {
      const answer = await route.fetch()
      const json = await answer.json()
      json.messages.forEach((one: { timestamp: number }, at: number) => {
        one.timestamp = months[at < count / 2 ? 0 : 1]
      })
      await route.fulfill({ response: answer, json })
    })
    const png = await draw(page, 40, 30)
    await withPictures(
      panel,
      page,
      Array.from({ length: count }, () => png),
    )
    const name = new Intl.DateTimeFormat(locale, { month: 'long', year: 'numeric' })
    const headings = page.locator('.gallery').getByRole('heading')
    await headings.nth(1).waitFor()
    expect(await headings.allInnerTexts()).toEqual(months.map(at => name.format(at)))
    const tiles = page.locator('.gallery li')
    expect(await tiles.count()).toBe(count)
    await tiles.first().locator('img').waitFor()
    expect(asked.size).toBeLessThan(count)
    for (const target of await tiles.first().locator('button, a').all()) {
      const { width, height } = await boxOf(target)
      expect(Math.min(width, height)).toBeGreaterThanOrEqual(24)
    }
    // Two per row: right, down, down, left, up, and to both ends.
    await tiles.first().getByRole('button').focus()
    const isAt = (nth: number) =>
      tiles.nth(nth).locator('button, a').first().and(page.locator(':focus')).waitFor()
    for (const [key, at] of [
      ['ArrowRight', 1],
      ['ArrowDown', 3],
      ['ArrowDown', 5],
      ['ArrowLeft', 4],
      ['ArrowUp', 2],
      ['End', count - 1],
      ['Home', 0],
    ] as const) {
      await page.keyboard.press(key)
      await isAt(at)
    }
    await page.keyboard.press('Enter')
    await picture(page).waitFor()
    await page.keyboard.press('Escape')
    await isAt(0)
    expect(panel.complaints).toEqual([])
  },
)
