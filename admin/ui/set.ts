import type { Signal } from '@preact/signals'

/** What sets a signal when it is called: for buttons, timers and events. */
export const set =
  <T>(signal: Signal<T>, value: T) =>
  (): void => {
    signal.value = value
  }
