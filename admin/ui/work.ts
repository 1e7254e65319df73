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

/** Whether a key in a text field sends it: Enter. Shift+Enter breaks the line. */
export const isSendKey = ({ key, shiftKey, isComposing, keyCode }: KeyboardEvent): boolean =>
  // While an input method composes, Enter chooses a word. Safari reports that only by key code 229.
  key === 'Enter' && !shiftKey && !isComposing && keyCode !== 229

const controls = 'a, button, input, label, select, summary'
const focusable = 'a[href], button, input, select, summary, textarea, [tabindex]'

/**
 * Keeps the focus near a control that goes away because it was pressed: the focus would be nowhere, and the next
 * key would do nothing.
 */
export function keepFocus(): void {
  /** The pressed control and the elements around it, each with the element after it. */
  let around: (readonly [at: Element, after: Element | null])[] = []
  const observer = new MutationObserver(() => {
    if (around[0]?.[0].isConnected !== false) return
    observer.disconnect()
    const left = around.findIndex(([at]) => at.isConnected)
    const near = around[left]?.[0]
    // A new page and a dialog set the focus themselves.
    if (document.activeElement !== document.body || !near?.parentElement?.closest('#main')) return
    for (const place of [around[left - 1]?.[1], ...around.slice(left).map(([at]) => at)]) {
      const to = place?.isConnected
        ? place.matches(focusable)
          ? place
          : place.querySelector(focusable)
        : null
      if (to) return (to as HTMLElement).focus()
    }
  })
  document.addEventListener(
    'click',
    ({ target }) => {
      around = []
      for (let at = (target as Element).closest(controls); at; at = at.parentElement)
        around.push([at, at.nextElementSibling])
      observer.observe(document.body, { childList: true, subtree: true })
    },
    { capture: true },
  )
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
      const at = (event.target as Element).closest(controls)
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
