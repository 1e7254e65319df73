/** Time as this process lived it, for what ends when nothing came. */

/** A machine may hold a process up for seconds. What is over then is one of these steps. */
const steps = 10

/**
 * Calls `over` once after `ms`. A process that stood still until then goes on for a while first, and reads what came
 * meanwhile: whoever spoke in time is heard.
 *
 * @returns to be cleared when it came
 */
export function afterAwake(ms: number, over: () => void): ReturnType<typeof setInterval> {
  let left = steps
  const timer = setInterval(() => {
    if (--left > 0) return
    clearInterval(timer)
    over()
  }, ms / steps)
  return timer
}
