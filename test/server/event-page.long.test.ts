/** The page of src/server/README.md that follows events, in a browser, behind a proxy that serves it at svc's origin. */
import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { hasBrowser, launchBrowser } from '../support/browser.ts'
import { withGateway } from '../support/gateway.ts'
import { type Rest, restOf } from '../support/rest.ts'
import { writer } from './cut-streams.ts'

const token = 'a-long-enough-token'
const readme = readFileSync(join(import.meta.dir, '../../src/server/README.md'), 'utf8')
const page = /^```html\n([\s\S]*?)^```$/m.exec(readme)![1]!

/** Serves the page at `/`, and svc at all other paths; 502 while there is none. */
function proxy() {
  const seen: { path: string; referer: string | null }[] = []
  let to: string | undefined
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      const { pathname: path, search } = new URL(request.url)
      seen.push({ path, referer: request.headers.get('referer') })
      if (path === '/') return new Response(page, { headers: { 'content-type': 'text/html' } })
      const { method, headers } = request
      const body = method === 'POST' ? await request.text() : undefined
      return to === undefined
        ? new Response('no service', { status: 502 })
        : await fetch(to + path + search, { method, headers, body })
    },
  })
  return {
    url: server.url.href,
    seen,
    links: () => seen.filter(({ path }) => path === '/events/link').length,
    pass(rest: Pick<Rest, 'url'> | undefined) {
      to = rest?.url
    },
    [Symbol.asyncDispose]: () => server.stop(true),
  }
}

test.skipIf(!hasBrowser)('the page goes on after a restart, and stops without the token', async () => {
  await using t = await withGateway({ start: false })
  await using log = await writer(t)
  const start = () => restOf(t.gateway, { token })
  await using front = proxy()
  const browser = await launchBrowser()
  try {
    const tab = await browser.newPage()
    let given = 'wrong'
    tab.on('dialog', dialog => void dialog.accept(given))
    const items = () => tab.locator('li').allTextContents()
    const shows = (expected: string[]) =>
      t.until(`it shows ${expected}`, async () => JSON.stringify(await items()) === JSON.stringify(expected))

    const first = await start()
    front.pass(first)
    await tab.goto(front.url)
    await t.until('it says why', async () => (await items())[0]?.includes('token') === true)
    expect(front.links()).toBe(1)

    given = token
    await tab.reload()
    await t.until('it listens', () => front.seen.some(({ path }) => path === '/events'))
    await log.say('one <b>&amp;')
    await shows(['one <b>&amp;'])
    // Its stream ends; what is said before it comes again is not missed.
    front.pass(undefined)
    await first[Symbol.asyncDispose]()
    await log.say('two')
    const asked = front.links()
    await t.until('it tries again', () => front.links() > asked)
    await using second = await start()
    front.pass(second)
    await shows(['one <b>&amp;', 'two'])
    await log.say('three')
    await shows(['one <b>&amp;', 'two', 'three'])
    expect(front.seen.filter(({ referer }) => referer?.includes('link='))).toEqual([])
  } finally {
    await browser.close()
  }
})
