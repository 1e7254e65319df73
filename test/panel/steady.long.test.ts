import { expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { longestTask } from '../../scripts/benchmarks/panel-page.ts'
import { owner } from '../../src/model/principal.ts'
import { hasBrowser } from '../support/browser.ts'
import { pagesWith, withPanel } from '../support/panel.ts'

/** A page counts as steady up to 0.1 (cumulative layout shift). The measured values are far below. */
const mostShift = 0.02

/** How long answers are held back, in ms, so that they come one by one. What is on top of a page comes last. */
const delays: Readonly<Record<string, number>> = {
  list_outbox: 300,
  list_webhooks: 450,
  backups: 600,
  list_agent_questions: 400,
  list_messages: 100,
  me: 150,
  count_messages: 500,
  list_keys: 300,
}

/** The layout shifts of a page, and the elements that moved. */
const shifts = (page: Page) =>
  page.evaluate(async () => {
    const all: { value: number; of: string[] }[] = []
    const observer = new PerformanceObserver(list => {
      for (const entry of list.getEntries() as unknown as {
        value: number
        sources: { node: Node | null }[]
      }[]) {
        const of = entry.sources.map(({ node }) =>
          node instanceof Element ? `${node.tagName}.${node.className}` : String(node?.nodeName),
        )
        all.push({ value: entry.value, of })
      }
    })
    observer.observe({ type: 'layout-shift', buffered: true })
    await new Promise(done => setTimeout(done, 1500))
    observer.disconnect()
    return all
  })

const sizes = [
  { width: 1440, height: 900 },
  { width: 390, height: 844 },
]

for (const viewport of sizes) {
  test.skipIf(!hasBrowser)(`nothing jumps while a page loads, ${viewport.width} wide`, async () => {
    await using panel = await withPanel({ sessions: ['default', 'second'] })
    await panel.sandbox.bulk(80, 'message {n} as people write them')
    for (let nth = 0; nth < 8; nth++) {
      const from = await panel.sandbox.addUser(`user ${nth}`)
      await panel.sandbox.say('hello', { from, to: panel.bots.get('default')!.bot_id })
    }
    await panel.receive(88)
    for (const text of ['We open at nine.', 'It has left.\nSee you!'])
      await panel.send({ text, approval: 'nobody' })
    await panel.gateway.webhooks.add(owner, { url: 'http://127.0.0.1:9/', allow_private: true })
    const chat = `/conversations/default/${encodeURIComponent(panel.bots.get('default')!.user_id)}`
    const found: [string, number, string[]][] = []
    const pages = pagesWith(chat)
    for (const path of pages) {
      const page = await panel.open({ path: '/icon.svg', viewport })
      await page.route('**/api/call/*', async route => {
        const [name = ''] = /\w+$/.exec(route.request().url()) ?? []
        await new Promise(done => setTimeout(done, delays[name] ?? 50))
        await route.continue()
      })
      const last = path === '/' && page.waitForResponse('**/api/call/count_messages')
      await page.goto(`${panel.url}${path}`)
      await page.locator('main h1').first().waitFor()
      await last
      await page.waitForFunction(() => !document.querySelector('.skeleton, [aria-busy=true]'))
      const all = await shifts(page)
      const sum = all.reduce((total, { value }) => total + value, 0)
      found.push([path === chat ? 'a chat' : path, sum, all.flatMap(({ of }) => of)])
      await page.close()
    }
    expect(found.filter(([, sum]) => sum > mostShift)).toEqual([])
  })
}

/** What a person notices, in ms of processor time. */
const longestMs = 50

test.skipIf(!hasBrowser)(
  '2,000 messages at once, and opening a chat, hold the page up for less than 50 ms',
  async () => {
    await using panel = await withPanel()
    for (let nth = 0; nth < 200; nth++) {
      const from = await panel.sandbox.addUser(`user ${nth}`)
      await panel.sandbox.say('hello 你好', { from, to: panel.bots.get('default')!.bot_id })
    }
    await panel.receive(200)
    const chat = `/conversations/default/${encodeURIComponent(panel.bots.get('default')!.user_id)}`
    const tasks: Record<string, number> = {}
    const page = await panel.open({ path: '/conversations' })
    const burst = async (text: string) => {
      await panel.sandbox.bulk(2000, `${text} {n} of words as people write them 消息`)
      await page.locator('.conversation', { hasText: `${text} 2000` }).waitFor()
    }
    // The first ones also compile the code.
    await burst('first')
    tasks.list = await longestTask(page, () => burst('second'))
    tasks.opening = await longestTask(page, async () => {
      await page.evaluate(to => history.pushState(null, '', to), chat)
      await page.locator('.log article').first().waitFor()
      await page.waitForTimeout(500)
    })
    await burst('third')
    tasks.chat = await longestTask(page, () => burst('fourth'))
    await page.goto(panel.url)
    await page.locator('.recent').waitFor()
    tasks.overview = await longestTask(page, async () => {
      await panel.sandbox.bulk(2000, 'fifth {n}')
      await page.locator('.recent', { hasText: 'fifth 2000' }).waitFor()
    })
    expect(Object.entries(tasks).filter(([, ms]) => ms > longestMs)).toEqual([])
    expect(Math.min(...Object.values(tasks))).toBeGreaterThan(0)
  },
)

test.skipIf(!hasBrowser)('a login keeps its place and its size until it ends', async () => {
  await using panel = await withPanel({ switches: { verify_code: 'on' } })
  const page = await panel.open({ path: '/sessions/new/login' })
  const dialog = page.locator('[role=dialog]')
  const onward = dialog.locator('footer .primary')
  const digits = dialog.locator('.login-digits input')
  const found: [string, unknown][] = []
  const at = async (step: string, sign: string) => {
    await dialog.locator(sign).waitFor()
    const boxes = []
    for (const viewport of sizes) {
      await page.setViewportSize(viewport)
      boxes.push(await dialog.boundingBox())
    }
    found.push([step, boxes])
  }
  await at('ready', 'footer .primary')
  await onward.click()
  await at('waiting', '.login-link')
  await panel.sandbox.phone('POST', 'expire')
  await at('another code', '.login-state.news')
  const user = await panel.sandbox.addUser('another')
  const { verify_code: first } = await panel.sandbox.scan({ user, confirm: true })
  await at('digits', '.login-digits')
  await digits.fill('1')
  await page.keyboard.press('Enter')
  await at('wrong digits', '[aria-invalid=true]')
  await digits.fill(first!)
  await page.keyboard.press('Enter')
  await at('done', '.login-end.good')
  await page.reload()
  await at('works already', 'footer .primary')
  await onward.click()
  await dialog.locator('.login-link').waitFor()
  // The person who scans already has an account here under another name.
  const { user_id: known } = panel.bots.get('default')!
  const { verify_code: second } = await panel.sandbox.scan({ user: known, confirm: true })
  await digits.fill(second!)
  await page.keyboard.press('Enter')
  await at('refused', '.login-end:not(.good)')
  expect(found.filter(([, boxes]) => !Bun.deepEquals(boxes, found[0]?.[1]))).toEqual([])
})
