/** Receives the service's events and passes them to `live.ts`. */
import { ApiError, linkTo, type SessionWithUsers, type Status } from './api.ts'
import {
  askAgain,
  type News,
  newsOf,
  online,
  onUnheard,
  queueEvent,
  refresh,
  setAccounts,
  setStatus,
  signedOut,
  status,
  storeFails,
} from './live.ts'
import { may, me } from './rights.ts'
import { base } from './service-urls.ts'
import { markTalkRead, markTalkUnread, type ReadMark, type UnreadMark } from './talks.ts'
import { setServiceTime } from './times.ts'

/**
 * A browser opens six connections to a host, for all tabs together. With six panels open, the next one would
 * not even load. So a hidden tab closes its stream when another tab asks for a connection, and loads the
 * state every `lookMs`.
 */
const tabs = new BroadcastChannel(`svc.line${base}`)
const lookMs = 20_000
/** Less than the time after which the page shows that it is offline (`patienceMs` of app.tsx). */
const againMs = 1000

/** The stream of this tab. It reconnects by itself. */
class Line {
  /** Time to wait after the service rejected the stream. */
  rejectedMs = 3000
  #source: EventSource | undefined
  /** The wait for the URL of a stream; another value: it is not wanted any more. */
  #opening: object | undefined
  /** Set while this tab has given its connection away. */
  #looking: ReturnType<typeof setInterval> | undefined
  #again: ReturnType<typeof setTimeout> | undefined

  readonly open = (): void => {
    // Catch up as after any other interruption.
    if (this.#looking !== undefined) online.value = false
    this.#lookNoMore()
    tabs.postMessage('line')
    this.#leave()
    const own = {}
    this.#opening = own
    linkTo(`${base}/api/events`).then(
      url => this.#opening === own && this.#listen(new EventSource(url)),
      error => {
        if (this.#opening !== own) return
        this.failed(error)
        this.#openLater()
      },
    )
  }

  #openLater(): void {
    setTimeout(() => signedOut.value || this.#looking !== undefined || this.open(), this.rejectedMs)
  }

  #leave(): void {
    this.#source?.close()
    this.#source = undefined
    this.#opening = undefined
  }

  #listen(stream: EventSource): void {
    this.#source = stream
    takeEvents(stream, this.failed)
    stream.onerror = () => {
      online.value = false
      // The browser reconnects after a broken connection, not after an HTTP error.
      const isClosed = this.#source?.readyState === EventSource.CLOSED
      // Without a stream this answer may already be old. `hello` loads it again once there is one.
      if (isClosed || !status.value) {
        void refresh().then(() => {
          online.value = this.#source?.readyState === EventSource.OPEN
          // A caller without this right gets no stream.
          if (isClosed && me.value && !may('history')) this.#look()
        }, this.failed)
      }
      if (isClosed) this.#openLater()
    }
  }

  readonly failed = (error: unknown): void => {
    if (error instanceof ApiError && error.status === 401) {
      this.#leave()
      this.#lookNoMore()
      return
    }
    storeFails.value = error instanceof ApiError && error.code === 'store_unavailable'
    online.value = false
    // While the stream is open, nothing else would load it again.
    clearTimeout(this.#again)
    this.#again = setTimeout(() => {
      if (this.#source?.readyState === EventSource.OPEN) void refresh().catch(this.failed)
    }, againMs)
  }

  /** Loads the state at intervals, without a stream. */
  #look(): void {
    online.value = true
    this.#leave()
    this.#looking ??= setInterval(() => void refresh().catch(this.failed), lookMs)
  }

  #lookNoMore(): void {
    clearInterval(this.#looking)
    this.#looking = undefined
  }

  /** Another tab asks for a connection. */
  giveWay(): void {
    if (document.visibilityState !== 'visible' && this.#source) this.#look()
  }

  /** The tab is shown again. */
  takeBack(): void {
    if (document.visibilityState === 'visible' && this.#looking !== undefined) this.open()
  }
}

function takeEvents(stream: EventSource, failed: (error: unknown) => void): void {
  stream.addEventListener('hello', () => {
    // Load what happened before the stream was open.
    void refresh().catch(failed)
  })
  const on = <T>(name: string, newsOf: (data: T) => News, isWhole = false) =>
    stream.addEventListener(name, ({ data }) =>
      queueEvent(() => newsOf(JSON.parse(data) as T), isWhole ? name : undefined),
    )
  on('message', newsOf)
  on<ReadMark>('read', mark => ({ take: changed => markTalkRead(changed, mark) && askAgain() }))
  on<UnreadMark>('unread', mark => ({ take: changed => markTalkUnread(changed, mark) }))
  on<{ sessions: SessionWithUsers[] }>('sessions', all => ({ take: () => setAccounts(all.sessions) }), true)
  on<Status>('status', newStatus => ({ take: () => setStatus(newStatus) }), true)
  stream.addEventListener('names', () => void refresh().catch(failed))
  stream.addEventListener('time', event => setServiceTime((JSON.parse(event.data) as { now: number }).now))
}

const line = new Line()

/** Opens the stream again, after a sign-in. */
export const listenAgain = line.open

/** Follows the service until the page is closed. */
export function follow(rejectedMs = line.rejectedMs): void {
  line.rejectedMs = rejectedMs
  onUnheard.call = line.failed
  tabs.onmessage = () => line.giveWay()
  document.addEventListener('visibilitychange', () => line.takeBack())
  if (!signedOut.value) line.open()
}
