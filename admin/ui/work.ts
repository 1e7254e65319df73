/** Work that a press begins: one at a time, and of what the person saw. */
import { useSignal } from '@preact/signals'
import { tellError } from './toasts.tsx'

/** @param failed is given what the work threw; it is told otherwise */
export function useWork(failed: (error: unknown) => void = tellError) {
  const busy = useSignal(false)
  const work = async (job: () => Promise<unknown>): Promise<void> => {
    if (busy.value) return
    busy.value = true
    try {
      await job()
    } catch (error) {
      failed(error)
    } finally {
      busy.value = false
    }
  }
  return { busy, work }
}

/** The second click of two is for what the first was for: what came under the pointer between them, nobody saw. */
export function holdSecondClicks(): void {
  let first: Element | null
  document.addEventListener(
    'click',
    event => {
      const at = (event.target as Element).closest('a, button, input, label, select, summary')
      const control = at instanceof HTMLLabelElement ? at.control : at
      if (event.detail < 2) first = control
      else if (control !== first) {
        event.preventDefault()
        event.stopPropagation()
      }
    },
    { capture: true },
  )
}
