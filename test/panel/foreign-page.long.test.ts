/**
 * A foreign page in a browser with a signed-in panel can do nothing to it. One foreign page is on 127.0.0.1
 * at another port, which browsers treat as the same site. The name of another one is rebound to our address.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { BrowserContext, Page } from 'playwright-core'
import { type RunningServer, serve } from '../../src/platform/serve.ts'
import { type Admin, startAdmin } from '../support/admin.ts'
import { hasBrowser, launchBrowser } from '../support/browser.ts'

const token = 'correct-horse-battery-staple'
// The name of the attacker resolves to this machine, as the attacker's DNS server would do.
const browser = hasBrowser ? launchBrowser('--host-resolver-rules=MAP evil.example 127.0.0.1') : undefined
afterAll(async () => void (await (await browser)?.close()))

/** Runs in the page of the panel: calls it as its script does. */
const statusOfOwn = async () => {
  const headers = { 'svc-panel': location.hash.split('=')[1] ?? '' }
  return (await fetch('/api/status', { headers })).status
}

/** All calls that a page can make: method, path, body. */
const calls: readonly (readonly [string, string, string?])[] = [
  ['GET', '/api/status'],
  ['GET', '/api/sessions'],
  ['GET', '/api/waiting-files/1'],
  ['GET', '/api/media/1/0'],
  ['GET', '/locales/en.json'],
  ['GET', '/openapi.json'],
  ['GET', '/'],
  ['POST', '/api/sessions/login', '{"name":"evil"}'],
  ['POST', '/api/sessions/default/logout', '{}'],
  ['POST', '/api/sessions/default/rename', '{"new_name":"evil"}'],
  ['POST', '/api/call/list_messages', '{}'],
  ['POST', '/api/call/logout', '{"session_name":"default"}'],
  ['POST', '/api/call/send', '{"to":"victim@im.wechat","text":"evil"}'],
  ['POST', '/api/call/mark_read', '{"session":"default","user_id":"a","up_to":1}'],
  ['POST', '/api/call/cancel_outbox', '{"id":"1"}'],
  ['POST', '/api/media?file_name=evil', 'evil'],
  ['POST', '/api/sign-in', `{"token":"${token}"}`],
  ['POST', '/api/sign-out', '{}'],
]

