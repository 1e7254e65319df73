/** A call of a command: cut off by Ctrl-C, settled when its answer is on stdout. */
import { type Call, directCall } from '../model/call.ts'
import { onStopSignals } from '../platform/process.ts'

/** The call of one command; disposing takes the signal handlers away. */
export interface CommandCall extends Call, Disposable {
  /** The signal that ended it, if one did. */
  readonly cutBy: 'SIGINT' | 'SIGTERM' | undefined
  /** Aborts it without a signal from outside. */
  end(): void
  /** The answer was written, or not. */
  done(delivered: boolean): void
}

/** A call whose first SIGINT or SIGTERM aborts it; a second one ends the process. */
export function commandCall(more: Pick<Call, 'progress' | 'ask'> = {}): CommandCall {
  const stop = new AbortController()
  let cutBy: CommandCall['cutBy']
  const forget = onStopSignals(signal => {
    cutBy = signal
    stop.abort()
  })
  return {
    ...more,
    ...directCall({ signal: stop.signal }),
    end: () => stop.abort(),
    get cutBy() {
      return cutBy
    },
    [Symbol.dispose]: forget,
  }
}
