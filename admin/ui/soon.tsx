import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { set } from './set.ts'

/**
 * Draws the end of a page one frame later. This keeps each drawing short, so that input is handled in
 * between.
 */
export function Soon({ children }: { children: ComponentChildren }) {
  const isTime = useSignal(false)
  useEffect(() => {
    // After the frame that draws the rest of the page.
    let timer: ReturnType<typeof setTimeout> | undefined
    const frame = requestAnimationFrame(() => {
      timer = setTimeout(set(isTime, true))
    })
    return () => {
      cancelAnimationFrame(frame)
      clearTimeout(timer)
    }
  }, [])
  return isTime.value ? children : null
}
