/** A modal dialog. */
import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { layers, loadLayers } from './layers.ts'

export interface DialogProps {
  title: string
  /** Said after the title by a screen reader. */
  description?: string
  onClose(): void
  /** Where the focus goes after it, if what opened it is gone; else to the beginning of the page. */
  focusAfter?(): HTMLElement | undefined
  /** For questions that must be answered: no closing by a click beside it. */
  alert?: boolean
  /** As large as the window, and dark: for pictures. Its title is said again when it changes. */
  large?: boolean
  /** Buttons of a large one, beside its title. */
  tools?: ComponentChildren
  children?: ComponentChildren
  footer?: ComponentChildren
}

/** Open as long as it is rendered. */
export function Dialog(props: DialogProps) {
  useEffect(() => void loadLayers(), [])
  const View = layers.value?.DialogView
  return View ? <View {...props} /> : null
}
