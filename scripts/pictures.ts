/**
 * `bun scripts/pictures.ts`: makes the pictures of the READMEs in `admin/screenshots/`, of the panel in `dist/panel` over a
 * simulated WeChat: a conversation with drafts, in light and dark, and a login. It needs Chromium.
 */
import { join } from 'node:path'
import type { BrowserContextOptions, Page } from 'playwright-core'
import { Svc } from '../src/index.ts'
import { owner } from '../src/model/principal.ts'
import { testClock } from '../test/support/clock.ts'
import { withPanel, write } from '../test/support/panel.ts'
import { withSandbox } from '../test/support/sandbox.ts'
import { until } from '../test/support/until.ts'

const folder = join(import.meta.dirname, '../admin/screenshots')
const minuteMs = 60_000
const token = 'a-token-of-the-pictures'
const people = { support: 'Anna Berger', sales: 'Jonas Lindqvist', workshop: 'Priya Nair', mum: 'Mum' }

/** A picture stays below this many bytes. */
const mostBytes = 150_000

const clock = testClock()
await using sandbox = await withSandbox({ clock })
clock.step(-3 * 60 * minuteMs)
await using panel = await withPanel({ sandbox, clock, token, sessions: Object.keys(people) })
const { bots, gateway } = panel
const userOf = (session: string) => bots.get(session)!.user_id
const says = async (session: string, minutesLater: number, text: string) => {
  clock.step(minutesLater * minuteMs)
  await write(panel, text, session)
}

await says('mum', 0, 'Did the parcel come?')
await panel.send({ session: 'mum', to: userOf('mum'), text: 'Yes, thank you!' })
await says('workshop', 40, 'The press stops with error E42 again')
await says('sales', 55, 'Two boxes, please. Can they be here on Friday?')
await panel.send({ session: 'sales', to: userOf('sales'), text: 'They leave on Thursday.' })
await says('support', 60, 'Could you look at invoice 3307 again, please?')
for (const [session, name] of Object.entries(people))
  await gateway.users.name({ session, user_id: userOf(session), name })
const bot = await gateway.keys.add({ name: 'invoice-bot', can: ['draft'] }, owner)
const colleague = await gateway.keys.add({ name: 'Mei Lin', can: ['read', 'approve'] }, owner)
const by = await gateway.keys.authenticate(bot.key)
const drafts = async (text: string) =>
  void (await panel.send(
    { session: 'support', to: userOf('support'), text, approval: 'draft' },
    { ...(by && { by }) },
  ))
await drafts('Invoice 3307 is right.')
await says('support', 1, 'I think line 3 is counted twice')

/** Opens the panel in a new window. */
async function opened(secret: string, path: string, options: BrowserContextOptions = {}): Promise<Page> {
  const page = await panel.open({ viewport: { width: 1200, height: 720 }, ...options })
  await page.locator('.token input').fill(secret)
  await page.keyboard.press('Enter')
  await page.getByRole('navigation').waitFor()
  await page.goto(`${panel.url}${path}`)
  return page
}

clock.step(12 * minuteMs)
const mei = await opened(colleague.key, '/approvals')
await mei.getByRole('button', { name: 'Edit: Invoice 3307 is right.' }).click()
await mei.getByRole('textbox').fill('You are right: line 3 was counted twice. The new invoice is on its way.')
await mei.getByRole('button', { name: /^Send the edited text/ }).click()
// An approval goes at once when the page is left.
await mei.goto(`${panel.url}/conversations`)
await sandbox.seen(messages => messages.some(({ items }) => items[0]?.text?.startsWith('You are right')))
await says('support', 4, 'Great, thank you! When will it be here?')
clock.step(2 * minuteMs)
await drafts('It was sent today, so it should be in your letter box on Thursday.')

const svc = await Svc.open({ basePath: panel.dir, store: true, upstreamUrl: sandbox.url })
const work = await svc.workAsAgent()
await work.claimAgent('claude')
const talk = { agent: 'claude', session: 'workshop', user: userOf('workshop') }
const answering = await work.addTurn({
  ...talk,
  source: 'inject',
  messages: [],
  prompt: 'What is error E42?',
})
await work.claim(talk)
await work.changeTurn(answering.id, { status: 'running', started_at: clock.now() })
await work.ask({
  turn: answering.id,
  text: 'fetch: the manual of the press',
  options: [{ id: 'once', name: 'Allow', kind: 'allow_once' }],
  code: 'AB',
  expires_at: clock.now() + 5 * minuteMs,
})
await until('all accounts answer', 30_000, async () => {
  clock.advance(1000)
  return (await gateway.accounts.list()).every(
    ({ last_poll_at = 0 }) => clock.now() - last_poll_at < minuteMs,
  )
})

/** Takes a picture, and converts it to WebP in the page: Chromium's own pictures are PNG. */
async function take(page: Page, name: string): Promise<void> {
  const png = `data:image/png;base64,${(await page.screenshot()).toString('base64')}`
  const blank = await page.context().newPage()
  const webp = await blank.evaluate(async src => {
    const image = Object.assign(new Image(), { src })
    await image.decode()
    const canvas = Object.assign(document.createElement('canvas'), {
      width: image.naturalWidth,
      height: image.naturalHeight,
    })
    canvas.getContext('2d')!.drawImage(image, 0, 0)
    return canvas.toDataURL('image/webp', 0.9)
  }, png)
  await blank.close()
  const bytes = Buffer.from(webp.slice(webp.indexOf(',') + 1), 'base64')
  if (bytes.length > mostBytes) throw new Error(`${name} has ${bytes.length} bytes`)
  await Bun.write(join(folder, name), bytes)
  console.log(`${name}: ${Math.round(bytes.length / 1000)} kB`)
}

const chat = `/conversations/support/${encodeURIComponent(userOf('support'))}`
for (const colorScheme of ['light', 'dark'] as const) {
  const page = await opened(token, chat, { colorScheme, deviceScaleFactor: 1.5, reducedMotion: 'reduce' })
  const isDrawn = () => page.getByText(/changed and approved by/).waitFor()
  await isDrawn()
  // What was new the first time is not now.
  await page.reload()
  await isDrawn()
  await page.locator('.rail a[href$="/agents"] .count').waitFor()
  await take(page, `conversation-${colorScheme}.webp`)
}
const page = await opened(token, '/sessions', { colorScheme: 'light', reducedMotion: 'reduce' })
await page.getByRole('link', { name: 'Add account' }).click()
await page.getByRole('button', { name: 'Show the QR code' }).click()
await page.getByRole('dialog').locator('.login-code img').waitFor()
await take(page, 'qr-code.webp')
await svc.close()
process.exit()
