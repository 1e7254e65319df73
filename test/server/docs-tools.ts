/** The docs page as a person uses it: opens a tool in the list beside the page, and presses its button. */
import type { Locator, Page, Request } from 'playwright-core'
import type { Tool } from '../../src/operations/operation.ts'
import type { Json } from '../support/rest.ts'

export interface Pressed {
  status: number
  body: Json
  /** The Authorization header that the page sent; undefined without one. */
  authorization: string | undefined
}

/** Returns the link to a tool in the list beside the page. */
export const linkOf = (page: Page, { title }: Pick<Tool, 'title'>): Locator =>
  listOf(page).getByRole('link', { name: `${title} HTTP` })

/** Returns the list beside the page. */
export const listOf = (page: Page): Locator => page.getByRole('complementary', { name: /^Sidebar/ })

/** Opens the window of a tool's request. */
export async function openTool(page: Page, tool: Pick<Tool, 'name' | 'title'>): Promise<void> {
  await linkOf(page, tool).click()
  // By a key: the page scrolls to the tool, and the press and the release of a click may meet two different things.
  await page.getByRole('button', { name: new RegExp(`Test Request.*/${tool.name}\\)`) }).press('Enter')
  await page.getByRole('dialog').waitFor()
}

/** What the page itself asks `history`, to fill the examples. */
const ownCall = JSON.stringify({ direction: 'received', limit: 100 })

/** Types a token, and waits until the page has filled the examples with it. */
export async function typeToken(page: Page, token: string): Promise<void> {
  const introduction = page.getByRole('region', { name: 'Introduction' })
  const typed = introduction.getByRole('textbox', { name: /Bearer Token/ })
  const filled = page.waitForResponse(response => response.request().postData() === ownCall)
  await typed.fill(token)
  await typed.press('Tab')
  await filled
}

/** Presses Send in the open window. @returns what was answered */
export async function pressSend(page: Page): Promise<Pressed> {
  const isCall = (request: Request) =>
    new URL(request.url()).pathname.includes('/tools/default/') && request.postData() !== ownCall
  const answered = page.waitForResponse(response => isCall(response.request()))
  await page.getByRole('button', { name: /^Send/ }).first().click()
  const response = await answered
  const { authorization } = await response.request().allHeaders()
  return { status: response.status(), body: await response.json(), authorization }
}

export const closeTool = (page: Page): Promise<void> =>
  page.getByRole('button', { name: 'Close Client' }).click()
