/** A reader of server-sent events like EventSource, whose connection a test can cut. */

import type { Json } from './rest.ts'

interface Frame {
  id?: string
  event?: string
  data?: Json
}

export interface EventSource extends AsyncDisposable {
  readonly response: Response
  /** Returns the next frame with data; undefined at the end of the stream. */
  next(): Promise<Frame | undefined>
  /** Last id received, also of a frame without data. */
  readonly lastId: string | undefined
  /** Number of comments so far. */
  readonly comments: number
  cut(): void
}

export async function eventSource(
  url: string,
  headers: Record<string, string> = {},
  ask: (url: string, init: RequestInit) => Promise<Response> = fetch,
): Promise<EventSource> {
  const leave = new AbortController()
  const response = await ask(url, { headers, signal: leave.signal })
  const source = { lastId: headers['last-event-id'], comments: 0 }
  async function* frames(): AsyncGenerator<Frame> {
    let text = ''
    const decoder = new TextDecoder()
    for await (const chunk of response.body!) {
      text += decoder.decode(chunk, { stream: true })
      for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
        const frame: Frame = {}
        for (const line of text.slice(0, end).split('\n')) {
          const [, field, value] = /^(\w*):\s?(.*)$/.exec(line)!
          if (field === '') source.comments++
          else if (field === 'data') frame.data = JSON.parse(value!)
          else frame[field as 'id' | 'event'] = value!
        }
        text = text.slice(end + 2)
        source.lastId = frame.id ?? source.lastId
        if (frame.data !== undefined) yield frame
      }
    }
  }
  const reading = frames()
  return {
    response,
    get lastId() {
      return source.lastId
    },
    get comments() {
      return source.comments
    },
    async next() {
      try {
        return (await reading.next()).value as Frame | undefined
      } catch {
        return undefined
      }
    },
    cut: () => leave.abort(),
    [Symbol.asyncDispose]: async () => leave.abort(),
  }
}
