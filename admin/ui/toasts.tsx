/** Short words about what was just done. */
import { errorText } from '../errors.ts'
import { layers, loadLayers } from './layers.ts'

/** Words that take the place of those told under the same id. */
interface Place {
  id?: string
}

export const tell = (title: string, place: Place = {}): void => show({ ...place, title, type: 'success' })

/** What is under way, until what came of it is told in its place. */
export const tellBegun = (title: string, place: Required<Place>): void =>
  show({ ...place, title, type: 'loading' })

/** What was asked for and did not come, though nothing failed. */
export const tellDoubt = (title: string, place: Place = {}): void =>
  show({ ...place, title, type: 'warning' })

/** What went wrong, and what to do. */
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
