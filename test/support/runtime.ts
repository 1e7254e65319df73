/** What a part of a gateway receives, for tests of the part alone. */
import { systemClock } from '../../src/platform/clock.ts'
import { silentLog } from '../../src/platform/log.ts'
import { Bus, type Runtime } from '../../src/platform/runtime.ts'
import { Tasks } from '../../src/platform/tasks.ts'

/** @param given what the test needs itself */
export function runtimeOf(given: Partial<Runtime> = {}): Runtime {
  const {
    bus = new Bus(),
    clock = systemClock,
    closing = new AbortController().signal,
    log = silentLog,
  } = given
  return { bus, clock, closing, log, tasks: new Tasks(clock) }
}
