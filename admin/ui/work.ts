/** Work that a button starts. */
import { useSignal } from '@preact/signals'
import { tellError } from './toasts.tsx'

/** Runs one job at a time. @param failed gets the error of the job; by default it is shown as a toast */
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

/**
 * Drops the second click of a double click if another control is under the pointer by then. The person did
 * not see that control when they clicked.
 */
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
