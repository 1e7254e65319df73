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
    const middle = (box.top + box.bottom) / 2
    const isInView = middle > 0 && middle < innerHeight
    const ends = [box.left + 4, box.right - 4].map(x => document.elementFromPoint(x, middle))
    // Another element may cover it on purpose, such as a bar at the edge. A part of it must not be covered.
    if (element.matches('.count') && isInView && ends.filter(at => element.contains(at)).length === 1)
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
    const widest = Math.max(
      ...lines.map(line => {
        const { left, right } = room(node as unknown as Element, line)
        return Math.min(line.right, right) - Math.max(line.left, left)
      }),
    )
    if (widest < (fewest - 1) * perChar) found.add(`narrow: ${name(element)} ${Math.round(widest)} px`)
  }
  return [...found]
}
