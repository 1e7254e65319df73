/** Collects items that come faster than the screen can show them. */

/** Some browsers draw no frames of a hidden page. This timer runs in their place. */
const noFrameMs = 250

/**
 * Collects items and passes them on once per frame, at most `most` at a time. The rest follows in the next
 * frames. While the page is hidden, all items are passed on at once.
 *
 * @returns a function that adds an item; with `kind` it replaces a waiting item of the same kind
 */
export function onceAFrame<T>(
  most: number,
  pass: (some: readonly T[]) => void,
): (one: T, kind?: string) => void {
  let waiting: { one: T; kind: string | undefined }[] = []
  let frame: number | undefined
  let timer: ReturnType<typeof setTimeout> | undefined
  const run = () => {
    cancelAnimationFrame(frame!)
    clearTimeout(timer)
    // Browsers slow the timers of a hidden page down to one per minute.
    const some = waiting.splice(0, document.hidden ? waiting.length : most)
    frame = undefined
    if (waiting.length > 0) plan()
    pass(some.map(({ one }) => one))
  }
  const plan = () => {
    frame = requestAnimationFrame(run)
    timer = setTimeout(run, noFrameMs)
  }
  return (one, kind) => {
    if (kind !== undefined) waiting = waiting.filter(other => other.kind !== kind)
    waiting.push({ one, kind })
    if (frame === undefined) plan()
  }
}
