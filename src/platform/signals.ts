/** Signals that end together. */

export interface Linked extends Disposable {
  readonly signal: AbortSignal
}

/**
 * A signal that aborts with either of two, until disposed. Not `AbortSignal.any`: one of the two lives as long as the
 * service, and calls must leave nothing on it.
 */
export function linked(a: AbortSignal, b: AbortSignal): Linked {
  const either = new AbortController()
  const fromA = () => either.abort(a.reason)
  const fromB = () => either.abort(b.reason)
  if (a.aborted) fromA()
  else a.addEventListener('abort', fromA, { once: true })
  if (b.aborted) fromB()
  else b.addEventListener('abort', fromB, { once: true })
  return {
    signal: either.signal,
    [Symbol.dispose]() {
      a.removeEventListener('abort', fromA)
      b.removeEventListener('abort', fromB)
    },
  }
}
