/** Work that a press begins: one at a time. */
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
