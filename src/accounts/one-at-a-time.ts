/** Mutual exclusion inside this process, for work that is more than one step. */

/** Runs `work` after all that was given before it has ended. */
export type Alone = <T>(work: () => Promise<T>) => Promise<T>

/** One lock: whoever comes is served in their order, whatever becomes of those before. */
export function oneAtATime(): Alone {
  let last: Promise<unknown> = Promise.resolve()
  return work => {
    const own = last.then(work)
    last = own.catch(() => undefined)
    return own
  }
}
