import { expect, test } from 'bun:test'
import { hasBrowser } from '../support/browser.ts'
import { withPanel } from '../support/panel.ts'

/** The limits of a first view: transferred kB (if limited), and the number of scripts. */
const most: Readonly<Record<string, { kilobytes?: number; scripts: number }>> = {
  '/': { kilobytes: 82.5, scripts: 1 },
  '/conversations': { kilobytes: 99.5, scripts: 4 },
  chat: { scripts: 7 },
  '/sessions': { kilobytes: 130, scripts: 5 },
  '/settings': { kilobytes: 85, scripts: 2 },
}

/** Drops timers of a second or more: they load other pages ahead, which is not part of the first view. */
function dropLongTimers(): void {
  const begin = window.setTimeout
  window.setTimeout = ((work: TimerHandler, ms = 0) => (ms < 1000 ? begin(work, ms) : 0)) as typeof setTimeout
}

test.skipIf(!hasBrowser)(
  'the first view of each page is small, and its HTML names all scripts and contains the texts',
  async () => {
    await using panel = await withPanel()
    await panel.sandbox.bulk(100, 'Message {n} of a usual length, as people write them. 第 {n} 条消息')
    await panel.receive(100)
    const { session, user_id } = (await panel.gateway.conversations.list())[0]!
    const page = await panel.open({ path: '/icon.svg' })
    await page.addInitScript(dropLongTimers)
    const cdp = await page.context().newCDPSession(page)
    await cdp.send('Network.enable')
    // A visitor without a cache.
    await cdp.send('Network.setCacheDisabled', { cacheDisabled: true })
    const begun = new Set<string>()
    const taken = new Map<string, number>()
    const asked: string[] = []
    cdp.on('Network.requestWillBeSent', ({ requestId, type, request }) => {
      // The event stream never ends, and the end of a worker's script is reported to another CDP session.
      if (type !== 'EventSource' && !request.url.endsWith('/language-data.js')) begun.add(requestId)
    })
    cdp.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => {
      taken.set(requestId, encodedDataLength)
    })
    page.on('request', request => void asked.push(new URL(request.url()).pathname))
    for (const [name, { kilobytes: limit = Number.POSITIVE_INFINITY, scripts }] of Object.entries(most)) {
      const path = name === 'chat' ? `/conversations/${session}/${encodeURIComponent(user_id)}` : name
      await page.goto(`${panel.url}/icon.svg`)
      begun.clear()
      taken.clear()
      asked.length = 0
      await page.goto(`${panel.url}${path}`)
      await page.getByRole('heading', { level: 1 }).waitFor()
      await page.locator('[aria-busy=true]').waitFor({ state: 'detached' })
      // Wait until nothing is left to load.
      const quiet = () =>
        page.evaluate(() => new Promise<boolean>(resolve => requestIdleCallback(() => resolve(true))))
      await panel.until(
        'all has come',
        async () => (await quiet()) && begun.size > 5 && [...begun].every(id => taken.has(id)),
      )
      const kilobytes = [...taken.values()].reduce((sum, size) => sum + size, 0) / 1000
      expect({ name, isSmall: kilobytes < limit, kilobytes }).toMatchObject({ name, isSmall: true })
      // The HTML names every file, so no file waits for another one.
      const html = await (await fetch(`${panel.url}${path}`)).text()
      const files = asked.filter(one => /^\/(assets|locales)\//.test(one))
      expect(files.filter(one => !html.includes(one))).toEqual([])
      expect({ name, scripts: files.filter(one => one.endsWith('.js')).length }).toEqual({ name, scripts })
    }
  },
)

test('long answers are compressed for clients that accept it, with the same content', async () => {
  await using panel = await withPanel()
  await panel.sandbox.bulk(100)
  await panel.receive(100)
  const ask = (coding: string) =>
    fetch(`${panel.url}/api/call/list_messages`, {
      method: 'POST',
      body: JSON.stringify({ limit: 100 }),
      headers: { 'accept-encoding': coding, 'content-type': 'application/json' },
    })
  const [small, plain] = [await ask('gzip'), await ask('identity')]
  expect(small.headers.get('content-encoding')).toBe('gzip')
  expect(small.headers.get('vary')).toBe('accept-encoding')
  expect(plain.headers.get('content-encoding')).toBeNull()
  expect(await small.json()).toEqual(await plain.json())
})

test('the page comes in the language that the browser prefers', async () => {
  await using panel = await withPanel()
  const languageFor = async (accepted: string) => {
    const page = await fetch(`${panel.url}/settings`, { headers: { 'accept-language': accepted } })
    return /<html lang="([^"]*)"/.exec(await page.text())?.[1]
  }
  const languages = {
    'zh-TW': 'zh',
    'en;q=0, zh': 'zh',
    'en;q=0.2,zh-CN;q=0.9': 'zh',
    'fr, de;q=0.9, zh ; q=0.001': 'zh',
    'zh;q=0.5, en': 'en',
    'zh;q=0': 'en',
    '*': 'en',
    '': 'en',
  }
  for (const [accepted, language] of Object.entries(languages))
    expect({ accepted, language: await languageFor(accepted) }).toEqual({ accepted, language })
})
