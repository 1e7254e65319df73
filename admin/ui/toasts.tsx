/** Short words about what was just done. */
import { errorText } from '../errors.ts'
import { layers, loadLayers } from './layers.ts'

export const tell = (title: string): void => show({ title, type: 'success' })

/** What went wrong, and what to do. */
export function tellError(error: unknown): void {
  const { title, hint } = errorText(error)
  show({ title, type: 'error', duration: 10_000, ...(hint !== '' && { description: hint }) })
}

function show(words: { title: string; type: string; duration?: number; description?: string }): void {
  void loadLayers().then(() => layers.value?.store.create(words))
}

export function Toasts() {
  const View = layers.value?.ToastsView
  return View ? <View /> : null
}
