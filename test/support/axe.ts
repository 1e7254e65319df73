/** What a checker of accessibility finds on a page as it stands. */
import axe from 'axe-core'
import type { Page } from 'playwright-core'

/** Each violation in a line: rule, then the elements. Every rule counts, the ones of good practice too. */
export async function violations(page: Page): Promise<string[]> {
  // Running transitions have colours of their own.
  await page.emulateMedia({ reducedMotion: 'reduce' })
  await page.evaluate(axe.source)
  const { violations: found } = await page.evaluate(async () => {
    const { axe: checker } = globalThis as unknown as { axe: typeof import('axe-core') }
    return checker.run(document)
  })
  return found.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 160)).join(' | ')}`)
}

/** The same in both themes. */
export async function violationsInBothThemes(page: Page): Promise<string[]> {
  const found: string[] = []
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme })
    await page.locator(`html[data-theme=${colorScheme}]`).waitFor()
    found.push(...(await violations(page)).map(one => `${colorScheme} ${one}`))
  }
  return found
}
