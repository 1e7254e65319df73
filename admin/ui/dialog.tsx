/** A modal dialog. */
import { useEffect } from 'preact/hooks'
import type { DialogProps } from './dialog-view.tsx'
import { layers, loadLayers } from './layers.ts'

/** Open as long as it is rendered. */
export function Dialog(props: DialogProps) {
  useEffect(() => void loadLayers(), [])
  const View = layers.value?.DialogView
  return View ? <View {...props} /> : null
}
