import type { Signal } from '@preact/signals'

/** Makes a function that sets a signal, for buttons, timers and events. */
export const set =
  <T>(signal: Signal<T>, value: T) =>
  (): void => {
    signal.value = value
  }
