/** Pages that are left open while messages come: what they hold at the end that they did not hold before. */
import { expect, test } from 'bun:test'
import type { CDPSession, Page } from 'playwright-core'
import { hasBrowser } from '../support/browser.ts'
import { withPanel } from '../support/panel.ts'

const people = 12
/** Each of them writes so often at first. */
const before = 30
/** How many messages come while what the pages hold is compared. */
const between = 10_000
const rounds = Math.ceil(between / people)

/** An open page, and how many messages it was told of. */
async function listen(page: Page): Promise<{ page: Page; cdp: CDPSession; told(): number }> {
  const cdp = await page.context().newCDPSession(page)
  let told = 0
  cdp.on('Network.eventSourceMessageReceived', ({ eventName }) => {
    if (eventName === 'message') told++
  })
  await cdp.send('Network.enable')
  await cdp.send('HeapProfiler.enable')
  return { page, cdp, told: () => told }
}

/** What a page holds once everything that can go is gone: nodes that are not in it, and MB of its heap. */
async function weigh({ page, cdp }: { page: Page; cdp: CDPSession }) {
  for (let times = 0; times < 3; times++) {
    // What was hung up is let go after the next paint.
    await page.evaluate(() => new Promise(done => requestAnimationFrame(() => setTimeout(done))))
    await cdp.send('HeapProfiler.collectGarbage')
  }
  const { nodes } = await cdp.send('Memory.getDOMCounters')
  const { usedSize } = await cdp.send('Runtime.getHeapUsage')
  const inPage = await page.evaluate(() => {
    const walk = document.createTreeWalker(document)
    let count = 1
    while (walk.nextNode()) count++
    return count
  })
  return { detached: nodes - inPage, megabytes: usedSize / 1e6 }
}

test.skipIf(!hasBrowser)(
  `a page that is left open lets go of the rows that are gone, over ${between} messages`,
  async () => {
    await using panel = await withPanel()
    const { sandbox } = panel
    const to = panel.bots.get('default')!.bot_id
    const users = await Promise.all(
      Array.from({ length: people }, (_none, nth) => sandbox.addUser(`user ${nth}`)),
    )
    const chat = `/conversations/default/${encodeURIComponent(users[0]!)}`
    const own = ['/', '/conversations', chat, '/sessions', '/settings', '/webhooks']
    const paths = [...own, '/sessions/default', '/conversations?q=message', `${chat}?media=FILE`]
    const pages = await Promise.all(
      paths.map(async path => {
        const listening = await listen(await panel.open({ path: '/missing' }))
        await listening.page.goto(`${panel.url}${path}`)
        await listening.page.getByRole('heading', { level: 1 }).waitFor()
        return listening
      }),
    )
    const weights = async (from: number, until: number) => {
      for (let round = from; round < until; round++) {
        await Promise.all(users.map(user => sandbox.say(`message ${round}`, { from: user, to })))
        // A page that falls far behind is cut off, and looks anew.
        if (round % 10 === 9)
          await panel.until('every page has heard', () =>
            pages.every(({ told }) => told() >= (round + 1) * people),
          )
      }
      return Promise.all(pages.map(weigh))
    }
    const first = await weights(0, before)
    const last = await weights(before, before + rounds)
    const grown = paths.map((path, nth) => ({
      path: path === chat ? 'a chat' : path,
      detached: Math.max(0, last[nth]!.detached - first[nth]!.detached),
      megabytes: last[nth]!.megabytes - first[nth]!.megabytes,
    }))
    expect(grown.filter(({ detached, megabytes }) => detached > 500 || megabytes > 5)).toEqual([])
    expect(panel.complaints).toEqual([])
  },
  1_200_000,
)
