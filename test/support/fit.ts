/** Whether a page fits its window: for any page, in any state. */
import type { Page } from 'playwright-core'

/**
 * Returns what does not fit, one line each: what is wider than the window, texts with lines of fewer than six
 * characters, and controls and counts of which a part is cut off.
 */
export const misfits = (page: Page): Promise<string[]> => page.evaluate(findMisfits)

/** Runs in the page. */
function findMisfits(): string[] {
  const fewest = 6
  const slack = 1
  const found = new Set<string>()
  const name = (element: Element) =>
    `${element.tagName.toLowerCase()}.${element.className} "${element.textContent?.trim().slice(0, 40)}"`
  const style = (element: Element) => getComputedStyle(element)
  const isClipped = (element: Element) =>
    element.closest('.visually-hidden, .skip, [aria-hidden=true], svg') !== null
  const isSeen = (element: Element) => element.checkVisibility({ visibilityProperty: true })
  const around = (element: Element): Element[] => {
    const all: Element[] = []
    for (let at = element.parentElement; at; at = at.parentElement) all.push(at)
    return all
  }
  const scrolls = (element: Element) => /auto|scroll/.test(style(element).overflowX)
  const clips = (element: Element) => style(element).overflowX !== 'visible'

  /** What of a box is in view, in px from its left and right edge: less than 0 is cut off. */
  const room = (element: Element, box: DOMRect) => {
    let [left, right] = [0, innerWidth]
    for (const one of around(element)) {
      if (one.scrollWidth > one.clientWidth && scrolls(one)) return { left: box.left, right: box.right }
      if (!clips(one)) continue
      const edge = one.getBoundingClientRect()
      left = Math.max(left, edge.left)
      right = Math.min(right, edge.right)
    }
    return { left, right }
  }

  /** Whether one end of a box is covered, by another thing than a layer above the page. */
  const isHalfCovered = (element: Element, left: number, right: number, { top, bottom }: DOMRect) => {
    const middle = (top + bottom) / 2
    if (middle < 0 || middle > innerHeight) return false
    const ends = [left + 4, right - 4].map(x => document.elementFromPoint(x, middle))
    if (ends.some(at => at?.closest('[popover], [role$=dialog], .toasts'))) return false
    return ends.filter(at => at && (element.contains(at) || at.contains(element))).length === 1
  }

  if (document.documentElement.scrollWidth > innerWidth) found.add('the page scrolls sideways')
  for (const element of document.querySelectorAll('#main, [role$=dialog], .field'))
    if (element.scrollWidth > element.clientWidth) found.add(`scrolls sideways: ${name(element)}`)

  const controls = 'a, button, input, select, textarea, summary, .badge, .count, .state, .chip, code'
  for (const element of document.querySelectorAll(controls)) {
    if (!isSeen(element) || isClipped(element)) continue
    const box = element.getBoundingClientRect()
    if (box.width <= 1) continue
    const { left, right } = room(element, box)
    if (box.left < left - slack || box.right > right + slack)
      found.add(`cut: ${name(element)} ${Math.round(box.left)}–${Math.round(box.right)}`)
    if (element.matches('.count') && element.scrollWidth > element.clientWidth)
      found.add(`overflows: ${name(element)}`)
    if (element.matches('.count') && isHalfCovered(element, box.left, box.right, box))
      found.add(`covered: ${name(element)}`)
  }
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const text = node.textContent!.trim()
    const element = node.parentElement!
    if ([...text].length < fewest || !isSeen(element) || isClipped(element)) continue
    if (element.closest('option, script, style')) continue
    const range = document.createRange()
    range.selectNodeContents(node)
    const lines = [...range.getClientRects()].filter(({ width }) => width > 0)
    if (lines.length === 0) {
      found.add(`no room: ${name(element)}`)
      continue
    }
    const perChar = lines.reduce((sum, { width }) => sum + width, 0) / [...text].length
    const seen = lines.map(line => {
      const { left, right } = room(node as unknown as Element, line)
      return { line, left: Math.max(line.left, left), right: Math.min(line.right, right) }
    })
    const widest = Math.max(...seen.map(({ left, right }) => right - left))
    const isHeading = element.closest('h1, h2, h3') !== null
    if (isHeading && seen.some(({ line, left, right }) => isHalfCovered(element, left, right, line)))
      found.add(`covered: ${name(element)}`)
    if (widest < (fewest - 1) * perChar) found.add(`narrow: ${name(element)} ${Math.round(widest)} px`)
  }
  return [...found]
}
