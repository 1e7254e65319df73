import { expect, test } from 'bun:test'
import en from '../../locales/en.json'
import { violationsInBothThemes } from '../support/axe.ts'
import { hasBrowser, launchBrowser, watch } from '../support/browser.ts'
import { startCluster } from '../support/cluster.ts'
import { isPostgresThere } from '../support/postgres.ts'
import { until } from '../support/until.ts'

test.skipIf(!hasBrowser || !isPostgresThere())(
  'the settings show what each node polls, and that nobody takes over once one is left',
  async () => {
    await using cluster = await startCluster({ nodes: 2, args: ['--admin-port', '0'] })
    const [first, second] = cluster.nodes
    for (const name of ['sales', 'support', 'shop']) {
      const { id } = await cluster.phone('users', { name })
      await cluster.logIn(name, id)
    }
    const panel = /admin on (\S+)/.exec(first!.stdout())![1]!
    await using browser = await launchBrowser()
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 } })
    const complaints: string[] = []
    watch(page, panel, complaints)
    await page.goto(`${panel}/settings/nodes`)
    const rows = page.getByRole('list', { name: en['nodes.heading'] }).getByRole('listitem')
    const shares = async () =>
      (await rows.locator('.share').allInnerTexts()).map(text => Number(/\d+/.exec(text)![0]))
    const nodes = async () => {
      const answer = await fetch(`${first!.url}/nodes`)
      return ((await answer.json()) as { nodes: { accounts: number; sessions: string[] }[] }).nodes
    }
    const isShown = async () => {
      const accounts = (await nodes()).map(node => node.accounts)
      return accounts[0]! + accounts[1]! === 3 && Bun.deepEquals(await shares(), accounts)
    }
    await until('all are polled, and shown', 60_000, isShown)
    expect(await page.getByText(en['nodes.alone'], { exact: true }).count()).toBe(0)
    // A bar is as long as the share.
    const widths = await rows
      .locator('.bar')
      .evaluateAll(bars => bars.map(bar => bar.firstElementChild!.clientWidth / bar.clientWidth))
    expect(widths.map(width => Math.round(3 * width))).toEqual(await shares())
    expect(await violationsInBothThemes(page)).toEqual([])
    const most = (await shares()).findIndex(count => count > 1)
    await rows.nth(most).getByRole('link').press('Enter')
    const sheet = page.getByRole('dialog')
    const named = sheet.getByRole('list', { name: en['nav.sessions'] }).getByRole('listitem')
    await named.first().waitFor()
    expect(await named.allInnerTexts()).toEqual((await nodes())[most]!.sessions)
    await page.keyboard.press('Escape')
    await sheet.waitFor({ state: 'detached' })
    await second!.kill('SIGKILL')
    await page.getByText(en['nodes.alone'], { exact: true }).waitFor({ timeout: 60_000 })
    await until('the other has all', 60_000, async () => (await shares())[0] === 3)
    expect(complaints).toEqual([])
  },
  240_000,
)
