/** How a verb does its work: each at once, in the call, whatever it resolves with later. */

export interface Ways {
  plain<T>(work: () => T): T
  /** Without waiting for the disk. */
  relaxed<T>(work: () => T): T
  /** The same in a transaction, of which those hear who wait for sent messages. */
  light<T>(work: () => T): T
  /** In the next transaction, which others share; on the disk when it resolves. */
  write<T>(work: () => T): Promise<T>
  /** What comes from outside, in a transaction of its own. */
  intake<T>(work: () => T): T
}

type How = <T>(work: () => T) => T | Promise<T>

export const verb =
  <A extends unknown[], R>(how: How, does: (...args: A) => R) =>
  async (...args: A): Promise<R> =>
    how(() => does(...args))
