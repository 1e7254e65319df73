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
