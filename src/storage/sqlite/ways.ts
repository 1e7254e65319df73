/** How a verb does its work: each at once, in the call, whatever it resolves with later. */

export interface Ways {
  plain: Way
  /** Without waiting for the disk. */
  relaxed: Way
  /** The same; what comes of it is news to those who wait. */
  again: Way
  /** Without waiting for the disk, in a transaction, of which those hear who wait for sent messages. */
  light: Way
  /** In the next transaction, which others share; on the disk when it resolves. */
  write: Way
  /** What comes from outside, in a transaction of its own. */
  intake: Way
}

export type Way = <T>(work: () => T) => T | Promise<T>

/** The verbs of an interface as functions: of these TypeScript compares the arguments, of methods it lets narrower ones through. */
export type Strict<T> = {
  [K in keyof T]: T[K] extends (...args: infer A) => infer R ? (...args: A) => R : Strict<T[K]>
}

type Method = (...args: never[]) => unknown
type Verb<M> = M extends (...args: infer A) => infer R ? (...args: A) => Promise<R> : never

/** Methods of a part as verbs, which do their work in that way. */
export function verbs<T extends object, Name extends keyof T>(
  way: Way,
  part: T,
  ...names: Name[]
): { [N in Name]: Verb<T[N]> } {
  const entries = names.map(name => {
    const does = (part[name] as Method).bind(part)
    return [name, async (...args: never[]) => way(() => does(...args))]
  })
  return Object.fromEntries(entries)
}
