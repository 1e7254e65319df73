/** Short words about what was just done. What shows them is loaded after the first view, or with the first of them. */
import { signal } from '@preact/signals'
import { errorText } from '../errors.ts'

const view = signal<typeof import('./toasts-view.tsx') | undefined>(undefined)

/** Never throws: over a broken line they are loaded with the next words. */
export async function loadToasts(): Promise<void> {
  view.value ??= await import('./toasts-view.tsx').catch(() => undefined)
}

export const tell = (title: string): void => show({ title, type: 'success' })

/** What went wrong, and what to do. */
export function tellError(error: unknown): void {
  const { title, hint } = errorText(error)
  show({ title, type: 'error', duration: 10_000, ...(hint !== '' && { description: hint }) })
}

function show(words: { title: string; type: string; duration?: number; description?: string }): void {
  void loadToasts().then(() => view.value?.store.create(words))
}

export function Toasts() {
  const View = view.value?.ToastsView
  return View ? <View /> : null
}
