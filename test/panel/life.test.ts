import { expect, test } from 'bun:test'
import { hasBrowser } from '../support/browser.ts'
import { keyboard } from '../support/panel-hand.ts'
import { liveThrough, openLife, wide } from './life.ts'

liveThrough('en', wide, keyboard)

test.skipIf(!hasBrowser)(
  'what the watch is for: it sees errors, what the policy forbids, and requests to others',
  async () => {
    await using life = await openLife({})
    const { service, url, page, complaints } = life
    await page.goto(url)
    const elsewhere = `${service.url}/healthz`
    await page.evaluate(to => fetch(to).catch(() => {}), elsewhere)
    await page.evaluate(() => {
      const script = document.createElement('script')
      script.textContent = 'document.title = "run"'
      document.body.append(script)
      setTimeout(() => {
        throw new Error('thrown')
      })
    })
    await page.waitForFunction(() => document.title.includes('svc'))
    expect(complaints.filter(line => line.includes('connect-src'))).not.toEqual([])
    expect(complaints.filter(line => line.includes('script-src'))).not.toEqual([])
    expect(complaints.filter(line => line.includes('thrown'))).not.toEqual([])
  },
)
