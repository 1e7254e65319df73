/** Events over HTTP: a stream that continues where it was when the connection is lost. */

import { isSvcError } from '../model/error.ts'
import type { Event } from '../model/event.ts'
import { backoffMs, systemClock } from '../platform/clock.ts'
import type { Http } from './http.ts'
import { routes } from './routes.ts'

/** Yields events until the signal aborts. @param onGone called when events were deleted before they were read */
export async function* followEvents(
  http: Http,
  filter: object,
  signal: AbortSignal,
  onGone?: () => void,
): AsyncGenerator<Event, void, void> {
  let last_event_id: string | undefined
  for (let failures = 0; !signal.aborted; ) {
    try {
      const plan = { signal, isEndless: true }
      const { body } = await http.open(routes.calls.followEvents, { ...filter, last_event_id }, plan)
      for await (const { event, id, data } of readStream(body)) {
        failures = 0
        if (event === 'gone') onGone?.()
        else if (data !== undefined) yield JSON.parse(data)
        if (signal.aborted) return
        // After the program has asked for the next one: it gets an event again if it did not.
        last_event_id = id ?? last_event_id
      }
    } catch (error) {
      if (signal.aborted) return
      if (isSvcError(error) && error.code !== 'unreachable') throw error
    }
    await systemClock.sleep(backoffMs(failures++, 200, 5000), signal)
  }
}

type StreamEvent = Partial<Record<'event' | 'id' | 'data', string>>

/** Reads server-sent events in the form in which svc writes them. */
async function* readStream(body: ReadableStream<Uint8Array>): AsyncGenerator<StreamEvent, void, void> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let rest = ''
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      const blocks = (rest + decoder.decode(value, { stream: true })).split('\n\n')
      rest = blocks.pop() ?? ''
      for (const block of blocks)
        yield Object.fromEntries(
          [...block.matchAll(/^(event|id|data): (.*)$/gm)].map(([, key, text]) => [key, text]),
        )
    }
  } finally {
    await reader.cancel().catch(() => {})
  }
}
