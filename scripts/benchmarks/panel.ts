import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { launchBrowser } from '../../test/support/browser.ts'
import { scriptPerFrame, watchTransfer } from './panel-page.ts'
import { fillPanelStore, longUser, sessionName } from './panel-store.ts'
import {
  botId,
  type Child,
  cpuSecondsOf,
  createTemporaryFolder,
  post,
  root,
  type Service,
  startBenchService,
  startUpstream,
  writeSession,
} from './process.ts'
import { type Benchmark, formatNumber, formatSpread, percentile, type Row } from './report.ts'
import { createMessage, createRandom, createText, toWireText } from './texts.ts'

const sessions = 50
const messages = 100_000
const conversation = `/conversations/${sessionName(0)}/${encodeURIComponent(longUser)}`
const frameMs = 50
const arrivalMs = 300
const firstViewBytes = 120_000
const perSecond = 100

export const panel: Benchmark = {
  name: 'panel',
  compares: `the admin panel in Chromium over a store of ${sessions} accounts and a conversation of ${formatNumber(messages)} messages: the bytes of the first view; script time per frame of the page's main thread (processor time, from Chromium's trace) while a user scrolls that conversation and types a search; ms from the order to the upstream to answer until the message is visible in the open conversation; processor time of the service for ten open panels while ${perSecond} messages per second arrive.`,
  async run({ quick, note }) {
    using folder = createTemporaryFolder()
    const binary = join(folder.path, 'svc')
    const build = [process.execPath, join(root, 'scripts/build.ts'), `--outfile=${binary}`]
    if ((await Bun.spawn(build, { stdout: 'ignore' }).exited) !== 0) throw new Error('svc does not compile')
    const data = join(folder.path, 'data')
    await using upstream = await startUpstream()
    for (let nth = 0; nth < sessions; nth++) writeSession(data, sessionName(nth), upstream.ready)
    const from = performance.now()
    await fillPanelStore(data, sessions, messages)
    note(`store of the panel: made in ${((performance.now() - from) / 1000).toFixed(1)} s`)
    await using service = await startBenchService(data, upstream.ready, {
      command: [binary],
      args: ['--admin-port', '0'],
    })
    const url = /^admin on (\S+)$/m.exec(service.stdout())![1]!
    await post(`${upstream.ready}/control/parked`, { count: sessions })
    const browser = await launchBrowser()
    try {
      return [
        ...(await measureFirstViews(browser, url)),
        ...(await measureFrames(browser, url, quick ? 60 : 300)),
        await measureArrivals(browser, url, upstream, quick ? 20 : 100),
        await measureOpenPanels(browser, url, service, upstream, quick ? 5 : 20),
      ]
    } finally {
      await browser.close()
    }
  },
}

const createRow = (row: Omit<Row, 'name' | 'baseline'> & { baseline?: string }): Row => ({
  name: 'panel',
  baseline: '',
  ...row,
})

async function openPage(browser: Browser, url: string): Promise<Page> {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, locale: 'en' })
  await page.goto(url)
  return page
}

async function measureFirstViews(browser: Browser, url: string): Promise<Row[]> {
  const rows: Row[] = []
  for (const [what, path, seen] of [
    ['overview', '/', '.fleet .card .badge'],
    ['conversation', conversation, '.log article'],
  ] as const) {
    const page = await browser.newPage()
    const transferred = await watchTransfer(page)
    const from = performance.now()
    await page.goto(`${url}${path}`)
    await page.locator(seen).first().waitFor()
    const ms = performance.now() - from
    await page.waitForTimeout(500)
    const bytes = transferred()
    rows.push(
      createRow({
        what: `first view: ${what}`,
        ours: `${(bytes / 1000).toFixed(1)} kB`,
        result: `${ms.toFixed(0)} ms`,
        goal: `< ${firstViewBytes / 1000} kB`,
        met: bytes < firstViewBytes,
        spread: '',
      }),
    )
    await page.close()
  }
  return rows
}

