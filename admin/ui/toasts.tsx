/** Toasts: short messages about what was just done. */
import { errorText } from '../errors.ts'
import { layers, loadLayers } from './layers.ts'

/** A toast replaces an earlier one with the same id. */
interface Place {
  id?: string
}

export const tell = (title: string, place: Place = {}): void => show({ ...place, title, type: 'success' })

/** Shows that work is under way. Call another function with the same id when it ends. */
export const tellBegun = (title: string, place: Required<Place>): void =>
  show({ ...place, title, type: 'loading' })

/** Shows that a request had no result, though nothing failed. */
export const tellDoubt = (title: string, place: Place = {}): void =>
  show({ ...place, title, type: 'warning' })

/** Shows an error and its hint. */
export function tellError(error: unknown, place: Place = {}): void {
  const { title, hint } = errorText(error)
  show({ ...place, title, type: 'error', duration: 10_000, ...(hint !== '' && { description: hint }) })
}

interface Words extends Place {
  title: string
  type: string
  duration?: number
  description?: string
}

function show(words: Words): void {
  void loadLayers().then(() => layers.value?.store.create(words))
}

export function Toasts() {
  const View = layers.value?.ToastsView
  return View ? <View /> : null
}
