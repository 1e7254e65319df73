/** What a checker of accessibility finds on a page as it stands. */
import axe from 'axe-core'
import type { Page } from 'playwright-core'

/** What depends on the colours, and so on the theme. */
const ofColours = ['color-contrast', 'link-in-text-block']

/** Each violation in a line: rule, then the elements. Every rule counts, the ones of good practice too. */
export async function violations(page: Page, rules?: readonly string[]): Promise<string[]> {
  // Running transitions have colours of their own.
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

/** The same in both themes, which differ in their colours. */
export async function violationsInBothThemes(page: Page): Promise<string[]> {
  const found: string[] = []
  for (const [colorScheme, rules] of [['light'], ['dark', ofColours]] as const) {
    await page.emulateMedia({ colorScheme })
    await page.locator(`html[data-theme=${colorScheme}]`).waitFor()
    found.push(...(await violations(page, rules)).map(one => `${colorScheme} ${one}`))
  }
  return found
}
