/** Checks the accessibility of a page with axe. */
import axe from 'axe-core'
import type { Page } from 'playwright-core'

/** Rules that depend on the colours, and so on the theme. */
const ofColours = ['color-contrast', 'link-in-text-block']

/** Returns each violation as a line: rule, then the elements. Applies all rules, best practices too. */
export async function violations(page: Page, rules?: readonly string[]): Promise<string[]> {
  // Elements in a transition have intermediate colours.
  await page.emulateMedia({ reducedMotion: 'reduce' })
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(axe.source)
  const { violations: found } = await page.evaluate(
    async only => {
      const { axe: checker } = globalThis as unknown as { axe: typeof import('axe-core') }
      return checker.run(document, { resultTypes: ['violations'], ...(only && { runOnly: only }) })
    },
    rules ? [...rules] : undefined,
  )
  return found.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 160)).join(' | ')}`)
}

/** Returns the violations of the light and the dark theme. */
export async function violationsInBothThemes(page: Page): Promise<string[]> {
  const found: string[] = []
  for (const [colorScheme, rules] of [['light'], ['dark', ofColours]] as const) {
    // In one step: a transition to the theme's colours that has begun would go on.
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
    await page.locator(`html[data-theme=${colorScheme}]`).waitFor()
    found.push(...(await violations(page, rules)).map(violation => `${colorScheme} ${violation}`))
  }
  return found
}
