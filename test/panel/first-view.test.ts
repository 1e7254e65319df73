import { expect, test } from 'bun:test'
import { hasBrowser } from '../support/browser.ts'
import { withPanel } from '../support/panel.ts'

const mostBytes = 120_000

for (const path of ['/', '/conversations', '/sessions', '/settings']) {
  test.skipIf(!hasBrowser)(`the first view of ${path} takes less than 120 kB over the line`, async () => {
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
    await page.goto(`${panel.url}${path}`, { waitUntil: 'load' })
    await page.getByRole('heading', { level: 1 }).waitFor()
    // Nothing that an icon or a text of the page still waits for.
    await page.evaluate(() => new Promise(resolve => requestIdleCallback(resolve)))
    await panel.until('it has come', () => bytes > 20_000)
    expect(bytes).toBeLessThan(mostBytes)
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
