/**
 * Write modes: how a method of the store does its work. The work runs within the call; the mode decides when
 * the method resolves.
 */

export interface WriteModes {
  plain: WriteMode
  /** Does not wait for the disk. */
  relaxed: WriteMode
  /** Does not wait for the disk; notifies callers that wait for messages. */
  redelivery: WriteMode
  /** Writes in a transaction, without waiting for the disk. Notifies callers that wait for sent messages. */
  light: WriteMode
  /**
   * Writes in the next transaction, which other writes share. The data is on the disk when the method
   * resolves.
   */
  write: WriteMode
  /** Writes data from outside, in its own transaction. */
  intake: WriteMode
}

export type WriteMode = <T>(work: () => T) => T | Promise<T>

/**
 * The methods of an interface as function properties. TypeScript compares parameters of functions strictly;
 * for methods it accepts narrower ones.
 */
export type StrictMethods<T> = {
  [K in keyof T]: T[K] extends (...args: infer A) => infer R ? (...args: A) => R : StrictMethods<T[K]>
}

type Method = (...args: never[]) => unknown
type AsyncMethod<M> = M extends (...args: infer A) => infer R ? (...args: A) => Promise<R> : never

/** Methods of a part that return a promise of their result. */
export type AsyncMethods<T, Name extends keyof T> = { [N in Name]: AsyncMethod<T[N]> }

/** Returns methods of a part, bound to it, that run in this mode. */
export function bindMethods<T extends object, Name extends keyof T>(
  way: WriteMode,
  part: T,
  ...names: Name[]
): AsyncMethods<T, Name> {
  const entries = names.map(name => {
    const does = (part[name] as Method).bind(part)
    return [name, async (...args: never[]) => way(() => does(...args))]
  })
  return Object.fromEntries(entries)
}
