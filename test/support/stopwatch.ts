/** Time as this process lived it. A machine may hold all up for seconds: that says nothing about the program. */

/** Longer than this nothing takes that does not wait: what is more between two looks was a machine that stood still. */
const standstillMs = 250

/**
 * Counts from now on. What holds up the whole process, such as a machine that is busy with others, counts 250 ms at most:
 * bounds on it tell waiting from not waiting, and do not fail for want of a processor. It is blind to an event loop that
 * is blocked: who asks for that takes `performance.now()`.
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
 * The same for other processes, which a machine may hold up alone.
 *
 * @param ask what they answer at once: between two answers they lived 250 ms at most
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
  // Who looks at the time, or ends it, hears of it.
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
