/** Mutual exclusion within this process, for work of several steps. */

/** Runs `work` after all work passed in before has ended. */
export type RunAlone = <T>(work: () => Promise<T>) => Promise<T>

/** Creates a lock. It serves its callers in order, also after an error. */
export function createMutex(): RunAlone {
  let last: Promise<unknown> = Promise.resolve()
  return work => {
    const own = last.then(work)
    last = own.catch(() => undefined)
    return own
  }
}
