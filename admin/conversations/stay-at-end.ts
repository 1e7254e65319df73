/** The end of a chat stays in view as long as one is there, whatever grows: a picture, what is written below, the window. */
import { useLayoutEffect, useRef } from 'preact/hooks'

/** So near to the end counts as being there. */
export const nearPx = 80

/**
 * @param isWhole whether what is shown reaches to the newest message; the end of less is no place to stay
 * @returns whether one is at the end; set it when somebody is taken there, or away from there
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
    // Where a new one is; to ask would cost a layout.
    let top = 0
    const look = () => {
      const rest = area.scrollHeight - area.clientHeight - area.scrollTop
      if (rest <= nearPx) stays.current = whole.current()
      // What grows moves nothing up: somebody wants to read there.
      else if (area.scrollTop < top - 1) stays.current = false
      top = area.scrollTop
    }
    const follow = new ResizeObserver(() => {
      if (stays.current) area.scrollTop = area.scrollHeight
    })
    follow.observe(area)
    if (area.firstElementChild) follow.observe(area.firstElementChild)
    area.addEventListener('scroll', look, { passive: true })
    return () => {
      follow.disconnect()
      area.removeEventListener('scroll', look)
    }
  }, [isShown])
  return stays
}
