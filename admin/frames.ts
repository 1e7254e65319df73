/** What comes faster than a screen shows it. */

/** Some browsers draw no frame of a page that nobody sees. */
const noFrameMs = 250

/**
 * Collects what comes, and passes it on once a frame: at most `most` at a time, the rest with the next frames;
 * all of it at once while nobody sees the page.
 *
 * @returns adds an item to the next frame; with `kind` it replaces a waiting item of that kind
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
    // Of a page that nobody sees a browser slows the timers down, to one a minute.
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
