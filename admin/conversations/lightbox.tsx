/** A picture as large as there is room for, over the page. */
import { signal } from '@preact/signals'
import type { Message } from '../api.ts'
import { layers, loadLayers } from '../ui/layers.ts'

export interface Looked {
  url: string
  message: Message
  index: number
}

export const looked = signal<Looked | undefined>(undefined)

export function look(at: Looked): void {
  looked.value = at
  void loadLayers()
}

export function Lightbox() {
  const View = layers.value?.LightboxView
  return View && looked.value ? <View /> : null
}
