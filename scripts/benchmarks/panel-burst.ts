import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { launchBrowser } from '../../test/support/browser.ts'
import { buildPanel, panelFolder } from '../panel.ts'
import { longestTask } from './panel-page.ts'
import { fillPanelStore, longUser, sessionName } from './panel-store.ts'
import {
  botId,
  type Child,
  createTemporaryFolder,
  post,
  startBenchService,
  startUpstream,
  writeSession,
} from './process.ts'
import { type Benchmark, formatNumber, formatSpread, median, type Row } from './report.ts'
import { createMessage, createRandom, toWireText } from './texts.ts'

const messages = 2000
const replies = 20
const taskMs = 50
const stored = 3000
const conversation = `/conversations/${sessionName(0)}/${encodeURIComponent(longUser)}`
const article = '.log article'

interface Case {
  what: string
  path: string
  /** What must be visible before the burst. */
  seen: string
  users: number
  before?(page: Page): Promise<unknown>
  /** Runs during the burst. */
  beside?(page: Page): Promise<unknown>
}

const cases: readonly Case[] = [
  { what: 'open chat', path: conversation, seen: article, users: 1 },
  { what: 'other chats, 1,000 users', path: conversation, seen: article, users: 1000 },
  { what: 'list, 1,000 users', path: '/conversations', seen: 'a.conversation', users: 1000 },
  { what: 'overview, 1,000 users', path: '/', seen: '.fleet .badge', users: 1000 },
  { what: 'search open, 1,000 users', path: '/conversations?q=ok', seen: '.list mark', users: 1000 },
  {
    what: 'open chat while one writes',
    path: conversation,
    seen: article,
    users: 1,
    beside: page =>
      page.getByRole('textbox', { name: 'Message' }).pressSequentially('a long answer', { delay: 80 }),
  },
  {
    what: 'open chat, scrolled back',
    path: conversation,
    seen: article,
    users: 1,
    async before(page) {
      await page.mouse.move(900, 400)
      await page.mouse.wheel(0, -3000)
      await page.locator('.to-end').waitFor()
    },
  },
]

export const panelBurst: Benchmark = {
  name: 'panel-burst',
  compares: `the admin panel in Chromium while ${formatNumber(messages)} messages come within about a second: the longest task of the page's main thread (processor time, by Chromium's trace).`,
  async run({ quick, rounds }) {
    using folder = createTemporaryFolder()
    await buildPanel(panelFolder)
    const data = join(folder.path, 'data')
    await using upstream = await startUpstream()
    for (let nth = 0; nth < 2; nth++) writeSession(data, sessionName(nth), upstream.ready)
    await fillPanelStore(data, 2, stored)
    await using service = await startBenchService(data, upstream.ready, { args: ['--admin-port', '0'] })
    const url = /^admin on (\S+)$/m.exec(service.stdout())![1]!
    await post(`${upstream.ready}/control/parked`, { count: 2 })
    const browser = await launchBrowser()
    try {
      const rows: Row[] = []
      let run = 1000
      for (const burstCase of cases) {
        const took: number[] = []
        for (let round = 0; round < (quick ? 1 : rounds); round++)
          took.push(await measureBurst(browser, url, upstream, burstCase, run++))
        const longest = median(took)
        rows.push({
          name: 'panel-burst',
          what: `${burstCase.what}: longest task`,
          ours: `${longest.toFixed(1)} ms`,
          baseline: '',
          result: `${longest.toFixed(1)} ms`,
          goal: `≤ ${taskMs} ms`,
          met: longest <= taskMs,
          spread: formatSpread(took),
        })
      }
      return rows
    } finally {
      await browser.close()
    }
  },
}

async function measureBurst(
  browser: Browser,
  url: string,
  upstream: Child,
  { path, seen, users, before, beside }: Case,
  run: number,
): Promise<number> {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, locale: 'en' })
  await page.goto(`${url}${path}`)
  await page.locator(seen).first().waitFor()
  await before?.(page)
  await page.waitForTimeout(3000)
  const longest = await longestTask(page, async () => {
    await Promise.all([sendMessages(upstream, run, users), beside?.(page)])
    // Let the work that it started end.
    await page.waitForTimeout(1000)
  })
  await page.close()
  return longest
}

async function sendMessages(upstream: Child, run: number, users: number): Promise<void> {
  const next = createRandom(run)
  const size = messages / replies
  const from = performance.now()
  for (let reply = 0; reply < replies; reply++) {
    await post(`${upstream.ready}/control/parked`, { count: 1, session: sessionName(0) })
    const texts = Array.from({ length: size }, (_none, nth) => {
      const message = createMessage(run, reply * size + nth, botId(sessionName(0)), users, next)
      return toWireText({ ...message, at: Date.now() })
    })
    await post(`${upstream.ready}/control/say`, {
      run,
      n: reply,
      session: sessionName(0),
      message: texts.join(','),
    })
    const ahead = from + (reply + 1) * (1000 / replies) - performance.now()
    if (ahead > 0) await Bun.sleep(ahead)
  }
}
