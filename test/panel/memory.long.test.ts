/** Memory of pages that stay open while messages come. */
import { expect, test } from 'bun:test'
import type { CDPSession, Page } from 'playwright-core'
import { hasBrowser } from '../support/browser.ts'
import { withPanel } from '../support/panel.ts'

const people = 12
/** The rounds of messages before the first measurement. */
const before = 30
/** The messages between the two measurements. */
const between = 10_000
const rounds = Math.ceil(between / people)

/** An open page, with the number of message events that it received. */
async function listen(page: Page): Promise<{ page: Page; cdp: CDPSession; received(): number }> {
  const cdp = await page.context().newCDPSession(page)
  let received = 0
  cdp.on('Network.eventSourceMessageReceived', ({ eventName }) => {
    if (eventName === 'message') received++
  })
  await cdp.send('Network.enable')
  await cdp.send('HeapProfiler.enable')
  return { page, cdp, received: () => received }
}

/** The memory of a page after garbage collection: detached nodes, and MB of heap. */
async function weigh({ page, cdp }: { page: Page; cdp: CDPSession }) {
  for (let times = 0; times < 3; times++) {
    // Removed nodes are released after the next paint.
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
  `an open page releases removed rows, over ${between} messages`,
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
        // Behind an open sheet, the heading has no role.
        await listening.page.locator('h1').waitFor()
        return listening
      }),
    )
    const weights = async (from: number, until: number) => {
      for (let round = from; round < until; round++) {
        await Promise.all(users.map(user => sandbox.say(`message ${round}`, { from: user, to })))
        // A page that falls far behind loses its stream and loads the state again.
        if (round % 10 === 9)
          await panel.until('every page has heard', () =>
            pages.every(({ received }) => received() >= (round + 1) * people),
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