describe.skipIf(!hasBrowser).each([
  ['without a token', undefined],
  ['signed in by a token', token],
])('%s', (_what, needed) => {
  let admin: Admin
  let elsewhere: RunningServer
  let context: BrowserContext
  /** The panel of the person. */
  let own: Page
  /** The foreign page. */
  let page: Page
  let secret: string

  beforeAll(async () => {
    admin = await startAdmin({ ...(needed !== undefined && { token: needed }) })
    secret = admin.test.dir
    elsewhere = await serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: () =>
        new Response('<!doctype html><title>evil</title>', { headers: { 'content-type': 'text/html' } }),
    })
    context = await (await browser!).newContext()
    own = await context.newPage()
    page = await context.newPage()
    page.setDefaultTimeout(30_000)
    await own.goto(needed === undefined ? admin.url : admin.url + (await admin.app.createSignInLink()))
    expect(await own.evaluate(statusOfOwn)).toBe(200)
    if (needed !== undefined) {
      const [cookie] = await context.cookies()
      expect(cookie).toMatchObject({
        name: `svc_panel_${admin.server.port}`,
        httpOnly: true,
        sameSite: 'Strict',
      })
      expect(await own.evaluate(() => document.cookie)).toBe('')
    }
  })
  afterAll(async () => {
    await context?.close()
    await elsewhere?.stop(0)
    await admin?.[Symbol.asyncDispose]()
  })

  /** Checks that nothing has changed and the person is still signed in. */
  async function expectUntouched(): Promise<void> {
    const sessions = await admin.test.gateway.accounts.list()
    expect(sessions.map(({ name, status }) => [name, status])).toEqual([['default', 'connected']])
    expect(await admin.test.sandbox.messages({ from: 'bot' })).toEqual([])
    expect(await own.evaluate(statusOfOwn)).toBe(200)
  }

  const foreign = (host = '127.0.0.1') => page.goto(`http://${host}:${elsewhere.port}/`)

  test.each([['127.0.0.1'], ['evil.example']])(
    'a page of %s at another port reads and changes nothing by fetch, whatever it sends',
    async host => {
      await foreign(host)
      const seen = await page.evaluate(
        async ({ base, calls }) => {
          const seen: string[] = []
          for (const [method, path, body] of calls)
            for (const mode of ['cors', 'no-cors', 'same-origin'] as const)
              for (const credentials of ['include', 'omit'] as const)
                for (const type of ['application/json', 'text/plain', 'application/x-www-form-urlencoded']) {
                  if (body === undefined && type !== 'text/plain') continue
                  try {
                    const answer = await fetch(base + path, {
                      method,
                      mode,
                      credentials,
                      redirect: 'follow',
                      ...(body !== undefined && { body, headers: { 'content-type': type } }),
                    })
                    const text = await answer.text()
                    if (answer.type !== 'opaque' || text !== '')
                      seen.push(`${method} ${path} ${mode}: ${text}`)
                  } catch {
                    // The browser blocked it.
                  }
                }
          return seen
        },
        { base: admin.url, calls },
      )
      expect(seen).toEqual([])
      await expectUntouched()
    },
  )

  test('forms change nothing, by POST or by GET', async () => {
    for (const [method, path, body = '{}'] of calls) {
      if (method === 'DELETE') continue
      await foreign()
      const done = page.waitForResponse(response => response.url().startsWith(admin.url))
      await page.evaluate(
        ({ action, method, body }) => {
          const form = document.createElement('form')
          Object.assign(form, { action, method, enctype: 'text/plain' })
          const field = document.createElement('input')
          // As text/plain this is almost JSON.
          field.name = body.slice(0, -1)
          field.value = body.slice(-1)
          form.append(field)
          document.body.append(form)
          // After this evaluation has returned.
          setTimeout(() => form.submit())
        },
        { action: admin.url + path, method, body },
      )
      const answer = await done
      await page.waitForURL(url => url.href.startsWith(admin.url))
      const isPage = method === 'GET' && !path.startsWith('/api')
      expect([method, path, answer.status()]).toEqual([method, path, isPage ? 200 : 403])
    }
    await expectUntouched()
  })

  test('pictures, scripts, styles, frames, objects, sockets and streams load nothing', async () => {
    await foreign()
    const seen = await page.evaluate(
      async ({ base }) => {
        const seen: string[] = []
        const load = (tag: string, fields: object, path: string) =>
          new Promise<void>(resolve => {
            const element = document.createElement(tag)
            element.onload = () => {
              seen.push(`${tag} ${path}`)
              resolve()
            }
            element.onerror = () => resolve()
            Object.assign(element, fields)
            document.body.append(element)
          })
        for (const path of [
          '/api/status',
          '/api/sessions',
          '/api/media/1/0',
          '/icon.svg',
          '/assets/index-abc.js',
          '/locales/en.json',
        ]) {
          await load('img', { src: base + path }, path)
          await load('script', { src: base + path }, path)
          await load('script', { src: base + path, type: 'module' }, path)
          await load('link', { rel: 'stylesheet', href: base + path }, path)
        }
        const ends = (source: EventSource | WebSocket) =>
          new Promise<void>(resolve => {
            source.onopen = () => {
              seen.push(source.url)
              resolve()
            }
            source.onerror = () => resolve()
          })
        await ends(new EventSource(`${base}/api/events`))
        await ends(new EventSource(`${base}/api/events`, { withCredentials: true }))
        for (const path of ['/', '/api/events', '/api/status'])
          await ends(new WebSocket(base.replace('http', 'ws') + path))
        navigator.sendBeacon(`${base}/api/sessions/default/logout`, '{}')
        return seen
      },
      { base: admin.url },
    )
    expect(seen).toEqual([])
    await expectUntouched()
  })

  test('no page can frame the panel or keep access to a window that shows it', async () => {
    await foreign()
    for (const path of ['/', '/sessions/default', '/api/status', '/openapi.json']) {
      await page.evaluate(
        src =>
          new Promise<void>(resolve => {
            const frame = document.createElement('iframe')
            frame.onload = () => resolve()
            frame.src = src
            document.body.append(frame)
          }),
        admin.url + path,
      )
    }
    for (const frame of page.frames().slice(1)) {
      const text = await frame.content().catch(() => '')
      expect([text.includes('<title>the page'), text.includes(secret)]).toEqual([false, false])
    }
    const [opened] = await Promise.all([
      context.waitForEvent('page'),
      page.evaluate(url => {
        ;(globalThis as { held?: unknown }).held = window.open(url)
      }, `${admin.url}/sessions`),
    ])
    await opened.waitForLoadState()
    expect(await opened.evaluate(() => window.opener)).toBeNull()
    const readable = await page.evaluate(() => {
      try {
        const { held } = globalThis as { held?: Window }
        return held?.document?.title ?? 'nothing'
      } catch {
        return 'nothing'
      }
    })
    expect(readable).toBe('nothing')
    await expectUntouched()
  })

  test('a name that is rebound to the panel itself gets nothing, not even the page', async () => {
    const { port } = admin.server
    const answer = await page.goto(`http://evil.example:${port}/`)
    expect(answer!.status()).toBe(403)
    expect(await page.content()).not.toContain('the page')
    const statuses = await page.evaluate(
      async calls =>
        Promise.all(
          calls.map(async ([method, path, body]) => {
            const { status } = await fetch(path, {
              method,
              credentials: 'include',
              ...(body !== undefined && { body }),
            })
            return `${method} ${path} ${status}`
          }),
        ),
      calls,
    )
    expect(statuses).toEqual(calls.map(([method, path]) => `${method} ${path} 403`))
    await expectUntouched()
  })
})
