/** What a door knows about one call, handed down with the arguments. */

export interface Call {
  /** Aborts when the caller is gone or the service stops; waits end, work on the network is cancelled. */
  readonly signal: AbortSignal
  /** The caller is the local user (command line, stdio): any path may be named, not only the media root. */
  readonly local: boolean
  /**
   * Registers what happens once the door knows whether its answer was written (`true`) or the caller was gone
   * (`false`). A door that cannot tell says `false`: better delivered twice than lost.
   */
  settle(onSettled: (delivered: boolean) => void): void
}

/** A call whose answer is handed over by returning it: the library, tests. `done` settles it. */
export function directCall(options: { signal?: AbortSignal; local?: boolean } = {}): Call & {
  done(delivered: boolean): void
} {
  const waiting: ((delivered: boolean) => void)[] = []
  return {
    signal: options.signal ?? new AbortController().signal,
    local: options.local ?? true,
    settle: onSettled => void waiting.push(onSettled),
    done: delivered => {
      for (const onSettled of waiting.splice(0)) onSettled(delivered)
    },
  }
}
