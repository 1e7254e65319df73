/**
 * What was read from disk, kept for one tick of the event loop.
 *
 * All that a tick handles had arrived before it began, so a look within it is as fresh as any of its callers could ask
 * for; and under load many requests share one look. Measured for `sessions` over REST: 45 µs of processor per call with
 * a look each, 18 µs so.
 */
export class TickCache<T> {
  readonly #kept = new Map<string, T>()

  /** The value under `key`, loaded unless this tick has done so already. */
  get(key: string, load: () => T): T {
    const found = this.#kept.get(key)
    if (found !== undefined) return found
    // A load that throws leaves nothing behind.
    const value = load()
    if (this.#kept.size === 0) setImmediate(() => this.#kept.clear())
    this.#kept.set(key, value)
    return value
  }

  /** After a change of our own. */
  forget(): void {
    this.#kept.clear()
  }
}
