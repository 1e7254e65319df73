/**
 * The state of the panel without its pages and without a browser: runs the modules of `admin/` that call
 * and follow the service in the test's process, with simulated browser objects and a real service.
 */
import { eventSource } from './event-source.ts'
import { type TestPanel, type TestPanelOptions, withPanel } from './panel.ts'

export interface PanelState extends TestPanel {
  /** Returns the number of requests so far whose path and query match. */
  asked(path: RegExp): number
  /**
   * Holds the first matching answer back after the service gave it. `asked` resolves when the answer is
   * there; `release` passes it on, or another one instead.
   */
  hold(path: RegExp): { asked: Promise<void>; release(instead?: Response | Promise<never>): void }
  /** Like `hold`, but holds the request back: the service receives it after `release`. */
  holdRequest(path: RegExp): { asked: Promise<void>; release(instead?: Response | Promise<never>): void }
  /** Returns the number of frames drawn so far. */
  frames(): number
}

/** Only one at a time, since the modules have one service. */
export async function withPanelState(options: TestPanelOptions = {}): Promise<PanelState> {
  await using building = new AsyncDisposableStack()
  const panel = building.use(await withPanel(options))
  const requests: string[] = []
  const holds: { path: RegExp; through(ask: () => Promise<Response>): Promise<Response> }[] = []
  const fetchOf = globalThis.fetch
  const ask = (path: string, init?: RequestInit): Promise<Response> => {
    requests.push(path)
    const at = holds.findIndex(hold => hold.path.test(path))
    const answer = () => fetchOf(new URL(path, panel.url), init)
    return at < 0 ? answer() : holds.splice(at, 1)[0]!.through(answer)
  }
  const hold = (path: RegExp, isAskedLater: boolean) => {
    const asked = Promise.withResolvers<void>()
    const free = Promise.withResolvers<Response | undefined>()
    holds.push({
      path,
      async through(answer) {
        const early = isAskedLater ? undefined : await answer()
        asked.resolve()
        return (await free.promise) ?? early ?? answer()
      },
    })
    return { asked: asked.promise, release: free.resolve }
  }
  const sources = new Set<Source>()

  /** An EventSource that reconnects without delay. */
  class Source extends EventTarget {
    static readonly CONNECTING = 0
    static readonly OPEN = 1
    static readonly CLOSED = 2
    readyState = Source.CONNECTING
    onerror: (() => void) | null = null
    readonly #path: string

    constructor(path: string) {
      super()
      this.#path = path
      sources.add(this)
      void this.#read()
    }

    close(): void {
      this.readyState = Source.CLOSED
      sources.delete(this)
    }

    async #read(): Promise<void> {
      while (this.readyState !== Source.CLOSED) {
        const source = await eventSource(this.#path, {}, ask).catch(() => undefined)
        if (source?.response.ok === false) this.close()
        else if (source && this.readyState !== Source.CLOSED) {
          this.readyState = Source.OPEN
          for (
            let frame = await source.next();
            frame && this.readyState === Source.OPEN;
            frame = await source.next()
          )
            this.dispatchEvent(
              new MessageEvent(frame.event ?? 'message', { data: JSON.stringify(frame.data) }),
            )
          if (this.readyState === Source.OPEN) this.readyState = Source.CONNECTING
          else return source.cut()
        }
        this.onerror?.()
        await new Promise(resolve => setTimeout(resolve, 20))
      }
    }
  }

  const start = {
    languages: [
      { code: 'en', name: 'English' },
      { code: 'zh', name: '中文' },
    ],
    language: 'en',
    texts: {},
    signed_out: false,
  }
  const kept = new Map<string, string>()
  let frames = 0
  const due = new Set<ReturnType<typeof setTimeout>>()
  const globals = {
    requestAnimationFrame(draw: () => void) {
      const frame = setTimeout(() => {
        due.delete(frame)
        frames++
        draw()
      })
      due.add(frame)
      return frame
    },
    cancelAnimationFrame(frame: ReturnType<typeof setTimeout>) {
      due.delete(frame)
      clearTimeout(frame)
    },
    fetch: ask,
    EventSource: Source,
    localStorage: {
      getItem: (key: string) => kept.get(key) ?? null,
      setItem: (key: string, value: string) => void kept.set(key, value),
      removeItem: (key: string) => void kept.delete(key),
    },
    document: Object.assign(new EventTarget(), {
      visibilityState: 'visible',
      documentElement: {},
      getElementById: () => ({ textContent: JSON.stringify(start) }),
    }),
  }
  for (const [name, value] of Object.entries(globals)) {
    const before = Object.getOwnPropertyDescriptor(globalThis, name)
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true })
    building.defer(() => {
      if (before) Object.defineProperty(globalThis, name, before)
      else Reflect.deleteProperty(globalThis, name)
    })
  }
  // A frame needs the globals.
  building.defer(async () => {
    while (due.size > 0) await new Promise(setImmediate)
  })
  building.defer(() => {
    for (const source of sources) source.close()
  })
  const stack = building.move()
  return {
    ...panel,
    asked: path => requests.filter(request => path.test(request)).length,
    hold: path => hold(path, false),
    holdRequest: path => hold(path, true),
    frames: () => frames,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  }
}
