import { useLayoutEffect, useRef } from 'preact/hooks'

/**
 * Moves the focus to a new element that wants it. An element that wants it later, because the window was turned, gets
 * it only if no other has it. A layout effect runs before the next key press, which may come before the first drawing.
 */
export function useFocus(element: { current: HTMLElement | null }, wanted: boolean): void {
  const isNew = useRef(true)
  useLayoutEffect(() => {
    if (wanted && (isNew.current || document.activeElement === document.body))
      element.current?.focus({ preventScroll: true })
    isNew.current = false
  }, [wanted])
}
