/**
 * Keeps the end of a chat in view while the reader is there, also when a picture, the draft or the window
 * grows.
 */
import { useLayoutEffect, useRef } from 'preact/hooks'

/** This close to the end counts as the end. */
export const nearPx = 80

/**
 * @param isWhole whether the newest message is loaded; otherwise the end is not kept in view
 * @returns whether the reader is at the end; set it after scrolling by code
 */
export function useStayAtEnd(
  scroller: { current: HTMLElement | null },
  isWhole: () => boolean,
  isShown: boolean,
): { current: boolean } {
  const stays = useRef(false)
  const whole = useRef(isWhole)
  whole.current = isWhole
  useLayoutEffect(() => {
    const area = scroller.current
    if (!area) return
    // A new list starts at the top. Reading the position would force a layout.
    let top = 0
    const onScroll = () => {
      const rest = area.scrollHeight - area.clientHeight - area.scrollTop
      if (rest <= nearPx) stays.current = whole.current()
      // Growing content never scrolls up, so the reader did.
      else if (area.scrollTop < top - 1) stays.current = false
      top = area.scrollTop
    }
    const follow = new ResizeObserver(() => {
      if (stays.current) area.scrollTop = area.scrollHeight
    })
    follow.observe(area)
    if (area.firstElementChild) follow.observe(area.firstElementChild)
    area.addEventListener('scroll', onScroll, { passive: true })
    return () => {
      follow.disconnect()
      area.removeEventListener('scroll', onScroll)
    }
  }, [isShown])
  return stays
}
