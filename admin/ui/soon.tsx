import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { set } from './set.ts'

/** What stands at the end of a page is drawn after what stands above it: no drawing is long, and somebody may press meanwhile. */
export function Soon({ children }: { children: ComponentChildren }) {
  const isTime = useSignal(false)
  useEffect(() => {
    // After the frame that shows the rest.
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
