import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { chromium } from 'playwright-core'
import { docsPaths } from '../../src/server/docs.ts'
import { type Rest, startRest } from '../support/rest.ts'

let rest: Rest
beforeAll(async () => {
  rest = await startRest()
})
afterAll(async () => {
  await rest[Symbol.asyncDispose]()
})

describe('the docs page', () => {
  test.each(docsPaths.map(path => [path]))('%s is served, compressed, and not sent twice', async path => {
    const plain = await fetch(`${rest.url}${path}`, { headers: { 'accept-encoding': 'identity' } })
    expect(plain.status).toBe(200)
    expect(plain.headers.get('content-encoding')).toBeNull()
    const bytes = await plain.bytes()
    expect(bytes.length).toBeGreaterThan(100)
    for (const coding of ['br', 'gzip']) {
      const coded = await fetch(`${rest.url}${path}`, {
        headers: { 'accept-encoding': coding },
        decompress: false,
      })
      if (bytes.length > 1000 && !path.endsWith('.png')) {
        expect(coded.headers.get('content-encoding')).toBe(coding)
        expect((await coded.bytes()).length).toBeLessThan(bytes.length)
        const decoded = await fetch(`${rest.url}${path}`, { headers: { 'accept-encoding': coding } })
        expect(Buffer.compare(await decoded.bytes(), bytes)).toBe(0)
      }
      const etag = coded.headers.get('etag') ?? ''
      const again = await fetch(`${rest.url}${path}`, {
        headers: { 'if-none-match': etag, 'accept-encoding': coding },
      })
      expect([again.status, await again.text()]).toEqual([304, ''])
    }
    expect(plain.headers.get('content-security-policy')).toContain("default-src 'none'")
    expect(plain.headers.get('x-content-type-options')).toBe('nosniff')
  })

  test('a coding that the client rules out is not used', async () => {
    const response = await fetch(`${rest.url}/docs/swagger-ui.css`, {
      headers: { 'accept-encoding': 'br;q=0, gzip;q=0.0, identity' },
    })
    expect(response.headers.get('content-encoding')).toBeNull()
  })

  test('/ and /docs/ lead to it', async () => {
    for (const path of ['/', '/docs/']) {
      const response = await fetch(`${rest.url}${path}`, { redirect: 'manual' })
      expect([response.status, response.headers.get('location')]).toEqual([302, '/docs'])
    }
  })

  test('it names nothing outside', async () => {
    const page = await (await fetch(`${rest.url}/docs`)).text()
    const start = await (await fetch(`${rest.url}/docs/start.js`)).text()
    expect(page + start).not.toMatch(/https?:\/\/|\/\/[a-z]/)
  })

  test.skipIf(!existsSync('/usr/bin/chromium'))(
    'in a browser it asks nobody else, and a tool can be tried out',
    async () => {
      const browser = await chromium.launch({
        executablePath: '/usr/bin/chromium',
        args: [
          '--no-sandbox',
          '--disable-gpu',
          '--disable-background-networking',
          '--disable-component-update',
          '--disable-sync',
        ],
      })
      try {
        const page = await browser.newPage()
        const asked: string[] = []
        const complaints: string[] = []
        page.on('request', request => asked.push(request.url()))
        page.on('console', message => message.type() === 'error' && complaints.push(message.text()))
        page.on('pageerror', error => complaints.push(String(error)))
        await page.goto(`${rest.url}/docs`)
        expect(await page.title()).toContain('svc')
        const operation = page.locator('#operations-sessions-sessions')
        await operation.locator('.opblock-summary-control').click()
        // Tried out without a further click: the body can be edited and sent at once.
        await operation.locator('button.execute').click()
        await operation.locator('.live-responses-table .response-col_status', { hasText: '200' }).waitFor()
        expect(rest.gateway.asked.at(-1)?.verb).toBe('sessions')
        expect(asked.filter(url => !url.startsWith(rest.url) && !url.startsWith('data:'))).toEqual([])
        expect(complaints).toEqual([])
      } finally {
        await browser.close()
      }
    },
  )
})
