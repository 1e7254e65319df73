/** A picture as large as there is room for, over the page. What it needs is loaded when the first one is opened. */
import { signal } from '@preact/signals'
import type { ComponentType } from 'preact'
import type { Message } from '../api.ts'

export interface Looked {
  url: string
  message: Message
  index: number
}

export const looked = signal<Looked | undefined>(undefined)
const view = signal<ComponentType | undefined>(undefined)

export function look(at: Looked): void {
  looked.value = at
  if (!view.value)
    void import('./lightbox-view.tsx').then(({ LightboxView }) => {
      view.value = LightboxView
    })
}

export function Lightbox() {
  const View = view.value
  return View && looked.value ? <View /> : null
}
