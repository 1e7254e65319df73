/**
 * Code for layers above a page (menus, dialogs, toasts). It is loaded after the first view, or when first
 * needed.
 */
import { signal } from '@preact/signals'
import { yieldToBrowser } from './yield.ts'

export const layers = signal<typeof import('./layer-views.ts') | undefined>(undefined)

/** Never throws. If loading fails, the next call tries again. */
export async function loadLayers(): Promise<void> {
  if (layers.value) return
  const views = await import('./layer-views.ts').catch(() => undefined)
  await yieldToBrowser()
  layers.value ??= views
}
