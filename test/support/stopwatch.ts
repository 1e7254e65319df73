/** Stopwatches that do not count the time while the machine or the process was suspended. */

/** A longer gap between two readings means that the process did not run. */
const standstillMs = 250

/**
 * Starts a stopwatch. A gap in which this process did not run (a busy machine) counts at most 250 ms, so
 * that limits do not fail for lack of a processor. It cannot measure a blocked event loop: use
 * `performance.now()` for that.
 */
export function stopwatch(): Disposable & { readonly ms: number } {
  let lived = 0
  let last = performance.now()
  const look = () => {
    const now = performance.now()
    lived += Math.min(now - last, standstillMs)
    last = now
    return lived
  }
  const looking = setInterval(look, 20)
  looking.unref()
  return {
    get ms() {
      return look()
    },
    [Symbol.dispose]: () => clearInterval(looking),
  }
}

/**
 * Starts a stopwatch for other processes, which may be suspended alone.
 *
 * @param ask a request that they answer immediately: the time between two answers counts at most 250 ms
 */
export function stopwatchOf(ask: () => Promise<unknown>): AsyncDisposable & { readonly ms: number } {
  let lived = 0
  let last = performance.now()
  const gap = () => Math.min(performance.now() - last, standstillMs)
  let isOver = false
  const asking = (async () => {
    while (!isOver) {
      await ask()
      lived += gap()
      last = performance.now()
      await new Promise(resolve => setTimeout(resolve, 20))
    }
  })()
  // Dispose rejects with this error; handled here so that it is not an unhandled rejection.
  asking.catch(() => {})
  return {
    get ms() {
      return lived + gap()
    },
    async [Symbol.asyncDispose]() {
      isOver = true
      await asking
    },
  }
}