async function measureFrames(browser: Browser, url: string, steps: number): Promise<Row[]> {
  const page = await openPage(browser, `${url}${conversation}`)
  await page.locator('.log article').first().waitFor()
  const { x, y } = { x: 900, y: 400 }
  await page.mouse.move(x, y)
  const scrolled = await scriptPerFrame(page, async () => {
    for (let step = 0; step < steps; step++) await page.mouse.wheel(0, -400)
    for (let step = 0; step < steps / 2; step++) await page.mouse.wheel(0, 400)
  })
  await page.getByRole('searchbox').click()
  const typed = await scriptPerFrame(page, async () => {
    for (let repeat = 0; repeat < Math.ceil(steps / 60); repeat++) {
      await page.getByRole('searchbox').fill('')
      await page.keyboard.type('meeting', { delay: 60 })
      await page.locator('.list mark').first().waitFor()
    }
  })
  await page.close()
  return [['scrolling', scrolled] as const, ['typing a search', typed] as const].map(
    ([what, { worst, p99, frames: count }]) =>
      createRow({
        what: `${what}: script of the busiest frame`,
        ours: `${worst.toFixed(1)} ms`,
        result: `${worst.toFixed(1)} ms`,
        goal: `< ${frameMs} ms`,
        met: worst < frameMs,
        spread: `p99 ${p99.toFixed(1)} ms of ${count} frames`,
      }),
  )
}

/** Lets the user of the long conversation write. */
const sendMessage = (upstream: Child, n: number, text: string): Promise<{ said: boolean }> => {
  const message = { ...createMessage(900, n, botId(sessionName(0)), 1, () => 0), at: Date.now(), text }
  const order = { run: 900, n, session: `:${sessionName(0)}`, message: toWireText(message) }
  return post(`${upstream.ready}/control/say`, order)
}

async function measureArrivals(browser: Browser, url: string, upstream: Child, count: number): Promise<Row> {
  const page = await openPage(browser, `${url}${conversation}`)
  await page.locator('.log article').first().waitFor()
  const took: number[] = []
  for (let n = 0; n < count; n++) {
    const text = `arrival number ${n}.`
    const seen = page.evaluate(
      expectedText =>
        new Promise<number>((resolve, reject) => {
          setTimeout(() => reject(new Error(`not seen: ${expectedText}`)), 10_000)
          const watch = new MutationObserver(() => {
            if (!document.querySelector('.log')?.textContent?.includes(expectedText)) return
            watch.disconnect()
            requestAnimationFrame(() => resolve(Date.now()))
          })
          watch.observe(document.body, { subtree: true, childList: true, characterData: true })
        }),
      text,
    )
    // The poll that takes the message must be held again.
    await post(`${upstream.ready}/control/parked`, { count: sessions })
    const from = Date.now()
    const { said } = await sendMessage(upstream, n, text)
    if (!said) throw new Error('nobody polled')
    took.push((await seen) - from)
  }
  await page.close()
  const worst = Math.max(...took)
  return createRow({
    what: 'a message stands in the open conversation',
    ours: `${percentile(took, 0.5)} ms`,
    result: `${worst} ms at most`,
    goal: `≤ ${arrivalMs} ms`,
    met: worst <= arrivalMs,
    spread: formatSpread(took, 0),
  })
}

async function measureOpenPanels(
  browser: Browser,
  url: string,
  service: Service,
  upstream: Child,
  seconds: number,
): Promise<Row> {
  let n = 10_000
  const next = createRandom(3)
  const share = async () => {
    const [cpu, from] = [cpuSecondsOf(service.pid), performance.now()]
    for (let sentCount = 0; sentCount < seconds * perSecond; sentCount++) {
      await sendMessage(upstream, n++, createText(next))
      const ahead = from + (sentCount + 1) * (1000 / perSecond) - performance.now()
      if (ahead > 0) await Bun.sleep(ahead)
    }
    return ((cpuSecondsOf(service.pid) - cpu) / ((performance.now() - from) / 1000)) * 100
  }
  const without = await share()
  const pages = await Promise.all(Array.from({ length: 10 }, () => openPage(browser, url)))
  await Promise.all(pages.map(page => page.locator('.fleet .badge').first().waitFor()))
  const withTen = await share()
  await Promise.all(pages.map(page => page.close()))
  const extra = withTen - without
  return createRow({
    what: `ten open panels, ${perSecond} messages/s: share of a core`,
    ours: `${withTen.toFixed(1)} %`,
    baseline: `${without.toFixed(1)} %`,
    result: `${extra < 0 ? '' : '+'}${extra.toFixed(1)} %`,
    goal: '≤ +10 %',
    met: extra <= 10,
    spread: `over ${seconds} s`,
  })
}
