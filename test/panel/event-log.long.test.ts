/** The event log in a real browser: an EventSource of the panel's own page, which has its cookie and no header. */
import { expect, test } from 'bun:test'
import { hasBrowser } from '../support/browser.ts'
import { withPanel, write } from '../support/panel.ts'

/** What the script in the page keeps. */
interface Heard {
  heard: { id: string; text: string }[]
  opened: number
  closed: boolean
}

test.skipIf(!hasBrowser)(
  'an EventSource of the page that has signed in reads on after each cut, without a gap or a repeat',
  async () => {
    const token = 'a-long-enough-token'
    await using panel = await withPanel({ token })
    const page = await panel.open({ path: '/' })
    const listen = () =>
      page.evaluate(() => {
        const own: Heard = { heard: [], opened: 0, closed: false }
        Object.assign(window, { own })
        const source = new EventSource('/api/log?types=message.received')
        source.onopen = () => void own.opened++
        source.onmessage = ({ lastEventId: id, data }) =>
          void own.heard.push({ id, text: JSON.parse(data).data.text })
        source.onerror = () => {
          own.closed = source.readyState === EventSource.CLOSED
        }
      })
    const own = () => page.evaluate(() => (window as unknown as { own: Heard }).own)
    await listen()
    await panel.until('refused without the cookie', async () => (await own()).closed)

    expect((await page.request.post(`${panel.url}/api/sign-in`, { data: { token } })).status()).toBe(200)
    await listen()
    await panel.until('it listens', async () => (await own()).opened === 1)
    const said: string[] = []
    const say = async () => {
      said.push(`message ${said.length}`)
      await write(panel, said.at(-1)!)
    }
    for (let cut = 1; cut <= 3; cut++) {
      await say()
      const speak = await panel.silence()
      await say()
      await say()
      await speak()
      await panel.until('it listens again', async () => (await own()).opened === 1 + cut)
      await say()
    }
    await panel.until('all came', async () => (await own()).heard.length >= said.length)
    const { heard } = await own()
    expect(heard.map(({ text }) => text)).toEqual(said)
    expect(new Set(heard.map(({ id }) => id)).size).toBe(said.length)
  },
  120_000,
)
