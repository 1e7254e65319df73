/** How a verb of the store does its work. The work runs in the call itself; when the verb resolves depends on the way. */

export interface Ways {
  plain: Way
  /** Without waiting for the disk. */
  relaxed: Way
  /** The same, and wakes those who wait for messages. */
  again: Way
  /** In a transaction, without waiting for the disk; wakes those who wait for what is sent. */
  light: Way
  /** In the next transaction, which others share; on the disk when it resolves. */
  write: Way
  /** What comes from outside, in a transaction of its own. */
  intake: Way
}

export type Way = <T>(work: () => T) => T | Promise<T>

/** The verbs of an interface as functions. TypeScript compares their arguments strictly; of methods it accepts narrower ones. */
export type Strict<T> = {
  [K in keyof T]: T[K] extends (...args: infer A) => infer R ? (...args: A) => R : Strict<T[K]>
}

type Method = (...args: never[]) => unknown
type Verb<M> = M extends (...args: infer A) => infer R ? (...args: A) => Promise<R> : never

/** Methods of a part as verbs: the same, with a promise of what they return. */
export type Verbs<T, Name extends keyof T> = { [N in Name]: Verb<T[N]> }

/** They do their work in that way. */
export function verbs<T extends object, Name extends keyof T>(
  way: Way,
  part: T,
  ...names: Name[]
): Verbs<T, Name> {
  const entries = names.map(name => {
    const does = (part[name] as Method).bind(part)
    return [name, async (...args: never[]) => way(() => does(...args))]
  })
  return Object.fromEntries(entries)
}
