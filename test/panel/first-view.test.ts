import { expect, test } from 'bun:test'
import { hasBrowser } from '../support/browser.ts'
import { withPanel } from '../support/panel.ts'

for (const [path, mostKilobytes] of [
  ['/', 80],
  ['/conversations', 120],
  ['/sessions', 120],
  ['/settings', 120],
] as const) {
  const named = `the first view of ${path} takes less than ${mostKilobytes} kB over the line`
  test.skipIf(!hasBrowser)(named, async () => {
    await using panel = await withPanel()
    await panel.sandbox.bulk(100, 'Message {n} of a usual length, as people write them. 第 {n} 条消息')
    await panel.receive(100)
    const page = await panel.open({ path: '/missing' })
    const cdp = await page.context().newCDPSession(page)
    await cdp.send('Network.enable')
    await cdp.send('Network.setCacheDisabled', { cacheDisabled: true })
    let bytes = 0
    cdp.on('Network.loadingFinished', ({ encodedDataLength }) => {
      bytes += encodedDataLength
    })
    // What is loaded ahead, some time later, is no part of it, however slow the machine is.
    await page.addInitScript(() => {
      const real = setTimeout
      const sooner = (then: () => void, ms = 0, ...rest: []) => (ms < 1000 ? real(then, ms, ...rest) : 0)
      globalThis.setTimeout = sooner as typeof setTimeout
    })
    await page.goto(`${panel.url}${path}`, { waitUntil: 'load' })
    await page.getByRole('heading', { level: 1 }).waitFor()
    // Nothing that an icon or a text of the page still waits for.
    await page.evaluate(() => new Promise(resolve => requestIdleCallback(resolve)))
    await panel.until('it has come', () => bytes > 20_000)
    expect(bytes).toBeLessThan(mostKilobytes * 1000)
  })
}

test.skipIf(!hasBrowser)('long answers go compressed to who takes that, and read the same', async () => {
  await using panel = await withPanel()
  await panel.sandbox.bulk(100)
  await panel.receive(100)
  const ask = (coding: string) =>
    fetch(`${panel.url}/api/messages?limit=100`, { headers: { 'accept-encoding': coding } })
  const [small, plain] = [await ask('gzip'), await ask('identity')]
  expect(small.headers.get('content-encoding')).toBe('gzip')
  expect(small.headers.get('vary')).toBe('accept-encoding')
  expect(plain.headers.get('content-encoding')).toBeNull()
  expect(await small.json()).toEqual(await plain.json())
})
